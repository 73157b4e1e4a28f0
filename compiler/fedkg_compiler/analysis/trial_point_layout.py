"""Rows at places, laid out to try values at all places at once; each place has separate variables.

Letters: M rows at places, N variables of places, P points (values of all N), s slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedkg.pack import Formula
from fedkg.pack.numeric.three_valued_logic import Bool, Float
from fedkg.pack.walk import ROWS
from fedkg_compiler.analysis.bound_row_table import Keys, RowTable
from fedkg_compiler.analysis.bounds import Bounds, Int
from fedkg_compiler.analysis.formula_evaluation import Scope, truth


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reads:
    """What rows of a bank, or their members, read on the board.

    Attributes:
        columns: int64 [M, s], which of the N variables each slot of the M rows or members reads.
        shifts: float64 [M, s], the number that is added to the variable.
        params: float64 [M, p], the p parameters of each row or member.
        offsets: int64 [owners + 1], the members of each owner in a member table; empty for the rows
            of a bank.
        parent: the number of the table of the owners.
        used: the slots that the formula reads.
    """

    columns: Int
    shifts: Float
    params: Float
    offsets: Int
    parent: int
    used: tuple[int, ...]


class RowLayout:
    """Rows at places, with the variables that they read there.

    Attributes:
        table: the bound rows.
        still: for each bank, the formula without time that is evaluated; None if there is no such
            formula.
        row: int64 [M], the number of each row in `table`.
        place: int64 [M], the position of the place of each row.
        starts: int64, the position of the first row of each place.
        of: for each place, the slice of its rows.
        banks: for each bank, the positions of its rows.
        plain: bool [M], the rows that state nothing but bounds on single variables.
        variable: int64 [N], the number of each variable in `table`.
        fixed: int64, the positions of the variables that the keys of places determine.
        fixed_to: float64, the values of these variables.
        whole: bool [N], the variables that take only whole numbers (categories and booleans).
        span: float64 [2, N], the declared lower and upper end of each variable, infinite if none is
            declared.
        reach: float64 [2, N], as `span`, with a finite end in place of each infinite one.
        box: float64 [2, N], as `reach`, for the part of the span that the rows with bounds on
            single variables leave.
        middle: float64 [N], the middle of `box`.
    """

    def __init__(
        self,
        table: RowTable,
        bounds: Bounds,
        places: Sequence[tuple[Keys, Sequence[int]]],
        still: Mapping[int, Formula | None],
    ) -> None:
        self.table, self.still = table, still
        sizes = [len(rows) for _, rows in places]
        self.row = np.array([row for _, rows in places for row in rows], dtype=np.int64)
        self.place = np.repeat(np.arange(len(places)), sizes)
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        self.of = [
            slice(int(start), int(start) + size)
            for start, size in zip(self.starts, sizes, strict=True)
        ]
        bank = table.bank[self.row]
        self.banks = {
            int(number): np.flatnonzero(bank == number) for number in sorted({*bank.tolist()})
        }
        self.plain = bounds.plain[self.row]
        self._width = len(table.variables.items)
        found = {number: self._reads(number, here) for number, here in self.banks.items()}
        codes = [
            reads.columns[:, list(reads.used)].ravel()
            for tables in found.values()
            for reads in tables.values()
        ]
        fixed = [
            i * self._width + table.variables.place(0, column)[0]
            for i, (keys, _) in enumerate(places)
            for column, _ in keys
        ]
        # asked for places too: for the values alone NumPy first imports its masked arrays
        self.codes, _ = np.unique(
            np.concatenate([*codes, np.array(fixed, dtype=np.int64)]), return_index=True
        )
        self.variable = self.codes % self._width
        self._first: list[int] = np.searchsorted(
            self.codes, np.arange(len(places) + 1) * self._width
        ).tolist()
        for tables in found.values():
            for reads in tables.values():
                reads.columns[:] = np.minimum(
                    np.searchsorted(self.codes, reads.columns), max(0, self.codes.size - 1)
                )
        self.reads = found
        self.fixed = np.searchsorted(self.codes, np.array(fixed, dtype=np.int64))
        self.fixed_to = np.array([code for keys, _ in places for _, code in keys], dtype=np.float64)
        self._boxes(bounds)

    def _reads(self, number: int, here: Int) -> dict[int, Reads]:
        """What a bank's rows on the board read, by table; variables still by place."""
        bank, places = self.table.banks[number], {ROWS: self.place[here]}
        taken = {ROWS: self.row[here] - self.table.starts[number]}
        found: dict[int, Reads] = {}
        for table in sorted({ROWS, *range(len(bank.members))}):
            offsets, parent = np.zeros(0, dtype=np.int64), ROWS
            if table != ROWS:
                parent = bank.members[table].parent
                part, taken[table] = bank.members[table].take(taken[parent])
                offsets, places[table] = (
                    part.offsets,
                    np.repeat(places[parent], np.diff(part.offsets)),
                )
            readers = self.table.readers[number].get(table)
            if readers is None:
                continue
            columns = readers.variables[taken[table]] + places[table][:, None] * self._width
            shifts, params = readers.shifts[taken[table]], readers.params[taken[table]]
            found[table] = Reads(
                columns=columns,
                shifts=shifts,
                params=params,
                offsets=offsets,
                parent=parent,
                used=readers.used,
            )
        return found

    def _boxes(self, bounds: Bounds) -> None:
        """Spans, and boxes with ends."""
        items = self.table.variables.items
        self.whole = np.array(
            [items[number].type in ("category", "boolean") for number in self.variable],
            dtype=np.bool_,
        )
        spans = [
            (-1.0, max(0.0, entry.codes - 1.0)) if entry.type == "category" else entry.span
            for entry in items
        ]
        self.span = np.array(spans, dtype=np.float64).reshape(-1, 2)[self.variable].T.copy()
        low, high = self.span.copy()
        ends = bounds.ends.take(np.argsort(bounds.ends.row, kind="stable"))
        first, last = (np.searchsorted(ends.row, self.row, side=side) for side in ("left", "right"))
        count = last - first
        which = np.repeat(first - np.concatenate([[0], np.cumsum(count)[:-1]]), count) + np.arange(
            count.sum()
        )
        column = np.searchsorted(
            self.codes, np.repeat(self.place, count) * self._width + ends.variable[which]
        )
        upper = ends.sign[which] > 0
        np.minimum.at(high, column[upper], ends.value[which][upper])
        np.maximum.at(low, column[~upper], -ends.value[which][~upper])
        most = np.ones(len(self.of))
        for bank, here in self.banks.items():
            np.maximum.at(
                most,
                self.place[here],
                np.abs(self.reads[bank][ROWS].params).max(axis=1, initial=1.0),
            )
        size = np.minimum(most, 1e12)[self.codes // self._width]
        self.box, self.reach = (
            _with_ends(ends, size) for ends in (np.stack([low, high]), self.span)
        )
        self.middle = self.box.mean(axis=0)

    def settle(self, points: Float) -> None:
        """Keep points inside the spans, and whole where variables count."""
        np.clip(points, self.span[0], self.span[1], out=points)
        points[:, self.whole] = np.round(points[:, self.whole])
        points[:, self.fixed] = self.fixed_to

    def scope(self, bank: int, points: Float) -> Scope:
        """What a bank's rows on the board read at each point."""
        found: dict[int, tuple[Scope, Int]] = {}
        tables = self.reads[bank]
        for table in sorted(tables, reverse=True):
            reads = tables[table]
            slots = np.zeros((reads.columns.shape[1], points.shape[0], reads.columns.shape[0]))
            for slot in reads.used:
                slots[slot] = points[:, reads.columns[:, slot]] + reads.shifts[:, slot]
            inside = {
                child: entry for child, entry in found.items() if tables[child].parent == table
            }
            found[table] = (
                Scope(slots=slots, params=np.ascontiguousarray(reads.params.T), inside=inside),
                reads.offsets,
            )
        return found[ROWS][0]

    def verdicts(self, points: Float) -> tuple[Bool, Bool]:
        """Which rows each point keeps, and which it violates: bool [P, M]."""
        kept, broken = (
            np.zeros((points.shape[0], self.row.size), dtype=np.bool_) for _ in range(2)
        )
        for bank, here in self.banks.items():
            formula = self.still[bank]
            if formula is not None:
                kept[:, here], broken[:, here] = truth(formula, self.scope(bank, points))
        return kept, broken

    def columns(self, place: int) -> slice:
        """Which of the N variables are a place's: all boards have those of a place in the same
        order.
        """
        return slice(self._first[place], self._first[place + 1])


def _with_ends(span: Float, size: Float) -> Float:
    """Intervals [2, N] with both ends: of width 2 `size` where one is missing, around 0 where both
    are.
    """
    low, high = span
    bottom = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 2 * size, -size))
    return np.stack([bottom, np.where(np.isfinite(high), high, bottom + 2 * size)])
