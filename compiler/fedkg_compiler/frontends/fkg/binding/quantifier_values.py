"""The values of a quantifier: one row for each solution, one cell for each variable.

Letter: R rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace

from fedkg_compiler.diagnostics.record import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One value of one variable.

    Attributes:
        text: the text in the sheet or graph, or the label of the entity.
        number: the value if it is a number, else None.
        unit: the unit of the number as text, "" for a bare number.
        iri: the IRI of the entity, "" if the value is not an entity.
        row: whether it is the table row itself (`rows are CLASS`).
        category: its text in a category column: the key value of an entity, else its name.
        key: header and text of the table rows that are about the entity; None if the graph does not
            state them.
    """

    text: str
    number: float | None = None
    unit: str = ""
    iri: str = ""
    row: bool = False
    category: str = ""
    key: tuple[str, str] | None = None

    @property
    def meaning(self) -> Hashable:
        """What tells it from other values: not how its number is written."""
        return (
            self.number,
            self.unit,
            self.iri,
            self.row,
            self.category or ("" if self.number is not None else self.text),
        )


def _solution_name(row: int) -> str:
    return f"solution {row + 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """R solutions.

    Attributes:
        rows: R.
        cells: for each variable its R cells, None where it is unbound.
        units: [R], the unit that a sheet's own unit column gives each row; empty when there is
            none.
        where: how to name a row to a person.
        span: the quantifier, for messages about its values.
        known: False when the quantifier failed or gave nothing: its variables exist, their values
            do not.
        origin: [R], the row's number in the whole environment.
    """

    rows: int
    cells: dict[str, tuple[Cell | None, ...]] = field(default_factory=dict)
    units: tuple[str, ...] = ()
    where: Callable[[int], str] = _solution_name
    span: Span | None = None
    known: bool = True
    origin: tuple[int, ...] = ()

    def name(self, row: int) -> str:
        """How to name row `row` of this (part of an) environment."""
        return self.where(self.origin[row] if self.origin else row)

    def distinct(self) -> Environment:
        """The environment without rows that repeat an earlier one, as SELECT DISTINCT gives
        them.
        """
        first: dict[Hashable, int] = {}
        for i in range(self.rows):
            row = tuple(
                None if (cell := column[i]) is None else cell.meaning
                for column in self.cells.values()
            )
            first.setdefault((row, self.units[i] if self.units else ""), i)
        return self if len(first) == self.rows else self.take(list(first.values()))

    def in_its_units(self) -> Environment:
        """Return the environment with bare numbers in the units of the sheet's unit column."""
        if not self.units:
            return self
        cells = {
            name: tuple(
                (
                    replace(cell, unit=unit)
                    if cell is not None and cell.number is not None and not cell.unit
                    else cell
                )
                for cell, unit in zip(column, self.units, strict=True)
            )
            for name, column in self.cells.items()
        }
        return replace(self, cells=cells)

    def take(self, rows: Sequence[int]) -> Environment:
        """The environment with some of its rows."""
        return Environment(
            rows=len(rows),
            cells={name: tuple(cells[i] for i in rows) for name, cells in self.cells.items()},
            units=tuple(self.units[i] for i in rows) if self.units else (),
            where=self.where,
            span=self.span,
            known=self.known,
            origin=tuple(self.origin[i] if self.origin else i for i in rows),
        )


Row = tuple[Cell | None, ...]
"""One solution: a cell for each variable."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solved:
    """The solutions behind `over`.

    Attributes:
        own: the variable of the member first, then the other variables of the pattern that the body
            reads.
        joined: the variables of the rule that the pattern uses too.
        rows: one tuple of cells for each solution, in the order of `own`.
        by_owner: the positions in `rows` of the solutions that belong to the same values of
            `joined`, by these values (`_join_key`).
    """

    own: tuple[str, ...]
    joined: tuple[str, ...]
    rows: list[Row]
    by_owner: dict[Hashable, list[int]]


def unknown(variables: Sequence[str], span: Span) -> Environment:
    """Return the environment of a failed quantifier: one unknown row.

    The rest of the rule is still checked.
    """
    return Environment(rows=1, cells=dict.fromkeys(variables, (None,)), span=span, known=False)
