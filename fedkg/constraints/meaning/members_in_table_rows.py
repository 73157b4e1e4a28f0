"""Members that are read from other table rows: one member for each table row that its keys select.

Letters: R rows of a bank, B table rows, M members of a table, E members after each is repeated for
its table rows, D nested sets with their own table rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedkg.pack.bank import Bank, MemberTable

Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TableMembers:
    """A member table of E members, and the table rows that they are read from.

    Attributes:
        table: the members.
        rows: int64 [D, E], the table row of each member, and before it those of the members around
            it, from the bank row inwards.
    """

    table: MemberTable
    rows: Index


def find_matching_rows(
    keys: NDArray[np.int32], codes: NDArray[np.int32], table: NDArray[np.float64]
) -> list[Index]:
    """The positions of the table rows that each row of `keys` and `codes` [M, k] selects.

    `table`: float64 [B, C].
    """
    pairs, which = np.unique(np.concatenate([keys, codes], axis=1), axis=0, return_inverse=True)
    found: list[Index] = []
    for pair in pairs:
        matching = np.ones(table.shape[0], dtype=np.bool_)
        for key, code in zip(*np.split(pair, 2), strict=True):
            if key >= 0:
                matching &= table[:, key] == code
        found.append(np.flatnonzero(matching))
    return [found[i] for i in which.ravel().tolist()]


def repeat_members(bank: Bank, table: NDArray[np.float64]) -> tuple[TableMembers, ...]:
    """The member tables of a bank with each member repeated for its rows of `table` [B, C]."""
    found: list[TableMembers] = []
    sources: list[Index] = []
    for members in bank.members:
        if members.parent < 0:
            owners, around = np.arange(bank.rows), np.zeros((0, bank.rows), dtype=np.int64)
        else:
            owners, around = sources[members.parent], found[members.parent].rows
        part, source = members.take(owners)
        owner = np.repeat(np.arange(owners.size), np.diff(part.offsets))
        rows = around[:, owner]
        if part.table_rows is not None and part.table_rows.own:
            selected = find_matching_rows(part.table_rows.keys, part.table_rows.codes, table)
            repeated = np.repeat(np.arange(part.count), [own.size for own in selected])
            own_rows = np.concatenate([np.zeros(0, dtype=np.int64), *selected])
            part = replace(
                part.take_members(repeated), offsets=_offsets(owner[repeated], owners.size)
            )
            rows, source = np.vstack([rows[:, repeated], own_rows]), source[repeated]
        found.append(TableMembers(part, rows))
        sources.append(source)
    return tuple(found)


def _offsets(owner: Index, count: int) -> Index:
    return np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))]).astype(np.int64)


def group_equal_keys(bank: Bank) -> list[Index]:
    """The positions of the bank rows that select the same table rows."""
    selected = np.concatenate([bank.keys, bank.codes], axis=1)
    which = np.unique(selected, axis=0, return_inverse=True)[1].ravel()
    return [np.flatnonzero(which == i) for i in range(int(which.max(initial=-1)) + 1)]


def reads_own_row(bank: Bank) -> bool:
    """Whether anything is read in the table row for which a verdict is asked."""
    return bool(bank.slots.shape[1]) or any(
        bool(table.slots.shape[1])
        if table.table_rows is None
        else bool((table.table_rows.depths == 0).any())
        for table in bank.members
    )


def gather_values(
    values: NDArray[np.float64], at: Index, members: TableMembers
) -> NDArray[np.float64]:
    """What members read of `values` [V, B, C] for the table rows `at` [P]: [s, P, E]."""
    table = members.table
    depths: Sequence[int] = (
        [0] * table.slots.shape[1] if table.table_rows is None else table.table_rows.depths.tolist()
    )
    shape = (at.size, table.count)
    read = [
        np.broadcast_to(
            values[view, members.rows[depth - 1] if depth else at[:, None], column], shape
        )
        for depth, view, column in zip(depths, table.views.T, table.slots.T, strict=True)
    ]
    return np.stack(read) if read else np.zeros((0, *shape))
