"""What rules are bound against: the names that statements declare, the values of a quantifier, the
columns behind names, the scope of one expression, and typed values with their arithmetic.

Letter: R bank rows of the rule (or of the part of its rows that share all units); in `Environment`
the rows of the quantifier.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import (
    CategoryIs,
    Compare,
    Formula,
    Negate,
    Param,
    Power,
    Product,
    Quotient,
    Role,
    Slot,
    Sum,
    Term,
    everywhere,
)
from fedkg.pack.contract import TRUTHS
from fedkg.units.text import MAX_EXPONENT, UnitProblem, parse_unit
from fedkg.units.unit import (
    ENERGY,
    NUMBER,
    POWER,
    PRESSURE,
    TEMPERATURE,
    Unit,
    as_revolutions,
    conversion,
    over,
    power,
    same_dimension,
    times,
)
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.diagnostics.record import Related, Span
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
from fedkg_compiler.graph.rdf_terms import ColumnFact
from fedkg_compiler.ir import Book, BookColumn, RowBuilder, Timing, quoted

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


class LiteralText(str):
    """The lexical form of a literal of a graph, which equals the same text of a sheet.

    Attributes:
        datatype: the IRI of its datatype.
    """

    datatype: str

    def __new__(cls, lexical: str, datatype: str) -> Self:
        """The text `lexical` with a datatype."""
        text = super().__new__(cls, lexical)
        text.datatype = datatype
        return text


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
    def may_be_name(self) -> bool:
        """Whether it can be the name of a client: `1A` and `3rd` can, `1 A` is a number."""
        written_together = self.text[-1:].isalpha() and len(self.text.split()) == 1
        return bool(self.iri or self.number is None or (self.unit and written_together))

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
        held: the unit of what the term gives, where that is not yet `unit`: the fixed numbers that
            it meets are converted instead, because they can be converted exactly. `settled` gives
            it in `unit`.
    """

    term: Term
    unit: Unit | None
    span: Span
    plain: bool = False
    unit_place: Span | None = None
    bare: tuple[NDArray[np.int64], ...] = ()
    held: Unit | None = None


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
            `fedkg_compiler.frontends.fkg.binding.entity_owners`.
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


# Arithmetic and comparisons with units: what may be added, multiplied and compared, the
# conversions that it needs, and the formula of one comparison.
#
# Terms keep the order in which they are written. Fixed numbers are converted into the unit of the
# data beside them, exactly and rounded once. Data is converted only where it meets data in another
# unit, or where a calculation needs a unit: by one multiplication (or division, where that is the
# exact form) and, for units with an offset, one addition.
#
# Letter: R rows.

_ANGLES = {"deg", "degree", "degrees", "°"}


def in_unit(value: Value, unit: Unit | None, scope: Scope) -> Value:
    """The value in a unit of the same dimension; a bare value takes the unit as it is.

    The term of a moving value stays in the unit that it is held in.
    """
    if unit is None:
        return value
    if value.unit is None:
        if isinstance(value, Moving):
            if not value.bare:
                _complain_of_no_unit(value, unit, scope)
            scope.book.tell_unit(value.bare, unit, value.span, scope.problems)
            return replace(value, unit=unit, bare=())
        if unit.derived and np.any(value.values != 0):
            scope.problems.warning(
                "FKG238",
                value.span,
                f"this number has no unit; fedkg reads it in `{unit.text}`, the calculated unit "
                f"of the other side",
                "write the unit after the number (9 kW, 11000 min.N.m), or state it in the graph "
                "or the sheet",
            )
        return replace(value, unit=unit)
    change = conversion(value.unit, unit)
    if change.identity:
        return replace(value, unit=unit)
    if isinstance(value, Fixed):
        return replace(value, values=change.apply(value.values), unit=unit)
    return replace(value, unit=unit, held=value.held or value.unit, plain=False)


def as_held(value: Value) -> Value:
    """The value in the unit that its term is held in."""
    if isinstance(value, Fixed) or value.held is None:
        return value
    return replace(value, unit=value.held, held=None)


