"""What the terms over the rows of a bank, and over the members of their sets, read: which column in
which view, as data or as prediction.

Letters: R rows of a bank, M members, s slots that are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.pack.bank import Bank, MemberTable
from fedkg.pack.contract import Column, DataContract
from fedkg.pack.formulas import ROWS, CategoryIs, ClassIn, Formula, Slot, everywhere, used_slots
from fedkg.pack.pack import Pack

Index = NDArray[np.int64]

Cell = tuple[int, int, bool]
"""View, column, and whether it is the model's word (else data)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableReads:
    """The reads of each of the M rows of one table (the bank's rows, or the members of a set).

    Attributes:
        table: -1 for the bank's rows, otherwise the position of the member table.
        used: the s slots of the skeleton that are read.
        output: for each of these slots, whether it reads the model's prediction instead of data.
        views: int64 [s, M], the contract view in which each slot reads.
        columns: int64 [s, M], the contract column that each slot reads.
        root: int64 [M], the bank row to which each row of the table belongs.
    """

    table: int
    used: tuple[int, ...]
    output: tuple[bool, ...]
    views: Index
    columns: Index
    root: Index

    def cells(self) -> set[Cell]:
        """All that is read."""
        found: set[Cell] = set()
        for views, columns, output in zip(self.views, self.columns, self.output, strict=True):
            pairs = np.unique(np.stack([views, columns]), axis=1)
            found |= {(int(view), int(column), output) for view, column in pairs.T}
        return found

    def index(self, where: dict[Cell, int]) -> tuple[Index, Index]:
        """Which input numbers and which output numbers each row reads: [inputs, M] and [outputs,
        M].
        """
        rows = [
            [
                where[view, column, output]
                for view, column in zip(views.tolist(), columns.tolist(), strict=True)
            ]
            for views, columns, output in zip(self.views, self.columns, self.output, strict=True)
        ]
        index = np.array(rows, dtype=np.int64).reshape(len(self.used), self.views.shape[1])
        output = np.array(self.output, dtype=np.bool_)
        return index[~output], index[output]

    @property
    def slots(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The slots that are data, and those that are the model's word."""
        pairs = list(zip(self.used, self.output, strict=True))
        return tuple(slot for slot, out in pairs if not out), tuple(
            slot for slot, out in pairs if out
        )


def bank_reads(bank: Bank, contract: DataContract) -> tuple[TableReads, ...]:
    """The reads of a bank's rows, then of each member table, then of what selects their table
    rows.
    """
    roots = [np.arange(bank.rows, dtype=np.int64)]
    for table in bank.members:
        roots.append(np.repeat(roots[table.parent + 1], np.diff(table.offsets)))
    tables: Sequence[Bank | MemberTable] = (bank, *bank.members)
    found = [
        _table_reads(bank.skeleton, i + ROWS, table, roots[i], contract)
        for i, table in enumerate(tables)
    ]
    if bank.reads_other_rows:
        selections = [bank.keys] + [
            np.zeros((0, 0), dtype=np.int32) if table.table_rows is None else table.table_rows.keys
            for table in bank.members
        ]
        for i, keys in enumerate(selections):
            found += [_key_reads(i + ROWS, column, roots[i]) for column in keys.T]
    return tuple(found)


def _key_reads(at: int, column: NDArray[np.int32], root: Index) -> TableReads:
    """The reads of one key column, [M], -1 for rows without this key."""
    keyed = np.flatnonzero(column >= 0)
    return TableReads(
        table=at,
        used=(0,),
        output=(False,),
        views=np.zeros((1, keyed.size), dtype=np.int64),
        columns=column[None, keyed].astype(np.int64),
        root=root[keyed],
    )


def categories_read(pack: Pack) -> tuple[Column, ...]:
    """The categories that rules select their rows by, or ask for in a formula (``variant is "M"``),
    in the order of the contract.
    """
    contract = pack.manifest.contract
    keys = {int(key) for bank in pack.banks for key in np.unique(bank.keys) if key >= 0}
    cells = {
        cell
        for bank in pack.banks
        for table in bank_reads(bank, contract)
        for cell in table.cells()
    }
    asked = keys | {column for _, column, output in cells if not output}
    return tuple(
        column
        for at, column in enumerate(contract.columns)
        if at in asked and column.type == "category"
    )


def _table_reads(
    skeleton: Formula, at: int, table: Bank | MemberTable, root: Index, contract: DataContract
) -> TableReads:
    used = tuple(sorted(used_slots(skeleton, at)))
    roles: dict[int, bool] = {}
    for where, part in everywhere(skeleton):
        if where == at and isinstance(part, Slot):
            roles[part.index] = part.role == "output"
        elif where == at and isinstance(part, ClassIn):
            roles |= dict.fromkeys((*part.inside, *part.outside), True)
        elif where == at and isinstance(part, CategoryIs):
            roles[part.slot] = False
    for slot in used:  # asked for with `Known` alone: what the column is
        if slot not in roles:
            roles[slot] = (
                bool(root.size) and contract.columns[int(table.slots[0, slot])].role == "output"
            )
    return TableReads(
        table=at,
        used=used,
        output=tuple(roles[slot] for slot in used),
        views=table.views[:, used].T.astype(np.int64),
        columns=table.slots[:, used].T.astype(np.int64),
        root=root,
    )
