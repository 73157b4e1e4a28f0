"""All bound rows of a pack in one numbering, with the variables they read and the table rows they are about.

Letters: N bound rows of all banks, R rows of a bank, s slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Bank, Formula, Pack
from fedkg.pack.walk import ROWS, indices
from fedkg_compiler.reason.variables import Variables
from fedkg_compiler.reason.verdict import RowRef

Keys = tuple[tuple[int, int], ...]
"""What selects table rows: (column, code) pairs, sorted; () selects all."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Readers:
    """The readings of the rows of a bank, or of the members of a set: variables and shifts [R, s], numbers [R, p]."""

    variables: NDArray[np.int64]
    shifts: NDArray[np.float64]
    params: NDArray[np.float64]
    used: tuple[int, ...]


class RowTable:
    """Bound rows, numbered through all banks.

    Attributes:
        starts: the number of each bank's first row. rule, entity, bank, keyset: int64 [N].
        keysets: the distinct selections of table rows; `keyset` are positions in it.
        readers: for each bank those of its rows and of its member tables, by table (-1: the rows).
    """

    def __init__(self, pack: Pack, banks: Sequence[Bank] | None = None, variables: Variables | None = None) -> None:
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

    @property
    def count(self) -> int:
        """N."""
        return int(self.rule.shape[0])

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

    def rule_name(self, row: int) -> str:
        """The name of a row's rule."""
        return self.pack.manifest.rules[int(self.rule[row])].name

    def entity_name(self, row: int) -> str:
        """What a row is about: its entity, else the texts of its keys."""
        name = self.pack.manifest.entities[int(self.entity[row])]
        return name or self.keys_name(self.keysets[int(self.keyset[row])])

    def keys_name(self, keys: Keys) -> str:
        """``M07``, ``M07, H``."""
        columns = self.pack.manifest.contract.columns
        return ", ".join(columns[column].vocabulary[code] if code < len(columns[column].vocabulary) else str(code) for column, code in keys)

    def reads(self, row: int) -> set[int]:
        """The variables that a row reads, its members included."""
        bank = int(self.bank[row])
        index, found = int(row - self.starts[bank]), set()
        for table, readers in self.readers[bank].items():
            places = self.members(bank, table, index) if table != ROWS else slice(index, index + 1)
            found.update(readers.variables[places][:, list(readers.used)].ravel().tolist())
        return found

    def all_reads(self, rows: Sequence[int]) -> dict[int, set[int]]:
        """The variables that rows read, by row."""
        found: dict[int, set[int]] = {}
        wanted = np.asarray(rows, dtype=np.int64)
        for number, bank in enumerate(self.banks):
            here = wanted[self.bank[wanted] == number]
            if bank.members:
                found.update({row: self.reads(row) for row in here.tolist()})
                continue
            readers = self.readers[number][ROWS]
            variables = readers.variables[here - self.starts[number]][:, list(readers.used)]
            found.update({row: set(line) for row, line in zip(here.tolist(), variables.tolist(), strict=True)})
        return found

    def repeated(self, bank: int) -> dict[int, int]:
        """Rows of a bank that say to the letter what an earlier rule says of the same table rows: by number, the row that says it."""
        if self.banks[bank].members:
            return {}
        readers, start = self.readers[bank][ROWS], int(self.starts[bank])
        used, numbers = list(readers.used), sorted(indices(self.banks[bank].skeleton)[1].get(ROWS, ()))
        first: dict[tuple[object, ...], int] = {}
        found: dict[int, int] = {}
        for i in np.argsort(self.rule[start : start + self.banks[bank].rows], kind="stable").tolist():
            texts = (readers.variables[i, used].tobytes(), readers.shifts[i, used].tobytes(), readers.params[i, numbers].tobytes())
            earlier = first.setdefault((int(self.keyset[start + i]), *texts), start + i)
            if self.rule[earlier] != self.rule[start + i]:
                found[start + i] = earlier
        return found

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
        distinct, where = np.unique(pairs, axis=0, return_inverse=True)
        width = bank.keys.shape[1]
        ids = []
        for line in distinct.tolist():
            keys = tuple(sorted((column, code) for column, code in zip(line[:width], line[width:], strict=True) if column >= 0))
            ids.append(self._keyset(keys))
        return np.array(ids, dtype=np.int64)[where.ravel()]

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
            found[table] = Readers(variables=variables, shifts=shifts, params=source.params, used=used)
        return found


def _joined(arrays: Sequence[NDArray[np.generic]]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, dtype=np.int64), *arrays]).astype(np.int64)
