"""Terms as numbers of the solver z3, with what makes them known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import z3

from fedkg.pack import (
    Call,
    Choose,
    Coalesce,
    Negate,
    Param,
    Power,
    Product,
    Quotient,
    Reduce,
    Slot,
    Sum,
    Term,
)
from fedkg.pack.terms import Lag, WindowReduce

if TYPE_CHECKING:
    from fedkg_compiler.reason.z3_formulas import _Place

Z3 = Any
"""z3 has no types."""


@dataclass(frozen=True, slots=True)
class Value:
    """A number, and the conditions under which it is known (all of them)."""

    number: Z3
    known: Sequence[Z3] = ()


def term_value(term: Term, place: _Place) -> Value:
    """The value of a term at a place."""
    place.to.tick()
    match term:
        case Slot():
            return place.slot(term.index)
        case Param():
            return Value(z3.RealVal(str(Fraction(repr(float(place.params[term.index]))))))
        case Sum():
            parts = [term_value(arg, place) for arg in term.args]
            return Value(_sum([part.number for part in parts]), _known_conditions(parts))
        case Product():
            parts = [term_value(arg, place) for arg in term.args]
            number = parts[0].number
            for part in parts[1:]:
                number = number * part.number
            return Value(number, _known_conditions(parts))
        case Negate():
            part = term_value(term.arg, place)
            return Value(-part.number, part.known)
        case Quotient():
            above, below = term_value(term.numerator, place), term_value(term.denominator, place)
            return Value(
                above.number / below.number, [*_known_conditions([above, below]), below.number != 0]
            )
        case Power():
            return _power(term_value(term.base, place), term.exponent, place)
        case Call():
            return _call(term, [term_value(arg, place) for arg in term.args], place)
        case Reduce():
            return _reduce(
                term,
                [term_value(term.arg, member) for member in place.members(term.members)],
                place,
            )
        case Choose():
            return _choose(term, place)
        case Coalesce():
            *firsts, number_last = [term_value(arg, place) for arg in term.args]
            number = number_last.number
            for part in reversed(firsts):
                number = z3.If(_all(part.known), part.number, number) if part.known else part.number
            return Value(number, [z3.Or(*(_all(part.known) for part in (*firsts, number_last)))])
        case Lag() if (steps := place.whole(term.steps)) <= place.to.longest:
            there = place.moved(-steps)
            part = term_value(term.arg, there)
            return Value(part.number, [*part.known, *place.to.is_inside(there.step)])
        case WindowReduce(count=int(count)) if place.whole(count) <= place.to.longest:
            return _window(term, place.whole(count), place)
        case _:
            # The solver has no form for it: it may be any number, known wherever that helps.
            place.to.weakened = True
            return Value(z3.Real(f"any{next(place.to.fresh)}"))


def _window(term: WindowReduce, count: int, place: _Place) -> Value:
    """The number made of the values at so many steps."""
    parts: list[Value] = []
    for steps in range(count):
        there = place.moved(steps if term.ahead else -steps)
        part = term_value(term.arg, there)
        parts.append(Value(part.number, [*part.known, *place.to.is_inside(there.step)]))
    if term.op in ("min", "max"):
        return _call(Call(function=term.op, args=(Param(index=0),)), parts, place)
    total = _sum([part.number for part in parts])
    return Value(total / count if term.op == "mean" else total, _known_conditions(parts))


def _known_conditions(parts: Sequence[Value]) -> list[Z3]:
    return [condition for part in parts for condition in part.known]


def _all(conditions: Sequence[Z3]) -> Z3:
    return z3.And(*conditions)


def _sum(numbers: Sequence[Z3]) -> Z3:
    return z3.Sum(*numbers) if len(numbers) > 1 else numbers[0] if numbers else z3.RealVal(0)


def _choose(term: Choose, place: _Place) -> Value:
    then, otherwise = term_value(term.then, place), term_value(term.otherwise, place)
    holds, fails = place.formula(term.condition, True), place.formula(term.condition, False)
    return Value(
        z3.If(holds, then.number, otherwise.number),
        [z3.Or(z3.And(holds, *then.known), z3.And(fails, *otherwise.known))],
    )


def _power(base: Value, exponent: float, place: _Place) -> Value:
    if exponent.is_integer() and abs(exponent) <= 6:
        number = z3.RealVal(1)
        for i in range(abs(int(exponent))):
            number = base.number if i == 0 else number * base.number
        return (
            Value(number, base.known)
            if exponent >= 0
            else Value(1 / number, [*base.known, base.number != 0])
        )
    if exponent == 0.5:
        return _root(base, place)
    known = [*base.known] if exponent.is_integer() else [*base.known, base.number >= 0]
    return _opaque(
        f"power {exponent}",
        base.number,
        known,
        place,
        rising=exponent > 0 and not exponent.is_integer(),
    )


def _root(base: Value, place: _Place) -> Value:
    root = z3.Real(f"root{next(place.to.fresh)}")
    return Value(root, [*base.known, base.number >= 0, root >= 0, root * root == base.number])


def _call(term: Call, args: list[Value], place: _Place) -> Value:
    known, number = _known_conditions(args), args[0].number
    match term.function:
        case "min" | "max":
            for arg in args[1:]:
                less = number <= arg.number if term.function == "min" else number >= arg.number
                number = z3.If(less, number, arg.number)
            return Value(number, known)
        case "abs":
            return Value(z3.If(number >= 0, number, -number), known)
        case "floor":
            return Value(z3.ToReal(z3.ToInt(number)), known)
        case "ceil":
            return Value(-z3.ToReal(z3.ToInt(-number)), known)
        case "round":
            whole = z3.Int(f"round{next(place.to.fresh)}")
            near = z3.ToReal(whole)
            half = z3.RealVal("1/2")
            even = z3.Implies(z3.Or(near - number == half, number - near == half), whole % 2 == 0)
            return Value(near, [*known, near - number <= half, number - near <= half, even])
        case "sqrt":
            return _root(args[0], place)
        case "exp" | "tanh" | "log":
            positive = [number > 0] if term.function == "log" else []
            return _opaque(term.function, number, [*known, *positive], place, rising=True)
        case "sin" | "cos" | "tan":
            return _opaque(term.function, number, known, place, rising=False)
        case _:
            assert_never(term.function)


_RANGES: dict[str, tuple[str | None, str | None]] = {
    "exp": ("0", None),
    "tanh": ("-1", "1"),
    "sin": ("-1", "1"),
    "cos": ("-1", "1"),
}


def _opaque(name: str, arg: Z3, known: Sequence[Z3], place: _Place, *, rising: bool) -> Value:
    """A function known to the solver only by its range, its monotonicity, and as a function of its
    argument.

    A value that can be computed is, to within a part in a million.
    """
    place.to.weakened = True
    function = z3.Function(name, z3.RealSort(), z3.RealSort())
    number = function(arg)
    low, high = _RANGES.get(name, (None, None))
    facts = [number >= z3.RealVal(low)] if low is not None else []
    facts += [number <= z3.RealVal(high)] if high is not None else []
    applied = place.to.applied.setdefault(name, [])
    if rising:
        facts += [
            z3.And(
                z3.Implies(arg < other, number < function(other)),
                z3.Implies(other < arg, function(other) < number),
            )
            for other in applied
        ]
        facts += [
            fact for point in _POINTS.get(name, ()) for fact in _around(number, arg, name, point)
        ]
    applied.append(arg)
    return Value(number, [*known, *facts])


_POINTS: dict[str, tuple[float, ...]] = {
    "exp": (-20.0, -5.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0),
    "log": (1e-6, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0, 1e3, 1e6),
    "tanh": (-5.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 5.0),
}
"""Where the values of rising functions are stated."""


def _around(number: Z3, arg: Z3, name: str, point: float) -> list[Z3]:
    value = float(getattr(np, name)(point))
    gap = 1e-6 * max(1e-9, abs(value))
    at = z3.RealVal(str(Fraction(repr(point))))
    above, below = (z3.RealVal(str(Fraction(repr(value + way * gap)))) for way in (1, -1))
    return [z3.Implies(arg <= at, number <= above), z3.Implies(arg >= at, number >= below)]


def _reduce(term: Reduce, members: list[Value], place: _Place) -> Value:
    numbers, size = [member.number for member in members], len(members)
    weights = [
        z3.If(_all(member.known), z3.RealVal(1), z3.RealVal(0)) if member.known else z3.RealVal(1)
        for member in members
    ]
    if term.op == "count":
        return Value(_sum(weights))
    if not term.skip or not any(member.known for member in members):
        known = _known_conditions(members)
        if term.op == "sum":
            return Value(_sum(numbers), known)
        if not members:
            return Value(z3.RealVal(0), [z3.BoolVal(False)])
        if term.op == "mean":
            return Value(_sum(numbers) / size, known)
        return _call(Call(function=term.op, args=(Param(index=0),)), members, place)
    kept = [weight * number for weight, number in zip(weights, numbers, strict=True)]
    if term.op == "sum":
        return Value(_sum(kept))
    some = z3.Or(*(_all(member.known) for member in members))
    if term.op == "mean":
        return Value(_sum(kept) / _sum(weights), [some])
    best = z3.Real(f"best{next(place.to.fresh)}")
    beats = [best <= number if term.op == "min" else best >= number for number in numbers]
    facts = [
        z3.Implies(_all(member.known), beat) for member, beat in zip(members, beats, strict=True)
    ]
    return Value(
        best, [*facts, z3.Or(*(z3.And(best == member.number, *member.known) for member in members))]
    )
