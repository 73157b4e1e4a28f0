"""The condition of a shape on one focus node after the graph is known: true, false, or a condition
on the table. Conditions become bank rows: one row for each focus node and conjunct, together where
they are of one form. Also the table columns with the values of a property for a focus node.

A value of the table may be missing. SHACL then has no value node, so its constraints hold.
`Guarded` expresses this. `Writer` drops it if a missing value makes a row unknown, which is not a
violation either.

Letters: R rows of a formula, S rows of a second one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import comb
from typing import Literal as OneOf
from typing import TypeVar, assert_never

import numpy as np
from rdflib import OWL, RDFS, XSD, BNode, Literal, URIRef
from rdflib.term import Node

from fedkg.pack import (
    And,
    AtLeast,
    Call,
    CategoryIs,
    Compare,
    Formula,
    Known,
    Not,
    Or,
    Param,
    Product,
    Quotient,
    Role,
    RuleRecord,
    Slot,
    Sum,
    Term,
)
from fedkg.pack.contract import TRUTHS
from fedkg.pack.formulas import ROWS, Renumbering, renumbered
from fedkg.units.text import UnitProblem, parse_unit
from fedkg.units.unit import Unit, conversion, same_dimension
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.formulas.formula_algebra import Connectives
from fedkg_compiler.frontends.fkg.binding.scope import (
    MIRRORED,
    Cell,
    DeclaredSignal,
    Place,
    Sources,
    truth_wanted,
)
from fedkg_compiler.frontends.fkg.binding.signal_columns import (
    columns_of,
    observed_place,
    plain_place,
    signal_of,
)
from fedkg_compiler.frontends.shacl.shapes_graph_reader import (
    SHAPE_VALUED,
    Alternative,
    Constraint,
    Data,
    Inverse,
    Path,
    PathSequence,
    Repeat,
    Shape,
    ShapesFile,
    Step,
    items,
)
from fedkg_compiler.frontends.sparql.branch_constraint_rows import take_rows
from fedkg_compiler.frontends.sparql.formula_slot_renumbering import compact
from fedkg_compiler.graph.rdf_terms import local_name
from fedkg_compiler.graph.standard_vocabularies import FKG, NUMBERS, QUDT, SOSA
from fedkg_compiler.ir import BookColumn, BoundRows, RowBuilder, Rows

Operator = OneOf["le", "lt", "eq", "ne"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A value node with values in the table.

    Attributes:
        property: the IRI of the property, for messages.
        place: the location of the number; for a text, its category column.
        kind: ``number`` or ``text``.
        datatype: the datatype of all values, "" if the graph does not state it.
        datatypes: the category column with the datatype of each value, if the datatypes differ; the
            number may then be missing although there is a value, and such a value compares with
            nothing. Else None.
    """

    property: str
    place: Place
    kind: OneOf["number", "text"] = "number"
    datatype: str = ""
    datatypes: Place | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """A number to compare with a value of the table, in its unit in rules ("" for bare)."""

    value: float
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Has:
    """The table has a value here."""

    value: Observed


@dataclass(frozen=True, slots=True)
class Beside:
    """A comparison of two numbers; at least one of them comes from the table.

    `alike`: it is only asked whether they count as one value, which tells nothing of their units.
    """

    op: Operator
    left: Observed | Number
    right: Observed | Number
    alike: bool = False


@dataclass(frozen=True, slots=True)
class Whole:
    """The number has no fraction."""

    value: Observed


@dataclass(frozen=True, slots=True)
class Is:
    """The text is this one."""

    value: Observed
    text: str


@dataclass(frozen=True, slots=True)
class Neg:
    """Negation."""

    arg: Expr


@dataclass(frozen=True, slots=True)
class All:
    """Conjunction of two or more."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """Disjunction of two or more."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Least:
    """At least `count` of many alike conditions hold."""

    count: int
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Guarded:
    """If all these values are there, the condition holds."""

    values: tuple[Observed, ...]
    arg: Expr


Condition = Has | Beside | Whole | Is | Neg | All | Any | Least | Guarded
Expr = bool | Condition
MOST = 200
"""Combinations that are written out at most; above this number `Least` is used."""


class Refused(Exception):
    """A constraint that neither the graph nor the table can decide; the sentence says why."""


_CONDITIONS: Connectives[Condition] = Connectives(All, Any, Neg)
every, any_of, negate = _CONDITIONS.all_of, _CONDITIONS.any_of, _CONDITIONS.negate
exactly_one = _CONDITIONS.exactly_one


