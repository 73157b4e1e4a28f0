"""Tells which comparisons are affine, and with which coefficients; the form in which they are
evaluated stays as it is.

The shape of the term answers most questions at once; what it leaves open (``(x + 1)^2 - x^2``) goes
to sympy.

Letters: R rows, s slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import (
    Call,
    Compare,
    Formula,
    Negate,
    Param,
    Power,
    Product,
    Quotient,
    Reduce,
    Slot,
    Sum,
    Term,
    subterms,
    term_children,
)
from fedkg.pack.node import MANY
from fedkg.pack.walk import everywhere, reads_output, sides

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Affine:
    """``sum of coefficients[i] * slot i + constant``; every number is float64 [R]."""

    coefficients: Mapping[int, Array]
    constant: Array


def slots_of(term: Term) -> frozenset[int]:
    """The slots that a term reads."""
    return frozenset(part.index for part in subterms(term) if isinstance(part, Slot))


def affine_in(compare: Compare, slots: frozenset[int]) -> bool:
    """Whether both sides of a comparison are affine in `slots`, everything else being given."""
    return all(
        _degree(side, slots) <= 1 or _sympy_degree(side, slots) <= 1
        for side in (compare.left, compare.right)
    )


def nonlinear_comparisons(formula: Formula) -> list[Compare]:
    """The comparisons of a formula, those of its members included, that are not affine in its
    outputs.
    """
    atoms = (atom for _, atom in everywhere(formula) if isinstance(atom, Compare))
    return [atom for atom in atoms if is_nonlinear(atom)]


def is_nonlinear(atom: Compare) -> bool:
    """Whether a comparison is not affine in the outputs that it reads."""
    if not reads_output(atom):
        return False
    outputs = frozenset(
        term.index
        for side in sides(atom)
        for term in subterms(side)
        if isinstance(term, Slot) and term.role == "output"
    )
    return not affine_in(atom, outputs)


POLYNOMIAL = (Slot, Param, Sum, Negate, Product, Quotient, Power, Call)
"""The kinds of terms that sympy is given; it takes a `Call` for an unknown function."""
LARGEST, STEEPEST = 60, 8
"""Terms with more parts, or higher powers, are not given to sympy: expanding them may take for
ever.
"""


def _degree(term: Term, slots: frozenset[int]) -> int:
    """The degree in `slots` that the term's shape shows: never too low, `MANY` where it shows
    none.
    """
    if isinstance(term, Slot):
        return int(term.index in slots)
    if isinstance(term, Reduce):
        return _reduction_degree(term)
    if not isinstance(term, POLYNOMIAL):
        return MANY if slots & slots_of(term) or reads_output(term) else 0
    return term.degree([_degree(part, slots) for part in term_children(term)])


def _reduction_degree(term: Reduce) -> int:
    """The degree of a reduction in what its members predict; the slots of its owner are not in
    it.
    """
    if not reads_output(term):
        return 0
    outputs = frozenset(
        part.index
        for part in subterms(term.arg)
        if isinstance(part, Slot) and part.role == "output"
    )
    linear = term.op in ("sum", "mean") and not term.skip and _degree(term.arg, outputs) <= 1
    return 1 if linear else MANY


def _sympy_degree(term: Term, slots: frozenset[int]) -> int:
    """Return the degree after simplification; `MANY` if the term is not a polynomial."""
    if _too_large(term):
        return MANY
    import sympy

    symbols = [sympy.Symbol(f"s{i}", real=True) for i in sorted(slots)]
    polynomial = sympy.cancel(_expression(term)).as_poly(*symbols) if symbols else None
    return MANY if polynomial is None else int(polynomial.total_degree())


def _too_large(term: Term) -> bool:
    parts = list(subterms(term))
    return len(parts) > LARGEST or any(
        not isinstance(part, POLYNOMIAL)
        or (isinstance(part, Power) and abs(part.exponent) > STEEPEST)
        for part in parts
    )


def _expression(term: Term) -> Any:  # Any: sympy has no types
    import sympy

    match term:
        case Slot():
            return sympy.Symbol(f"s{term.index}", real=True)
        case Param():
            return sympy.Symbol(f"p{term.index}", real=True)
        case Sum():
            return sympy.Add(*(_expression(arg) for arg in term.args))
        case Negate():
            return -_expression(term.arg)
        case Product():
            return sympy.Mul(*(_expression(arg) for arg in term.args))
        case Quotient():
            return _expression(term.numerator) / _expression(term.denominator)
        case Power():
            return _expression(term.base) ** sympy.Rational(repr(term.exponent))
        case Call():
            return sympy.Function(term.function)(*(_expression(arg) for arg in term.args))
        case _:
            raise AssertionError("never given to sympy: see `POLYNOMIAL`")


def affine(term: Term, params: Sequence[Array]) -> Affine | None:
    """The affine form of a term in all its slots, or None where it has none.

    Args:
        params: the rows' numbers, float64 [R] each.
    """
    rows = len(params[0]) if params else 1
    return affine_by_shape(term, params, rows) or _by_sympy(term, params, rows)


def affine_by_shape(term: Term, params: Sequence[Array], rows: int) -> Affine | None:
    """Return the affine form of a term that is affine by its structure, else None; always fast."""
    if (
        not all(isinstance(part, POLYNOMIAL) for part in subterms(term))
        or _degree(term, slots_of(term)) > 1
    ):
        return None
    return _by_shape(term, params, rows)


def _by_shape(term: Term, params: Sequence[Array], rows: int) -> Affine:
    match term:
        case Slot():
            return Affine(coefficients={term.index: np.ones(rows)}, constant=np.zeros(rows))
        case Param():
            return Affine(
                coefficients={}, constant=np.asarray(params[term.index], dtype=np.float64)
            )
        case Sum():
            total = _by_shape(term.args[0], params, rows)
            for arg in term.args[1:]:
                total = _plus(total, _by_shape(arg, params, rows))
            return total
        case Negate():
            return _times(_by_shape(term.arg, params, rows), np.full(rows, -1.0))
        case Product():
            total = _by_shape(term.args[0], params, rows)
            for arg in term.args[1:]:
                other = _by_shape(arg, params, rows)
                total = (
                    _times(total, other.constant)
                    if not other.coefficients
                    else _times(other, total.constant)
                )
            return total
        case Quotient():
            below = _by_shape(term.denominator, params, rows).constant
            with np.errstate(divide="ignore"):
                return _times(_by_shape(term.numerator, params, rows), 1 / below)
        case Power():
            base = _by_shape(term.base, params, rows)
            return (
                base
                if term.exponent == 1
                else Affine(coefficients={}, constant=base.constant**term.exponent)
            )
        case Call():
            return Affine(coefficients={}, constant=_value(term, params, rows))
        case _:
            raise AssertionError("its shape does not show that it is affine: see `POLYNOMIAL`")


def _value(term: Call, params: Sequence[Array], rows: int) -> Array:
    """A function of numbers known at compile time."""
    values = [_by_shape(arg, params, rows).constant for arg in term.args]
    result: Array
    match term.function:
        case "min":
            result = np.minimum.reduce(values)
        case "max":
            result = np.maximum.reduce(values)
        case _:
            result = getattr(np, term.function)(values[0])
    return result


def _plus(a: Affine, b: Affine) -> Affine:
    keys = [*a.coefficients, *(key for key in b.coefficients if key not in a.coefficients)]
    zero = np.zeros_like(a.constant)
    return Affine(
        coefficients={
            key: a.coefficients.get(key, zero) + b.coefficients.get(key, zero) for key in keys
        },
        constant=a.constant + b.constant,
    )


def _times(a: Affine, factor: Array) -> Affine:
    return Affine(
        coefficients={key: value * factor for key, value in a.coefficients.items()},
        constant=a.constant * factor,
    )


def _by_sympy(term: Term, params: Sequence[Array], rows: int) -> Affine | None:
    """The affine form of what only cancels after simplification."""
    if _too_large(term):
        return None
    import sympy

    slots = sorted(slots_of(term))
    symbols = [sympy.Symbol(f"s{i}", real=True) for i in slots]
    polynomial = sympy.cancel(_expression(term)).as_poly(*symbols)
    if polynomial is None or polynomial.total_degree() > 1:
        return None
    names = [sympy.Symbol(f"p{i}", real=True) for i in range(len(params))]
    constant = polynomial.coeff_monomial(1)
    parts = [polynomial.coeff_monomial(symbol) for symbol in symbols]
    if any(part.atoms(sympy.Function) for part in (*parts, constant)):
        return None
    numbers = [
        np.broadcast_to(
            np.asarray(sympy.lambdify(names, part, "numpy")(*params), dtype=np.float64), (rows,)
        )
        for part in (*parts, constant)
    ]
    return Affine(coefficients=dict(zip(slots, numbers[:-1], strict=True)), constant=numbers[-1])
