"""Interval arithmetic over declared spans: between which values a term can lie.

Each term defines its own interval (`TermPart.interval`). This goes from slots to terms. The other
way, from what comparisons ask to single columns, is `analysis.bounds`.

Letter: R rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Param, Term
from fedkg.pack.numeric.intervals import Interval, Ranges
from fedkg_compiler.ir import BookColumn, MemberBuilder, MemberRows, RowBuilder, Rows


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """The spans that columns are declared with, for what a formula reads in some rows.

    Attributes:
        rows: one or several groups of rows of the same formula, one after the other.
        tables: the sets of members of each group.
        columns: the columns of the compilation, by number.
    """

    rows: Sequence[Rows | RowBuilder]
    tables: Sequence[Sequence[MemberRows | MemberBuilder]]
    columns: Sequence[BookColumn]

    @property
    def count(self) -> int:
        """R."""
        return sum(rows.count for rows in self.rows)

    def slot(self, index: int) -> Interval:
        """The spans of a slot's columns."""
        spans = [
            self.columns[column].span or (-np.inf, np.inf)
            for rows in self.rows
            for column in rows.slots[index].columns.tolist()
        ]
        ends = np.array(spans, dtype=np.float64).reshape(-1, 2)
        return ends[:, 0], ends[:, 1]

    def param(self, index: int) -> Interval:
        """The number itself, twice."""
        values = [rows.params[index] for rows in self.rows]
        numbers = [value for value in values if isinstance(value, np.ndarray)]
        if len(numbers) < len(values):
            return np.full(self.count, -np.inf), np.full(self.count, np.inf)
        known = np.concatenate(numbers)
        return known, known

    def members(self, table: int) -> tuple[Ranges, NDArray[np.int64]]:
        """Those of a member table, and the offsets of its owners."""
        found = [tables[table] for tables in self.tables]
        sizes = np.concatenate([np.diff(one.offsets) for one in found])
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return Declared([one.rows for one in found], self.tables, self.columns), offsets


def declared_spans(rows: RowBuilder, columns: Sequence[BookColumn]) -> Declared:
    """The spans for a formula that is being bound."""
    return Declared([rows], [rows.root.members], columns)


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


def comparison_scale(left: Term, right: Term, spans: Declared) -> NDArray[np.float64]:
    """By what a comparison's margin is divided in penalties: float64 [R], positive.

    It is the width of what its moving sides can range over (their declared spans), else the size of
    its fixed side, else 1.
    """
    width, threshold = np.zeros(spans.count), np.zeros(spans.count)
    for side in (left, right):
        low, high = interval(side, spans)
        if isinstance(side, Param):
            threshold = np.maximum(threshold, np.abs(low))
        else:
            width = width + (high - low)
    usable = np.isfinite(width) & (width > 0)
    known = np.isfinite(threshold) & (threshold > 0)
    return np.where(usable, width, np.where(known, threshold, 1.0))
