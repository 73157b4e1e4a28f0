"""Whether a value keeps rows, by branch and prune: boxes where some row certainly fails are
dropped, the others tried and cut in two.

What the solver cannot say exactly, intervals enclose as narrowly as one likes (Moore, Kearfott and
Cloud, "Introduction to Interval Analysis", 2009, chapter 5; Benhamou and Granvilliers, "Continuous
and interval constraints", 2006): exponentials, roots, sines, products. A "yes" is a point that
satisfies all rows according to `truth`; a "no" means that no box is left.

Letters: P boxes, N variables of the place, M rows of a bank on the board, m = P M.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedkg.pack import Call, Formula, Power
from fedkg.pack.numeric.three_valued_logic import Bool, Float
from fedkg.pack.walk import ROWS, everywhere, is_temporal
from fedkg_compiler.analysis.bound_row_table import Keys, RowTable
from fedkg_compiler.analysis.bounds import CLOSE, Bounds, Int
from fedkg_compiler.analysis.box_contraction import Narrowed, contract
from fedkg_compiler.analysis.budget import Budget
from fedkg_compiler.analysis.equation_solving import Newton, Part
from fedkg_compiler.analysis.formula_evaluation import truth
from fedkg_compiler.analysis.interval_truth import Sides, certain
from fedkg_compiler.analysis.negation_normal_form import looks_for_gaps, without_time
from fedkg_compiler.analysis.trial_point_layout import RowLayout
from fedkg_compiler.analysis.verdict import Reading, Witness

BOXES, CELLS, TRIED = 512, 40_000, 64
"""Boxes examined together, rows times boxes per query, and boxes that are sampled for points."""
NARROW = 1e-9
"""Sides that are a smaller share of their span are not cut."""
SOLVED, STARTS = 8, 3
"""Equation solves per query, and boxes per solve that start from their middle."""
ROUNDS, WORTH = 3, 0.9
"""So often boxes are made smaller before they are cut, as long as a side of some box becomes this
share of itself."""
COST = 15
"""Steps of the budget for each row that is looked at in a box."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What is asked beside rows: that a row, or this part of its formula, certainly holds, or (not
    `holds`) certainly fails.
    """

    row: int
    formula: Formula
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What a search found: the point that keeps all, or the rows that were enough for a "no"."""

    answer: Literal["yes", "no", "unknown"]
    rows: tuple[int, ...] = ()
    witness: Witness | None = None