def settled(value: Value, scope: Scope) -> Value:
    """The value with its term in its unit."""
    if isinstance(value, Fixed) or value.held is None or value.unit is None:
        return value
    change, term = conversion(value.held, value.unit), value.term
    if change.factor != 1 or change.turns:
        term = _scaled(term, change.factor, change.turns, change.scale, scope)
    if change.shift:
        term = join_sum(term, scope.rows.param(np.array(float(change.shift))))
    return replace(value, term=term, held=None)


def proportional(value: Value, scope: Scope) -> Value:
    """The value, with its term in a unit that has the zero of its unit: then sums and multiples may
    be taken before a conversion.
    """
    shifted = (
        isinstance(value, Moving)
        and value.held is not None
        and value.unit is not None
        and conversion(value.held, value.unit).shift
    )
    return settled(value, scope) if shifted else value


def _complain_of_no_unit(value: Moving, unit: Unit, scope: Scope) -> None:
    """Report a number from columns without units next to a value with a unit."""
    root = scope.rows.root
    tables = {table.rows.number: table.rows for table in root.members} | {root.number: root}
    read = [
        tables[table].slots[part.index]
        for table, part in everywhere(value.term, scope.rows.number)
        if isinstance(part, Slot)
    ]
    columns = [
        scope.book.columns[column]
        for column in dict.fromkeys(column for slot in read for column in slot.columns.tolist())
    ]
    names = [column.name for column in columns if column.unit is None]
    source = " and ".join(f"`{name}`" for name in names) if 0 < len(names) < 4 else "columns"
    beside = f"something in `{unit.text}`" if unit.text else "a number without a dimension"
    have = "has" if len(names) == 1 else "have"
    message = (
        f"this is calculated from {source}, which {have} no declared unit, and cannot be combined"
        f" with {beside}"
    )
    if unit.text or not names:
        example = quoted(names[0]) if names and "[" not in names[0] else "torque"
        advice = f"declare the unit of each column: signal {example} in N.m"
    else:
        advice = f"write: {', '.join(f'signal {name} in dimensionless' for name in names[:3])}"
    scope.problems.error("FKG238", value.span, message, advice)


def _scaled(term: Term, factor: Fraction, turns: int, scale: float, scope: Scope) -> Term:
    if not turns and factor.numerator == 1:
        return Quotient(
            numerator=term, denominator=scope.rows.param(np.array(float(factor.denominator)))
        )
    return join_product(term, scope.rows.param(np.array(scale)))


def term_of(value: Value, scope: Scope) -> Term | None:
    """The value as a term of the skeleton; None, with a problem, where a number is not finite."""
    value = settled(value, scope)
    if isinstance(value, Moving):
        return value.term
    wrong = np.flatnonzero(~np.isfinite(value.values))
    if wrong.size:
        row = int(wrong[0])
        said = "undefined" if np.isnan(value.values[row]) else "infinite"
        scope.problems.error(
            "FKG228", value.span, f"the result is {said}{scope.where(row)}", value_advice(scope)
        )
        return None
    return scope.rows.param(value.values)


def mismatch(a: Value, b: Value, verb: str, scope: Scope) -> None:
    """Say that two values measure different things, at the second."""
    one, two = a.unit, b.unit
    if one is None or two is None:
        return
    for value, other in ((a, two), (b, one)):
        if isinstance(value, Moving) and value.unit_place is not None:
            message = (
                f"{describe_unit(two)} cannot be {verb} {describe_unit(one)}, the unit that"
                " fedkg takes the column to be in"
                if value is a
                else ""
            )
            scope.problems.error(
                "FKG216",
                b.span,
                message
                or f"{describe_unit(two)}, the unit that fedkg takes the column to be in,"
                f" cannot be {verb} {describe_unit(one)}",
                "declare the unit of the column",
                (
                    Related(
                        span=value.unit_place,
                        message=(
                            f"taken to be in {describe_unit(value.unit)} here"
                            if value.unit and value.unit != other
                            else ""
                        ),
                    ),
                ),
            )
            return
    advice = ""
    if {"norm volume"} & {name for name, _ in (*one.dimension, *two.dimension)}:
        advice = (
            "a norm cubic metre is an amount of gas, and its volume depends on temperature and"
            " pressure: convert it in the data"
        )
    elif {one.text, two.text} & _ANGLES and "temperature" in {
        name for name, _ in (*one.dimension, *two.dimension)
    }:
        advice = "this unit is an angle: write degC, degF or K for a temperature"
    elif not one.dimension or not two.dimension:
        advice = (
            "only plain numbers (also in % or ppm) go with plain numbers: correct the unit here, "
            "or in the declaration"
        )
    else:
        advice = "correct the unit here, or in the declaration"
    scope.problems.error(
        "FKG213",
        b.span,
        f"{describe_unit(two)} cannot be {verb} {describe_unit(one)}",
        advice,
        (Related(span=a.span, message=f"this is in {describe_unit(one)}"),),
    )


