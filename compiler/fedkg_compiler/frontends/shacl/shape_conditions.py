"""The condition of a shape on one focus node after the graph is known: true, false, or a condition
on the table. Conditions become bank rows: one row for each focus node and conjunct, together where
they are of one form.

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
from typing import Literal, assert_never

import numpy as np

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
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.formulas.formula_algebra import Connectives
from fedkg_compiler.frontends.fkg.binding.arithmetic import MIRRORED, truth_wanted
from fedkg_compiler.frontends.fkg.binding.scope import Place, Sources
from fedkg_compiler.frontends.sparql.branch_constraint_rows import take_rows
from fedkg_compiler.frontends.sparql.formula_slot_renumbering import compact
from fedkg_compiler.graph.graph_terms import local_name
from fedkg_compiler.ir import BoundRows, RowBuilder, Rows

Operator = Literal["le", "lt", "eq", "ne"]


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
    kind: Literal["number", "text"] = "number"
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
