"""Temporal formulas over traces: the acceptance tests of the FedSTL specification.

Also special cases of windows and ends of traces.
"""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from stl_formulas import Maker

from fedkg.constraints import trace_robustness, trace_satisfaction, trace_values
from fedkg.constraints.meaning.trace_robustness import Reach, horizon, reach
from fedkg.errors import FedkgError, HorizonError
from fedkg.pack import (
    And,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    Not,
    Or,
    Param,
    Slot,
    Temporal,
    Until,
)

P = [Param(index=i) for i in range(6)]
X, Y = Slot(index=0), Slot(index=1)


def at_most(left: object, right: object, op: str = "le") -> Compare:
    return Compare.model_validate({"op": op, "left": left, "right": right, "scale": 0})


def over(op: str, arg: Formula, low: int = 0, high: int = 1) -> Temporal:
    return Temporal.model_validate({"op": op, "low": low, "high": high, "arg": arg})


EXAMPLE = np.array([(0.25, 20), (0.25, 18), (0.5, 16), (0.6, 14), (0.75, 12)])
WITHIN_LIMIT = over("always", Implies(antecedent=at_most(P[2], X), consequent=at_most(P[3], Y)))


@pytest.mark.parametrize(
    ("alpha", "robustness", "truth"),
    [(10, 2.0, True), (11.9, 0.1, True), (12, 0.0, True), (14, 0.0, False)],
)
def test_fedstl_acceptance_1_the_first_example(
    alpha: float, robustness: float, truth: bool
) -> None:
    params = [0, 4, 0.75, alpha]
    assert trace_robustness(WITHIN_LIMIT, EXAMPLE, params) == pytest.approx(robustness)
    assert trace_satisfaction(WITHIN_LIMIT, EXAMPLE, params) is truth


def test_fedstl_acceptance_1_a_trigger_beyond_the_boundary() -> None:
    higher = EXAMPLE.copy()
    higher[-1, 0] = 0.8
    assert trace_robustness(WITHIN_LIMIT, higher, [0, 4, 0.75, 14]) == pytest.approx(-0.05)


def test_fedstl_acceptance_2_where_satisfaction_ends() -> None:
    second = EXAMPLE.copy()
    second[-1] = (0.9, 11)
    for traces, alpha in (((EXAMPLE,), 12.0), ((EXAMPLE, second), 11.0)):
        stack = np.stack(traces)
        assert trace_values(WITHIN_LIMIT, stack, [0, 4, 0.75, alpha]).satisfied[:, 0].all()
        assert (
            not trace_values(WITHIN_LIMIT, stack, [0, 4, 0.75, alpha + 1e-9]).satisfied[:, 0].all()
        )


def test_fedstl_acceptance_3_half_open_and_closed_until() -> None:
    wave = np.sin(0.1 * np.arange(1, 63))[:, None]
    half = Until(op="until", low=0, high=1, left=at_most(P[2], X), right=at_most(X, P[2], "lt"))
    closed = half.model_copy(update={"closed": True})
    params = [0.0, 61.0, 0.0]
    assert trace_robustness(half, wave, params) == pytest.approx(0.0416, abs=5e-5)
    assert trace_satisfaction(half, wave, params) is True
    assert trace_robustness(closed, wave, params) == pytest.approx(-0.0416, abs=5e-5)
    assert trace_satisfaction(closed, wave, params) is False
    from_zero = np.concatenate([[[0.0]], wave])
    assert trace_satisfaction(half, from_zero, params) is True
    assert trace_robustness(half, from_zero, params) == 0.0


def test_fedstl_acceptance_4_windows_and_signs() -> None:
    trace = np.array([[1.0], [2.0], [5.0]])
    low, high = over("always", at_most(X, P[2])), over("eventually", at_most(P[3], X))
    params = [0, 2, 3.0, 4.0]
    assert trace_robustness(low, trace, params) == -2.0
    assert trace_robustness(high, trace, params) == 1.0
    assert trace_robustness(Not(arg=low), trace, params) == 2.0
    assert trace_satisfaction(Not(arg=low), trace, params) is True


def made(
    count: int, seed: int
) -> list[tuple[Formula, list[float], np.ndarray[tuple[int, ...], np.dtype[np.float64]], str]]:
    """Random formulas with their numbers, a trace each, and its kind of end."""
    dice, noise, out = random.Random(seed), np.random.default_rng(seed), []
    for i in range(count):
        maker = Maker(dice)
        formula, _ = maker.formula(dice.randint(1, 3))
        out.append(
            (
                formula,
                maker.params,
                noise.normal(0.0, 2.0, size=(dice.randint(1, 10), 2)),
                ("strict", "clip")[i % 2],
            )
        )
    return out


DUAL = {
    "always": "eventually",
    "eventually": "always",
    "once": "historically",
    "historically": "once",
}


def pushed(formula: Formula) -> Formula:
    """The negation of a formula, moved inwards by De Morgan's laws.

    It stops at everything except `and`, `or`, `if` and windows.
    """
    match formula:
        case Not():
            return formula.arg
        case And() | Or():
            return (Or if isinstance(formula, And) else And)(
                args=tuple(pushed(arg) for arg in formula.args)
            )
        case Implies():
            return And(args=(formula.antecedent, pushed(formula.consequent)))
        case Temporal():
            return Temporal.model_validate(
                formula.model_dump() | {"op": DUAL[formula.op], "arg": pushed(formula.arg)}
            )
        case _:
            return Not(arg=formula)


COUNTS = pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])


