"""Formulas as text."""

from __future__ import annotations

import pytest

from fedkg.pack import (
    And,
    AtLeast,
    Call,
    CategoryIs,
    Choose,
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
    Reduce,
    Slot,
    Sum,
    Term,
)
from fedkg.pack.formula_text import Names, formula_text, number_text

X0, X1, Y2 = Slot(index=0), Slot(index=1), Slot(index=2, role="output")
P0 = Param(index=0)


def le(left: Term, right: Term) -> Compare:
    return Compare(op="le", left=left, right=right, scale=1)


CASES: list[tuple[Formula, str]] = [
    (le(X0, P0), "x0 <= p0"),
    (le(Sum(args=(X0, Negate(arg=X1))), P0), "x0 - x1 <= p0"),
    (le(Sum(args=(X0, Negate(arg=Sum(args=(X1, P0))))), P0), "x0 - (x1 + p0) <= p0"),
    (le(Product(args=(Sum(args=(X0, X1)), P0)), Y2), "(x0 + x1) * p0 <= y2"),
    (
        le(Quotient(numerator=Product(args=(X0, X1)), denominator=Product(args=(X0, P0))), Y2),
        "x0 * x1 / (x0 * p0) <= y2",
    ),
    (le(Power(base=Negate(arg=X0), exponent=2.0), P0), "(-x0)^2 <= p0"),
    (le(Call(function="max", args=(X0, P0)), Y2), "max(x0, p0) <= y2"),
    (Compare(op="eq", left=X0, right=X1, tolerance=P0, scale=1), "x0 == x1 +/- p0"),
    (Not(arg=le(X0, P0)), "not (x0 <= p0)"),
    (
        And(args=(le(X0, P0), Or(args=(le(X1, P0), le(Y2, P0))))),
        "x0 <= p0 and (x1 <= p0 or y2 <= p0)",
    ),
    (Implies(antecedent=le(X0, P0), consequent=le(P0, Y2)), "if x0 <= p0 then p0 <= y2"),
    (
        And(args=(Implies(antecedent=le(X0, P0), consequent=le(P0, Y2)), le(X1, P0))),
        "(if x0 <= p0 then p0 <= y2) and x1 <= p0",
    ),
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


def test_a_count_of_chosen_members_is_told_as_a_count() -> None:
    """As SPARQL's COUNT with conditions is written: members that are not chosen have the value 0 /
    0.
    """
    over = Compare(op="lt", left=Param(index=0), right=Slot(index=0), scale=1)
    unknown = Quotient(numerator=Param(index=2), denominator=Param(index=2))
    inside = Names(slots=("torque",), params=("60", "1", "0"))
    names = Names(params=("1", "3"), members=(inside,), counts=(2,))
    chosen = Choose(condition=over, then=Param(index=1), otherwise=unknown)
    count = Reduce(op="count", members=0, arg=chosen, skip=True)
    limit = Compare(op="le", left=count, right=Param(index=1), scale=0)
    assert formula_text(limit, names) == "count of (60 < torque) over 2 members <= 3"
    assert formula_text(limit) == "count of (p0 < x0) over members <= p1"
    load = Reduce(
        op="sum",
        members=0,
        arg=Choose(condition=over, then=Slot(index=0), otherwise=unknown),
        skip=True,
    )
    text = formula_text(Compare(op="le", left=load, right=Param(index=1), scale=0), names)
    assert text == "sum of torque over 2 members where (60 < torque) <= 3"
    assert (
        formula_text(Not(arg=AtLeast(count=0, members=0, arg=over)), names)
        == "none of (60 < torque) over 2 members"
    )
    kept = Reduce(op="sum", members=0, arg=Slot(index=0), skip=True)
    text = formula_text(Compare(op="le", left=kept, right=Param(index=1), scale=0), names)
    assert text == "sum of torque over 2 members where known <= 3"


@pytest.mark.parametrize(
    ("slot", "code", "text"),
    [
        (0, "1", "valve is true"),
        (0, "0", "valve is false"),
        (1, "0", 'Type is "L"'),
        (1, "7", "Type is 7"),
    ],
)
def test_what_is_asked_of_a_truth_value_and_of_a_category(slot: int, code: str, text: str) -> None:
    atom = CategoryIs(slot=slot, param=0)
    assert (
        formula_text(
            atom,
            Names(
                slots=["valve", "Type"], params=[code], categories=[("false", "true"), ("L", "M")]
            ),
        )
        == text
    )
    assert "valve" not in formula_text(atom)
