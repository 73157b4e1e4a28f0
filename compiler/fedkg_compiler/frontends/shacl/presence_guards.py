"""Conjuncts with their guards, "if a value is there", left away where a missing value makes a row
unknown, or written out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

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
    Observed,
    Whole,
    any_of,
    assuming_present,
    every,
    guarded,
    negate,
)


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
