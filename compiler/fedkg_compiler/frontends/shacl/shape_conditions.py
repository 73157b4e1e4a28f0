"""The condition of a shape on one focus node after the graph is known: true, false, or a condition
on the table.

A value of the table may be missing. SHACL then has no value node, so its constraints hold.
`Guarded` expresses this. The lowering drops it if a missing value makes a row unknown, which is not
a violation either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Literal, assert_never

from fedkg_compiler.formulas.formula_algebra import Connectives
from fedkg_compiler.frontends.fkg.binding.scope import Place

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
