"""Numeric loops as machine code: functions in a small subset of Python, compiled by LLVM as one
unit.

Compilation takes seconds instead of Numba's half a minute: types are declared in the signatures, so
none are inferred; arrays are bare addresses; and all functions of a library are optimised together
once. See `language` for the subset.
"""
