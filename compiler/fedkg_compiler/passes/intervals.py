"""Interval arithmetic over declared spans: between which values a term can lie.

Each term defines its own interval (`TermPart.interval`). This goes from slots to terms. The other
way, from what
comparisons ask to single columns, is `analysis.bounds`.

Letter: R rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Term
from fedkg.pack.numeric.intervals import Interval, Ranges
from fedkg_compiler.column_registry import Book
from fedkg_compiler.ir import Rows


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
        if isinstance(values, np.ndarray):
            return values, values
        return np.full(self.count, -np.inf), np.full(self.count, np.inf)

    def members(self, table: int) -> tuple[Ranges, NDArray[np.int64]]:
        """Those of a member table, and the offsets of its owners."""
        found = self.rows.root.members[table]
        return Declared(found.rows, self.book), found.offsets


Seen = dict[tuple[int, int], Interval]
"""What terms were found to take, by `id` of term and of ranges."""


def interval(term: Term, ranges: Ranges, seen: Seen | None = None) -> Interval:
    """The values that a term can take inside the declared spans; never too narrow, sometimes too
    wide.

    That is so of the numbers that the interpreter computes: sums, products and quotients of ends
    are rounded as those of values are, and so
    bound them; the ends of what is rounded less strictly move outwards by `ROUND`.

    `seen`: what is taken from there, or put there, of the term and its parts.
    """
    key = id(term), id(ranges)
    if seen is not None and key in seen:
        return seen[key]
    with np.errstate(all="ignore"):
        low, high = term.interval(lambda part, inside: interval(part, inside, seen), ranges)
    found = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    if seen is not None:
        seen[key] = found
    return found
