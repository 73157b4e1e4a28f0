"""Conditions on the table become bank rows: one row for each focus node and conjunct, together
where they are of one form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

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
from fedkg.units.text import UnitProblem, parse_unit
from fedkg.units.unit import Unit, conversion, same_dimension
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.arithmetic import MIRRORED, truth_wanted
from fedkg_compiler.frontends.fkg.binding.scope import Sources
from fedkg_compiler.frontends.shacl.shape_conditions import (
    All,
    Any,
    Beside,
    Expr,
    Guarded,
    Has,
    Is,
    Least,
    Neg,
    Number,
    NumberKnown,
    Observed,
    Refused,
    Whole,
)
from fedkg_compiler.graph.graph_terms import local_name
from fedkg_compiler.ir import BoundRows, RowBuilder


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
                    f"no table row is about both {keys[key[0]]} and {key[1]}: column "
                    f"`{key[0]}` has one of them"
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
            told = parse_unit(number.unit)
            if isinstance(told, UnitProblem):
                raise Refused(f"the unit {number.unit} is not known")
            unit = told
            if stored is None:
                self.sources.book.tell_unit(
                    [np.array([place.column])], told, self.span, self.sources.problems
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
