"""Constants of programs on words of bits, for modules that import no torch."""

WORD = 64
"""Samples of a word."""
EVERY, ANY, EVERY_MASK, ANY_MASK = range(4)
"""How two sets, or a set and a mask, become one."""
