"""Rows that say the same of the same values but for their numbers: which of them ask for no more
than another does.

Letters: R rows of a bank, m rows at a place, p parameters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fedkg.pack import Call, CategoryIs, Formula, Param, Power, Quotient, Reduce, Term
from fedkg.pack.formulas import ROWS, Sign, everywhere, indices
from fedkg.pack.numeric.intervals import Interval, Ranges
from fedkg_compiler.analysis.single_column_bounds import Float, Int, Readers, RowTable
from fedkg_compiler.formulas.relaxation_direction import direction


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BankRanges:
    """What slots and parameters of a bank, or of a member table of it, can be inside the declared
    spans.
    """

    table: RowTable
    bank: int
    number: int = ROWS

    @property
    def count(self) -> int:
        """R."""
        return int(self._readers.params.shape[0])

    @property
    def _readers(self) -> Readers:
        return self.table.readers[self.bank][self.number]

    def slot(self, index: int) -> Interval:
        """The spans of what is read."""
        low, high = self.table.variables.spans()[self._readers.variables[:, index]].T
        return low + self._readers.shifts[:, index], high + self._readers.shifts[:, index]

    def param(self, index: int) -> Interval:
        """The number itself, twice."""
        return self._readers.params[:, index], self._readers.params[:, index]

    def members(self, table: int) -> tuple[Ranges, Int]:
        """Those of a member table, and the owners' offsets."""
        return BankRanges(table=self.table, bank=self.bank, number=table), self.table.banks[
            self.bank
        ].members[table].offsets


class Tighter:
    """Compares rows by their numbers."""

    def __init__(self, table: RowTable) -> None:
        self.table = table
        self._signs: dict[int, Float | None] = {}
        self._read: dict[int, tuple[Int, Float, Float]] = {}

    def givers(self, rows: Sequence[int]) -> dict[int, list[int]]:
        """For each row those of the others that are violated wherever it is, by their numbers
        alone, the earliest first.
        """
        groups: dict[object, list[int]] = defaultdict(list)
        by_bank: dict[int, list[int]] = defaultdict(list)
        for row in rows:
            by_bank[int(self.table.bank[row])].append(row)
        for bank, here in by_bank.items():
            signs = self._way(bank) if len(here) > 1 else None
            if signs is not None:
                for row in here:
                    groups[bank, self._letters(bank, row, signs)].append(row)
        found: dict[int, list[int]] = {}
        for alike in (alike for alike in groups.values() if len(alike) > 1):
            bank = int(self.table.bank[alike[0]])
            signs = self._way(bank)
            assert signs is not None
            asks = self._params(bank)[np.array(alike) - self.table.starts[bank]] * -np.nan_to_num(
                signs
            )
            implies = (asks[:, None] >= asks[None]).all(axis=2)
            for i, row in enumerate(alike):
                if others := [alike[j] for j in np.flatnonzero(implies[:, i]).tolist() if j != i]:
                    found[row] = others
        return found

    def _params(self, bank: int) -> Float:
        return self.table.readers[bank][ROWS].params

    def _letters(self, bank: int, row: int, signs: Float) -> object:
        """A key that is equal for rows of a bank that differ only in parameters with a known
        direction.
        """
        index = int(row - self.table.starts[bank])
        if bank not in self._read:
            readers = self.table.readers[bank][ROWS]
            used = list(readers.used)
            self._read[bank] = (
                readers.variables[:, used],
                readers.shifts[:, used],
                readers.params[:, np.isnan(signs)],
            )
        own = tuple(part[index].tobytes() for part in self._read[bank])
        return own if not self.table.banks[bank].members else (own, self._of_members(bank, index))

    def _of_members(self, bank: int, index: int) -> object:
        found: list[object] = []
        for number, readers in self.table.readers[bank].items():
            if number != ROWS:
                where, used = self.table.members(bank, number, index), list(readers.used)
                found.append(readers.variables[where][:, used].tobytes())
                found.append(
                    (readers.shifts[where][:, used].tobytes(), readers.params[where].tobytes())
                )
                found.append(self.table.member_sizes(bank, number, index))
        return tuple(found)

    def _way(self, bank: int) -> Float | None:
        """For each parameter 1 where more is easier to satisfy, -1 harder, 0 the same, NaN where
        equal ones alone can be compared.

        float64 [p]; None of a formula with windows.
        """
        if bank not in self._signs:
            skeleton = self.table.banks[bank].skeleton
            timed = any(part.step_params() for _, part in everywhere(skeleton))
            self._signs[bank] = None if timed else self._directions(bank, skeleton)
        return self._signs[bank]

    def _directions(self, bank: int, skeleton: Formula) -> Float:
        fixed, ranges = _fixed(skeleton), BankRanges(table=self.table, bank=bank)
        used = indices(skeleton)[1].get(ROWS, frozenset())
        found = np.zeros(self._params(bank).shape[1])
        for param in used:
            sign: Sign = None if param in fixed else direction(skeleton, param, ranges)
            found[param] = np.nan if sign is None else sign
        return found


def _fixed(skeleton: Formula) -> set[int]:
    """Parameters that decide of what a formula speaks, or whether it is known: codes of texts, and
    what may leave a function's range.
    """
    found: set[int] = set()
    for table, part in everywhere(skeleton):
        match part:
            case CategoryIs() if table == ROWS:
                found.add(part.param)
            case Quotient():
                found |= _inside([part.denominator], table)
            case Power():
                found |= _inside([part.base], table)
            case Call() if part.function in ("log", "sqrt", "tan"):
                found |= _inside(part.args, table)
            case Reduce():
                found |= _inside([part.arg], table)
            case _:
                pass
    return found


def _inside(terms: Iterable[Term], table: int) -> set[int]:
    return {
        part.index
        for term in terms
        for where, part in everywhere(term, table)
        if where == ROWS and isinstance(part, Param)
    }
