"""Formulas on a CPU, all operations of a row at once on numbers that stay in the cache: `engine` in
one pass, with its gradient.

The same values as `engine`, to the bit where that has no sums to add up (but for square roots in
float32, which torch does not round correctly); whatever it has no instruction for is left to
`engine`. Gradients are the same too, to rounding, where values tie as well: what formulas side by
side decide alike they share evenly, of the steps of a window and of the two sides of an until the
first has it all.
"""
