"""Loops over numbers in memory as machine code: functions in a small part of Python, compiled by LLVM in one piece, called by address.

What Numba takes half a minute to compile takes seconds here: kinds are written in the signatures, so that none is inferred; arrays are bare
addresses; and all functions of a library are optimised together once. See `language` for what they may contain.
"""
