"""Interval arithmetic over declared spans: between which values a term can lie.

This goes from slots to terms. What comparisons ask of single columns goes the other way and is no interval of a term: `reason.bounds`.

Letter: R rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import (
    Call,
    Choose,
    Coalesce,
    Negate,
    Param,
    Power,
    Product,
    Quotient,
    Reduce,
    Slot,
    Sum,
    Term,
)
from fedkg_compiler.binding.book import Book
from fedkg_compiler.lowering.rows import Rows

Array = NDArray[np.float64]
Interval = tuple[Array, Array]
"""Lower and upper ends: float64 [R]; infinite where nothing is known."""
ROUND = 2e-15
"""By this share ends of exponentials, powers and the like move outwards: NumPy's are some units in the last place off, not always alike."""
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
        """Between which values a parameter lies: infinite where it is no number."""

    def members(self, table: int) -> tuple[Ranges, NDArray[np.int64]]:
        """Those of a member table, and the offsets of its owners."""


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """The spans that columns are declared with, while a rule's rows are built."""

    rows: Rows
    book: Book

    @property
    def count(self) -> int:
        """R."""
        return self.rows.count

    def slot(self, index: int) -> Interval:
        """The spans of a slot's columns."""
        spans = [
            self.book.columns[column].span or (-np.inf, np.inf)
            for column in self.rows.slots[index].columns.tolist()
        ]
        ends = np.array(spans, dtype=np.float64).reshape(-1, 2)
        return ends[:, 0], ends[:, 1]

    def param(self, index: int) -> Interval:
        """The number itself, twice."""
        values = self.rows.params[index]
        return (values, values) if isinstance(values, np.ndarray) else _unknown(self)

    def members(self, table: int) -> tuple[Ranges, NDArray[np.int64]]:
        """Those of a member table, and the offsets of its owners."""
        found = self.rows.root.members[table]
        return Declared(found.rows, self.book), found.offsets


Seen = dict[tuple[int, int], Interval]
"""What terms were found to take, by `id` of term and of ranges."""


def interval(term: Term, ranges: Ranges, seen: Seen | None = None) -> Interval:
    """The values that a term can take inside the declared spans; never too narrow, sometimes too wide.

    That is so of the numbers that the interpreter computes: sums, products and quotients of ends are rounded as those of values are, and so
    bound them; the ends of what is rounded less strictly move outwards by `ROUND`.

    `seen`: what is taken from there, or put there, of the term and its parts.
    """
    key = id(term), id(ranges)
    if seen is not None and key in seen:
        return seen[key]
    with np.errstate(all="ignore"):
        low, high = _interval(term, ranges, seen)
    found = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    if seen is not None:
        seen[key] = found
    return found


def _interval(term: Term, ranges: Ranges, seen: Seen | None) -> Interval:
    match term:
        case Slot():
            return ranges.slot(term.index)
        case Param():
            return ranges.param(term.index)
        case Sum():
            ends = [interval(arg, ranges, seen) for arg in term.args]
            low, high = np.zeros(ranges.count), np.zeros(ranges.count)
            for one, other in ends:
                low, high = low + one, high + other
            return low, high
        case Negate():
            low, high = interval(term.arg, ranges, seen)
            return -high, -low
        case Product():
            result = interval(term.args[0], ranges, seen)
            for arg in term.args[1:]:
                result = product(result, interval(arg, ranges, seen))
            return result
        case Quotient():
            low, high = interval(term.denominator, ranges, seen)
            safe = (low > 0) | (high < 0)
            least, most = quotient(interval(term.numerator, ranges, seen), (low, high))
            return np.where(safe, least, -np.inf), np.where(safe, most, np.inf)
        case Power():
            return _power(interval(term.base, ranges, seen), term.exponent)
        case Call():
            return _call(term, ranges, seen)
        case Reduce():
            return _reduce(term, ranges, seen)
        case Choose():
            return _hull(
                [interval(term.then, ranges, seen), interval(term.otherwise, ranges, seen)]
            )
        case Coalesce():
            return _hull([interval(arg, ranges, seen) for arg in term.args])
        case _:
            assert_never(term)


def _hull(ends: Sequence[Interval]) -> Interval:
    return np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)


