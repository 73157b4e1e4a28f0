"""All bound rows of a pack in one numbering, with the variables they read and the table rows they
are about.

Letters: N bound rows of all banks, R rows of a bank, s slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Bank, Compare, DataContract, Formula, Pack
from fedkg.pack.walk import ROWS, everywhere, indices, is_temporal
from fedkg_compiler.analysis.verdict import RowRef
from fedkg_compiler.formulas.formula_algebra import at_any_step


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One unknown.

    Attributes:
        name: the name in messages: ``torque``, ``previous torque``.
        type: the type of the values.
        span: the smallest and largest declared value; infinite if none is declared.
        unit: the unit of the values.
        codes: the number of texts that a category knows; other texts have the code -1.
        readings: (view, column, shift) of each reading of the variable: the value read there is
            that of the variable plus the shift.
    """

    name: str
    type: Literal["real", "boolean", "category", "score"]
    span: tuple[float, float]
    unit: str
    codes: int
    readings: tuple[tuple[int, int, float], ...]


class Variables:
    """The variables of a contract, numbered as they are met.

    A column read in two views, or two columns read from one header, are one variable where their
    values cannot differ: rules, shapes and queries meet in it. Raised inputs are the base value
    plus the view's delta; previous rows and predictions in other views are separate variables.
    """

    def __init__(self, contract: DataContract) -> None:
        self.contract = contract
        self.items: list[Variable] = []
        self._by_key: dict[object, int] = {}
        self._by_place: dict[tuple[int, int], tuple[int, float]] = {}

    def number(
        self, views: NDArray[np.int32], columns: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The variables behind readings, and by how much each reading is shifted from it.

        Both in the shape of the arguments.
        """
        if not views.size:
            return np.zeros(views.shape, dtype=np.int64), np.zeros(views.shape)
        code = (
            views.astype(np.int64).ravel() * len(self.contract.columns)
            + columns.astype(np.int64).ravel()
        )
        distinct, where = np.unique(code, return_inverse=True)
        places = [self.place(*divmod(int(each), len(self.contract.columns))) for each in distinct]
        ids = np.array([variable for variable, _ in places], dtype=np.int64)[where]
        shifts = np.array([shift for _, shift in places])[where]
        return ids.reshape(views.shape), shifts.reshape(views.shape)

    def place(self, view: int, column: int) -> tuple[int, float]:
        """The variable behind one reading, and the shift."""
        if (view, column) not in self._by_place:
            self._by_place[view, column] = self._new(view, column)
        return self._by_place[view, column]

    def _new(self, view: int, column: int) -> tuple[int, float]:
        entry, reading = self.contract.columns[column], self.contract.views[view]
        shift = 0.0
        when: tuple[object, ...] | None = None
        if reading.kind == "previous":
            when = ("previous", reading.groups)
        elif reading.kind == "raised" and entry.role == "output":
            when = ("raised", view)
        elif reading.kind == "raised" and reading.column == column:
            shift = reading.delta
        number = entry.type in ("real", "boolean")
        same: object = (entry.source, entry.unit, entry.role) if number else column
        span = entry.span or (-np.inf, np.inf)
        if entry.type == "boolean":
            span = (0.0, 1.0)
        known = self._by_key.get((same, when))
        if known is None:
            self._by_key[same, when] = known = len(self.items)
            name = entry.name if when is None else self._name(view, column)
            readings = ((view, column, shift),)
            self.items.append(
                Variable(
                    name=name,
                    type=entry.type,
                    span=span,
                    unit=entry.unit,
                    codes=len(entry.vocabulary),
                    readings=readings,
                )
            )
            return known, shift
        old = self.items[known]
        narrower = (max(old.span[0], span[0]), min(old.span[1], span[1]))
        self.items[known] = replace(
            old, span=narrower, readings=(*old.readings, (view, column, shift))
        )
        return known, shift

    def _name(self, view: int, column: int) -> str:
        if self.contract.views[view].kind == "previous":
            return f"previous {self.contract.columns[column].name}"
        raised = self.contract.views[view].column
        other = "" if raised is None else self.contract.columns[raised].name
        return f"{self.contract.columns[column].name} with higher {other}"

    def spans(self) -> NDArray[np.float64]:
        """Declared spans of all variables so far: float64 [variables, 2]."""
        return np.array([variable.span for variable in self.items], dtype=np.float64).reshape(-1, 2)


MOST_COMPARISONS = 300
"""Comparisons in a rule that is looked at: the analysis of larger ones takes minutes."""

Keys = tuple[tuple[int, int], ...]
"""What selects table rows: (column, code) pairs, sorted; () selects all."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Readers:
    """The readings of the rows of a bank, or of the members of a set: variables and shifts [R, s],
    numbers [R, p].
    """

    variables: NDArray[np.int64]
    shifts: NDArray[np.float64]
    params: NDArray[np.float64]
    used: tuple[int, ...]


class RowTable:
    """Bound rows, numbered through all banks.

    Attributes:
        starts: int64, the number of the first row of each bank, and N at the end.
        rule: int64 [N], the position of each row's rule in the pack.
        entity: int64 [N], the position of each row's entity in the pack.
        bank: int64 [N], the position of each row's bank.
        keysets: the distinct selections of table rows.
        keyset: int64 [N], the position of each row's selection in `keysets`.
        readers: for each bank, what its rows and the members of its tables read, by number of the
            member table (-1: the rows).
    """

    def __init__(
        self, pack: Pack, banks: Sequence[Bank] | None = None, variables: Variables | None = None
    ) -> None:
        self.pack = pack
        self.banks = tuple(pack.banks if banks is None else banks)
        self.variables = Variables(pack.manifest.contract) if variables is None else variables
        counts = [bank.rows for bank in self.banks]
        self.starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.rule = _joined([bank.rule for bank in self.banks])
        self.entity = _joined([bank.entity for bank in self.banks])
        self.bank = np.repeat(np.arange(len(counts)), counts).astype(np.int64)
        self.keysets: list[Keys] = []
        self._known: dict[Keys, int] = {}
        self.keyset = _joined([self._keys(bank) for bank in self.banks])
        self.readers = [self._readers(bank) for bank in self.banks]
        self._timed = [is_temporal(bank.skeleton) for bank in self.banks]
        self._repeated: dict[int, dict[int, int]] = {}

    @property
    def count(self) -> int:
        """N."""
        return int(self.rule.shape[0])

    def too_large(self) -> NDArray[np.bool_]:
        """Which rows have more than `MOST_COMPARISONS` comparisons: bool [N]."""
        large = [
            sum(isinstance(node, Compare) for _, node in everywhere(bank.skeleton))
            > MOST_COMPARISONS
            for bank in self.banks
        ]
        return np.array(large, dtype=np.bool_)[self.bank]

    def ref(self, row: int) -> RowRef:
        """Bank and row of a row's number."""
        bank = int(self.bank[row])
        return RowRef(bank, int(row - self.starts[bank]))

    def skeleton(self, row: int) -> Formula:
        """What a row's bank says."""
        return self.banks[int(self.bank[row])].skeleton

    def param(self, row: int, index: int) -> float:
        """One of a row's numbers."""
        bank = int(self.bank[row])
        return float(self.banks[bank].params[int(row - self.starts[bank]), index])

    def at_any_step(self, row: int) -> Formula:
        """The formula that a row requires at each step: without an outermost `always` from now
        on.
        """
        return (
            self.skeleton(row)
            if not self.is_timed(row)
            else at_any_step(self.skeleton(row), lambda window: self.param(row, window.low) == 0)
        )

    def rule_name(self, row: int) -> str:
        """The name of a row's rule."""
        return self.pack.manifest.rules[int(self.rule[row])].name

    def is_hard(self, row: int) -> bool:
        """Whether a row's rule is hard."""
        return self.pack.manifest.rules[int(self.rule[row])].hard

    def entity_name(self, row: int) -> str:
        """What a row is about: its entity, else the texts of its keys."""
        name = self.pack.manifest.entities[int(self.entity[row])]
        return name or self.keys_name(self.keysets[int(self.keyset[row])])

    def keys_name(self, keys: Keys) -> str:
        """``M07``, ``M07, H``."""
        columns = self.pack.manifest.contract.columns
        return ", ".join(
            columns[column].vocabulary[code]
            if code < len(columns[column].vocabulary)
            else str(code)
            for column, code in keys
        )

    def is_timed(self, row: int) -> bool:
        """Whether a row has windows."""
        return self._timed[int(self.bank[row])]

    def reads(self, row: int) -> set[int]:
        """The variables that a row reads, its members included."""
        return self._reads[row]

    def all_reads(self, rows: Sequence[int]) -> dict[int, set[int]]:
        """The variables that rows read, by row."""
        reads = self._reads
        return {row: reads[row] for row in rows}

    @cached_property
    def order(self) -> list[int]:
        """The position of each row in the order of the rules."""
        found: list[int] = np.argsort(np.argsort(self.rule, kind="stable")).tolist()
        return found

    @cached_property
    def _reads(self) -> list[set[int]]:
        found: list[set[int]] = []
        for number, bank in enumerate(self.banks):
            lines: list[set[int]] = [set() for _ in range(bank.rows)]
            for table, readers in self.readers[number].items():
                variables = readers.variables[:, list(readers.used)].tolist()
                for i, line in enumerate(lines):
                    if table == ROWS:
                        line.update(variables[i])
                    else:
                        line.update(*variables[self.members(number, table, i)])
            found += lines
        return found

    def duplicate_rows(self, bank: int) -> dict[int, int]:
        """Rows of a bank that say to the letter what an earlier rule says of the same table rows:
        by number, the row that says it.
        """
        if bank not in self._repeated:
            self._repeated[bank] = (
                {}
                if self.banks[bank].members or not self.banks[bank].rows
                else self._repetitions(bank)
            )
        return self._repeated[bank]

    def _repetitions(self, bank: int) -> dict[int, int]:
        readers, start = self.readers[bank][ROWS], int(self.starts[bank])
        used, numbers = (
            list(readers.used),
            sorted(indices(self.banks[bank].skeleton)[1].get(ROWS, ())),
        )
        here = slice(start, start + self.banks[bank].rows)
        said = [readers.shifts[:, used], readers.params[:, numbers]]
        letters = [
            self.keyset[here, None],
            readers.variables[:, used],
            *(np.ascontiguousarray(part).view(np.int64) for part in said),
        ]
        _, group = np.unique(np.concatenate(letters, axis=1), axis=0, return_inverse=True)
        order = np.lexsort((self.rule[here], group.ravel()))
        first = order[np.searchsorted(group.ravel()[order], group.ravel())]
        others = np.flatnonzero(self.rule[here] != self.rule[here][first])
        return dict(zip((start + others).tolist(), (start + first[others]).tolist(), strict=True))

    def member_sizes(self, bank: int, table: int, row: int) -> tuple[int, ...]:
        """How many members each owner has that belongs to a row of the bank."""
        entry = self.banks[bank].members[table]
        owners = slice(row, row + 1) if entry.parent < 0 else self.members(bank, entry.parent, row)
        return tuple(np.diff(entry.offsets[owners.start : owners.stop + 1]).tolist())

    def members(self, bank: int, table: int, row: int) -> slice:
        """Which rows of a member table belong to a row of the bank."""
        entry = self.banks[bank].members[table]
        owners = slice(row, row + 1) if entry.parent < 0 else self.members(bank, entry.parent, row)
        return slice(int(entry.offsets[owners.start]), int(entry.offsets[owners.stop]))

    def _keys(self, bank: Bank) -> NDArray[np.int64]:
        if not bank.keys.shape[1] or not bank.rows:
            return np.full(bank.rows, self._keyset(()), dtype=np.int64)
        pairs = np.concatenate([bank.keys, bank.codes], axis=1)
        first, where = _distinct(pairs)
        width = bank.keys.shape[1]
        ids = []
        for line in pairs[first].tolist():
            pairs_of = zip(line[:width], line[width:], strict=True)
            keys = tuple(sorted([pair for pair in pairs_of if pair[0] >= 0]))
            ids.append(self._keyset(keys))
        return np.array(ids, dtype=np.int64)[where]

    def _keyset(self, keys: Keys) -> int:
        if keys not in self._known:
            self._known[keys] = len(self.keysets)
            self.keysets.append(keys)
        return self._known[keys]

    def _readers(self, bank: Bank) -> dict[int, Readers]:
        slots, params = indices(bank.skeleton)
        found: dict[int, Readers] = {}
        for table in sorted({*slots, *params}):
            source = bank if table == ROWS else bank.members[table]
            variables, shifts = self.variables.number(source.views, source.slots)
            used = tuple(sorted(slots.get(table, ())))
            found[table] = Readers(
                variables=variables, shifts=shifts, params=source.params, used=used
            )
        return found


def _distinct(lines: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The positions of the distinct lines, sorted, and which of them each line is.

    `np.unique` along an axis, which compares lines as bytes, takes ten times as long.
    """
    first = where = np.zeros(len(lines), dtype=np.int64)
    for column in lines.T:
        _, codes = np.unique(column, return_inverse=True)
        _, first, where = np.unique(
            where * (codes.max() + 1) + codes, return_index=True, return_inverse=True
        )
    return first, where


def _joined(arrays: Sequence[NDArray[np.generic]]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, dtype=np.int64), *arrays]).astype(np.int64)