class Search:
    """Questions about the rows of one place, inside the spans, or (`width`) a share of their width
    beyond.
    """

    def __init__(
        self, table: RowTable, bounds: Bounds, budget: Budget, keys: Keys, *, width: float = 0.0
    ) -> None:
        self.table, self.bounds, self.budget, self.keys, self.width = (
            table,
            bounds,
            budget,
            keys,
            width,
        )

    def ask(self, rows: Sequence[int], conditions: Sequence[Condition] = ()) -> Searched:
        """Whether some value keeps these rows and meets the conditions.

        Few rows that none keeps are looked for first.
        """
        asked = {condition.row for condition in conditions}
        for some in self._closed(rows, asked):
            found = self._ask(some, conditions, CELLS // 8)
            if found.answer == "no":
                return found
        return self._ask(rows, conditions, CELLS)

    def _closed(self, rows: Sequence[int], asked: set[int]) -> Iterator[list[int]]:
        """Of each row that the solver is not told exactly, the rows that read nothing else than it
        and what is asked about.
        """
        reads = self.table.all_reads([*dict.fromkeys([*rows, *asked])])
        known: set[tuple[int, ...]] = {tuple(rows)}
        for row in dict.fromkeys([*asked, *rows]):
            if not _is_bent(self.table.skeleton(row)):
                continue
            within = reads[row].union(*(reads[one] for one in asked))
            some = [one for one in rows if reads[one] <= within]
            if tuple(some) not in known:
                known.add(tuple(some))
                yield some

    def _ask(self, rows: Sequence[int], conditions: Sequence[Condition], cells: int) -> Searched:
        here = [*dict.fromkeys([*rows, *(condition.row for condition in conditions)])]
        skeletons = {int(self.table.bank[row]): self.table.skeleton(row) for row in here}
        still = {bank: without_time(skeleton) for bank, skeleton in skeletons.items()}
        place = _Place(
            RowLayout(self.table, self.bounds, [(self.keys, here)], still), rows, conditions
        )
        low, high = place.board.span[:, None].copy()
        more = self.width * np.where(
            place.board.whole | np.isinf(high - low), 0.0, np.minimum(high - low, 1e300)
        )
        low, high = low - more, high + more
        low[:, place.board.fixed] = high[:, place.board.fixed] = place.board.fixed_to
        stack, stuck, solved = [(low, high)], False, 0
        while stack:
            low, high = stack.pop()
            if low.shape[0] > BOXES:
                stack.append((low[:-BOXES], high[:-BOXES]))
                low, high = low[-BOXES:], high[-BOXES:]
            cost = low.shape[0] * max(1, len(here))
            if cost > cells or self.budget.spent:
                return Searched(answer="unknown")
            cells -= cost
            self.budget.spend(COST * cost)
            low, high = place.narrowed(low, high)
            alive, open_ = place.look(low, high)
            if not alive.any():
                continue
            low, high, open_ = low[alive], high[alive], open_[alive]
            point = place.kept(low[:TRIED], high[:TRIED])
            if point is not None:
                return Searched(answer="yes", witness=self._witness(place.board, point))
            if solved < SOLVED and (near := place.solved(low, high)) is not None:
                return Searched(
                    answer="yes", witness=self._witness(place.board, near[0]) if near[1] else None
                )
            solved += 1
            low, high, narrow = _cut(low, high, open_, place.board)
            stuck |= narrow
            stack += [(low, high)] if low.size else []
        return Searched(answer="unknown") if stuck else Searched(answer="no", rows=tuple(rows))

    def _witness(self, board: RowLayout, point: Float) -> Witness:
        found = {(0, column): float(code) for column, code in self.keys}
        for number, value in zip(board.variable.tolist(), point.tolist(), strict=True):
            found |= {
                (view, column): value + shift
                for view, column, shift in self.table.variables.items[number].readings
            }
        return Witness(
            tuple(
                sorted(Reading(0, view, column, value) for (view, column), value in found.items())
            )
        )


class _Place:
    """Rows and conditions on a board."""

    def __init__(
        self, board: RowLayout, rows: Sequence[int], conditions: Sequence[Condition]
    ) -> None:
        self.board, self.conditions = board, conditions
        self.at = {row: i for i, row in enumerate(board.row.tolist())}
        self.rows = np.array([self.at[row] for row in rows], dtype=np.int64)
        self.parts: list[tuple[int, Int, Formula, bool]] = []
        for bank, here in board.banks.items():
            asked = np.flatnonzero(np.isin(here, self.rows))
            timed = board.table.is_timed(int(board.row[here[0]]))
            for some in (asked[i : i + 1] for i in range(asked.size)) if timed else (asked,):
                formula = (
                    board.table.at_any_step(int(board.row[here[some[0]]])) if some.size else None
                )
                if formula is not None and _encloses(formula):
                    self.parts.append((bank, some, formula, True))
        for one in conditions:
            if _encloses(one.formula):
                bank = int(board.table.bank[one.row])
                self.parts.append(
                    (
                        bank,
                        np.flatnonzero(board.banks[bank] == self.at[one.row]),
                        one.formula,
                        one.holds,
                    )
                )
        whole = sum(rows.size for _, rows, _, _ in self.parts) == len(rows) + len(conditions)
        parts = [
            Part(bank, at, formula, holds)
            for bank, rows_, formula, holds in self.parts
            for at in rows_.tolist()
        ]
        self.newton = Newton(board, parts if whole else ())

    def look(self, low: Float, high: Float) -> tuple[Bool, Bool]:
        """Which boxes may have a value that keeps all: bool [P].

        And the variables on which that hangs: bool [P, N].
        """
        alive, open_ = np.ones(low.shape[0], dtype=np.bool_), np.zeros(low.shape, dtype=np.bool_)
        for bank, rows, formula, holds in self.parts:
            with np.errstate(all="ignore"):
                verdicts = certain(formula, self._sides(bank, ROWS, rows, low, high)[0])
            shape = low.shape[0], rows.size
            sure: Bool = verdicts[0 if holds else 1].reshape(shape)
            never: Bool = verdicts[1 if holds else 0].reshape(shape)
            alive &= ~never.any(axis=1)
            for i, columns in enumerate(self._columns(bank, rows)):
                open_[:, columns] |= np.logical_not(sure[:, i : i + 1])
        return alive, open_ | np.logical_not(open_.any(axis=1, keepdims=True))

    def narrowed(self, low: Float, high: Float) -> tuple[Float, Float]:
        """The boxes in which a value may lie that keeps all, each made as small as the rows and
        conditions make it.
        """
        for _ in range(ROUNDS):
            if not low.shape[0]:
                break
            smaller, bigger, dead = low.copy(), high.copy(), np.zeros(low.shape[0], dtype=np.bool_)
            for bank, rows, formula, holds in self.parts:
                boxes = Narrowed.of(self._sides(bank, ROWS, rows, low, high)[0])
                contract(formula, holds, boxes)
                dead |= boxes.dead.reshape(-1, rows.size).any(axis=1)
                self._fold(bank, ROWS, rows, boxes, smaller, bigger)
            whole = self.board.whole
            smaller[:, whole], bigger[:, whole] = (
                np.ceil(smaller[:, whole] - CLOSE),
                np.floor(bigger[:, whole] + CLOSE),
            )
            with np.errstate(invalid="ignore"):  # -inf + inf: an open side is never too small
                slack = CLOSE * np.maximum(np.abs(smaller), np.abs(bigger))
                dead |= (smaller > bigger + slack).any(axis=1)
            before, crossed = (high - low)[~dead], smaller > bigger
            low, high = (
                np.where(crossed, end, mine)[~dead]
                for end, mine in ((bigger, smaller), (smaller, bigger))
            )
            if not low.size or not (np.nan_to_num(high - low, nan=np.inf) < WORTH * before).any():
                break
        return low, high

    def _fold(
        self, bank: int, table: int, rows: Int, boxes: Narrowed, low: Float, high: Float
    ) -> None:
        """Cut [P, N] by what was left of the boxes of a bank's rows, or of these members."""
        reads = self.board.reads[bank][table]
        at = np.arange(low.shape[0])[:, None]
        for slot in reads.used:
            columns, shifts = reads.columns[rows, slot], reads.shifts[rows, slot]
            bottom, top = (
                side[:, slot].reshape(-1, rows.size) - shifts
                for side in (boxes.sides.low, boxes.sides.high)
            )
            np.maximum.at(
                low,
                (at, columns[None]),
                np.where(shifts != 0, bottom - CLOSE * np.abs(shifts), bottom),
            )
            np.minimum.at(
                high, (at, columns[None]), np.where(shifts != 0, top + CLOSE * np.abs(shifts), top)
            )
        for child, (inside, _) in boxes.inside.items():
            entry = self.board.reads[bank][child]
            members = _members_of(entry.offsets, rows)
            self._fold(bank, child, members, inside, low, high)

    def kept(self, low: Float, high: Float) -> Float | None:
        """A point of these boxes that keeps all: float64 [N].

        None where none of those that are tried does.
        """
        bottom, top = _with_ends(low, high)
        points = np.concatenate([(bottom + top) / 2, bottom, top])
        points[:, self.board.whole] = np.round(points[:, self.board.whole])
        good = self._keep_all(points)
        return points[int(good.argmax())] if good.any() else None

    def solved(self, low: Float, high: Float) -> tuple[Float, bool] | None:
        """A point near the middle of one of these boxes at which the equations hold too, and
        whether `truth` says that it keeps all.
        """
        if not self.newton.useful:
            return None
        bottom, top = _with_ends(low[-STARTS:], high[-STARTS:])
        for middle in (bottom + top) / 2:
            middle[self.board.whole] = np.round(middle[self.board.whole])
            near = self.newton.near(middle)
            if near is not None:
                return near[0], bool(self._keep_all(near[0][None])[0])
        return None

    def _keep_all(self, points: Float) -> Bool:
        """Which points keep all rows and conditions: bool [P]."""
        good: Bool = np.asarray(self.board.verdicts(points)[0][:, self.rows].all(axis=1))
        for one in self.conditions:
            bank = int(self.board.table.bank[one.row])
            formula = without_time(one.formula)
            if formula is None:
                return np.zeros_like(good)
            verdict = truth(formula, self.board.scope(bank, points))[0 if one.holds else 1]
            np.logical_and(
                good,
                verdict[:, int(np.flatnonzero(self.board.banks[bank] == self.at[one.row])[0])],
                out=good,
            )
        return good

    def _columns(self, bank: int, rows: Int) -> Iterator[list[int]]:
        """The variables that each row reads, its members included."""
        for row in self.board.row[self.board.banks[bank][rows]].tolist():
            yield np.searchsorted(self.board.variable, sorted(self.board.table.reads(row))).tolist()

    def _sides(
        self, bank: int, table: int, rows: Int, low: Float, high: Float
    ) -> tuple[Sides, Int]:
        """What the rows of a bank, or these members, read in each box, box by box."""
        tables = self.board.reads[bank]
        reads, boxes = tables[table], low.shape[0]
        columns, shifts = reads.columns[rows], reads.shifts[rows]
        width = columns.shape[1]
        bottom, top = (
            (side[:, columns] + shifts).reshape(boxes * rows.size, width) for side in (low, high)
        )
        inside: dict[int, tuple[Sides, Int]] = {}
        for child, entry in tables.items():
            if child != ROWS and entry.parent == table:
                members = _members_of(entry.offsets, rows)
                sizes = np.tile(np.diff(entry.offsets)[rows], boxes)
                inside[child] = (
                    self._sides(bank, child, members, low, high)[0],
                    np.concatenate([[0], np.cumsum(sizes)]),
                )
        return Sides(
            low=bottom, high=top, params=np.tile(reads.params[rows], (boxes, 1)), inside=inside
        ), rows


def _with_ends(low: Float, high: Float) -> tuple[Float, Float]:
    """Boxes with both ends: of width 1 where one is missing."""
    bottom = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 1, 0.0))
    return bottom, np.where(np.isfinite(high), high, bottom + 1)