def guarded(values: Sequence[object], arg: Expr) -> Expr:
    """The condition where all of the values are there; only those of the table can be missing."""
    observed = tuple(dict.fromkeys(value for value in values if isinstance(value, Observed)))
    if observed:
        arg = assuming_present(
            arg, frozenset(observed)
        )  # what only a missing value meets is false here
    if not observed or arg is True:
        return arg
    if arg is False:
        return any_of(Neg(Has(value)) for value in observed)
    return Guarded(observed, arg)


def assuming_present(expr: Expr, values: frozenset[Observed]) -> Expr:
    """The condition where these values are there: nothing asks for them any more."""
    match expr:
        case Has():
            return expr.value in values or expr
        case Neg():
            return negate(assuming_present(expr.arg, values))
        case All():
            return every(assuming_present(arg, values) for arg in expr.args)
        case Any():
            return any_of(assuming_present(arg, values) for arg in expr.args)
        case Least():
            return at_least(expr.count, [assuming_present(arg, values) for arg in expr.args])
        case Guarded():
            left = tuple(value for value in expr.values if value not in values)
            return guarded(left, assuming_present(expr.arg, values))
        case _:
            return expr


def at_least(
    count: int, args: Sequence[Expr], equal: Mapping[tuple[int, int], Expr] | None = None
) -> Expr:
    """At least `count` of the conditions hold.

    Two `equal` conditions (pairs of positions, in order) count once.
    """
    if equal:
        chosen = combinations([i for i, arg in enumerate(args) if arg is not False], count)
        return any_of(
            every(
                (
                    *(args[i] for i in one),
                    *(negate(equal.get(pair, False)) for pair in combinations(one, 2)),
                )
            )
            for one in chosen
        )
    count -= sum(arg is True for arg in args)
    left = [arg for arg in args if not isinstance(arg, bool)]
    if count <= 0:
        return True
    if count > len(left):
        return False
    if count == len(left):
        return All(tuple(left)) if len(left) > 1 else left[0]
    if count == 1:
        return Any(tuple(left))
    if comb(len(left), count) > MOST:
        return Least(count, tuple(left))
    return any_of(every(chosen) for chosen in combinations(left, count))


@dataclass(frozen=True, slots=True)
class NumberKnown(Has):
    """The value is a number."""


def conjuncts(expr: Expr) -> Iterator[Expr]:
    """The conjuncts of a condition, with guards pulled inside; a constant is its only conjunct."""
    match expr:
        case All():
            for arg in expr.args:
                yield from conjuncts(arg)
        case Guarded():
            for arg in conjuncts(expr.arg):
                if isinstance(arg, Guarded):
                    values = tuple(dict.fromkeys((*expr.values, *arg.values)))
                    yield Guarded(values, arg.arg)
                else:
                    yield arg if isinstance(arg, bool) else Guarded(expr.values, arg)
        case _:
            yield expr


def required(expr: Expr) -> Expr:
    """A conjunct as a formula that is violated exactly where SHACL says so: the guard goes where a
    missing value makes it unknown.
    """
    if isinstance(expr, Guarded):
        wanted = frozenset(expr.values)
        inner = assuming_present(expr.arg, wanted)
        if all(wanted <= read for read in _reads(inner)):
            return _plain(inner)
        return _plain(guarded(expr.values, inner))
    return _plain(expr)


def _reads(expr: Expr) -> Iterator[set[Observed]]:
    """The values that each atom reads.

    An empty set for an atom that is known even if its value is missing.
    """
    match expr:
        case bool():
            return
        case Has() | Least():
            yield set()
        case Beside():
            sides = {side for side in (expr.left, expr.right) if isinstance(side, Observed)}
            yield set() if any(side.datatypes is not None for side in sides) else sides
        case Whole() | Is():
            yield {expr.value} if expr.value.datatypes is None else set()
        case Neg():
            yield from _reads(expr.arg)
        case All() | Any():
            for arg in expr.args:
                yield from _reads(arg)
        case Guarded():
            yield set()
            yield from _reads(expr.arg)
        case _:
            assert_never(expr)


def _plain(expr: Expr) -> Expr:
    """The expression without guards: if a value is there, then ..."""
    match expr:
        case Guarded():
            return any_of(
                (*(negate(Has(value)) for value in expr.values), _certain(_plain(expr.arg)))
            )
        case Neg():
            return negate(_plain(expr.arg))
        case All():
            return every(_plain(arg) for arg in expr.args)
        case Any():
            return any_of(_plain(arg) for arg in expr.args)
        case Least():
            return Least(expr.count, tuple(_plain(arg) for arg in expr.args))
        case _:
            return _certain(expr)