def describe_unit(unit: Unit) -> str:
    """The unit for a message: "`bar`", or "a plain number"."""
    return f"`{unit.text}`" if unit.text else "a plain number"


def in_which_unit(unit: Unit) -> str:
    """The unit of something for a message: "in `bar`", or "without a unit"."""
    return f"in `{unit.text}`" if unit.text else "without a unit"


def add(a: Value, b: Value, op: Literal["+", "-"], span: Span, scope: Scope) -> Value | None:
    """``a + b`` or ``a - b``."""
    if a.unit is not None and b.unit is not None and not same_dimension(a.unit, b.unit):
        mismatch(a, b, "added to" if op == "+" else "subtracted from", scope)
        return None
    result = _sum_unit(a, b, op, scope)
    if result is None:
        return None
    a, b, unit = result
    if isinstance(a, Fixed) and isinstance(b, Fixed):
        return Fixed(
            values=a.values + b.values if op == "+" else a.values - b.values, unit=unit, span=span
        )
    a, b, held = _held_alike(a, b, scope)
    left, right = term_of(a, scope), term_of(b, scope)
    if left is None or right is None:
        return None
    bare = (
        tuple(columns for side in (a, b) if isinstance(side, Moving) for columns in side.bare)
        if unit is None
        else ()
    )
    plain = all(isinstance(side, Moving) and side.plain for side in (a, b))
    return Moving(
        term=join_sum(left, right if op == "+" else Negate(arg=right)),
        unit=unit,
        span=span,
        plain=plain,
        bare=bare,
        held=held.step() if held is not None and unit is not None and unit.difference else held,
    )


def _held_alike(a: Value, b: Value, scope: Scope) -> tuple[Value, Value, Unit | None]:
    """Both sides of a sum in the unit that the term of the first moving one is held in, and that
    unit; None where it is the unit of the sum.
    """
    data, other = (a, b) if isinstance(a, Moving) else (b, a)
    assert isinstance(data, Moving)
    own, held = data.unit, data.held
    if held is None or own is None or other.unit is None:
        return a, b, None
    if not own.affine and (other.unit.affine or conversion(held, own).shift):
        return a, b, None  # where the zero lies is known in the unit of the sum alone
    data = as_held(data)
    other = in_unit(other, held if other.unit.affine or not own.affine else held.step(), scope)
    return (data, other, held) if isinstance(a, Moving) else (other, data, held)


def _sum_unit(
    a: Value, b: Value, op: Literal["+", "-"], scope: Scope
) -> tuple[Value, Value, Unit | None] | None:
    """Both sides in the units in which they are added, and the unit of the result."""
    if a.unit is None or b.unit is None:
        unit = a.unit or b.unit
        if unit is None:
            return a, b, None
        if unit.affine and op == "+":
            step = unit.step()
            return (
                (a, in_unit(b, step, scope), unit)
                if b.unit is None
                else (in_unit(a, step, scope), b, unit)
            )
        a, b = in_unit(a, unit, scope), in_unit(b, unit, scope)
        if (
            _has_points(unit) and not unit.affine
        ):  # `?limit + 5 K`: nothing says that ?limit is not meant in degC
            return a, b, unit.step()
    one, two = a.unit, b.unit
    if one is None or two is None:
        return a, b, None
    if one.affine and two.affine:
        if op == "+":
            scope.problems.error(
                "FKG215",
                b.span,
                f"two values in {one.text} cannot be added, because the zero of this scale is "
                f"arbitrary",
                f"add a difference, in {one.step_text}, or convert the signals",
            )
            return None
        return a, in_unit(b, one, scope), one.step()
    if one.affine:
        return (a, in_unit(b, one.step(), scope), one) if _is_step(b, one, scope) else None
    if two.affine:
        if op == "-":
            return a, in_unit(b, one, scope), one.step()
        return (in_unit(a, two.step(), scope), b, two) if _is_step(a, two, scope) else None
    result = one.step() if op == "-" and _has_points(one) else one
    return a, in_unit(b, one, scope), result