def _members_of(offsets: Int, rows: Int) -> Int:
    """The members of these owners, one owner after the other."""
    ends = zip(offsets[:-1][rows].tolist(), offsets[1:][rows].tolist(), strict=True)
    return np.concatenate([np.arange(0), *(np.arange(*each) for each in ends)])


def _cut(low: Float, high: Float, open_: Bool, board: RowLayout) -> tuple[Float, Float, bool]:
    """Each box in two, across its widest side among the open ones.

    And whether any box was too narrow for that: such boxes are gone.
    """
    span = board.reach[1] - board.reach[0]
    width = high - low
    wide = open_ & np.where(board.whole, width > 0, width > NARROW * np.maximum(span, 1e-300))
    share = np.where(wide, width / np.maximum(span, 1e-300), -1.0)
    kept = wide.any(axis=1)
    low, high, side = low[kept], high[kept], share[kept].argmax(axis=1)
    at, whole = np.arange(low.shape[0]), board.whole[side]
    bottom, top = low[at, side], high[at, side]
    with np.errstate(invalid="ignore"):
        middle = np.where(
            np.isfinite(bottom) & np.isfinite(top), bottom + (top - bottom) / 2, _far(bottom, top)
        )
    left, right = high.copy(), low.copy()
    left[at, side] = np.where(whole, np.floor(middle), middle)
    right[at, side] = np.where(whole, np.floor(middle) + 1, middle)
    return np.concatenate([low, right]), np.concatenate([left, high]), not kept.all()


def _far(bottom: Float, top: Float) -> Float:
    """Where a side without an end is cut: at 0, then ever farther out."""
    up, down = np.maximum(2 * bottom, 1.0), np.minimum(2 * top, -1.0)
    return np.where(bottom >= 0, up, np.where(top <= 0, down, 0.0))


def _encloses(formula: Formula) -> bool:
    """Whether a box in which the formula certainly fails has no value at all that keeps it, also
    where values are missing.
    """
    return not is_temporal(formula) and not looks_for_gaps(formula)


def _is_bent(formula: Formula) -> bool:
    """Whether the formula has a function that the solver is not told exactly."""
    return any(isinstance(part, Call | Power) for _, part in everywhere(formula))
