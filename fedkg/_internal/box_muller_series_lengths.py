"""Lengths of the series for normal numbers, in tensor operations and in loops."""

LOGARITHM, TURN = (5, 12), (6, 12)
"""Terms of the series of the logarithm, and of sine and cosine (one more), in float32 and in
float64.
"""
