"""Formulas on a CPU, all operations of a row at once on numbers that stay in the cache: `engine` in one pass, with its gradient.

The same values as `engine`, to the bit where that has no sums to add up (but for square roots in float32, which torch does not round
correctly); whatever it has no instruction for is left to `engine`. Gradients differ where values tie alone: of equals in an until another
may be picked, and the engine shares between values that are less than 1e-30 apart, in proportion to that, what the loops give to the better
one, be it better by a strict step alone.
"""
