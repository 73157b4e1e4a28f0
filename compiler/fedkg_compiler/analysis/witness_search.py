"""Values that are tried before the solver is asked: what one of them shows needs no proof.

A value that keeps all rows of a place shows that they go together; one that violates a row alone,
that no others imply it. Candidates are found by local search: each moves the variables of one row
to just this or just that side of where its comparisons change (the jumps of Luteberget and Sartor,
"Feasibility Jump", Mathematical Programming Computation 2023), from the best value so far. A
candidate is a trace on which nothing changes, so windows are as good as gone; what the interpreter
says of it decides.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedkg.pack.numeric.three_valued_logic import Bool, Float
from fedkg_compiler.analysis.bound_row_table import Keys, RowTable
from fedkg_compiler.analysis.bounds import Bounds, Int
from fedkg_compiler.analysis.formula_evaluation import truth
from fedkg_compiler.analysis.local_search_moves import Job, propose
from fedkg_compiler.analysis.negation_normal_form import implications, without_time
from fedkg_compiler.analysis.trial_point_layout import RowLayout

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
