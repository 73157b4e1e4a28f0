"""Formulas as text."""

from __future__ import annotations

import pytest

from fedkg.pack import (
    And,
    Call,
    CategoryIs,
    ClassIn,
    Compare,
    Formula,
    Implies,
    Negate,
    Not,
    Or,
    Param,
    Power,
    Product,
    Quotient,
    Slot,
    Sum,
    Term,
)
from fedkg.pack.text import Names, formula_text, number_text

X0, X1, Y2 = Slot(index=0), Slot(index=1), Slot(index=2, role="output")
P0 = Param(index=0)


def le(left: Term, right: Term) -> Compare:
    return Compare(op="le", left=left, right=right, scale=1)


CASES: list[tuple[Formula, str]] = [
    (le(X0, P0), "x0 <= p0"),
    (le(Sum(args=(X0, Negate(arg=X1))), P0), "x0 - x1 <= p0"),
    (le(Sum(args=(X0, Negate(arg=Sum(args=(X1, P0))))), P0), "x0 - (x1 + p0) <= p0"),
    (le(Product(args=(Sum(args=(X0, X1)), P0)), Y2), "(x0 + x1) * p0 <= y2"),
    (le(Quotient(numerator=Product(args=(X0, X1)), denominator=Product(args=(X0, P0))), Y2), "x0 * x1 / (x0 * p0) <= y2"),
    (le(Power(base=Negate(arg=X0), exponent=2.0), P0), "(-x0)^2 <= p0"),
    (le(Call(function="max", args=(X0, P0)), Y2), "max(x0, p0) <= y2"),
    (Compare(op="eq", left=X0, right=X1, tolerance=P0, scale=1), "x0 == x1 +/- p0"),
    (Not(arg=le(X0, P0)), "not (x0 <= p0)"),
    (And(args=(le(X0, P0), Or(args=(le(X1, P0), le(Y2, P0))))), "x0 <= p0 and (x1 <= p0 or y2 <= p0)"),
    (Implies(antecedent=le(X0, P0), consequent=le(P0, Y2)), "if x0 <= p0 then p0 <= y2"),
    (And(args=(Implies(antecedent=le(X0, P0), consequent=le(P0, Y2)), le(X1, P0))), "(if x0 <= p0 then p0 <= y2) and x1 <= p0"),
    (ClassIn(inside=(0,), outside=(1, 2)), "class in {y0}"),
    (CategoryIs(slot=0, param=0), "x0 is p0"),
]


@pytest.mark.parametrize(("formula", "text"), CASES, ids=[text for _, text in CASES])
def test_a_skeleton_as_text(formula: Formula, text: str) -> None:
    assert formula_text(formula) == text


def test_names_fill_the_open_places() -> None:
    names = Names(slots=["torque", "wear"], params=["70"])
    assert formula_text(le(Product(args=(X0, X1)), P0), names) == "torque * wear <= 70"
    named = Names(slots=["Type"], params=["1"], categories=[("L", "M", "H")])
    assert formula_text(CategoryIs(slot=0, param=0), named) == 'Type is "M"'


def test_numbers_read_back() -> None:
    for value in (9000.0, 0.1, 1e20, -0.0, 3.3333333333333335):
        assert float(number_text(value)) == value
    assert number_text(9000.0) == "9000"
