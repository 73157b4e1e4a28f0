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
    """What stands behind one slot: ids [R] of columns and of views."""

    columns: NDArray[np.int64]
    views: NDArray[np.int64]
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Codes:
    """A parameter that is the code of a text, known when all texts are: column ids [R] and texts [R]."""

    columns: NDArray[np.int64]
    texts: tuple[str, ...]


class Rows:
    """Slots and parameters, numbered in the order of their first use."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.slots: list[SlotColumn] = []
        self.params: list[NDArray[np.float64] | Codes] = []
        self._known: dict[Hashable, Slot] = {}

    def slot(self, key: Hashable, columns: NDArray[np.int64], views: NDArray[np.int64], role: Role) -> Slot:
        """The slot for a reading; the same `key` (what is read, in which view) gives the same slot."""
        if key not in self._known:
            self._known[key] = Slot(index=len(self.slots), role=role)
            self.slots.append(SlotColumn(columns=columns, views=views, role=role))
        return self._known[key]

    def param(self, values: NDArray[np.float64]) -> Param:
        """A new parameter with one number for each row."""
        self.params.append(np.broadcast_to(np.asarray(values, dtype=np.float64), (self.count,)))
        return Param(index=len(self.params) - 1)

    def codes(self, columns: NDArray[np.int64], texts: tuple[str, ...]) -> int:
        """A new parameter that becomes the code of a text; its index."""
        self.params.append(Codes(columns=columns, texts=texts))
        return len(self.params) - 1
