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

from fedkg.pack import Call, Choose, Coalesce, Negate, Param, Power, Product, Quotient, Reduce, Slot, Sum, Term
from fedkg_compiler.binding.book import Book
from fedkg_compiler.lowering.rows import Rows

Array = NDArray[np.float64]
Interval = tuple[Array, Array]
"""Lower and upper ends: float64 [R]; infinite where nothing is known."""


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
        spans = [self.book.columns[column].span or (-np.inf, np.inf) for column in self.rows.slots[index].columns.tolist()]
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


def interval(term: Term, ranges: Ranges) -> Interval:
    """The values that a term can take inside the declared spans; never too narrow, sometimes too wide."""
    with np.errstate(all="ignore"):
        low, high = _interval(term, ranges)
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def _interval(term: Term, ranges: Ranges) -> Interval:
    match term:
        case Slot():
            return ranges.slot(term.index)
        case Param():
            return ranges.param(term.index)
        case Sum():
            ends = [interval(arg, ranges) for arg in term.args]
            low, high = np.zeros(ranges.count), np.zeros(ranges.count)
            for one, other in ends:
                low, high = low + one, high + other
            return low, high
        case Negate():
            low, high = interval(term.arg, ranges)
            return -high, -low
        case Product():
            result = interval(term.args[0], ranges)
            for arg in term.args[1:]:
                result = _times(result, interval(arg, ranges))
            return result
        case Quotient():
            low, high = interval(term.denominator, ranges)
            safe = (low > 0) | (high < 0)
            inverse = np.where(safe, 1 / high, -np.inf), np.where(safe, 1 / low, np.inf)
            least, most = _times(interval(term.numerator, ranges), inverse)
            return np.where(safe, least, -np.inf), np.where(safe, most, np.inf)
        case Power():
            return _power(interval(term.base, ranges), term.exponent)
        case Call():
            return _call(term, ranges)
        case Reduce():
            return _reduce(term, ranges)
        case Choose():
            return _hull([interval(term.then, ranges), interval(term.otherwise, ranges)])
        case Coalesce():
            return _hull([interval(arg, ranges) for arg in term.args])
        case _:
            assert_never(term)


def _hull(ends: Sequence[Interval]) -> Interval:
    return np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)


def _reduce(term: Reduce, ranges: Ranges) -> Interval:
    """What members come to together; where a member may be left out (`skip`), a sum may lack it."""
    inside, offsets = ranges.members(term.members)
    sizes = np.diff(offsets)
    owners = np.repeat(np.arange(ranges.count), sizes)
    if term.op == "count":
        return np.zeros(ranges.count), sizes.astype(np.float64)
    low, high = interval(term.arg, inside)
    if term.op == "sum":
        if term.skip:
            low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        least, most = (np.bincount(owners, weights=ends, minlength=ranges.count).astype(np.float64) for ends in (low, high))
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


def _times(a: Interval, b: Interval) -> Interval:
    corners = np.stack([a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]])
    corners = np.where(np.isnan(corners), 0.0, corners)
    return corners.min(axis=0), corners.max(axis=0)


def _power(base: Interval, exponent: float) -> Interval:
    low, high = base if exponent.is_integer() else (np.maximum(base[0], 0.0), np.maximum(base[1], 0.0))
    if exponent < 0:
        least, most = _power((low, high), -exponent)
        return np.where(low > 0, 1 / most, -np.inf), np.where(low > 0, 1 / least, np.inf)
    ends = np.stack([np.power(low, exponent), np.power(high, exponent)])
    if exponent.is_integer() and int(exponent) % 2 == 0:
        ends = np.concatenate([ends, np.where((low < 0) & (high > 0), 0.0, ends[0])[None]])
    return ends.min(axis=0), ends.max(axis=0)


def _sine(low: Array, high: Array) -> Interval:
    """The values of the sine: those at the ends, 1 and -1 where it turns between them."""
    ends = np.sin(low), np.sin(high)
    top, bottom = _passes(low, high, np.pi / 2, 2 * np.pi), _passes(low, high, -np.pi / 2, 2 * np.pi)
    return np.where(bottom, -1.0, np.minimum(*ends)), np.where(top, 1.0, np.maximum(*ends))


def _passes(low: Array, high: Array, point: float, period: float) -> NDArray[np.bool_]:
    """Whether a point, or a repetition of it, lies between low and high, or as near as rounding goes."""
    near = 1e-12 * (1 + np.maximum(np.abs(low), np.abs(high)))
    found: NDArray[np.bool_] = ~(np.floor((high + near - point) / period) < np.ceil((low - near - point) / period))
    return found


def _call(term: Call, ranges: Ranges) -> Interval:
    ends = [interval(arg, ranges) for arg in term.args]
    lows, highs = np.stack([low for low, _ in ends]), np.stack([high for _, high in ends])
    low, high = ends[0]
    match term.function:
        case "min":
            return lows.min(axis=0), highs.min(axis=0)
        case "max":
            return lows.max(axis=0), highs.max(axis=0)
        case "abs":
            within = (low <= 0) & (high >= 0)
            return np.where(within, 0.0, np.minimum(abs(low), abs(high))), np.maximum(abs(low), abs(high))
        case "sqrt":
            return np.sqrt(np.maximum(low, 0)), np.sqrt(np.maximum(high, 0))
        case "exp":
            return np.exp(low), np.exp(high)
        case "log":
            return np.log(np.maximum(low, 0)), np.log(np.maximum(high, 0))
        case "sin":
            return _sine(low, high)
        case "cos":
            return _sine(low + np.pi / 2, high + np.pi / 2)
        case "tanh":
            return np.tanh(low), np.tanh(high)
        case "floor" | "ceil" | "round":
            return np.floor(low), np.ceil(high)
        case "tan":
            whole = _passes(low, high, np.pi / 2, np.pi)
            return np.where(whole, -np.inf, np.tan(low)), np.where(whole, np.inf, np.tan(high))
        case _:
            assert_never(term.function)
