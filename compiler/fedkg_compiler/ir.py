"""The columns of one rule's bank rows while its formula is built.

Letter: R rows.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Param, Role, Slot


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotColumn:
    """The contents of one slot: ids [R] of columns and of views."""

    columns: NDArray[np.int64]
    views: NDArray[np.int64]
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Codes:
    """A parameter that is the code of a text, known when all texts are: column ids [R] and texts
    [R].
    """

    columns: NDArray[np.int64]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemberRows:
    """Sets of members, one for each owner (a row of the table `parent`, or with -1 of the rule),
    and the columns of their M members.

    Attributes:
        offsets: int64 [P + 1], as in `fedkg.pack.MemberTable`.
    """

    parent: int
    offsets: NDArray[np.int64]
    rows: Rows


class Rows:
    """Slots and parameters, numbered in the order of their first use; and the sets of members that
    terms range over.

    The rows of members are `Rows` too, with a `number` among the sets of the rule's own rows, which
    are their `root`.
    """

    def __init__(self, count: int, *, root: Rows | None = None, number: int = -1) -> None:
        self.count = count
        self.root: Rows = self if root is None else root
        self.number = number
        self.slots: list[SlotColumn] = []
        self.params: list[NDArray[np.float64] | Codes] = []
        self.members: list[MemberRows] = []
        self._known: dict[Hashable, Slot] = {}

    def slot(
        self, key: Hashable, columns: NDArray[np.int64], views: NDArray[np.int64], role: Role
    ) -> Slot:
        """The slot for a reading; the same `key` (what is read, in which view) gives the same
        slot.
        """
        if key not in self._known:
            self._known[key] = Slot(index=len(self.slots), role=role)
            self.slots.append(SlotColumn(columns=columns, views=views, role=role))
        return self._known[key]

    def param(self, values: NDArray[np.float64]) -> Param:
        """A new parameter with one number for each row."""
        values = np.asarray(values, dtype=np.float64)
        self.params.append(
            values if values.shape == (self.count,) else np.broadcast_to(values, (self.count,))
        )
        return Param(index=len(self.params) - 1)

    def codes(self, columns: NDArray[np.int64], texts: tuple[str, ...]) -> int:
        """A new parameter that becomes the code of a text; its index."""
        self.params.append(Codes(columns=columns, texts=texts))
        return len(self.params) - 1

    def set_of_members(
        self, offsets: NDArray[np.int64], parent: int | None = None
    ) -> tuple[int, Rows]:
        """A new table of members, which these rows own; its number, and the rows of its members."""
        tables = self.root.members
        rows = Rows(int(offsets[-1]), root=self.root, number=len(tables))
        tables.append(
            MemberRows(parent=self.number if parent is None else parent, offsets=offsets, rows=rows)
        )
        return rows.number, rows

    def forget(self) -> None:
        """Remove the newest table of members, which contains these rows: nothing refers to it."""
        if self.root.members and self.root.members[-1].rows is self:
            self.root.members.pop()

    def slots_read(self) -> list[SlotColumn]:
        """All slots, those of members included."""
        return [*self.slots, *(slot for table in self.members for slot in table.rows.slots)]
