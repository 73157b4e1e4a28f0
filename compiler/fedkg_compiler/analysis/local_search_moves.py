"""Candidates near a value: each moves the variables of one row to where its comparisons change.

Letters: N variables of the board, P points, Q proposals (one row, one point), s slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedkg.pack import And, CategoryIs, ClassIn, Compare, Formula, Implies, Not, Or
from fedkg.pack.numeric.three_valued_logic import Bool, Float
from fedkg.pack.walk import ROWS, indices
from fedkg_compiler.analysis.bounds import Int
from fedkg_compiler.analysis.formula_evaluation import Scope, margin, truth
from fedkg_compiler.analysis.trial_point_layout import Reads, RowLayout

Atom = Compare | CategoryIs | ClassIn
HAIR = np.array([1e-6, 1e-6, 1e-3, 0.1])
"""How far beyond the change a candidate goes, as a share of the width of the variable's box."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """Candidates that are wanted.

    Attributes:
        start: float64, the values of the place's variables, in the order of `RowLayout.columns`.
        row: the row that selects the variables to move, as a position among the rows of the layout.
        repair: True if the row is violated at `start` and should be satisfied; False if it should
            be violated, or an implication of it should apply.
    """

    start: Float
    row: int
    repair: bool = False


def propose(
    board: RowLayout, jobs: Sequence[Sequence[Job]], tries: int, random: np.random.Generator
) -> Float:
    """Points to try: for each place where its first job starts, then as many candidates for each
    job: float64 [P, N].
    """
    size = 1 + tries * max(len(mine) for mine in jobs)
    points = np.empty((size, board.variable.size))
    turn_of = {count: np.arange(size - 1) % count for count in {len(mine) for mine in jobs}}
    turns = [turn_of[len(mine)] for mine in jobs]
    for i, (mine, turn) in enumerate(zip(jobs, turns, strict=True)):
        points[:, board.columns(i)] = mine[0].start
        if any(job.start is not mine[0].start for job in mine):
            points[1:, board.columns(i)] = np.stack([job.start for job in mine])[turn]
    at = np.tile(np.arange(1, size), len(jobs))
    mover = np.concatenate(
        [np.array([job.row for job in mine])[turn] for mine, turn in zip(jobs, turns, strict=True)]
    )
    repair = np.concatenate(
        [
            np.array([job.repair for job in mine])[turn]
            for mine, turn in zip(jobs, turns, strict=True)
        ]
    )
    bank = board.table.bank[board.row[mover]]
    for number in board.banks:
        here = np.flatnonzero(bank == number)
        formula = board.still[number]
        if here.size and formula is not None:
            _Moves(board, number, points, at[here], mover[here], random).make(formula, repair[here])
    board.settle(points)
    return points


class _Moves:
    """The proposals for rows of one bank."""

    def __init__(
        self,
        board: RowLayout,
        bank: int,
        points: Float,
        at: Int,
        mover: Int,
        random: np.random.Generator,
    ) -> None:
        self.board, self.points, self.at, self.random = board, points, at, random
        self.rows = np.searchsorted(board.banks[bank], mover)
        self.plain = board.plain[mover]
        self.tables = board.reads[bank]
        self.reads: Reads = self.tables[ROWS]
        self.columns = np.ascontiguousarray(self.reads.columns[self.rows].T)
        self.shifts = np.ascontiguousarray(self.reads.shifts[self.rows].T)
        self.params = np.ascontiguousarray(self.reads.params[self.rows].T)

    def make(self, formula: Formula, repair: Bool) -> None:
        """Scatter some of the variables.

        Then move each comparison to the side that violates the row, to the side on which the row
        applies, or to either side.

        `repair`: move one or a few of them to the side that satisfies the row.
        """
        size = self.at.size
        chance = self.random.random((3, size))
        for table in self.tables:
            self._scatter(table, (chance[0] < 0.4) & (~repair | (table != ROWS)))
        atoms = list(_atoms(formula))
        one = self.random.integers(0, max(1, len(atoms)), size)
        for number, (atom, breaks, applies) in enumerate(atoms):
            aim = np.where(
                chance[1] < 0.45,
                breaks,
                np.where(chance[1] < 0.75, applies, self.random.random(size) < 0.5),
            )
            aim = np.where(repair, not breaks, aim)
            moved = self.random.random(size) < np.where(chance[2] < 0.7, 0.95, 0.4)
            moved = np.where(repair, (one == number) | (chance[2] < 0.2), moved)
            match atom:
                case Compare():
                    self._jump(atom, aim, moved & (self.random.random(size) < 0.4))
                    for _ in range(
                        2
                    ):  # another variable, where the end of a span was in the way of the first
                        self._jump(atom, aim, moved & (self._satisfied(atom, moved) != aim))
                case CategoryIs():
                    self._category(atom, aim, moved)
                case ClassIn():
                    self._class(atom, aim, moved)

    def _scatter(self, table: int, which: Bool) -> None:
        """Put variables anywhere in their boxes, at the ends or in the middle: those of a row, or
        all those of its members alike.
        """
        reads, proposals, rows = self.tables[table], np.flatnonzero(which), self.rows[which]
        if table != ROWS:
            owners = self.tables[reads.parent]
            if reads.parent != ROWS:
                return
            assert owners is self.reads
            sizes = np.diff(reads.offsets)[rows]
            first = np.repeat(
                reads.offsets[:-1][rows] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes
            )
            proposals, rows = np.repeat(proposals, sizes), first + np.arange(sizes.sum())
        share = np.concatenate([[0.0, 1.0, 0.5], self.random.random(3)])[
            self.random.integers(0, 6, self.at.size)
        ]
        wide = self.random.random(self.at.size) < 0.5
        for slot in reads.used:
            column = reads.columns[rows, slot]
            low, high = np.where(
                wide[proposals], self.board.reach[:, column], self.board.box[:, column]
            )
            own = (
                share[proposals]
                if table != ROWS
                else share[self.random.integers(0, share.size, proposals.size)]
            )
            if table == ROWS:
                own = np.where(self.random.random(proposals.size) < 0.5, np.nan, own)
            value = low + own * (high - low)
            here = self.at[proposals], column
            self.points[here] = np.where(np.isnan(value), self.points[here], value)

    def _jump(self, atom: Compare, aim: Bool, moved: Bool) -> None:
        """Move one variable of a comparison to just beyond where it changes: where a straight line
        through two of its margins is 0.
        """
        slots, _ = indices(atom)
        used = sorted(slots[ROWS])
        if not used or len(slots) > 1:
            return
        size = self.at.size
        slot, hairs = (
            np.array(used)[self.random.integers(0, len(used), size)],
            HAIR[self.random.integers(0, HAIR.size, size)],
        )
        either, inside = (
            np.where(self.random.random(size) < 0.5, 1, -1),
            ~self.plain & (self.random.random(size) < 0.8),
        )
        where = np.flatnonzero(moved)
        column = self.columns[slot[where], where]
        low, high = self.board.box[:, column]
        width = np.maximum(high - low, 1e-9)
        now = self.points[self.at[where], column]
        step = 0.01 * width
        before, after = (
            margin(atom, self._scope(used, where, column, value))[0] for value in (now, now + step)
        )
        with np.errstate(all="ignore"):
            slope = (after - before) / step
            there = now - before / slope
            hair = hairs[where] * width * np.sign(slope)
            target = there + np.where(aim[where], 1, -1) * hair
        if atom.tolerance is None and atom.op in ("eq", "ne"):
            target = np.where(
                aim[where] == (atom.op == "eq"), there, there + np.abs(hair) * either[where]
            )
        target = np.clip(
            target, *np.where(inside[where], self.board.box[:, column], self.board.span[:, column])
        )
        good = np.isfinite(target)
        self.points[self.at[where[good]], column[good]] = target[good]

    def _satisfied(self, atom: Compare, which: Bool) -> Bool:
        """Return which proposals satisfy a comparison; False for comparisons of members."""
        slots, _ = indices(atom)
        found = np.zeros(self.at.size, dtype=np.bool_)
        where = np.flatnonzero(which)
        if len(slots) <= 1 and where.size:
            nowhere = np.full(where.size, -1)
            found[where] = truth(
                atom, self._scope(slots.get(ROWS, ()), where, nowhere, np.zeros(where.size))
            )[0][0]
        return found

    def _scope(self, slots: Iterable[int], where: Int, column: Int, value: Float) -> Scope:
        """What some proposals' own rows read in these slots, one row for each, with one variable at
        another value.
        """
        found, flat = np.zeros((self.columns.shape[0], 1, where.size)), self.points.ravel()
        start = self.at[where] * self.points.shape[1]
        for slot in slots:
            columns = self.columns[slot, where]
            found[slot, 0] = (
                np.where(columns == column, value, flat[start + columns]) + self.shifts[slot, where]
            )
        return Scope(slots=found, params=self.params[:, where], inside={})

    def _category(self, atom: CategoryIs, aim: Bool, moved: Bool) -> None:
        column = self.reads.columns[self.rows, atom.slot]
        code = self.reads.params[self.rows, atom.param]
        low, high = self.board.span[:, column]
        other = low + np.floor(self.random.random(code.size) * (high - low + 1))
        other = np.where(other == code, np.where(other > low, other - 1, other + 1), other)
        self.points[self.at[moved], column[moved]] = np.where(aim, code, other)[moved]

    def _class(self, atom: ClassIn, aim: Bool, moved: Bool) -> None:
        """Let one of the classes inside, or outside, win."""
        everyone = np.array([*atom.inside, *atom.outside])
        best = self.points[self.at[:, None], self.reads.columns[self.rows][:, everyone]].max(axis=1)
        for winners, wanted in ((atom.inside, aim), (atom.outside, ~aim)):
            if winners:
                slot = np.array(winners)[self.random.integers(0, len(winners), self.at.size)]
                column, good = self.reads.columns[self.rows, slot], moved & wanted
                self.points[self.at[good], column[good]] = best[good] + 1.0


def _atoms(
    formula: Formula, breaks: bool = False, applies: bool = True
) -> Iterator[tuple[Atom, bool, bool]]:
    """Comparisons of a formula: whether each must hold for the formula to break, and for its
    conditions and what follows to hold.
    """
    match formula:
        case Compare() | CategoryIs() | ClassIn():
            yield formula, breaks, applies
        case Not():
            yield from _atoms(formula.arg, not breaks, not applies)
        case And() | Or():
            for arg in formula.args:
                yield from _atoms(arg, breaks, applies)
        case Implies():
            yield from _atoms(formula.antecedent, not breaks, applies)
            yield from _atoms(formula.consequent, breaks, applies)
        case _:
            return
