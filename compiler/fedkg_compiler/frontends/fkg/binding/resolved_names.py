"""What a name in a formula reads, for each row of the quantifier: the table column, its unit, the
table rows it is about.

Letter: R rows of the environment.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Role
from fedkg.units.unit import Unit

Key = tuple[str, str]
"""Header and text that select the table rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What is read for one row.

    Attributes:
        column: id in the book; -1 if there is none (a diagnostic has been reported).
        role: whether the column holds data (`input`) or a prediction of the model (`output`).
        stored: the unit of the values in the table; None if no unit is known.
        rule_unit: the unit that the rule uses for them; None if no unit is known.
        key: header and text that select the table rows, or None for all rows.
        shared: the column is that of a property, not of one entity: the rule's other entities
            select the table rows.
    """

    column: int
    role: Role = "input"
    stored: Unit | None = None
    rule_unit: Unit | None = None
    key: Key | None = None
    shared: bool = False


NOWHERE = Place(column=-1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """What a name reads: [R] places."""

    name: str
    places: tuple[Place, ...]

    @property
    def role(self) -> Role:
        """Whether it is data or a prediction: the same for all rows that are bound together."""
        return self.places[0].role if self.places else "input"

    @property
    def columns(self) -> NDArray[np.int64]:
        """Ids of the columns: [R]."""
        return np.array([place.column for place in self.places], dtype=np.int64)

    def take(self, rows: Sequence[int]) -> Reading:
        """The reading of some of the rows."""
        return replace(self, places=tuple(self.places[i] for i in rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """The readings of one rule.

    Attributes:
        found: by name and variable ("" for a plain name); None where the name is wrong (that has
            been said).
        headers: of the columns after `per`, by name.
    """

    found: dict[tuple[str, str], Reading | None] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def get(self, name: str, variable: str = "") -> Reading | None:
        """The reading of ``name(?variable)``."""
        return self.found.get((name, variable))

    def complete(self, labels: Container[str]) -> bool:
        """Whether every name has a column in every row; labels have several columns and are looked
        up at their use.
        """
        return all(
            name in labels
            if reading is None
            else all(place.column >= 0 for place in reading.places)
            for (name, _), reading in self.found.items()
        )

    def complete_at(self, row: int) -> bool:
        """Whether every name has a column in one row."""
        return all(
            reading is None or reading.places[row].column >= 0 for reading in self.found.values()
        )

    def take(self, rows: Sequence[int]) -> Readings:
        """The readings of some of the rows."""
        found = {
            key: None if reading is None else reading.take(rows)
            for key, reading in self.found.items()
        }
        return Readings(found=found, headers=self.headers)