def _has_points(unit: Unit) -> bool:
    """Return whether a related unit has another zero, so that differences and points differ."""
    return unit.dimension in (TEMPERATURE, PRESSURE)


def _is_step(value: Value, point: Unit, scope: Scope) -> bool:
    """Whether a value can be read as a difference; a signal in K beside one in degC may as well be
    a temperature.
    """
    if isinstance(value, Fixed) or (value.unit is not None and value.unit.difference):
        return True
    unit = value.unit.text if value.unit else ""
    scope.problems.error(
        "FKG215",
        value.span,
        f"a signal in {unit} beside one in {point.text} may be a difference or a point on the "
        f"scale; fedkg cannot tell which",
        "convert one column in the data and declare both signals in the same unit; or write the"
        " difference as two signals in parentheses",
    )
    return False


def multiply(a: Value, b: Value, span: Span, scope: Scope) -> Value | None:
    """``a * b``."""
    if not (_no_point(a, "multiplied", scope) and _no_point(b, "multiplied", scope)):
        return None
    a, b = _as_factor(a, b, scope), _as_factor(b, a, scope)
    a, b = _revolutions(a, b, scope), _revolutions(b, a, scope)
    unit = _product_unit(a, b)
    if isinstance(a, Fixed) and isinstance(b, Fixed):
        return _share(Fixed(values=a.values * b.values, unit=unit, span=span), a, b, scope)
    held = next((one.held for one in (a, b) if isinstance(one, Moving) and one.held), None)
    left, right = term_of(as_held(a), scope), term_of(as_held(b), scope)
    if left is None or right is None:
        return None
    return _share(
        Moving(
            term=join_product(left, right),
            unit=unit,
            span=span,
            bare=_bare_times(a, b) or _bare_times(b, a),
            held=held,
        ),
        a,
        b,
        scope,
    )


def divide(a: Value, b: Value, span: Span, scope: Scope) -> Value | None:
    """``a / b``."""
    if not (_no_point(a, "divided", scope) and _no_point(b, "divided by", scope)):
        return None
    if isinstance(b, Fixed) and np.any(b.values == 0):
        row = int(np.flatnonzero(b.values == 0)[0])
        scope.problems.error(
            "FKG228", b.span, f"this divides by 0{scope.where(row)}", value_advice(scope)
        )
        return None
    a, b = _as_factor(a, b, scope), settled(b, scope)
    _per_count(a, b, scope)
    unit = _product_unit(a, b, below=True)
    if isinstance(a, Fixed) and isinstance(b, Fixed):
        return _share(Fixed(values=a.values / b.values, unit=unit, span=span), a, b, scope)
    left, right = term_of(as_held(a), scope), term_of(b, scope)
    if left is None or right is None:
        return None
    return _share(
        Moving(
            term=Quotient(numerator=left, denominator=right),
            unit=unit,
            span=span,
            bare=_bare_times(a, b),
            held=a.held if isinstance(a, Moving) else None,
        ),
        a,
        b,
        scope,
    )


def _as_factor(value: Value, other: Value, scope: Scope) -> Value:
    """The value as it is multiplied: a multiple of it may stay in the unit that it is held in."""
    bare = isinstance(other, Fixed) and other.unit is None
    return proportional(value, scope) if bare else settled(value, scope)


