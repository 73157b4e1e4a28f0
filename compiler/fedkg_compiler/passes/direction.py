"""In which direction a parameter makes a formula easier to satisfy: by the polarity of the places where it stands.

A sign is +1 (grows with the parameter, or does not shrink), -1, 0 (does not depend on it), or None (nothing can be told).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import numpy as np

from fedkg.pack import (
    And,
    AtLeast,
    Call,
    CategoryIs,
    Choose,
    ClassIn,
    Coalesce,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    Negate,
    Not,
    Or,
    Param,
    Power,
    Product,
    Quotient,
    Reduce,
    Slot,
    Sum,
    Temporal,
    Term,
    Until,
    everywhere,
)
from fedkg_compiler.passes.intervals import Ranges, interval

Sign = int | None

RISING = ("sqrt", "exp", "log", "tanh", "floor", "ceil", "round")
"""Functions that never fall."""


def direction(formula: Formula, param: int, ranges: Ranges) -> Sign:
    """The sign of satisfaction in a parameter: +1 where a larger value is never harder to satisfy."""
    match formula:
        case Compare():
            return _comparison(formula, param, ranges)
        case ClassIn() | CategoryIs() | Known():
            return 0
        case Not():
            return _turned(direction(formula.arg, param, ranges))
        case And() | Or():
            return _both(direction(arg, param, ranges) for arg in formula.args)
        case Implies():
            antecedent = _turned(direction(formula.antecedent, param, ranges))
            return _both((antecedent, direction(formula.consequent, param, ranges)))
        case Temporal():
            universal = formula.op in ("always", "historically")
            inner = direction(formula.arg, param, ranges)
            return _both(
                (inner, _window(formula.low, formula.high, param, wider=-1 if universal else 1))
            )
        case Until():
            inner = _both(
                (direction(formula.left, param, ranges), direction(formula.right, param, ranges))
            )
            return _both((inner, _window(formula.low, formula.high, param, wider=1)))
        case Initially():
            return direction(formula.arg, param, ranges)
        case AtLeast():
            return -1 if formula.count == param else 0  # members have parameters of their own
        case _:
            assert_never(formula)


def _window(low: int, high: int, param: int, *, wider: int) -> Sign:
    """The sign in an end of a window; `wider` is that of a wider one."""
    return _both((-wider if low == param else 0, wider if high == param else 0))


def _comparison(atom: Compare, param: int, ranges: Ranges) -> Sign:
    left, right = slope(atom.left, param, ranges), slope(atom.right, param, ranges)
    tolerance = 0 if atom.tolerance is None else slope(atom.tolerance, param, ranges)
    if atom.op in ("le", "lt"):
        return _both((_turned(left), right, tolerance))
    if left != 0 or right != 0:
        return None
    return tolerance if atom.op == "eq" else _turned(tolerance)


def slope(term: Term, param: int, ranges: Ranges) -> Sign:
    """The sign of a term in a parameter."""
    match term:
        case Slot() | Reduce():
            return 0
        case Param():
            return int(term.index == param)
        case Sum() | Coalesce():
            return _both(slope(arg, param, ranges) for arg in term.args)
        case Negate():
            return _turned(slope(term.arg, param, ranges))
        case Product():
            return _product(term, param, ranges)
        case Quotient():
            return _quotient(term, param, ranges)
        case Power():
            return _power(term, param, ranges)
        case Call():
            inner = _both(slope(arg, param, ranges) for arg in term.args)
            if inner == 0 or term.function in RISING or term.function in ("min", "max"):
                return inner
            return _times(inner, _sign(term.args[0], ranges)) if term.function == "abs" else None
        case Choose():
            if any(
                isinstance(part, Param) and part.index == param
                for _, part in everywhere(term.condition)
            ):
                return None
            return _both((slope(term.then, param, ranges), slope(term.otherwise, param, ranges)))
        case _:
            assert_never(term)


def _product(term: Product, param: int, ranges: Ranges) -> Sign:
    slopes = [slope(arg, param, ranges) for arg in term.args]
    parts: list[Sign] = []
    for i, own in enumerate(slopes):
        for j, other in enumerate(term.args):
            if i != j and own != 0:
                own = _times(own, _sign(other, ranges))
        parts.append(own)
    return _both(parts)


def _quotient(term: Quotient, param: int, ranges: Ranges) -> Sign:
    above, below = slope(term.numerator, param, ranges), slope(term.denominator, param, ranges)
    by = _sign(term.denominator, ranges)
    if below == 0:
        return above if above == 0 else _times(above, by)
    if by is None:
        return None
    falling = _times(_turned(below), _sign(term.numerator, ranges))
    return _both((_times(above, by), falling))


def _power(term: Power, param: int, ranges: Ranges) -> Sign:
    inner = slope(term.base, param, ranges)
    if inner == 0 or term.exponent == 0:
        return 0
    if term.exponent > 0 and (not term.exponent.is_integer() or int(term.exponent) % 2 == 1):
        return inner
    sign = _sign(term.base, ranges)
    turned = (
        _times(inner, sign)
        if term.exponent.is_integer() and int(term.exponent) % 2 == 0
        else inner
        if sign is not None
        else None
    )
    return _turned(turned) if term.exponent < 0 else turned


def _sign(term: Term, ranges: Ranges) -> Sign:
    """The sign of a term's own value inside the declared spans; None where it may have both."""
    low, high = interval(term, ranges)
    if bool(np.all(low >= 0)):
        return 1
    return -1 if bool(np.all(high <= 0)) else None


def _turned(sign: Sign) -> Sign:
    return None if sign is None else -sign


def _times(sign: Sign, other: Sign) -> Sign:
    return None if sign is None or other is None else sign * other


def _both(signs: Iterable[Sign]) -> Sign:
    """The sign of a sum of parts: theirs where they agree."""
    known = set(signs) - {0}
    if not known:
        return 0
    return known.pop() if len(known) == 1 else None
