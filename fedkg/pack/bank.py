"""A bank: one skeleton and the typed columns of all its rows.

Letters: R rows, s slots of the skeleton, p parameters of the skeleton, k key columns; M members, P
owners of them; n rows or members.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, TypeAdapter

from fedkg.pack.formulas import Formula

FORMULA: TypeAdapter[Formula] = TypeAdapter(Formula, config=ConfigDict(defer_build=True))


def skeleton_hash(skeleton: Formula) -> str:
    """Content hash of a skeleton: banks of different packs with equal hashes can be
    concatenated.
    """
    return hashlib.sha256(FORMULA.dump_json(skeleton)).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableRows:
    """From which table rows members are read, if not all are read from that of their bank row.

    Attributes:
        own: whether each member is read from all table rows that its keys select; each of these
            table rows counts as one member. Otherwise from the table row of its owner.
        keys: int32 [M, k], as in a bank; [0, 0] without `own`.
        codes: int32 [M, k], as in a bank; [0, 0] without `own`.
        depths: int32 [s], the table row in which each slot is read: 0 that of the bank row, n that
            of the n-th member with its own table rows, counted from the bank row inwards.
    """

    own: bool
    keys: NDArray[np.int32]
    codes: NDArray[np.int32]
    depths: NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemberTable:
    """Sets of members, one for each owner, with the columns and numbers that terms over them read.

    Attributes:
        parent: the member table (position in `Bank.members`, before this one) with the P members
            that own these sets; -1 if the bank's R rows own them.
        offsets: int64 [P + 1]; the members of owner i are ``offsets[i]:offsets[i + 1]``.
        slots: int32 [M, s], the column behind each slot of a member, as in a bank.
        views: int32 [M, s], the view in which that column is read, as in a bank.
        params: float64 [M, p], the numbers of each member, as in a bank.
        table_rows: None if all slots are read in the table row of the bank row.
    """

    parent: int
    offsets: NDArray[np.int64]
    slots: NDArray[np.int32]
    views: NDArray[np.int32]
    params: NDArray[np.float64]
    table_rows: TableRows | None = None

    @property
    def count(self) -> int:
        """M."""
        return int(self.slots.shape[0])

    def take(self, owners: NDArray[np.int64]) -> tuple[MemberTable, NDArray[np.int64]]:
        """The table with the sets of these owners alone, and the positions of their members."""
        sizes = (self.offsets[1:] - self.offsets[:-1])[owners]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        kept = np.repeat(self.offsets[owners] - offsets[:-1], sizes) + np.arange(offsets[-1])
        return replace(self.take_members(kept), offsets=offsets), kept.astype(np.int64)

    def take_members(self, kept: NDArray[np.int64]) -> MemberTable:
        """The table with these members; `offsets` is left as it is."""
        at = self.table_rows
        if at is not None and at.own:
            at = replace(at, keys=at.keys[kept], codes=at.codes[kept])
        return replace(
            self,
            slots=self.slots[kept],
            views=self.views[kept],
            params=self.params[kept],
            table_rows=at,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bank:
    """Constraints of one shape.

    Attributes:
        skeleton: the formula, over slots and parameters.
        slots: int32 [R, s], the column (position in the contract) behind each slot.
        views: int32 [R, s], the view (position in the contract) in which that column is read.
        params: float64 [R, p], the row's numbers, in the unit of their comparison.
        keys: int32 [R, k], category columns that select the table rows this bank row is about; -1
            where a row has fewer keys.
        codes: int32 [R, k], the code each key column must have.
        weight: float64 [R], the rule's weight shared by its rows.
        rule: int32 [R], position in the pack's rules.
        entity: int32 [R], position in the pack's entities (labels of what the row is about; "" for
            none).
        unit: int32 [R], position in the pack's units: the unit of the row's robustness ("" when its
            comparisons have several).
        members: the sets that `Reduce` and `AtLeast` range over.
    """

    skeleton: Formula
    slots: NDArray[np.int32]
    views: NDArray[np.int32]
    params: NDArray[np.float64]
    keys: NDArray[np.int32]
    codes: NDArray[np.int32]
    weight: NDArray[np.float64]
    rule: NDArray[np.int32]
    entity: NDArray[np.int32]
    unit: NDArray[np.int32]
    members: tuple[MemberTable, ...] = ()

    @property
    def rows(self) -> int:
        """R, the number of bound constraints."""
        return int(self.rule.shape[0])

    @property
    def reads_other_rows(self) -> bool:
        """Whether a verdict depends on other table rows than its own."""
        return any(table.table_rows is not None for table in self.members)

    @property
    def hash(self) -> str:
        """The skeleton's content hash."""
        return skeleton_hash(self.skeleton)

    def take(self, rows: NDArray[np.int64]) -> Bank:
        """The bank with the rows at these positions alone."""
        columns = {name: array[rows] for name, array in self.tensors().items()}
        members = _take_members(self.members, rows)
        # each array keeps its type
        return replace(self, **columns, members=members)  # type: ignore[arg-type]

    def tensors(self) -> dict[str, NDArray[np.generic]]:
        """The columns with one entry for each row, by name, as in a pack file."""
        return {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in ("skeleton", "members")
        }


def _take_members(
    members: Sequence[MemberTable], rows: NDArray[np.int64]
) -> tuple[MemberTable, ...]:
    taken: list[MemberTable] = []
    kept: list[NDArray[np.int64]] = []
    for table in members:
        part, positions = table.take(rows if table.parent < 0 else kept[table.parent])
        taken.append(part)
        kept.append(positions)
    return tuple(taken)


Ints = NDArray[np.int32]


def reads(bank: Bank) -> Iterator[tuple[Ints, Ints, NDArray[np.int64]]]:
    """Columns and views int32 [n, s], and the bank row int64 [n] for which they are read: the rows
    themselves, then each member table.
    """
    yield bank.slots, bank.views, np.arange(bank.rows)
    owners: list[NDArray[np.int64]] = []
    for table in bank.members:
        above = np.arange(bank.rows) if table.parent < 0 else owners[table.parent]
        owners.append(np.repeat(above, np.diff(table.offsets)))
        yield table.slots, table.views, owners[-1]


def columns_read(bank: Bank) -> Iterator[tuple[Ints, NDArray[np.int64]]]:
    """Columns int32 [n, s], -1 for none, and the bank row int64 [n] for which they are read: those
    of `reads`, and the keys of rows and members.
    """
    yield bank.keys, np.arange(bank.rows)
    for i, (columns, _, rows) in enumerate(reads(bank)):
        yield columns, rows
        at = bank.members[i - 1].table_rows if i else None
        if at is not None and at.own:
            yield at.keys, rows


def rows_that(bank: Bank, wanted: Iterator[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """bool [R]: rows where any entry of `wanted` [n, s] is true, one array for each part of
    `reads`.
    """
    out = np.zeros(bank.rows, dtype=np.bool_)
    for (_, _, rows), flags in zip(reads(bank), wanted, strict=True):
        out[rows[flags.any(axis=1)]] = True
    return out