@COUNTS
def test_fedstl_acceptance_4_de_morgan_on_random_formulas(count: int) -> None:
    for formula, params, trace, end in made(count, seed=3):
        one, other = (
            trace_values(f, trace, params, end=end) for f in (Not(arg=formula), pushed(formula))
        )  # type: ignore[arg-type]
        assert np.array_equal(one.robustness, other.robustness, equal_nan=True)
        assert np.array_equal(one.satisfied, other.satisfied)
        assert np.array_equal(one.violated, other.violated)


@COUNTS
def test_fedstl_acceptance_5_robustness_is_sound_and_lipschitz(count: int) -> None:
    noise = np.random.default_rng(5)
    signs = 0
    for formula, params, trace, end in made(count, seed=4):
        found = trace_values(formula, trace, params, end=end)  # type: ignore[arg-type]
        assert found.satisfied[found.robustness > 0].all()
        assert found.violated[found.robustness < 0].all()
        near = trace_values(
            formula, trace + noise.uniform(-0.25, 0.25, trace.shape), params, end=end
        )  # type: ignore[arg-type]
        both = np.isfinite(found.robustness) & np.isfinite(near.robustness)
        assert (np.abs(found.robustness[both] - near.robustness[both]) <= 0.25 + 1e-12).all()
        signs += int(both.sum())
    assert signs > 2 * count


def test_fedstl_acceptance_6_the_end_of_a_trace() -> None:
    trace = np.array([[4.0], [3.0], [9.0], [2.0], [5.0]])
    always, later = over("always", at_most(P[2], X)), over("eventually", at_most(P[2], X), 1, 1)
    with pytest.raises(HorizonError, match="5 steps ahead") as error:
        trace_robustness(always, trace, [0, 5, 0.0])
    assert isinstance(error.value, FedkgError)
    assert trace_robustness(always, trace, [0, 5, 0.0], end="clip") == 2.0
    assert trace_robustness(always, trace, [0, 4, 0.0]) == 2.0
    assert trace_robustness(later, trace, [0, 5, 0.0], end="clip") == -math.inf
    assert trace_satisfaction(later, trace, [0, 5, 0.0], end="clip") is False
    assert (
        trace_satisfaction(over("always", at_most(P[2], X), 1, 1), trace, [0, 5, 99.0], end="clip")
        is True
    )


def test_strict_ends_leave_open_what_is_not_decided_yet() -> None:
    trace = np.array([[4.0], [-3.0], [9.0]])
    found = trace_values(over("always", at_most(P[2], X)), trace, [0, 2, 0.0])
    assert found.violated[0].tolist() == [True, True, False]
    assert found.satisfied[0].tolist() == [False, False, False]
    assert np.array_equal(found.robustness[0], [-3.0, -3.0, np.nan], equal_nan=True)


def test_windows_without_an_end_end_with_the_trace_either_way() -> None:
    trace = np.array([[4.0], [3.0], [9.0]])
    for end in ("strict", "clip"):
        assert trace_values(
            over("eventually", at_most(P[2], X)), trace, [1, -1, 0.0], end=end
        ).robustness[0].tolist() == [9, 9, -math.inf]
        assert trace_values(
            over("historically", at_most(P[2], X)), trace, [0, -1, 0.0], end=end
        ).robustness[0].tolist() == [4, 3, 3]


def test_the_first_step_is_asked_from_every_step() -> None:
    trace = np.array([[4.0], [-3.0], [9.0]])
    inside = Or(args=(Initially(arg=at_most(X, P[0])), at_most(P[0], X)))
    assert trace_values(inside, trace, [0.0]).robustness[0].tolist() == [4.0, -3.0, 9.0]
    assert np.array_equal(
        trace_values(Initially(arg=at_most(P[0], X)), trace, [0.0]).robustness[0],
        [4.0, np.nan, np.nan],
        equal_nan=True,
    )


def test_known_tells_a_missing_number_from_a_small_one() -> None:
    trace = np.array([[4.0], [math.nan], [9.0]])
    assert trace_values(Known(slot=0), trace).robustness[0].tolist() == [
        math.inf,
        -math.inf,
        math.inf,
    ]
    assert trace_values(over("always", Known(slot=0)), trace, [0, 1], end="clip").violated[
        0
    ].tolist() == [True, True, False]


def test_horizons_add_up() -> None:
    atom = at_most(X, P[2])
    inner = over("eventually", atom, 2, 3)
    params = [1.0, 5.0, 2.0, 7.0]
    assert horizon(atom) == 0
    assert horizon(over("always", inner), params) == 12
    assert horizon(Until(op="until", low=0, high=1, left=atom, right=inner), params) == 12
    assert reach(over("once", inner), params) == Reach(back=5, ahead=6)
    assert horizon(over("always", atom), [0, -1]) == 0
    assert horizon(over("always", inner), [0, -1, 2, 7]) == math.inf


@pytest.mark.parametrize(
    ("formula", "params", "at", "words"),
    [
        (over("once", at_most(X, P[2])), [0, 2, 0.0], 1, "2 steps back"),
        (
            over("always", over("eventually", at_most(X, P[2]), 0, 1), 3, 4),
            [0, 1, 0.0, 0, -1],
            0,
            "looks without limit ahead",
        ),
        (at_most(X, P[2]), [0, 1, 0.0], 4, "step 4 does not exist"),
    ],
)
def test_a_step_outside_the_horizon_is_an_error(
    formula: Formula, params: list[float], at: int, words: str
) -> None:
    with pytest.raises(HorizonError, match=words):
        trace_satisfaction(formula, np.zeros((4, 1)), params, at=at)
