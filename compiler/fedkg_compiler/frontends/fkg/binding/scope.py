"""What rules are bound against, as data: the names that statements declare, the values of a
quantifier, the columns behind names, typed values, and the scope of one expression.

Letter: R bank rows of the rule (or of the part of its rows that share all units); in `Environment`
the rows of the quantifier.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Formula, Param, Role, Term
from fedkg.units.unit import Unit
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Cause,
    Condition,
    Example,
    Expression,
    Infer,
    KeepSet,
    Load,
    PredictKnowledge,
    Prefix,
    RangeKnowledge,
    Rule,
    RuleFile,
    Template,
    Use,
    Word,
)
from fedkg_compiler.graph.graph_terms import ColumnFact
from fedkg_compiler.ir import Book, BookColumn, RowBuilder, Timing

if TYPE_CHECKING:
    from fedkg_compiler.graph.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSignal:
    """A signal or output as declared.

    Attributes:
        family: the variable of ``temperature(?zone)``, "" for a plain one.
        property: the IRI after `is`, where it has one and the graph knows it.
        unit: the unit that rules use for it; None if none is declared.
        span: in `unit`.
        boolean: it is true or false; as a number 1 or 0.
    """

    name: str
    role: Role
    family: str
    property: str | None
    unit: Unit | None
    span: tuple[float, float] | None
    column: str | None
    place: Span
    boolean: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredLabel:
    """A label: the model predicts one of its classes."""

    name: str
    classes: tuple[str, ...]
    column: str
    place: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRule:
    """A rule and its file."""

    rule: Rule
    file: RuleFile


@dataclass(slots=True, kw_only=True)
class Names:
    """Everything that rules may refer to.

    Attributes:
        library: the words after `use rules` that ask for each file of the rule library, by the
            file's name in diagnostics.
        client: the client of a private pack, "" for the public pack.
        left_out: names of the statements that belong to the other kind of pack: those with the
            scope `client` in a public pack, all others in a private pack.
        rows_class: IRI of the class of the table rows, from `rows are`.
        broken: names with an invalid declaration: their uses are not reported.
        graph_broken: an ontology or graph failed to load: terms that it may define are not
            reported.
        folders: the folder of each rule file, where the sheets that it names are looked up.
    """

    signals: dict[str, DeclaredSignal] = field(default_factory=dict)
    labels: dict[str, DeclaredLabel] = field(default_factory=dict)
    rules: list[FileRule] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    prefixes: dict[str, Prefix] = field(default_factory=dict)
    templates: dict[str, Template] = field(default_factory=dict)
    infers: list[Infer] = field(default_factory=list)
    sets: list[KeepSet] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)
    knowledge: list[RangeKnowledge | PredictKnowledge] = field(default_factory=list)
    library: dict[str, Word] = field(default_factory=dict)
    client: str = ""
    left_out: set[str] = field(default_factory=set)
    timing: Timing = field(default_factory=Timing)
    rows_class: str | None = None
    broken: set[str] = field(default_factory=set)
    broken_prefixes: set[str] = field(default_factory=set)
    broken_templates: set[str] = field(default_factory=set)
    broken_rules: set[str] = field(default_factory=set)
    graph_broken: bool = False
    folders: dict[str, Path] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """Return whether a plain name may be a header: no file declares any signal."""
        return not self.signals and not self.labels and not self.broken

    def known_names(self) -> Sequence[str]:
        """The names a formula may use, for suggestions."""
        return [*self.signals, *self.labels]

    def by_header(self, header: str) -> DeclaredSignal | None:
        """The plain signal that is read from a table column."""
        return next(
            (
                signal
                for signal in self.signals.values()
                if signal.column == header and not signal.family
            ),
            None,
        )


class Cell(NamedTuple):
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


def _is_all(rows: Sequence[int], count: int) -> bool:
    """Whether these are all of so many rows, in order: then nothing has to be copied."""
    return len(rows) == count and all(map(eq, rows, range(count)))


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
        for column in self.cells.values():
            entities = {cell.iri for cell in column if cell is not None}
            if len(entities) == self.rows and "" not in entities:
                return self  # another entity in each row
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
                    cell._replace(unit=unit)
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
        if _is_all(rows, self.rows):
            return self
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fixed:
    """A number known at compile time: float64 [R].

    Without a unit it is bare: it takes the unit of what it meets.
    """

    values: NDArray[np.float64]
    unit: Unit | None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moving:
    """A number known only row by row of the data.

    Attributes:
        unit: None where every signal in it is bare.
        plain: a signal, or sums and differences of signals in one unit: comparisons take its unit.
        unit_place: where the unit was concluded from, if no declaration says it.
        bare: ids [R] of the columns, one array for each reading, that take a unit as soon as one is
            known for the whole.
    """

    term: Term
    unit: Unit | None
    span: Span
    plain: bool = False
    unit_place: Span | None = None
    bare: tuple[NDArray[np.int64], ...] = ()


Value = Fixed | Moving


Key = tuple[str, str]
"""Header and text that select the table rows."""


class Place(NamedTuple):
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
        if _is_all(rows, len(self.places)):
            return self
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
            `fedkg_compiler.frontends.fkg.binding.entity_ownership`.
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


@dataclass(slots=True, kw_only=True)
class Mined:
    """One variable after `find`.

    Attributes:
        name: the variable, without ``?``.
        column: id of an entry of the book that no table has; it gets the unit of what the parameter
            is compared with.
        rows: the rows of the formula that the parameter belongs to.
        param: the parameter in `rows`; its value in the bank is NaN.
        values: the places where the variable is used as a value.
        windows: the places where the variable is used as the end of a window.
        first: whether the variable is the first end of a window.
        last: whether the variable is the last end of a window.
    """

    name: str
    column: int
    rows: RowBuilder
    param: Param
    values: list[Span] = field(default_factory=list)
    windows: list[Span] = field(default_factory=list)
    first: bool = False
    last: bool = False


def mined(name: str, rows: RowBuilder, book: Book, owner: str) -> Mined:
    """A new parameter of a formula; `owner` tells it from those of other inferences."""
    column = book.column(BookColumn(name=f"?{name} of {owner}", source=f"?{name}", mined=True))
    return Mined(name=name, column=column, rows=rows, param=rows.param(np.array(np.nan)))


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The view in which signals are read: a word that tells it from others in the same rule, and
    its ids [R].

    Attributes:
        past: what the model predicts is read as data: its history.
    """

    key: str
    ids: NDArray[np.int64]
    past: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Names, values and columns of one rule.

    Attributes:
        keys: for each of R rows, the headers and texts that select its table rows.
        compared: gathers the units of what comparisons are missed by: K where they are made in
            degC.
        bind_value: binds a value that another value or a condition contains; None where it is
            wrong, which has been said.
        bind_condition: binds a condition that a value or another condition contains, likewise.
        sources: what members are looked up in.
        mined: the variables with values mined from data, by name.
        permits: whether the condition loosens a rule (under `not`, after `if`) instead of being
            required.
    """

    names: Names
    environment: Environment
    readings: Readings
    rows: RowBuilder
    book: Book
    problems: Problems
    graph: Graph | None
    view: View
    keys: tuple[tuple[tuple[str, str], ...], ...]
    compared: list[str]
    bind_value: Callable[[Expression, Scope], Value | None]
    bind_condition: Callable[[Condition, Scope], Formula | None]
    sources: Sources | None = None
    mined: Mapping[str, Mined] = field(default_factory=dict)
    permits: bool = False

    def where(self, row: int) -> str:
        """`` in ROW`` for messages about a value of the quantifier; "" where the rule has none."""
        return (
            f" in {self.environment.name(row)}"
            if self.environment.cells and self.environment.known
            else ""
        )


def in_time(span: Span, scope: Scope) -> None:
    """Record that a rule reads several rows; note once per file if no timeline orders them."""
    names = scope.names
    names.timing = replace(names.timing, ordered=True)
    if not names.timing.declared:
        scope.problems.info_per_file(
            "timeline",
            "FKG260",
            span,
            "no timeline is declared: the table is read as one trace, in the order of its rows",
            'to change this, write: timeline step 5 min time column "..." trace column "..."',
        )