def _certain(expr: Expr) -> Expr:
    """A comparison with a value that may be no number fails there."""
    if not isinstance(expr, Beside | Whole):
        return expr
    sides = (expr.left, expr.right) if isinstance(expr, Beside) else (expr.value,)
    loose = [side for side in sides if isinstance(side, Observed) and side.datatypes is not None]
    return every((*(NumberKnown(side) for side in loose), expr)) if loose else expr


def either(one: BoundRows, other: BoundRows, record: RuleRecord) -> BoundRows:
    """R x S rows, one for each pair: at least one row of the pair holds.

    Raises:
        Refused: two of them are about different table rows.
    """
    many, more = one.rows.count, other.rows.count
    left, right = np.repeat(np.arange(many), more), np.tile(np.arange(more), many)
    rows = Rows(count=many * more)
    parts = []
    for bound, at in ((one, left), (other, right)):
        parts.append(_shifted(bound.formula, rows))
        rows = _appended(rows, take_rows(bound.rows, at.astype(np.int64)))
    keys = []
    for i, j in zip(left.tolist(), right.tolist(), strict=True):
        key = dict(one.keys[i])
        for header, text in other.keys[j]:
            if key.setdefault(header, text) != text:
                raise Refused(
                    f"no table row is about both {key[header]} and {text}: in each row, "
                    f"column `{header}` names only one of them"
                )
        keys.append(tuple(sorted(key.items())))
    formula, rows = compact(Or(args=tuple(parts)), rows)
    entities = tuple(one.entities[i] for i in left.tolist())
    return replace(
        one, rule=record, formula=formula, rows=rows, keys=tuple(keys), entities=entities, unit=""
    )


def _appended(rows: Rows, more: Rows) -> Rows:
    """The slots, parameters and members of `more` behind those of `rows`."""
    shift = len(rows.members)
    moved = (
        table if table.parent == ROWS else replace(table, parent=table.parent + shift)
        for table in more.members
    )
    return replace(
        rows,
        slots=rows.slots + more.slots,
        params=rows.params + more.params,
        members=(*rows.members, *moved),
    )


def _shifted(formula: Formula, before: Rows) -> Formula:
    """A formula with the slot, parameter and table numbers that it has behind some rows.

    Member sets have separate numbers.
    """
    slots, params, tables = len(before.slots), len(before.params), len(before.members)
    new = Renumbering(
        slot=lambda table, old: old + slots if table == ROWS else old,
        param=lambda table, old: old + params if table == ROWS else old,
        members=lambda old: old + tables,
    )
    return renumbered(formula, new)


@dataclass(slots=True)
class Draft:
    """One row: the contents of the slots and parameters of its formula."""

    slots: list[tuple[int, Role]] = field(default_factory=list)
    params: list[float | tuple[int, str]] = field(default_factory=list)
    members: list[list[Draft]] = field(default_factory=list)

    def term(self, column: int, role: Role) -> Slot:
        """The slot of a column."""
        return Slot(index=self.slot(column, role), role=role)

    def slot(self, column: int, role: Role) -> int:
        """The index of a column's slot."""
        if (column, role) not in self.slots:
            self.slots.append((column, role))
        return self.slots.index((column, role))

    def param(self, value: float | tuple[int, str]) -> int:
        """The index of a new parameter."""
        self.params.append(value)
        return len(self.params) - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """One conjunct for one focus node."""

    formula: Formula
    draft: Draft
    keys: tuple[tuple[str, str], ...]
    entity: str
    unit: str