def _bare_times(value: Value, factor: Value) -> tuple[NDArray[np.int64], ...]:
    """The columns that still take a unit after a bare number was multiplied onto them."""
    return (
        value.bare
        if isinstance(value, Moving) and isinstance(factor, Fixed) and factor.unit is None
        else ()
    )


def _share(value: Value, a: Value, b: Value, scope: Scope) -> Value:
    """bar over mbar is a plain number, not one in `bar/mbar`; a bare number times a per cent stays
    in per cent.
    """
    plain = (
        a.unit is not None
        and value.unit is not None
        and b.unit is not None
        and not value.unit.dimension
    )
    return settled(in_unit(value, NUMBER, scope), scope) if plain else value


def _per_count(a: Value, b: Value, scope: Scope) -> None:
    """Ask back where a power over a rate in 1/min may be a torque, which counts revolutions."""
    if a.unit is not None and b.unit is not None and b.unit.count and a.unit.dimension == POWER:
        scope.problems.warning(
            "FKG218",
            b.span,
            f"`{a.unit.text}` over `{b.unit.text}` is the energy of each count; a torque would be"
            " smaller by the factor 2 pi",
            "declare the speed in rpm where the quotient is a torque, in pcs/min where it counts"
            " pieces",
        )


def _product_unit(a: Value, b: Value, *, below: bool = False) -> Unit | None:
    """A bare number times something is in its unit; two bare ones stay bare."""
    if b.unit is None:
        return a.unit
    if a.unit is None:
        return over(Unit(text=""), b.unit) if below else b.unit
    return over(a.unit, b.unit) if below else times(a.unit, b.unit)


def _no_point(value: Value, verb: str, scope: Scope) -> bool:
    if value.unit is None or not value.unit.affine:
        return True
    message = (
        f"nothing can be divided by a value in {value.unit.text}"
        if verb == "divided by"
        else f"a value in {value.unit.text} cannot be {verb}"
    )
    scope.problems.error(
        "FKG215", value.span, f"{message}: {zero_of(value.unit)}", difference_advice(value.unit)
    )
    return False


def value_advice(scope: Scope) -> str:
    """What to do about a number that has no result: in the rule, the sheet or the graph."""
    if scope.where(0):
        return "correct the value, or leave it out of the sheet or graph if it is not known"
    return "correct the number"


def zero_of(unit: Unit) -> str:
    """The reason why values on a scale with an offset zero cannot be multiplied."""
    step = parse_unit(unit.step_text)
    zero = unit.zero if isinstance(step, UnitProblem) else unit.zero / step.factor
    return (
        f"0 {unit.text} is {float(zero):.7g} {unit.step_text}, so twice 20 {unit.text} is not 40"
        f" {unit.text}"
    )


def difference_advice(unit: Unit) -> str:
    """What to do instead of arithmetic with values on such a scale."""
    return (
        f"use a difference, such as `inlet - 0 {unit.text}`, or convert the column in the data and"
        f" declare the signal in {unit.step_text}"
    )


def _revolutions(value: Value, other: Value, scope: Scope) -> Value:
    """A rate in 1/min times a torque counts revolutions: that is what plants mean."""
    if (
        value.unit is None
        or other.unit is None
        or not value.unit.count
        or not other.unit.moment
        or other.unit.dimension != ENERGY
    ):
        return value
    scope.problems.info_per_file(
        f"revolutions {value.unit.text}",
        "FKG218",
        value.span,
        f"`{value.unit.text}` beside a torque is read as revolutions, so that the product is a"
        " power with the factor 2 pi",
        "declare the speed in rpm to say so",
    )
    return replace(value, unit=as_revolutions(value.unit))


def negate(a: Value, span: Span, scope: Scope) -> Value | None:
    """``-a``; a temperature of -5 degC is a point on the scale like any other."""
    if isinstance(a, Fixed):
        return replace(a, values=-a.values, span=span)
    if not _no_point(a, "negated", scope):
        return None
    a = proportional(a, scope)
    assert isinstance(a, Moving)
    return replace(a, term=Negate(arg=a.term), span=span, unit_place=None)


