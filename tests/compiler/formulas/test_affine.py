"""Affine forms: by shape, by sympy, and equal to the original term."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkg.pack import Call, Compare, Negate, Param, Power, Product, Quotient, Slot, Sum, Term
from fedkg_compiler.formulas.formula_algebra import affine_by_shape, affine_in, slots_of

X, Y, P, Q = Slot(index=0), Slot(index=1), Param(index=0), Param(index=1)
PARAMS = [np.array([2.0, 3.0]), np.array([4.0, 5.0])]


def test_coefficients_of_a_sum() -> None:
    form = affine_by_shape(Sum(args=(Product(args=(P, X)), Negate(arg=Y), Q)), PARAMS, 2)
    assert form is not None
    np.testing.assert_array_equal(form.coefficients[0], [2, 3])
    np.testing.assert_array_equal(form.coefficients[1], [-1, -1])
    np.testing.assert_array_equal(form.constant, [4, 5])


def test_what_cancels_is_affine_after_all() -> None:
    one_more = Sum(args=(X, P))
    difference = Sum(args=(Power(base=one_more, exponent=2), Negate(arg=Power(base=X, exponent=2))))
    quotient = Quotient(numerator=Product(args=(X, Y)), denominator=Y)
    for term in (difference, quotient):
        assert affine_by_shape(term, PARAMS, 2) is None
        assert affine_in(Compare(op="le", left=term, right=P, scale=1), slots_of(term))


@pytest.mark.parametrize(
    "term",
    [
        Product(args=(X, Y)),
        Power(base=X, exponent=2),
        Power(base=X, exponent=0.5),
        Quotient(numerator=P, denominator=X),
        Power(base=Sum(args=(X, P)), exponent=5000),
        Call(function="abs", args=(X,)),
        Call(function="max", args=(X, P)),
    ],
)
def test_nonlinear_terms_are_not_affine(term: Term) -> None:
    assert affine_by_shape(term, PARAMS, 2) is None
    assert not affine_in(Compare(op="le", left=term, right=P, scale=1), frozenset({0, 1}))


def test_a_product_is_affine_in_one_of_its_factors() -> None:
    compare = Compare(op="le", left=Product(args=(X, Y)), right=P, scale=1)
    assert affine_in(compare, frozenset({0}))
    assert affine_in(compare, frozenset({1}))
    assert not affine_in(compare, frozenset({0, 1}))
    assert affine_in(
        Compare(op="le", left=Call(function="exp", args=(X,)), right=Y, scale=1), frozenset({1})
    )


def value(term: Term, slots: np.ndarray, params: list[np.ndarray]) -> np.ndarray:
    """The value of a term by direct evaluation; slots [s]."""
    match term:
        case Slot():
            return np.full(len(params[0]), slots[term.index])
        case Param():
            return params[term.index]
        case Sum():
            return np.sum([value(arg, slots, params) for arg in term.args], axis=0)
        case Product():
            return np.prod([value(arg, slots, params) for arg in term.args], axis=0)
        case Negate():
            return -value(term.arg, slots, params)
        case Quotient():
            return value(term.numerator, slots, params) / value(term.denominator, slots, params)
        case Power():
            return value(term.base, slots, params) ** term.exponent
        case _:
            raise AssertionError(term)


def terms() -> st.SearchStrategy[Term]:
    leaves: st.SearchStrategy[Term] = st.sampled_from([X, Y, P, Q])

    def larger(inner: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
        pair = st.tuples(inner, inner)
        return st.one_of(
            pair.map(lambda args: Sum(args=args)),
            pair.map(lambda args: Product(args=args)),
            inner.map(lambda arg: Negate(arg=arg)),
            inner.map(lambda arg: Quotient(numerator=arg, denominator=P)),
            inner.map(lambda arg: Power(base=arg, exponent=2)),
        )

    return st.recursive(leaves, larger, max_leaves=6)


@given(terms())
def test_the_affine_form_is_the_term(term: Term) -> None:
    form = affine_by_shape(term, PARAMS, 2)
    if form is None:
        return
    for slots in (np.array([0.0, 0.0]), np.array([1.5, -2.0]), np.array([-3.0, 0.5])):
        total = form.constant + sum(
            (form.coefficients[i] * slots[i] for i in slots_of(term)), np.zeros(2)
        )
        np.testing.assert_allclose(total, value(term, slots, PARAMS), rtol=1e-9, atol=1e-9)
