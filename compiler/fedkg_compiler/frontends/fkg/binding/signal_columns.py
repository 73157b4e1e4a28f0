"""Finds the table column of a signal: from its clause, from the graph, or by its own name; and of a
family, entity by entity.

A `Reading` is what a name in a formula reads for each row of the quantifier: the table column, its
unit and the table rows it is about. A property of the graph is observed, so that it is read from
the table and not known when rules are compiled, if a signal or output is declared with it
(``signal torque(?m) is plant:torque``), or if the graph gives it, or a sensor of it, a column
(`fkg:column`). Shapes and queries are split along this line.

Letter: R rows of the environment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Role
from fedkg.units.text import UnitProblem, parse_unit
from fedkg.units.unit import Unit, conversion, same_dimension
from fedkg_compiler.column_registry import Book, BookColumn, ColumnType
from fedkg_compiler.diagnostics.problems import Problems
from fedkg_compiler.diagnostics.record import Related, Span
from fedkg_compiler.frontends.fkg.binding.quantifier_values import Cell, Environment, Solved
from fedkg_compiler.frontends.fkg.binding.symbol_table import DeclaredSignal, FileRule, Names
from fedkg_compiler.frontends.fkg.binding.unknown_units import strange_unit
from fedkg_compiler.graph.graph_terms import ColumnFact, local_name

if TYPE_CHECKING:
    from fedkg_compiler.graph.graph import Graph


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class First:
    """A rule as it is bound, with its templates written out, and the one row of its quantifier that
    its examples are run on.
    """

    rule: FileRule
    environment: Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What names are looked up in; the graph is None where nothing asks for one.

    Attributes:
        names: the declarations of the rule files.
        graph: the ontologies and graphs; None if no file asks for one.
        book: the registry of table columns.
        problems: collects the diagnostics.
        texts: the texts of the rule files, by file name.
        members: the solutions of the patterns after `over`.
        clients: the names of the clients that each entity belongs to, by IRI; filled by
            `fedkg_compiler.frontends.fkg.binding.private_pack_scope`.
        firsts: for each bound rule, the row that its examples run on.
        headers: for each table header, the signal that reads it, the name of its column and the
            unit that the graph states; filled by `declared_place`.
    """

    names: Names
    graph: Graph | None
    book: Book
    problems: Problems
    facts: dict[tuple[str, str], tuple[ColumnFact, ...]] = field(default_factory=dict)
    common: dict[str, frozenset[str]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    members: dict[Hashable, Solved | None] = field(default_factory=dict)
    clients: dict[str, frozenset[str]] = field(default_factory=dict)
    firsts: dict[str, First] = field(default_factory=dict)
    headers: dict[str, tuple[DeclaredSignal, str, str | None]] = field(default_factory=dict)

    def written(self, span: Span) -> str:
        """The text of a rule file at a place."""
        lines = self.texts.get(span.file, "").split("\n")[span.line - 1 : span.end_line]
        if not lines:
            return ""
        lines[-1] = lines[-1][: span.end_column - 1]
        lines[0] = lines[0][span.column - 1 :]
        return "\n".join(lines)

    def columns_of(self, property_iri: str, entity: str | None) -> tuple[ColumnFact, ...]:
        """Return the places of the observations of a property, cached."""
        key = property_iri, entity or ""
        if key not in self.facts:
            self.facts[key] = (
                () if self.graph is None else tuple(self.graph.columns_of(property_iri, entity))
            )
        return self.facts[key]

    def common_columns(self, property_iri: str) -> frozenset[str]:
        """The columns that the sensors of several entities share, found out once."""
        if property_iri not in self.common:
            sharing: dict[str, set[str]] = {}
            for fact in self.columns_of(property_iri, None):
                sharing.setdefault(fact.column, set()).add(fact.entity or "")
            self.common[property_iri] = frozenset(
                column for column, entities in sharing.items() if len(entities) > 1
            )
        return self.common[property_iri]


def plain_place(signal: DeclaredSignal, sources: Sources, span: Span) -> Place:
    """The place of a signal without entities."""
    if signal.column is not None or signal.property is None:
        return _enter_column(signal, signal.name, signal.column or signal.name, None, sources, span)
    facts = sources.columns_of(signal.property, None)
    shared = {(fact.column, fact.unit) for fact in facts if fact.entity is None}
    headers = shared or {(fact.column, fact.unit) for fact in facts}
    if len(headers) > 1:
        shown = ", ".join(sorted({f"`{header}`" for header, _ in headers})[:4])
        sources.problems.error(
            "FKG207",
            span,
            f"`{signal.name}` has several columns in the graph: {shown}",
            f"declare it for each entity, `signal {signal.name}(?x) is ...`, or say which: `column"
            ' "..."`',
            (Related(span=signal.place, message="declared here"),),
        )
        return NOWHERE
    header, unit = next(iter(headers), (signal.name, None))
    return _enter_column(signal, signal.name, header, unit, sources, span)


def header_place(header: str, sources: Sources, span: Span) -> Place:
    """Return the place of a table header, with the unit of a signal that reads it, if any."""
    for signal in sources.names.signals.values():
        place = _of_signal(signal, header, sources, span)
        if place is not None:
            return place
    column = sources.book.column(BookColumn(name=header, source=header, declared=False))
    sources.book.tell_by_header(column, span)
    unit = sources.book.compared_unit(column)
    return Place(column=column, stored=unit, rule_unit=unit)


def declared_place(header: str, sources: Sources, span: Span) -> Place | None:
    """The place of a header that a declared signal reads: as that signal, with its unit, span and
    role; None where none does.
    """
    if not sources.headers:
        for signal in sources.names.signals.values():
            if signal.column is not None or (signal.property is None and not signal.family):
                sources.headers.setdefault(
                    signal.column or signal.name, (signal, signal.name, None)
                )
            for fact in (
                sources.columns_of(signal.property, None)
                if signal.column is None and signal.property is not None
                else ()
            ):
                family = bool(signal.family) and fact.entity is not None
                name = (
                    _column_name(signal, fact.column, fact.entity or "", sources)[0]
                    if family
                    else signal.name
                )
                sources.headers.setdefault(fact.column, (signal, name, fact.unit))
    found = sources.headers.get(header)
    return (
        None
        if found is None
        else _enter_column(found[0], found[1], header, found[2], sources, span)
    )


def _of_signal(signal: DeclaredSignal, header: str, sources: Sources, span: Span) -> Place | None:
    if signal.column is not None:
        return (
            _enter_column(signal, signal.name, header, None, sources, span)
            if signal.column == header
            else None
        )
    facts = (
        []
        if signal.property is None
        else [fact for fact in sources.columns_of(signal.property, None) if fact.column == header]
    )
    if not facts:
        return None
    entity = next((fact.entity for fact in facts if fact.entity is not None), None)
    name = (
        _column_name(signal, header, entity, sources)[0]
        if signal.family and entity is not None
        else signal.name
    )
    return _enter_column(signal, name, header, facts[0].unit, sources, span)


def family_places(
    signal: DeclaredSignal, cells: Sequence[Cell | None], sources: Sources, span: Span
) -> tuple[Place, ...]:
    """The places of ``signal(?x)`` for the values of ``?x``; one diagnostic reports all entities
    without a column.
    """
    known: dict[str, Place] = {}
    without: list[str] = []
    places = []

    @cache
    def placed(name: str, header: str, unit: str | None) -> Place:
        return _enter_column(signal, name, header, unit, sources, span)

    for cell in cells:
        if cell is None:
            places.append(NOWHERE)
            continue
        entity = "" if cell.row else cell.iri
        if entity not in known:
            known[entity] = (
                _row_place(signal, sources, span)
                if cell.row
                else _entity_place(signal, cell, sources, span, without, placed)
            )
        places.append(known[entity])
    if without:
        more = f" and {len(without) - 1} more" if len(without) > 1 else ""
        sources.problems.error(
            "FKG207",
            span,
            f"`{signal.name}` has no column for {without[0]}{more}",
            _help_without_column(signal, sources),
            (Related(span=signal.place, message="declared here"),),
        )
    _tell_whose(signal, known, sources, span)
    return tuple(places)


def _help_without_column(signal: DeclaredSignal, sources: Sources) -> str:
    """What to do where an entity has no column; a frequent mistake is a class after `is`."""
    if signal.property and sources.graph is not None and sources.graph.instances(signal.property):
        return (
            f"{local_name(signal.property)} is a class: write the observed property after `is`,"
            " which says what a sensor measures"
        )
    return (
        "give the entity's sensor an `fkg:column`, or tell which table rows are about it with"
        " `fkg:keyColumn` (and `fkg:keyValue`)"
    )


def _tell_whose(
    signal: DeclaredSignal, known: Mapping[str, Place], sources: Sources, span: Span
) -> None:
    """Report a column that sensors of several entities share without a key for its rows."""
    sharing: dict[int, list[str]] = {}
    for entity, place in known.items():
        if entity and place.column >= 0 and place.key is None:
            sharing.setdefault(place.column, []).append(entity)
    for column, entities in sharing.items():
        header = sources.book.columns[column].source
        facts = [
            fact
            for entity in entities
            for fact in sources.columns_of(signal.property or "", entity)
        ]
        if len({fact.sensor for fact in facts if fact.column == header}) > 1:
            sources.problems.error(
                "FKG207",
                span,
                f"`{signal.name}` of {local_name(entities[0])} and of {local_name(entities[1])}"
                f" share one column, `{header}`",
                "tell which table rows are about each of them with `fkg:keyColumn` (and"
                " `fkg:keyValue`)",
                (Related(span=signal.place, message="declared here"),),
            )


def _row_place(signal: DeclaredSignal, sources: Sources, span: Span) -> Place:
    return plain_place(replace(signal, family=""), sources, span)


def _entity_place(
    signal: DeclaredSignal,
    cell: Cell,
    sources: Sources,
    span: Span,
    without: list[str],
    placed: Callable[[str, str, str | None], Place],
) -> Place:
    """The place of one entity; `placed` enters a column of a name, header and unit into the book,
    each once for all entities.
    """
    if not cell.iri:
        sources.problems.error(
            "FKG208",
            span,
            f'"{cell.text}" is a text, but `{signal.name}` is indexed by entities of the graph',
            f"write value(?{signal.family}) where the text names a column",
        )
        return NOWHERE
    facts = () if signal.property is None else sources.columns_of(signal.property, cell.iri)
    own = [fact for fact in facts if fact.entity == cell.iri]
    key = None if sources.graph is None else sources.graph.key_of(cell.iri)
    if len({fact.column for fact in own}) > 1:
        shown = ", ".join(f"`{fact.column}`" for fact in own[:4])
        sources.problems.error(
            "FKG207",
            span,
            f"`{signal.name}` of {cell.text} has several columns: {shown}",
            "ask for one property",
        )
        return NOWHERE
    if own:
        name, common = _column_name(signal, own[0].column, cell.iri, sources)
        return replace(placed(name, own[0].column, own[0].unit), key=key if common else None)
    shared = [fact for fact in facts if fact.entity is None]
    header = signal.column or (
        shared[0].column if shared else None if signal.property else signal.name
    )
    if header is None or key is None:
        without.append(cell.text)
        return NOWHERE
    unit = shared[0].unit if shared and signal.column is None else None
    return replace(placed(signal.name, header, unit), key=key)


def _column_name(
    signal: DeclaredSignal, header: str, entity: str, sources: Sources
) -> tuple[str, bool]:
    """``temperature[zone_7]`` for a column of one entity; ``torque`` for one that sensors of
    several entities share, with selected rows.
    """
    common = sources.common_columns(signal.property or "")
    if header in common or header == signal.column:
        return (signal.name if len(common) <= 1 else f"{signal.name}[{header}]"), True
    return f"{signal.name}[{local_name(entity)}]", False


def _enter_column(
    signal: DeclaredSignal,
    name: str,
    header: str,
    unit_text: str | None,
    sources: Sources,
    span: Span,
) -> Place:
    """Enter the column of a declared signal into the book; the graph's unit is that of the table,
    the declared one that of the rules.
    """
    stored: Unit | None = signal.unit
    if unit_text is not None:
        found = parse_unit(unit_text)
        if isinstance(found, UnitProblem):
            given = f"the graph gives the column `{header}` of `{signal.name}` the unit"
            sources.problems.error(
                "FKG211", signal.place, *strange_unit(found, unit_text, given, sources.graph)
            )
            return NOWHERE
        if signal.unit is not None and not same_dimension(found, signal.unit):
            sources.problems.error(
                "FKG213",
                signal.place,
                f"`{signal.name}` is declared in `{signal.unit.text}`, but the graph has its column"
                f" in `{unit_text}`",
                "correct the declaration or the graph",
            )
            return NOWHERE
        stored = found
    bounds = signal.span
    if bounds is not None and stored is not None and signal.unit is not None:
        change = conversion(signal.unit, stored)
        bounds = change.one(bounds[0]), change.one(bounds[1])
        bounds = bounds if all(map(math.isfinite, bounds)) else None
    kind: ColumnType = "boolean" if signal.boolean else "real"
    column = sources.book.column(
        BookColumn(name=name, source=header, type=kind, role=signal.role, unit=stored, span=bounds)
    )
    if stored is None:
        sources.book.tell_by_header(column, span)
        stored = sources.book.compared_unit(column)
    return Place(column=column, role=signal.role, stored=stored, rule_unit=signal.unit or stored)


def signal_of(property_iri: str, sources: Sources, span: Span) -> DeclaredSignal | None:
    """The signal that reads a property: the declared one, else one made up from the graph's
    columns; None for a static property.
    """
    for signal in sources.names.signals.values():
        if signal.property == property_iri:
            return signal
    if all(fact.is_stored for fact in sources.columns_of(property_iri, None)):
        return None
    return DeclaredSignal(
        name=local_name(property_iri),
        role="input",
        family="focus",
        property=property_iri,
        unit=None,
        span=None,
        column=None,
        place=span,
    )


def is_observed(property_iri: str, sources: Sources, span: Span) -> bool:
    """Return whether the table contains the values of a property."""
    return signal_of(property_iri, sources, span) is not None


def observed_place(property_iri: str, focus: Cell, sources: Sources, span: Span) -> Place | None:
    """Where the table has the property's value for an entity, or with `focus.row` for each table
    row; None for a static property.

    A place with column -1 (`NOWHERE`): the property is observed, but nothing tells where for this
    entity, which has been said.
    """
    signal = signal_of(property_iri, sources, span)
    return None if signal is None else family_places(signal, [focus], sources, span)[0]
