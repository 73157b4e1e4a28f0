"""Contracting boxes never loses a value that satisfies the constraints.

The remaining box is small where this is possible.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg.pack import (
    And,
    Call,
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
from fedkg_compiler.analysis.box_contraction import Narrowed, Sides, certain, contract
from fedkg_compiler.analysis.formula_evaluation import Scope, truth

POINTS = 4000
UNARY = ("abs", "sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "floor", "ceil", "round")
LEAVES = st.one_of(
    st.builds(Slot, index=st.integers(0, 2)),
    st.builds(Slot, index=st.integers(0, 2)),
    st.builds(Param, index=st.integers(0, 1)),
)


def larger(arg: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    return st.one_of(
        st.builds(lambda *args: Sum(args=args), arg, arg),
        st.builds(lambda *args: Sum(args=args), arg, arg, arg),
        st.builds(lambda *args: Product(args=args), arg, arg),
        st.builds(lambda *args: Product(args=args), arg, arg, arg),
        st.builds(lambda a: Negate(arg=a), arg),
        st.builds(lambda a, b: Quotient(numerator=a, denominator=b), arg, arg),
        st.builds(
            lambda a, e: Power(base=a, exponent=e),
            arg,
            st.sampled_from([2.0, 3.0, 0.5, 1.5, -1.0, -2.0, -0.5, 0.0, 100.0]),
        ),
        st.builds(lambda f, a: Call(function=f, args=(a,)), st.sampled_from(UNARY), arg),
        st.builds(
            lambda f, a, b: Call(function=f, args=(a, b)), st.sampled_from(("min", "max")), arg, arg
        ),
    )


TERMS = st.recursive(LEAVES, larger, max_leaves=5)
COMPARED = st.builds(
    lambda op, a, b, t: Compare(op=op, left=a, right=b, tolerance=t, scale=2),
    st.sampled_from(("le", "lt", "eq", "ne")),
    TERMS,
    TERMS,
    st.one_of(st.none(), st.just(Param(index=2))),
)
FORMULAS: st.SearchStrategy[Formula] = st.recursive(
    COMPARED,
    lambda arg: st.one_of(
        st.builds(lambda a: Not(arg=a), arg),
        st.builds(lambda *args: And(args=args), arg, arg),
        st.builds(lambda *args: Or(args=args), arg, arg),
        st.builds(lambda a, b: Implies(antecedent=a, consequent=b), arg, arg),
    ),
    max_leaves=3,
)


def kept_inside(
    formula: Formula,
    holds: bool,
    low: np.ndarray,
    high: np.ndarray,
    params: np.ndarray,
    points: np.ndarray,
) -> int:
    """How many of the points [P, 3] in a box satisfy the formula.

    Asserts that none of them is lost.
    """
    boxes = Narrowed.of(Sides(low=low[None], high=high[None], params=params[None]))
    contract(formula, holds, boxes)
    at = Scope(slots=points.T[:, :, None], params=params[:, None], inside={})
    verdict = truth(formula, at)[0 if holds else 1]
    kept = points[np.broadcast_to(verdict, (len(points), 1))[:, 0]]
    if len(kept):
        assert not boxes.dead[0]
        assert (kept >= boxes.sides.low[0]).all()
        assert (kept <= boxes.sides.high[0]).all()
        assert not certain(formula, boxes.sides)[1 if holds else 0][0]
    return len(kept)


USUAL = [-30.0, -3.0, -1.0, 0.0, 0.5, 2.0, 7.0, 40.0]
ODD = [
    -np.inf,
    -1e12,
    -1e6,
    -1.0,
    -1e-9,
    -1e-17,
    0.0,
    0.0,
    1e-300,
    1e-17,
    1e-9,
    0.1,
    np.pi / 2,
    np.pi,
    1e6,
    1e12,
    1e200,
    np.inf,
]


def check(formula: Formula, holds: bool, seed: int) -> None:
    """Check a box with usual or odd sides; many of the points lie on its ends or just inside."""
    random = np.random.default_rng(seed)
    odd = random.random() < 0.4
    low, high = np.sort(random.choice(ODD if odd else USUAL, (2, 3)), axis=0)
    low, high = np.where(np.isposinf(low), 0.0, low), np.where(np.isneginf(high), 0.0, high)
    bottom, top = np.clip(low, -1e15, 1e15), np.clip(high, -1e15, 1e15)
    points = random.uniform(bottom, top, (POINTS, 3))
    points[:50] = np.round(points[:50])
    kind = random.random(points.shape)
    points = np.where(kind < 0.1, bottom, np.where(kind > 0.9, top, points))
    points = np.where((kind > 0.15) & (kind < 0.2), np.nextafter(points, 0), points)
    points = np.where(
        (kind > 0.1) & (kind < 0.15),
        10.0 ** random.uniform(-20, 20, points.shape) * random.choice([-1, 1]),
        points,
    )
    params = np.concatenate(
        [np.round(random.uniform(-5, 5, 2), 1), [round(float(random.uniform(0, 2)), 1)]]
    )
    if odd:
        params[:2] = random.choice(ODD[1:-1], 2)
    kept_inside(formula, holds, low, high, params, np.clip(points, low, high))


@tries(60)
@given(FORMULAS, st.booleans(), st.integers(0, 1000))
def test_no_value_is_lost(formula: Formula, holds: bool, seed: int) -> None:
    check(formula, holds, seed)


@pytest.mark.slow
@tries(800)
@given(FORMULAS, st.booleans(), st.integers(0, 10**6))
def test_no_value_is_lost_of_many(formula: Formula, holds: bool, seed: int) -> None:
    check(formula, holds, seed)


X, Y, A, B = Slot(index=0), Slot(index=1), Param(index=0), Param(index=1)
SHRUNK: dict[str, tuple[Term, tuple[float, float], tuple[float, float], tuple[float, float]]] = {
    "a sum": (Sum(args=(X, Y)), (0, 10), (4, 10), (0.0, 6.0)),
    "a product": (Product(args=(X, Y)), (1, 10), (5, 10), (1.0, 2.0)),
    "a square": (Power(base=X, exponent=2.0), (-10, 10), (0, 0), (-(10**0.5), 10**0.5)),
    "a root": (Call(function="sqrt", args=(X,)), (-5, 200), (0, 0), (0.0, 100.0)),
    "an exponential": (Call(function="exp", args=(X,)), (0, 10), (0, 0), (0.0, np.log(10.0))),
    "a logarithm": (
        Call(function="log", args=(Product(args=(X, Y)),)),
        (0, 1e6),
        (1, 1),
        (0.0, np.exp(10.0)),
    ),
    "a quotient": (Quotient(numerator=Y, denominator=X), (0.1, 10), (50, 60), (5.0, 10.0)),
    "a size": (Call(function="abs", args=(X,)), (-50, 30), (0, 0), (-10.0, 10.0)),
    "the larger": (Call(function="max", args=(X, Y)), (0, 50), (0, 50), (0.0, 10.0)),
}


@pytest.mark.parametrize("name", SHRUNK)
def test_what_is_left_is_small(name: str) -> None:
    """The first side of term <= 10 is as computed by hand, up to the tolerance of a comparison."""
    term, first, second, left = SHRUNK[name]
    low, high = (
        np.array([[first[0], second[0]]], dtype=float),
        np.array([[first[1], second[1]]], dtype=float),
    )
    boxes = Narrowed.of(Sides(low=low, high=high, params=np.array([[10.0, 0.0, 1.0]])))
    for _ in range(3):
        contract(Compare(op="le", left=term, right=A, scale=2), True, boxes)
    assert not boxes.dead[0]
    np.testing.assert_allclose(
        (boxes.sides.low[0, 0], boxes.sides.high[0, 0]), left, rtol=1e-7, atol=1e-7
    )


def test_a_sine_is_taken_back_to_its_nearest_angles() -> None:
    boxes = Narrowed.of(
        Sides(low=np.array([[3.0]]), high=np.array([[9.0]]), params=np.array([[0.9, 1.0]]))
    )
    contract(Compare(op="le", left=A, right=Call(function="sin", args=(X,)), scale=1), True, boxes)
    np.testing.assert_allclose(boxes.sides.low[0, 0], 2 * np.pi + np.arcsin(0.9), atol=1e-6)
    np.testing.assert_allclose(boxes.sides.high[0, 0], 3 * np.pi - np.arcsin(0.9), atol=1e-6)


def test_of_or_the_hull_is_left() -> None:
    either = Or(
        args=(
            Compare(op="le", left=X, right=A, scale=2),
            Compare(op="le", left=B, right=X, scale=2),
        )
    )
    boxes = Narrowed.of(
        Sides(
            low=np.array([[0.0], [3.0]]),
            high=np.array([[9.0], [9.0]]),
            params=np.array([[2.0, 5.0, 1.0]] * 2),
        )
    )
    contract(either, True, boxes)
    np.testing.assert_allclose(boxes.sides.low[:, 0], [0, 5], atol=1e-6)
    assert not boxes.dead.any()


LOST: dict[str, tuple[Compare, tuple[float, float], tuple[float, float], tuple[float, float]]] = {
    "0 times anything": (
        Compare(op="le", left=Product(args=(X, Y)), right=A, scale=2),
        (5.0, 0.0),
        (1.0, 0.0),
        (0.0, 1.0),
    ),
    "0 by an exponential": (
        Compare(
            op="lt",
            left=Negate(arg=X),
            right=Quotient(numerator=Y, denominator=Call(function="exp", args=(A,))),
            scale=2,
        ),
        (1e-9, 0.0),
        (2.0, 0.0),
        (1.0, 0.0),
    ),
    "small sizes": (
        Compare(
            op="lt", left=Sum(args=(X, Negate(arg=B))), right=Product(args=(X, X, X, X)), scale=2
        ),
        (0.0, 1.0),
        (-1e-9, 0.0),
        (1.0, 0.0),
    ),
    "an exponential near 1": (
        Compare(op="lt", left=Product(args=(Y, Y)), right=Call(function="exp", args=(X,)), scale=2),
        (0.0, 0.0),
        (-1e-17, 0.5),
        (1.0, 0.0),
    ),
    "a cosine near 1": (
        Compare(op="le", left=A, right=Call(function="cos", args=(X,)), scale=2),
        (0.5, 0.0),
        (-1e-9, 0.0),
        (0.0, 0.0),
    ),
    "parts that cancel": (
        Compare(op="le", left=Sum(args=(A, X, B)), right=Y, scale=2),
        (1e12, -1e12),
        (0.30009, 0.30006),
        (1.0, 0.0),
    ),
}
"""A comparison, its numbers, a value that satisfies it, and how far the box extends beyond."""


@pytest.mark.parametrize("name", LOST)
def test_nothing_is_lost_where_little_is_left(name: str) -> None:
    atom, params, value, width = LOST[name]
    point, beyond = np.array([*value, 0.0]), np.array([*width, 0.0])
    assert (
        kept_inside(atom, True, point, point + beyond, np.array([*params, 1.0]), point[None]) == 1
    )
