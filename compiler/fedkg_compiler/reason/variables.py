"""Which readings of a table are one and the same unknown.

A column read in two views, or two columns read from one header, are one variable where their values
cannot differ: rules, shapes and queries meet in it. Raised inputs are the base value plus the
view's delta; previous rows and predictions in other views are separate variables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import DataContract


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
    """The variables of a contract, numbered as they are met."""

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