def raise_to(a: Value, exponent: float, span: Span, scope: Scope) -> Value | None:
    """``a ^ exponent``."""
    if not _no_point(a, "raised to a power", scope):
        return None
    a = settled(a, scope)
    if a.unit is not None and abs(exponent) > MAX_EXPONENT:
        scope.problems.error(
            "FKG236",
            span,
            f"the exponent {exponent:g} is too large: a value with a unit takes exponents from"
            f" {-MAX_EXPONENT:g} to {MAX_EXPONENT:g}",
            "use a smaller exponent, or compute the power in a column of the data",
        )
        return None
    unit = None if a.unit is None else power(a.unit, Fraction(repr(exponent)).limit_denominator(64))
    if isinstance(a, Fixed):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return _share(
                Fixed(values=np.power(a.values, exponent), unit=unit, span=span), a, a, scope
            )
    return _share(
        Moving(term=Power(base=a.term, exponent=exponent), unit=unit, span=span), a, a, scope
    )


def join_sum(left: Term, right: Term) -> Term:
    """``left + right``, flat where `left` is a sum: evaluated in the same order."""
    return Sum(args=(*left.args, right)) if isinstance(left, Sum) else Sum(args=(left, right))


def join_product(left: Term, right: Term) -> Term:
    """``left * right``, flat where `left` is a product: evaluated in the same order."""
    return (
        Product(args=(*left.args, right))
        if isinstance(left, Product)
        else Product(args=(left, right))
    )


Operator = Literal["le", "lt", "eq", "ne"]
_OPERATORS: dict[str, tuple[Operator, bool]] = {
    "<=": ("le", False),
    "<": ("lt", False),
    ">=": ("le", True),
    ">": ("lt", True),
    "==": ("eq", False),
    "!=": ("ne", False),
}
"""The pack's comparison, and whether the sides change places."""
HOLDS: dict[str, Callable[[Any, Any], NDArray[np.bool_]]] = {
    "<=": np.less_equal,
    "<": np.less,
    ">=": np.greater_equal,
    ">": np.greater,
    "==": np.equal,
    "!=": np.not_equal,
}
"""Of numbers that are known. `Any`: numbers, or arrays of them."""
MIRRORED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "==": "==", "!=": "!="}
"""The operator when the sides change places."""


def compare(
    operator: str, left: Term, right: Term, tolerance: Term | None, rows: RowBuilder
) -> Compare:
    """``left operator right``; its scale is 1 until the pass `set_scales`."""
    op, swapped = _OPERATORS[operator]
    if swapped:
        left, right = right, left
    return Compare(
        op=op, left=left, right=right, tolerance=tolerance, scale=rows.param(np.array(1.0)).index
    )


def truth_compared(
    operator: str, term: Term, limits: NDArray[np.float64], rows: RowBuilder, book: Book
) -> CategoryIs | None:
    """``term operator limit`` as a question of yes or no, where the term is a column of truth
    values; None where it asks for a number.

    ``valve >= 0.5`` asks whether it is true. As a comparison it would have a margin of half a unit,
    which cuts off that of what it guards.
    """
    if not isinstance(term, Slot) or any(
        book.columns[column].type != "boolean" for column in rows.slots[term.index].columns.tolist()
    ):
        return None
    wanted = truth_wanted(operator, limits)
    return None if wanted is None else is_truth(term, wanted, rows)


def truth_wanted(operator: str, limits: NDArray[np.float64]) -> NDArray[np.bool_] | None:
    """Which of true (1) and false (0) alone keeps ``truth operator limit``, bool [R]; None where
    for some row both do, or neither.
    """
    of_false, of_true = (HOLDS[operator](value, limits) for value in (0.0, 1.0))
    return of_true if of_true.size and bool((of_true != of_false).all()) else None


def is_truth(slot: Slot, wanted: NDArray[np.bool_], rows: RowBuilder) -> CategoryIs:
    """Whether the column of truth values in a slot is what each row wants, bool [R]."""
    texts = tuple(TRUTHS[int(one)] for one in wanted)
    return CategoryIs(slot=slot.index, param=rows.codes(rows.slots[slot.index].columns, texts))
