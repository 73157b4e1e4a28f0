"""Interval arithmetic covers every value that a term takes inside the spans.

Scales are the widths of comparisons.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkg.pack import Call, Negate, Param, Power, Product, Quotient, Slot, Sum, Term
from fedkg_compiler.formulas.formula_algebra import (
    Declared,
    comparison_scale,
    declared_spans,
    interval,
)
from fedkg_compiler.ir import Book, BookColumn, RowBuilder

X, Y, Z = Slot(index=0), Slot(index=1), Slot(index=2)
SPANS = {"x": (-2.0, 3.0), "y": (1.0, 5.0)}
UNARY = ("abs", "sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "floor", "ceil", "round")


def case() -> Declared:
    """Slots x, y with spans and z without, and one parameter that is 2."""
    book, rows = Book(), RowBuilder(1)
    for name, span in {**SPANS, "z": None}.items():
        column = np.array([book.column(BookColumn(name=name, source=name, span=span))])
        rows.slot(name, column, np.zeros(1, dtype=np.int64), "input")
    rows.param(np.array([2.0]))
    return declared_spans(rows, book.columns)


def value(term: Term, x: float, y: float) -> float:
    with np.errstate(all="ignore"):
        match term:
            case Slot():
                return (x, y)[term.index]
            case Param():
                return 2.0
            case Sum():
                return sum(value(arg, x, y) for arg in term.args)
            case Product():
                return float(np.prod([value(arg, x, y) for arg in term.args]))
            case Negate():
                return -value(term.arg, x, y)
            case Quotient():
                return float(
                    np.float64(value(term.numerator, x, y)) / value(term.denominator, x, y)
                )
            case Power():
                return float(np.power(np.float64(value(term.base, x, y)), term.exponent))
            case Call():
                args = [np.float64(value(arg, x, y)) for arg in term.args]
                name = {"min": "minimum", "max": "maximum"}.get(term.function, term.function)
                return float(getattr(np, name)(*args))


def terms() -> st.SearchStrategy[Term]:
    leaves: st.SearchStrategy[Term] = st.sampled_from([X, Y, Param(index=0)])

    def larger(inner: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
        pair = st.tuples(inner, inner)
        return st.one_of(
            pair.map(lambda args: Sum(args=args)),
            pair.map(lambda args: Product(args=args)),
            pair.map(lambda args: Quotient(numerator=args[0], denominator=args[1])),
            inner.map(lambda arg: Negate(arg=arg)),
            st.tuples(inner, st.sampled_from([2.0, 3.0, 0.5, -1.0])).map(
                lambda args: Power(base=args[0], exponent=args[1])
            ),
            st.tuples(st.sampled_from(UNARY), inner).map(
                lambda args: Call.model_validate({"function": args[0], "args": (args[1],)})
            ),
            st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(
                lambda args: Call.model_validate({"function": args[0], "args": args[1:]})
            ),
        )

    return st.recursive(leaves, larger, max_leaves=5)


@given(terms(), st.floats(0, 1), st.floats(0, 1))
def test_values_lie_in_the_interval(term: Term, a: float, b: float) -> None:
    low, high = interval(term, case())
    at = value(term, -2 + 5 * a, 1 + 4 * b)
    if np.isfinite(at):
        slack = 1e-9 * max(1.0, abs(at))
        assert low[0] - slack <= at <= high[0] + slack


def test_what_has_no_span_is_unbounded() -> None:
    low, high = interval(Sum(args=(X, Z)), case())
    assert low[0] == -np.inf
    assert high[0] == np.inf


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (X, Param(index=0), 5.0),
        (X, Y, 9.0),
        (Z, Param(index=0), 2.0),
        (Z, X, 1.0),
        (Product(args=(X, Y)), Param(index=0), 25.0),
    ],
)
def test_scales(left: Term, right: Term, expected: float) -> None:
    assert comparison_scale(left, right, case()).tolist() == [expected]


def test_a_scale_is_never_zero() -> None:
    spans = case()
    (rows,) = spans.rows
    assert isinstance(rows, RowBuilder)
    zero = rows.param(np.array([0.0]))
    assert comparison_scale(Z, zero, spans).tolist() == [1.0]