class Writer:
    """Turns conjuncts into pieces.

    Keeps the units that comparisons need, and those that bare numbers are taken in.
    """

    def __init__(self, sources: Sources, span: Span) -> None:
        self.sources, self.span = sources, span
        self.bare: dict[float, dict[Unit, str]] = {}
        """Bare numbers that were compared with a column, each with the units that they then had and
        the first column in each."""

    def piece(self, expr: Expr, entity: str) -> Piece:
        """One conjunct. Raises Refused if units or keys do not fit."""
        draft, units = Draft(), set[str]()
        formula = self._formula(expr, draft, units)
        keys: dict[str, str] = {}
        for value in _observed(expr):
            key = value.place.key
            if key is not None and keys.setdefault(*key) != key[1]:
                raise Refused(
                    f"no table row is about both {keys[key[0]]} and {key[1]}: in each row, "
                    f"column `{key[0]}` names only one of them"
                )
        unit = units.pop() if len(units) == 1 else ""
        return Piece(
            formula=formula, draft=draft, keys=tuple(sorted(keys.items())), entity=entity, unit=unit
        )

    def _formula(self, expr: Expr, draft: Draft, units: set[str]) -> Formula:
        match expr:
            case bool():
                raise AssertionError("a constant is not a row")
            case NumberKnown():
                return Known(slot=draft.slot(expr.value.place.column, expr.value.place.role))
            case Has():
                place = expr.value.datatypes or expr.value.place
                return Known(slot=draft.slot(place.column, place.role))
            case Is():
                column = expr.value.place.column
                self.sources.book.say(column, expr.text)
                return CategoryIs(
                    slot=draft.slot(column, "input"), param=draft.param((column, expr.text))
                )
            case Whole():
                slot = self._slot(expr.value, draft)
                units.add(_step(expr.value.place.stored))
                floor = Call(function="floor", args=(slot,))
                return Compare(op="eq", left=floor, right=slot, scale=draft.param(1.0))
            case Beside():
                return self._comparison(expr, draft, units)
            case Neg():
                return Not(arg=self._formula(expr.arg, draft, units))
            case All() | Any():
                parts = tuple([self._formula(arg, draft, units) for arg in expr.args])
                return And(args=parts) if isinstance(expr, All) else Or(args=parts)
            case Least():
                return self._least(expr, draft, units)
            case Guarded():
                raise AssertionError("guards are written out before")
            case _:
                assert_never(expr)

    def _least(self, expr: Least, draft: Draft, units: set[str]) -> Formula:
        drafts, formulas = [], set[Formula]()
        for arg in expr.args:
            inner = Draft()
            formulas.add(self._formula(arg, inner, units))
            drafts.append(inner)
        if len(formulas) != 1 or any(inner.members for inner in drafts):
            raise Refused("this number of values of different kinds cannot be counted")
        draft.members.append(drafts)
        return AtLeast(
            count=draft.param(float(expr.count)), members=len(draft.members) - 1, arg=formulas.pop()
        )

    def _slot(self, value: Observed, draft: Draft) -> Slot:
        return draft.term(value.place.column, value.place.role)

    def _comparison(self, expr: Beside, draft: Draft, units: set[str]) -> Formula:
        left, right = expr.left, expr.right
        one: Term
        other: Term
        if (asked := self._truth(expr, draft)) is not None:
            return asked
        if isinstance(left, Observed) and isinstance(right, Observed):
            one, other = self._two(left, right, draft, alike=expr.alike)
        elif isinstance(left, Observed) and isinstance(right, Number):
            one = self._slot(left, draft)
            other = Param(index=draft.param(self._converted(right, left)))
        elif isinstance(left, Number) and isinstance(right, Observed):
            other = self._slot(right, draft)
            one = Param(index=draft.param(self._converted(left, right)))
        else:
            raise AssertionError("two numbers are compared when rules are compiled")
        reading = left if isinstance(left, Observed) else right
        assert isinstance(reading, Observed)
        units.add(
            _step(reading.place.stored or self.sources.book.compared_unit(reading.place.column))
        )
        return Compare(op=expr.op, left=one, right=other, scale=draft.param(1.0))

    def _truth(self, expr: Beside, draft: Draft) -> Formula | None:
        """The condition on a column of truth values that is equivalent to a comparison with a
        number.

        None of any other comparison.
        """
        operator = {"le": "<=", "lt": "<", "eq": "==", "ne": "!="}[expr.op]
        value, number = expr.left, expr.right
        if isinstance(value, Number):
            value, number, operator = number, value, MIRRORED[operator]
        if not isinstance(value, Observed) or not isinstance(number, Number) or number.unit:
            return None
        column = value.place.column
        wanted = (
            truth_wanted(operator, np.array([number.value]))
            if self.sources.book.columns[column].type == "boolean"
            else None
        )
        return (
            None
            if wanted is None
            else CategoryIs(
                slot=draft.slot(column, "input"),
                param=draft.param((column, TRUTHS[int(wanted[0])])),
            )
        )

    def _converted(self, number: Number, value: Observed) -> float:
        """A number in the unit of the table.

        A number without a unit has the unit that rules use for the value.
        """
        place, stored = value.place, value.place.stored
        unit = place.rule_unit or stored
        if number.unit:
            parsed = parse_unit(number.unit)
            if isinstance(parsed, UnitProblem):
                raise Refused(f"the unit {number.unit} is not known")
            unit = parsed
            if stored is None:
                self.sources.book.tell_unit(
                    [np.array([place.column])], parsed, self.span, self.sources.problems
                )
        if unit is not None and not number.unit:
            self.bare.setdefault(number.value, {}).setdefault(
                unit, self.sources.book.columns[place.column].name
            )
        if unit is None or stored is None:
            return number.value
        self._must_agree(unit, stored, value)
        return conversion(unit, stored).one(number.value)

    def _two(
        self, left: Observed, right: Observed, draft: Draft, *, alike: bool
    ) -> tuple[Term, Term]:
        one, other, book = left.place.stored, right.place.stored, self.sources.book
        terms = self._slot(left, draft), self._slot(right, draft)
        if alike and (one is None or other is None):
            return terms
        if one is None and other is None:
            book.compare_bare(
                [np.array([left.place.column]), np.array([right.place.column])], self.span
            )
            return terms
        if one is None or other is None:
            bare, unit = (left, other) if one is None else (right, one)
            assert unit is not None
            book.tell_unit([np.array([bare.place.column])], unit, self.span, self.sources.problems)
            return terms
        self._must_agree(other, one, right)
        change = conversion(other, one)
        term: Term = terms[1]
        if change.factor != 1 or change.turns:
            plain = not change.turns and change.factor.numerator == 1
            size = float(change.factor.denominator) if plain else change.scale
            number = Param(index=draft.param(size))
            term = (
                Quotient(numerator=term, denominator=number)
                if plain
                else Product(args=(term, number))
            )
        if change.shift:
            term = Sum(args=(term, Param(index=draft.param(float(change.shift)))))
        return terms[0], term

    def _must_agree(self, one: Unit, other: Unit, value: Observed) -> None:
        if not same_dimension(one, other):
            raise Refused(
                f"`{one.text}` cannot be compared with `{other.text}`, the unit of "
                f"`{local_name(value.property)}`"
            )


