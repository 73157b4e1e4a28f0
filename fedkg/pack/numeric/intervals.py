"""Interval arithmetic on arrays, as sums, products and functions of NumPy round.

Letter: R rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Interval = tuple[Array, Array]
"""Lower and upper ends: float64 [R]; infinite where nothing is known."""
ROUND = 2e-15
"""By this share ends of exponentials, powers and the like move outwards: NumPy's are some units in
the last place off, not always alike."""
EXACT = (0.0, 1.0, 2.0)
"""Exponents of powers that are rounded as products are."""


class Ranges(Protocol):
    """What slots and parameters can be, for R rows."""

    @property
    def count(self) -> int:
        """R."""

    def slot(self, index: int) -> Interval:
        """Between which values a slot lies."""

    def param(self, index: int) -> Interval:
        """The range of a parameter over the rows; infinite if it is not a number."""

    def members(self, table: int) -> tuple[Ranges, NDArray[np.int64]]:
        """Those of a member table, and the offsets of its owners."""


def hull(ends: Sequence[Interval]) -> Interval:
    """The interval that contains all of these."""
    return np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)


def reduce_members(op: str, skip: bool, members: Interval, offsets: NDArray[np.int64]) -> Interval:
    """Reduce the members of each owner; with `skip`, sums allow for missing members."""
    sizes = np.diff(offsets)
    count = sizes.size
    owners = np.repeat(np.arange(count), sizes)
    low, high = members
    if op == "sum":
        if skip:
            low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        least, most = (
            np.bincount(owners, weights=ends, minlength=count).astype(np.float64)
            for ends in (low, high)
        )
        return least, most
    least, most = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(least, owners, low)
    np.maximum.at(most, owners, high)
    if op == "mean" or skip:
        return np.where(sizes > 0, least, -np.inf), np.where(sizes > 0, most, np.inf)
    inner, outer = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(inner, owners, high)
    np.maximum.at(outer, owners, low)
    low, high = (least, inner) if op == "min" else (outer, most)
    return np.where(sizes > 0, low, -np.inf), np.where(sizes > 0, high, np.inf)


def product(a: Interval, b: Interval) -> Interval:
    """The values that a product can take."""
    return _between(a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])


def quotient(a: Interval, b: Interval) -> Interval:
    """The values that a quotient can take where 0 does not lie in `b`."""
    return _between(a[0] / b[0], a[0] / b[1], a[1] / b[0], a[1] / b[1])


def _between(*corners: Array) -> Interval:
    """The least and the largest; 0 where a corner is 0 times what is infinite, or infinite by what
    is infinite.
    """
    known = np.stack(corners)
    known = np.where(np.isnan(known), 0.0, known)
    return known.min(axis=0), known.max(axis=0)


def outwards(low: Array, high: Array, share: float = ROUND) -> Interval:
    """An interval with ends moved by a relative tolerance."""
    return low * np.where(low > 0, 1 - share, 1 + share), high * np.where(
        high > 0, 1 + share, 1 - share
    )


def power(base: Interval, exponent: float) -> Interval:
    """The values that a power can take."""
    low, high = (
        base if exponent.is_integer() else (np.maximum(base[0], 0.0), np.maximum(base[1], 0.0))
    )
    if exponent < 0:
        least, most = power((low, high), -exponent)
        return outwards(np.where(low > 0, 1 / most, -np.inf), np.where(low > 0, 1 / least, np.inf))
    ends = np.stack([np.power(low, exponent), np.power(high, exponent)])
    if exponent.is_integer() and int(exponent) % 2 == 0:
        ends = np.concatenate([ends, np.where((low < 0) & (high > 0), 0.0, ends[0])[None]])
    least, most = ends.min(axis=0), ends.max(axis=0)
    return (least, most) if exponent in EXACT else outwards(least, most)


def _wave(one: Array, other: Array, low: Array, high: Array, top: float) -> Interval:
    """The values of a sine or cosine: those at both ends, 1 and -1 where it turns between them
    (`top`: an angle where it is 1).
    """
    least, most = outwards(np.minimum(one, other), np.maximum(one, other))
    turns = [_passes(low, high, at, 2 * np.pi) for at in (top - np.pi, top)]
    return np.where(turns[0], -1.0, np.maximum(least, -1.0)), np.where(
        turns[1], 1.0, np.minimum(most, 1.0)
    )


def _passes(low: Array, high: Array, point: float, period: float) -> NDArray[np.bool_]:
    """Whether a point, or a repetition of it, lies between low and high, or as near as rounding
    goes.
    """
    near = 1e-12 * (1 + np.maximum(np.abs(low), np.abs(high)))
    found: NDArray[np.bool_] = ~(
        np.floor((high + near - point) / period) < np.ceil((low - near - point) / period)
    )
    return found


def function(name: str, ends: Sequence[Interval]) -> Interval:
    """The values that a named function can take, given those of its arguments."""
    lows, highs = np.stack([low for low, _ in ends]), np.stack([high for _, high in ends])
    low, high = ends[0]
    match name:
        case "min":
            return lows.min(axis=0), highs.min(axis=0)
        case "max":
            return lows.max(axis=0), highs.max(axis=0)
        case "abs":
            within = (low <= 0) & (high >= 0)
            return np.where(within, 0.0, np.minimum(abs(low), abs(high))), np.maximum(
                abs(low), abs(high)
            )
        case "sqrt":
            return np.sqrt(np.maximum(low, 0)), np.sqrt(np.maximum(high, 0))
        case "exp":
            return outwards(np.exp(low), np.exp(high))
        case "log":
            return outwards(np.log(np.maximum(low, 0)), np.log(np.maximum(high, 0)))
        case "sin":
            return _wave(np.sin(low), np.sin(high), low, high, np.pi / 2)
        case "cos":
            return _wave(np.cos(low), np.cos(high), low, high, 0.0)
        case "tanh":
            least, most = outwards(np.tanh(low), np.tanh(high))
            return np.maximum(least, -1.0), np.minimum(most, 1.0)
        case "floor" | "ceil" | "round":
            return np.floor(low), np.ceil(high)
        case "tan":
            whole = _passes(low, high, np.pi / 2, np.pi)
            least, most = outwards(np.tan(low), np.tan(high))
            return np.where(whole, -np.inf, least), np.where(whole, np.inf, most)
        case _:
            raise AssertionError(f"unknown function {name}")
