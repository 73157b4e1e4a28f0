"""Rows that follow from one other row, by intervals.

Where the first row is violated, each column lies beyond a bound, and the second row is violated
too.

Letters: R rows of a bank, m pairs of rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from fedkg.pack import Call, ClassIn, Formula, Power
from fedkg.pack.numeric.three_valued_logic import Bool
from fedkg.pack.walk import ROWS, everywhere, is_temporal
from fedkg_compiler.analysis.bound_row_table import RowTable
from fedkg_compiler.analysis.bounds import Ends, ends_of
from fedkg_compiler.analysis.interval_truth import Sides, certain
from fedkg_compiler.analysis.negation_normal_form import comparisons


class Follows:
    """Rows that follow from others."""

    def __init__(self, table: RowTable) -> None:
        self.table = table
        self._spans = table.variables.spans()
        self._broken: dict[int, dict[int, dict[int, tuple[float, float]]]] = {}
        self._fit = [not bank.members and _is_known(bank.skeleton) for bank in table.banks]

    def givers(self, places: Sequence[Sequence[int]]) -> list[dict[int, list[int]]]:
        """For each place: for a row those of the others that are certainly violated wherever it is,
        the earliest first.
        """
        pairs: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
        for i, rows in enumerate(places):
            boxed = {row: set(box) for row in rows if (box := self._box(row))}
            reads = (
                self.table.all_reads([row for row in rows if self._fit[int(self.table.bank[row])]])
                if boxed
                else {}
            )
            readers: dict[int, list[int]] = defaultdict(list)
            for row, variables in reads.items():
                for variable in list(variables)[:1]:
                    readers[variable].append(row)
            for row, within in boxed.items():
                for other in (one for variable in within for one in readers[variable]):
                    if other != row and reads[other] <= within:
                        pairs[int(self.table.bank[row]), int(self.table.bank[other])].append(
                            (i, row, other)
                        )
        found: list[dict[int, list[int]]] = [defaultdict(list) for _ in places]
        for (_, bank), asked in pairs.items():
            for (i, row, other), sure in zip(
                asked, self._violated(bank, asked).tolist(), strict=True
            ):
                if sure:
                    found[i][row].append(other)
        return [{row: sorted(others) for row, others in here.items()} for here in found]

    def _box(self, row: int) -> dict[int, tuple[float, float]]:
        """The box where the row is violated, as a range per variable read; {} if the region is not
        a box.
        """
        bank = int(self.table.bank[row])
        if bank not in self._broken:
            self._broken[bank] = self._boxes(bank)
        return self._broken[bank].get(row, {})

    def _boxes(self, bank: int) -> dict[int, dict[int, tuple[float, float]]]:
        """The same of all rows of a bank."""
        ends = self._ends(bank)
        found: dict[int, dict[int, tuple[float, float]]] = defaultdict(dict)
        if ends is None:
            return found
        spans = self._spans[ends.variable].tolist()
        listed = (part.tolist() for part in (ends.row, ends.variable, ends.value, ends.sign))
        for row, variable, value, sign, span in zip(*listed, spans, strict=True):
            low, high = found[row].get(variable, span)
            found[row][variable] = (low, min(high, value)) if sign > 0 else (max(low, -value), high)
        return found

    def _ends(self, bank: int) -> Ends | None:
        """The bounds that hold where rows of a bank are violated.

        None if they are not a conjunction.
        """
        skeleton = self.table.banks[bank].skeleton
        parts = (
            None
            if self.table.banks[bank].members or is_temporal(skeleton)
            else comparisons(skeleton, positive=False)
        )
        found = None if parts is None else ends_of(parts, self.table, bank)
        if found is None:
            return None
        sides, single, _ = found
        whole = Ends.of(sides)
        return whole.take(single[whole.row - self.table.starts[bank]])

    def _violated(self, bank: int, asked: Sequence[tuple[int, int, int]]) -> Bool:
        """Whether each pair's second row, all of one bank, is certainly violated where the first
        is: bool [m].
        """
        readers, others = (
            self.table.readers[bank][ROWS],
            np.array([other for _, _, other in asked]) - self.table.starts[bank],
        )
        sides = np.zeros((2, len(asked), readers.variables.shape[1]))
        for k, (_, row, other) in enumerate(asked):
            box = self._box(row)
            for slot in readers.used:
                sides[:, k, slot] = box[
                    int(readers.variables[other - self.table.starts[bank], slot])
                ]
        low, high = sides + readers.shifts[others]
        return certain(
            self.table.banks[bank].skeleton,
            Sides(low=low, high=high, params=readers.params[others]),
        )[1]


def _is_known(skeleton: Formula) -> bool:
    """Whether the formula has a truth value, but for quotients, wherever all is known that it
    reads, and intervals can tell which.
    """
    return not is_temporal(skeleton) and not any(
        isinstance(part, ClassIn)
        or (isinstance(part, Call) and part.function in ("log", "sqrt", "tan"))
        or (isinstance(part, Power) and (part.exponent < 0 or not part.exponent.is_integer()))
        for _, part in everywhere(skeleton)
    )
