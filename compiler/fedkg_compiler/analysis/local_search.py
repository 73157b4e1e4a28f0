"""Values that are tried before the solver is asked: what one of them shows needs no proof.

A value that keeps all rows of a place shows that they go together; one that violates a row alone,
that no others imply it. Candidates are found by local search: each moves the variables of one row
to just this or just that side of where its comparisons change (the jumps of Luteberget and Sartor,
"Feasibility Jump", Mathematical Programming Computation 2023), from the best value so far. A
candidate is a trace on which nothing changes, so windows are as good as gone; what the interpreter
says of it decides. Rows are laid out to try values at all places at once; each place has separate
variables.

Letters: M rows at places, N variables of places, P points (values of all N), Q proposals (one row,
one point), s slots.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedkg.pack import And, CategoryIs, ClassIn, Compare, Formula, Implies, Not, Or
from fedkg.pack.formulas import ROWS, indices
from fedkg.pack.numeric.three_valued_logic import Bool, Float
from fedkg_compiler.analysis.formula_evaluation import Scope, margin, truth
from fedkg_compiler.analysis.single_column_bounds import Bounds, Int, Keys, RowTable
from fedkg_compiler.formulas.formula_algebra import implications, without_time


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


ROUNDS, STEPS, TRIES, REPAIRED, FEW, MANY, CELLS, LARGEST = 4, 12, 12, 2, 4, 50, 400_000, 10_000_000
"""Rounds of candidates for a place where a value keeps all rows, and before one is found;
candidates for each row in a round; rows that are repaired after another was violated; the number of
violated rows up to which others are tried too; the number of queries from which the middle of the
box is tried first; verdicts on rows that are worked out at once, for several places and at the very
most."""


@dataclass(slots=True, kw_only=True)
class Shown:
    """What values showed of a place.

    Attributes:
        together: some values satisfy all rows of the place.
        fails: numbers of the rows that some values violate.
        alone: numbers of the rows that some values violate while they satisfy all rows of other
            rules.
        applies: (row, number) of each implication at the top of a row whose antecedent holds for
            values that satisfy all rows.
        best: the values that satisfy the most rows so far; None before any values were tried.
        bad: numbers of the rows that `best` does not satisfy.
        near: values from which the search continues, by the row that they violate, or by the (row,
            number) of the implication that applies; with the numbers of the other rows that they do
            not satisfy.
    """

    together: bool = False
    fails: set[int] = field(default_factory=set)
    alone: set[int] = field(default_factory=set)
    applies: set[tuple[int, int]] = field(default_factory=set)
    best: Float | None = None
    bad: list[int] = field(default_factory=list)
    near: dict[int | tuple[int, int], tuple[Float, list[int]]] = field(default_factory=dict)


_Wanted = tuple[Float | None, int, bool]
"""A wanted candidate: start values, the row that selects the moved variables, repair or not."""


class Trials:
    """Tries values at places."""

    def __init__(self, table: RowTable, bounds: Bounds) -> None:
        self.table, self.bounds = table, bounds
        self.still = {
            number: without_time(bank.skeleton) for number, bank in enumerate(table.banks)
        }
        self.parts = [implications(bank.skeleton) for bank in table.banks]
        self.random = np.random.default_rng(0)

    def show(self, places: Sequence[tuple[Keys, Sequence[int], Container[int]]]) -> list[Shown]:
        """What can be shown of each place.

        Args:
            places: the table rows that each is about, its rows, and those of them that others
                imply, so that no value violates them alone.
        """
        shown = [Shown() for _ in places]
        steps = [
            STEPS
            if all(self.still[bank] is not None for bank in self.table.bank[rows].tolist())
            else 1
            for _, rows, _ in places
        ]
        sizes = [self._size(rows) for _, rows, _ in places]
        left = list(range(len(places)))
        for step in range(STEPS):
            left = [i for i in left if step < (ROUNDS if shown[i].together else steps[i])]
            asked = {i: self._open(*places[i][1:], shown[i]) for i in left}
            left = [i for i in left if asked[i]]
            wanted = {i: _wanted(places[i][1], shown[i], asked[i]) for i in left}
            for batch in _batches(wanted, sizes):
                self._try(
                    [(*places[i][:2], shown[i], wanted[i]) for i in batch],
                    sum(sizes[i] for i in batch),
                )
        return shown

    def together(self, keys: Keys, rows: Sequence[int]) -> bool:
        """Whether values show that all rows go together, also where each implication among them
        applies.
        """
        shown, size = Shown(fails=set(rows), alone=set(rows)), self._size(rows)
        for _ in range(STEPS):
            asked = self._open(rows, (), shown)
            if not asked:
                return True
            self._try([(keys, rows, shown, _wanted(rows, shown, asked))], size)
        return False

    def _size(self, rows: Sequence[int]) -> int:
        """How many rows and members there are to evaluate."""
        size = len(rows)
        for row in rows:
            bank = int(self.table.bank[row])
            for number in range(len(self.table.banks[bank].members)):
                size += sum(
                    self.table.member_sizes(bank, number, int(row - self.table.starts[bank]))
                )
        return size

    def _open(self, rows: Sequence[int], hopeless: Container[int], shown: Shown) -> list[int]:
        """The rows with open questions."""
        if not shown.together:
            return list(rows)
        bank, plain = self.table.bank, self.bounds.plain
        return [
            row
            for row in rows
            if (row not in shown.fails and not plain[row])
            or (row not in shown.alone and row not in hopeless)
            or any((row, i) not in shown.applies for i in range(len(self.parts[int(bank[row])])))
        ]

    def _try(
        self, batch: Sequence[tuple[Keys, Sequence[int], Shown, list[_Wanted]]], size: int
    ) -> None:
        """One round of candidates for places that want about equally many.

        `size`: rows and members of all.
        """
        most = (LARGEST // size - 1) // TRIES
        if most < 1:
            return
        board = RowLayout(
            self.table, self.bounds, [(keys, rows) for keys, rows, _, _ in batch], self.still
        )
        jobs = [_jobs(board, i, wanted[:most]) for i, (_, _, _, wanted) in enumerate(batch)]
        points = propose(board, jobs, TRIES, self.random)
        kept, broken = board.verdicts(points)
        bad = np.add.reduceat(~kept, board.starts, axis=1, dtype=np.int64)
        shown = [one for _, _, one, _ in batch]
        fewest, first, last = (
            bad.min(axis=0).tolist(),
            bad.argmin(axis=0).tolist(),
            bad[::-1].argmin(axis=0).tolist(),
        )
        for i, one in enumerate(shown):
            one.together |= not fewest[i]
            best = (
                first[i] if one.together else points.shape[0] - 1 - last[i]
            )  # the search moves on while none keeps all
            one.best = points[best, board.columns(i)]
            one.bad = board.row[board.of[i]][~kept[best, board.of[i]]].tolist() if fewest[i] else []
        self._violated(board, shown, points, kept, broken, bad)
        self._applying(board, shown, points, kept, bad)

    def _violated(
        self,
        board: RowLayout,
        shown: Sequence[Shown],
        points: Float,
        kept: Bool,
        broken: Bool,
        bad: Int,
    ) -> None:
        """Note which rows some point violates, and how few rows of other rules with each.

        `bad`: rows not kept, int64 [P, places].
        """
        pairs, group = np.unique(
            np.stack([board.place, self.table.rule[board.row]]), axis=1, return_inverse=True
        )
        group = group.ravel()
        order = np.argsort(group, kind="stable")
        by_rule = np.add.reduceat(
            ~kept[:, order],
            np.searchsorted(group[order], np.arange(pairs.shape[1])),
            axis=1,
            dtype=np.int64,
        )
        others = np.where(broken, bad[:, board.place] - by_rule[:, group], board.row.size)
        fails, nearest, fewest = broken.any(axis=0), others.argmin(axis=0), others.min(axis=0)
        for at in np.flatnonzero(fails).tolist():
            row, place = int(board.row[at]), int(board.place[at])
            shown[place].fails.add(row)
            if not fewest[at]:
                shown[place].alone.add(row)
            elif shown[place].together and row not in shown[place].alone:
                self._near(board, shown, row, at, points[int(nearest[at])], kept[int(nearest[at])])

    def _applying(
        self, board: RowLayout, shown: Sequence[Shown], points: Float, kept: Bool, bad: Int
    ) -> None:
        """Note which implications apply where all rows are kept, and where few are not."""
        for bank, here in board.banks.items():
            for number, part in enumerate(self.parts[bank]):
                antecedent = without_time(part.antecedent)
                if antecedent is None or self.still[bank] is None:
                    continue
                applies = truth(antecedent, board.scope(bank, points))[0]
                missed = np.where(applies, bad[:, board.place[here]], board.row.size)
                for at, point, count in zip(
                    here.tolist(),
                    missed.argmin(axis=0).tolist(),
                    missed.min(axis=0).tolist(),
                    strict=True,
                ):
                    one, key = shown[int(board.place[at])], (int(board.row[at]), number)
                    if not count:
                        one.applies.add(key)
                    elif count < board.row.size and one.together and key not in one.applies:
                        self._near(board, shown, key, at, points[point], kept[point])

    def _near(
        self,
        board: RowLayout,
        shown: Sequence[Shown],
        key: int | tuple[int, int],
        at: int,
        point: Float,
        kept: Bool,
    ) -> None:
        """Store a point from which the search continues, and the rows that it must repair."""
        place = int(board.place[at])
        where = board.of[place]
        missed = [row for row in board.row[where][~kept[where]].tolist() if row != key]
        shown[place].near[key] = point[board.columns(place)], missed


def _wanted(rows: Sequence[int], shown: Shown, asked: Sequence[int]) -> list[_Wanted]:
    """What to try at a place: first to keep all rows, then to violate each row alone."""
    if shown.best is None and len(asked) > MANY:
        return [(None, 0, False)]
    at = {row: i for i, row in enumerate(rows)}
    found = [(shown.best, at[row], True) for row in shown.bad]
    if len(found) < FEW:
        found += [(shown.best, at[row], False) for row in asked]
    for key, (values, others) in shown.near.items():
        if key not in shown.alone and key not in shown.applies:
            found += [(values, at[other], True) for other in others[:REPAIRED]]
    return found


def _jobs(board: RowLayout, place: int, wanted: Sequence[_Wanted]) -> list[Job]:
    """The same on a board; from the middle of the box where no value has been tried."""
    middle, first = board.middle[board.columns(place)], board.of[place].start
    return [
        Job(start=middle if start is None else start, row=first + row, repair=repair)
        for start, row, repair in wanted
    ]


def _batches(wanted: Mapping[int, Sequence[_Wanted]], sizes: Sequence[int]) -> Iterator[list[int]]:
    """Places that are tried at once: about as many candidates are wanted of each, and they have not
    too many rows altogether.
    """
    batch: list[int] = []
    rows = 0
    for i in sorted((i for i, mine in wanted.items() if mine), key=lambda i: len(wanted[i])):
        most = 1 + TRIES * len(wanted[i])
        if batch and (rows + sizes[i]) * most > CELLS:
            yield batch
            batch, rows = [], 0
        batch.append(i)
        rows += sizes[i]
    if batch:
        yield batch
