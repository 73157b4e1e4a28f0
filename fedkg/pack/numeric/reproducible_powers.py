"""Powers computed in the same order everywhere, so that NumPy and torch give the same bits."""

from __future__ import annotations

from typing import Any, Protocol, Self, TypeVar


class Multipliable(Protocol):
    """What an ndarray and a torch tensor have in common; this file must not import torch."""

    def __mul__(self, other: Any, /) -> Self: ...
    def __add__(self, other: Any, /) -> Self: ...
    def __rtruediv__(self, other: Any, /) -> Self: ...


Array = TypeVar("Array", bound=Multipliable)

LARGEST = 8
"""Largest whole exponent that is computed by repeated multiplication."""


def is_multiplication(exponent: float) -> bool:
    """Whether a power is computed by `multiplied`: small and whole."""
    return abs(exponent) <= LARGEST and exponent == int(exponent)


def multiplied(base: Array, exponent: int) -> Array:
    """`base` to a small whole power by multiplying left to right.

    NaN stays NaN even to the power 0, 0 to a negative power is infinite.
    """
    if exponent == 0:
        return base * 0.0 + 1.0
    result = base
    for _ in range(abs(exponent) - 1):
        result = result * base
    return result if exponent > 0 else 1.0 / result