def _step(unit: Unit | None) -> str:
    return "" if unit is None else unit.step().text


def _observed(expr: Expr) -> Iterator[Observed]:
    match expr:
        case Has() | Is() | Whole():
            yield expr.value
        case Beside():
            yield from (side for side in (expr.left, expr.right) if isinstance(side, Observed))
        case Neg() | Guarded():
            yield from _observed(expr.arg)
        case All() | Any() | Least():
            for arg in expr.args:
                yield from _observed(arg)
        case _:
            return


def bound_rows(record: RuleRecord, pieces: Iterable[Piece]) -> list[BoundRows]:
    """The pieces of one rule as bank rows, one part for each form and unit."""
    groups, parts = dict[tuple[Formula, str], list[Piece]](), []
    for piece in pieces:
        groups.setdefault((piece.formula, piece.unit), []).append(piece)
    for (formula, unit), members in groups.items():
        rows = RowBuilder(len(members))
        _fill(rows, [piece.draft for piece in members])
        parts.append(
            BoundRows(
                rule=record,
                formula=formula,
                rows=rows.build(),
                keys=tuple(piece.keys for piece in members),
                entities=tuple(piece.entity for piece in members),
                unit=unit,
            )
        )
    return parts


def _fill(rows: RowBuilder, drafts: Sequence[Draft]) -> None:
    first = drafts[0]
    zeros = np.zeros(rows.count, dtype=np.int64)
    for i, (_, role) in enumerate(first.slots):
        rows.slot(
            ("shacl", i),
            np.array([draft.slots[i][0] for draft in drafts], dtype=np.int64),
            zeros,
            role,
        )
    for i, sample in enumerate(first.params):
        column = [draft.params[i] for draft in drafts]
        if isinstance(sample, tuple):
            pairs = [item for item in column if isinstance(item, tuple)]
            rows.codes(
                np.array([pair[0] for pair in pairs], dtype=np.int64),
                tuple(pair[1] for pair in pairs),
            )
        else:
            rows.param(np.array(column, dtype=np.float64))
    for i in range(len(first.members)):
        sizes = [len(draft.members[i]) for draft in drafts]
        _, inner = rows.set_of_members(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
        _fill(inner, [member for draft in drafts for member in draft.members[i]])


# Finds the table columns with the values of a property for a focus node, and the properties that
# the table has at all.

KEY_COLUMN = URIRef(FKG + "keyColumn")
COLUMN, DATATYPE, DATATYPES = (
    URIRef(FKG + "column"),
    URIRef(FKG + "datatype"),
    URIRef(FKG + "datatypeColumn"),
)
CATEGORY, CATEGORY_OF = URIRef(FKG + "category"), URIRef(FKG + "categoryOf")
DATATYPE_HEADER = " (datatype)"
"""Ends the header of the column that tells the datatypes of another, where a property has several
such columns."""

PASSING = frozenset(
    URIRef(iri)
    for iri in (
        QUDT + "numericValue",
        QUDT + "value",
        SOSA + "hasSimpleResult",
        SOSA + "hasResult",
        SOSA + "madeObservation",
    )
)
"""Properties that lead from a sensor or an observation to its number."""

RESOURCE, BLANK, TEXTS = str(RDFS.Resource), FKG + "blank", str(RDFS.Literal)
"""In place of a datatype: values that are entities, blank nodes, and values of several kinds
without numbers."""


@dataclass(frozen=True, slots=True)
class Row:
    """The focus node that represents each row of the table."""


ROW = Row()
Value = Node | Observed | Row
V = TypeVar("V", bound=Value)


class Observer:
    """Answers for one file of shapes; what it has found out is kept."""

    def __init__(self, sources: Sources, data: Data, shapes: ShapesFile) -> None:
        self.sources, self.data = sources, data
        self.span = Span(file=shapes.name, line=1, column=1, end_line=1, end_column=2)
        self._numbers, self._texts = read_as(shapes)
        nodes = (node for node in data.graph.subjects(COLUMN, None) if isinstance(node, BNode))
        self.attached = frozenset(
            predicate for node in nodes for predicate in data.graph.predicates(None, node)
        )
        """Properties that lead to blank nodes with a column: ``plant:Z1 plant:heat [ fkg:column
        "h1" ]``."""
        self._signals: dict[URIRef, DeclaredSignal | None] = {}
        self._found: dict[tuple[URIRef, Node | Row], tuple[Observed, ...]] = {}
        self._untold: dict[Observed, Observed] = {}
        self._categories: dict[URIRef, tuple[Node, ...]] = {}
        self._properties: tuple[URIRef, ...] | None = None

    def is_observed(self, predicate: URIRef) -> bool:
        """Whether the table has a property's values."""
        return self._signal(predicate) is not None

    def _signal(self, predicate: URIRef) -> DeclaredSignal | None:
        if predicate not in self._signals:
            self._signals[predicate] = signal_of(str(predicate), self.sources, self.span)
        return self._signals[predicate]

    def values(self, predicate: URIRef, focus: Node | Row) -> tuple[Observed, ...]:
        """The values that the table has of an observed property for a focus node.

        None if it has no column for it.
        """
        key = predicate, focus
        if key not in self._found:
            self._found[key] = tuple(self._values(predicate, focus))
        return self._found[key]

    def properties(self) -> tuple[URIRef, ...]:
        """All observed properties, sorted."""
        if self._properties is None:
            graph = self.data.graph
            declared = {
                URIRef(signal.property)
                for signal in self.sources.names.signals.values()
                if signal.property
            }
            stated = {
                *graph.subjects(COLUMN, None),
                *graph.objects(None, URIRef(SOSA + "observes")),
                *self.attached,
            }
            found = declared | {node for node in stated if isinstance(node, URIRef)}
            self._properties = tuple(sorted(node for node in found if self.is_observed(node)))
        return self._properties

    def categories(self, predicate: URIRef) -> tuple[Node, ...] | None:
        """The values that an observed property may have, sorted: those of `fkg:category`, else the
        members of its `rdfs:range`.

        None if neither says any.
        """
        if predicate not in self._categories:
            graph = self.data.graph
            found = set(graph.objects(predicate, CATEGORY))
            if not found:
                ranges = [
                    kind
                    for kind in graph.objects(predicate, RDFS.range)
                    if kind not in (RDFS.Resource, OWL.Thing)
                ]
                found = {
                    node
                    for kind in ranges
                    for node in (*self.data.members(kind), *self._one_of(kind))
                }
            self._categories[predicate] = tuple(
                sorted((node for node in found if not isinstance(node, BNode)), key=str)
            )
        return self._categories[predicate] or None

    def _one_of(self, kind: Node) -> tuple[Node, ...]:
        head = self.data.graph.value(kind, OWL.oneOf)
        return () if head is None else items(self.data.graph, head) or ()

    def keyed(self) -> list[Node]:
        """The entities that table rows or separate columns describe, sorted."""
        graph = self.data.graph
        named = set(graph.subjects(KEY_COLUMN, None))
        members = {node for kind in named for node in self.data.members(kind)}
        named = {
            node for node in named if not self.data.members(node)
        }  # a class names its members' column
        hosts = set(graph.objects(None, URIRef(SOSA + "isHostedBy")))
        return sorted(named | members | hosts, key=str)

    def of_sensor(self, node: Node, via: URIRef) -> tuple[Observed, ...]:
        """The value of a sensor, or of any node with a separate column, that the property `via`
        leads to.
        """
        header = self.data.graph.value(node, COLUMN)
        host = self.data.graph.value(node, URIRef(SOSA + "isHostedBy"))
        seen = self.data.graph.value(node, URIRef(SOSA + "observes"))
        if isinstance(seen, URIRef) and host is not None and self.is_observed(seen):
            found = self.values(seen, host)
            return tuple(self.compared(value) for value in found) if via in self._numbers else found
        if not isinstance(header, Literal):
            return ()
        unit = self.data.graph.value(node, URIRef(QUDT + "unit")) or self.data.graph.value(
            node, URIRef(QUDT + "hasUnit")
        )
        text = (
            ""
            if unit is None or self.sources.graph is None
            else self.sources.graph.unit_text(str(unit))
        )
        place = self._column_place(str(header), local_name(str(seen or header)), text)
        return () if place is None else (Observed(property=str(seen or header), place=place),)

    def has_column(self, node: Node) -> bool:
        """Whether a node of the graph represents a value of the table."""
        return not isinstance(node, Literal) and self.data.graph.value(node, COLUMN) is not None

    def _values(self, predicate: URIRef, focus: Node | Row) -> Iterable[Observed]:
        signal = self._signal(predicate)
        if signal is None or isinstance(focus, Literal):
            return
        for place in self._column_places(predicate, signal, focus):
            yield self._described(predicate, signal, place)

    def _column_places(
        self, predicate: URIRef, signal: DeclaredSignal, focus: Node | Row
    ) -> list[Place]:
        facts = columns_of(
            self.sources, str(predicate), None if isinstance(focus, Row) else self._cell(focus).iri
        )
        shared = (
            [] if signal.column is not None else [fact for fact in facts if fact.entity is None]
        )
        if len(shared) > 1:  # one column for each of several values
            graph = self.sources.graph
            key = (
                None
                if isinstance(focus, Row) or graph is None
                else graph.key_of(self._cell(focus).iri)
            )
            if not isinstance(focus, Row) and key is None:
                return []
            found = [
                self._column_place(fact.column, signal.name, fact.unit or "") for fact in shared
            ]
            return [place._replace(key=key) for place in found if place is not None]
        quiet = replace(self.sources, problems=Problems())
        place = observed_place(str(predicate), self._cell(focus), quiet, self.span)
        said = quiet.problems.all()
        self.sources.problems.add(
            item
            for item in said
            if not (item.code == "FKG207" and "has no column for" in item.message)
        )
        return [] if place is None or place.column < 0 else [place]

    def _cell(self, focus: Node | Row) -> Cell:
        if isinstance(focus, Row):
            return Cell(text="", row=True)
        iri = f"_:{focus}" if isinstance(focus, BNode) else str(focus)
        graph = self.sources.graph
        return Cell(text=local_name(iri) if graph is None else graph.label_of(iri), iri=iri)

    def _described(self, predicate: URIRef, signal: DeclaredSignal, place: Place) -> Observed:
        datatype = str(self.data.graph.value(predicate, DATATYPE) or "")
        header = self._datatypes_of(predicate, place)
        plain = (
            signal.unit is None
            and place.stored is None
            and signal.span is None
            and signal.role == "input"
        )
        has_datatype = datatype != "" and datatype not in NUMBERS and datatype != str(XSD.boolean)
        has_datatype = has_datatype or (predicate, CATEGORY, None) in self.data.graph
        is_text = plain and (
            has_datatype or (predicate not in self._numbers and not datatype and header is None)
        )
        datatype = "" if header is not None else datatype
        datatypes = None
        if header is not None:
            name = f"{self.sources.book.columns[place.column].name} datatype"
            datatypes = Place(
                column=self.sources.book.column(
                    BookColumn(name=name, source=header, type="category")
                )
            )
        if not is_text:
            return Observed(
                property=str(predicate), place=place, datatype=datatype, datatypes=datatypes
            )
        entry = self.sources.book.columns[place.column]
        column = self.sources.book.column(
            BookColumn(name=entry.name, source=entry.source, type="category")
        )
        text = Observed(
            property=str(predicate),
            place=place._replace(column=column),
            kind="text",
            datatype=datatype,
            datatypes=datatypes,
        )
        if not has_datatype and predicate not in self._texts and self.categories(predicate) is None:
            self._untold[text] = Observed(property=str(predicate), place=place)
        return text

    def compared(self, value: V) -> V | Observed:
        """A value as it is compared with another: a number if nothing describes the contents of its
        column.
        """
        return self._untold.get(value, value) if isinstance(value, Observed) else value

    def _datatypes_of(self, predicate: URIRef, place: Place) -> str | None:
        """The header of the column that tells the datatypes of a property's values, or of those in
        one of its columns; None for none.
        """
        headers = sorted(str(one) for one in self.data.graph.objects(predicate, DATATYPES))
        own = f"{self.sources.book.columns[place.column].source}{DATATYPE_HEADER}"
        return own if own in headers else headers[0] if len(headers) == 1 else None

    def _column_place(self, header: str, name: str, unit_text: str) -> Place | None:
        unit = parse_unit(unit_text) if unit_text else None
        if isinstance(unit, UnitProblem):
            return None
        signal = DeclaredSignal(
            name=name,
            role="input",
            family="",
            property=None,
            unit=unit,
            span=None,
            column=header,
            place=self.span,
        )
        place = plain_place(signal, self.sources, self.span)
        return None if place.column < 0 else place


def read_as(shapes: ShapesFile) -> tuple[frozenset[URIRef], frozenset[URIRef]]:
    """The properties that shapes compare with numbers, and those that they compare with texts
    alone.
    """
    texts: set[URIRef] = set()
    numbers: set[URIRef] = set()
    for shape in shapes.shapes.values():
        last = set() if shape.path is None else set(_last(shape.path))
        for constraint in shape.constraints if last else ():
            if constraint.name in ("lessThan", "lessThanOrEquals", "equals", "disjoint"):
                numbers |= last | {
                    value for value in constraint.values if isinstance(value, URIRef)
                }
            elif constraint.name == "datatype" and constraint.values[0] == XSD.boolean:
                numbers |= last
        for constraint in _value_constraints(shapes, shape) if last else ():
            if constraint.name in ("minInclusive", "minExclusive", "maxInclusive", "maxExclusive"):
                numbers |= last
            elif constraint.name in ("in", "hasValue"):
                numbers |= last if any(is_number(value) for value in constraint.values) else set()
                texts |= last
            elif constraint.name == "datatype" and constraint.values[0] != XSD.boolean:
                (numbers if str(constraint.values[0]) in NUMBERS else texts).update(last)
            elif constraint.name in (
                "pattern",
                "minLength",
                "maxLength",
                "languageIn",
                "uniqueLang",
            ):
                texts |= last
    return frozenset(numbers), frozenset(texts - numbers)


def _value_constraints(shapes: ShapesFile, shape: Shape) -> Iterator[Constraint]:
    """The constraints on a property shape's value nodes, nested ones too: ``sh:path p .

    Sh:or ( [ sh:minInclusive 5 ] ... )``.
    """
    waiting, seen = [shape], {shape.node}
    while waiting:
        constraints = waiting.pop().constraints
        yield from constraints
        nodes = [
            node
            for item in constraints
            if item.name in SHAPE_VALUED
            for node in item.values
            if node not in seen
        ]
        seen.update(nodes)
        waiting += [
            inner
            for node in nodes
            if (inner := shapes.shapes.get(node)) is not None and inner.path is None
        ]


def is_number(value: Node) -> bool:
    """Whether a term is a number, or true or false."""
    return (
        isinstance(value, Literal)
        and not value.ill_typed
        and (str(value.datatype) in NUMBERS or value.datatype == XSD.boolean)
    )


def _last(path: Path) -> Iterator[URIRef]:
    """The properties that a path may end with."""
    match path:
        case Step():
            yield path.property
        case PathSequence():
            yield from _last(path.paths[-1])
        case Alternative():
            for part in path.paths:
                yield from _last(part)
        case Repeat():
            yield from _last(path.path)
        case Inverse():
            return
