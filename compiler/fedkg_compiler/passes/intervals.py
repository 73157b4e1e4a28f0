"""Interval arithmetic over declared spans: between which values a term can lie.

Letter: R rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Call, Choose, Coalesce, Negate, Param, Power, Product, Quotient, Reduce, Slot, Sum, Term
from fedkg_compiler.binding.book import Book
from fedkg_compiler.lowering.rows import Rows

Array = NDArray[np.float64]
Interval = tuple[Array, Array]
"""Lower and upper ends: float64 [R]; infinite where nothing is known."""


def interval(term: Term, rows: Rows, book: Book) -> Interval:
    """The values that a term can take inside the declared spans; never too narrow, sometimes too wide."""
    with np.errstate(all="ignore"):
        low, high = _interval(term, rows, book)
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def _interval(term: Term, rows: Rows, book: Book) -> Interval:
    match term:
        case Slot():
            return _span(rows, book, term.index)
        case Param():
            values = rows.params[term.index]
            return (values, values) if isinstance(values, np.ndarray) else _unknown(rows)
        case Sum():
            ends = [interval(arg, rows, book) for arg in term.args]
            low, high = np.zeros(rows.count), np.zeros(rows.count)
            for one, other in ends:
                low, high = low + one, high + other
            return low, high
        case Negate():
            low, high = interval(term.arg, rows, book)
            return -high, -low
        case Product():
            result = interval(term.args[0], rows, book)
            for arg in term.args[1:]:
                result = _times(result, interval(arg, rows, book))
            return result
        case Quotient():
            low, high = interval(term.denominator, rows, book)
            safe = (low > 0) | (high < 0)
            inverse = np.where(safe, 1 / high, -np.inf), np.where(safe, 1 / low, np.inf)
            return _times(interval(term.numerator, rows, book), inverse)
        case Power():
            return _power(interval(term.base, rows, book), term.exponent)
        case Call():
            return _call(term, rows, book)
        case Reduce():
            return _reduce(term, rows, book)
        case Choose():
            return _hull([interval(term.then, rows, book), interval(term.otherwise, rows, book)])
        case Coalesce():
            return _hull([interval(arg, rows, book) for arg in term.args])
        case _:
            assert_never(term)


def _hull(ends: Sequence[Interval]) -> Interval:
    return np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)


def _reduce(term: Reduce, rows: Rows, book: Book) -> Interval:
    """What members come to together; where a member may be left out (`skip`), a sum may lack it."""
    table = rows.root.members[term.members]
    sizes = table.offsets[1:] - table.offsets[:-1]
    owners = np.repeat(np.arange(rows.count), sizes)
    if term.op == "count":
        return np.zeros(rows.count), sizes.astype(np.float64)
    low, high = interval(term.arg, table.rows, book)
    if term.op == "sum":
        if term.skip:
            low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        least, most = (np.bincount(owners, weights=ends, minlength=rows.count).astype(np.float64) for ends in (low, high))
        return least, most
    least, most = np.full(rows.count, np.inf), np.full(rows.count, -np.inf)
    np.minimum.at(least, owners, low)
    np.maximum.at(most, owners, high)
    if term.op == "mean" or term.skip:
        return np.where(sizes > 0, least, -np.inf), np.where(sizes > 0, most, np.inf)
    inner, outer = np.full(rows.count, np.inf), np.full(rows.count, -np.inf)
    np.minimum.at(inner, owners, high)
    np.maximum.at(outer, owners, low)
    low, high = (least, inner) if term.op == "min" else (outer, most)
    return np.where(sizes > 0, low, -np.inf), np.where(sizes > 0, high, np.inf)


def _unknown(rows: Rows) -> Interval:
    return np.full(rows.count, -np.inf), np.full(rows.count, np.inf)


def _span(rows: Rows, book: Book, slot: int) -> Interval:
    spans = [book.columns[column].span or (-np.inf, np.inf) for column in rows.slots[slot].columns.tolist()]
    ends = np.array(spans, dtype=np.float64).reshape(-1, 2)
    return ends[:, 0], ends[:, 1]


def _times(a: Interval, b: Interval) -> Interval:
    corners = np.stack([a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]])
    corners = np.where(np.isnan(corners), 0.0, corners)
    return corners.min(axis=0), corners.max(axis=0)


def _power(base: Interval, exponent: float) -> Interval:
    low, high = base
    if exponent < 0:
        return np.full_like(low, -np.inf), np.full_like(high, np.inf)
    ends = np.stack([np.power(low, exponent), np.power(high, exponent)])
    if exponent.is_integer() and int(exponent) % 2 == 0:
        ends = np.concatenate([ends, np.where((low < 0) & (high > 0), 0.0, ends[0])[None]])
    return ends.min(axis=0), ends.max(axis=0)


def _call(term: Call, rows: Rows, book: Book) -> Interval:
    ends = [interval(arg, rows, book) for arg in term.args]
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
        case "sin" | "cos":
            return np.full(rows.count, -1.0), np.full(rows.count, 1.0)
        case "tanh":
            return np.tanh(low), np.tanh(high)
        case "floor" | "ceil" | "round":
            return np.floor(low), np.ceil(high)
        case "tan":
            return _unknown(rows)
        case _:
            assert_never(term.function)