def _reduce(term: Reduce, ranges: Ranges, seen: Seen | None) -> Interval:
    """What members come to together; where a member may be left out (`skip`), a sum may lack it."""
    inside, offsets = ranges.members(term.members)
    sizes = np.diff(offsets)
    owners = np.repeat(np.arange(ranges.count), sizes)
    if term.op == "count":
        return np.zeros(ranges.count), sizes.astype(np.float64)
    low, high = interval(term.arg, inside, seen)
    if term.op == "sum":
        if term.skip:
            low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        least, most = (
            np.bincount(owners, weights=ends, minlength=ranges.count).astype(np.float64)
            for ends in (low, high)
        )
        return least, most
    least, most = np.full(ranges.count, np.inf), np.full(ranges.count, -np.inf)
    np.minimum.at(least, owners, low)
    np.maximum.at(most, owners, high)
    if term.op == "mean" or term.skip:
        return np.where(sizes > 0, least, -np.inf), np.where(sizes > 0, most, np.inf)
    inner, outer = np.full(ranges.count, np.inf), np.full(ranges.count, -np.inf)
    np.minimum.at(inner, owners, high)
    np.maximum.at(outer, owners, low)
    low, high = (least, inner) if term.op == "min" else (outer, most)
    return np.where(sizes > 0, low, -np.inf), np.where(sizes > 0, high, np.inf)


def _unknown(ranges: Ranges) -> Interval:
    return np.full(ranges.count, -np.inf), np.full(ranges.count, np.inf)


def product(a: Interval, b: Interval) -> Interval:
    """The values that a product can take."""
    return _between(a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])


def quotient(a: Interval, b: Interval) -> Interval:
    """The values that a quotient can take where 0 does not lie in `b`."""
    return _between(a[0] / b[0], a[0] / b[1], a[1] / b[0], a[1] / b[1])


def _between(*corners: Array) -> Interval:
    """The least and the largest; 0 where a corner is 0 times what is infinite, or infinite by what is infinite."""
    known = np.stack(corners)
    known = np.where(np.isnan(known), 0.0, known)
    return known.min(axis=0), known.max(axis=0)


def outwards(low: Array, high: Array, share: float = ROUND) -> Interval:
    """An interval whose ends are moved by a share of themselves."""
    return low * np.where(low > 0, 1 - share, 1 + share), high * np.where(
        high > 0, 1 + share, 1 - share
    )


def _power(base: Interval, exponent: float) -> Interval:
    low, high = (
        base if exponent.is_integer() else (np.maximum(base[0], 0.0), np.maximum(base[1], 0.0))
    )
    if exponent < 0:
        least, most = _power((low, high), -exponent)
        return outwards(np.where(low > 0, 1 / most, -np.inf), np.where(low > 0, 1 / least, np.inf))
    ends = np.stack([np.power(low, exponent), np.power(high, exponent)])
    if exponent.is_integer() and int(exponent) % 2 == 0:
        ends = np.concatenate([ends, np.where((low < 0) & (high > 0), 0.0, ends[0])[None]])
    least, most = ends.min(axis=0), ends.max(axis=0)
    return (least, most) if exponent in EXACT else outwards(least, most)


def _wave(one: Array, other: Array, low: Array, high: Array, top: float) -> Interval:
    """The values of a sine or cosine: those at both ends, 1 and -1 where it turns between them (`top`: an angle where it is 1)."""
    least, most = outwards(np.minimum(one, other), np.maximum(one, other))
    turns = [_passes(low, high, at, 2 * np.pi) for at in (top - np.pi, top)]
    return np.where(turns[0], -1.0, np.maximum(least, -1.0)), np.where(
        turns[1], 1.0, np.minimum(most, 1.0)
    )


def _passes(low: Array, high: Array, point: float, period: float) -> NDArray[np.bool_]:
    """Whether a point, or a repetition of it, lies between low and high, or as near as rounding goes."""
    near = 1e-12 * (1 + np.maximum(np.abs(low), np.abs(high)))
    found: NDArray[np.bool_] = ~(
        np.floor((high + near - point) / period) < np.ceil((low - near - point) / period)
    )
    return found


def _call(term: Call, ranges: Ranges, seen: Seen | None) -> Interval:
    ends = [interval(arg, ranges, seen) for arg in term.args]
    lows, highs = np.stack([low for low, _ in ends]), np.stack([high for _, high in ends])
    low, high = ends[0]
    match term.function:
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
            assert_never(term.function)
