"""Robustness against rtamt (Nickovic and Yamaguchi 2020) in discrete time, offline.

Results are equal where both define them; examples show the differences. rtamt's windows end with
the trace, so it is compared with ``end="clip"``. Its `next` and `previous` are weak, true beyond
the trace: here they are `always [1, 1]` and `historically [1, 1]`; its strong ones are ours.
"""

from __future__ import annotations

import math
import random
import warnings

import numpy as np
import pytest
from stl_formulas import Maker

from fedkg.constraints import trace_satisfaction, trace_values
from fedkg.pack import And, Compare, Formula, Not, Or, Param, Slot, Temporal, Until

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    rtamt = pytest.importorskip("rtamt")

Number = list[float]


def theirs(text: str, trace: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Number:
    """rtamt's robustness at every step of a trace [T, 2]."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec = rtamt.StlDiscreteTimeOfflineSpecification()
        for name in ("x", "y", "out"):
            spec.declare_var(name, "float")
        spec.spec = f"out = {text}"
        spec.parse()
        channels = {
            "time": list(range(len(trace))),
            "x": trace[:, 0].tolist(),
            "y": trace[:, 1].tolist(),
        }
        return [float(value) for _, value in spec.evaluate(channels)]


def ours(
    formula: Formula, params: Number, trace: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
) -> Number:
    """Our robustness at every step, windows ending with the trace."""
    found: Number = trace_values(formula, trace, params, end="clip").robustness[0].tolist()
    return found


def agree(seed: int, count: int) -> None:
    dice = random.Random(seed)
    noise = np.random.default_rng(seed)
    for _ in range(count):
        maker = Maker(dice)
        formula, text = maker.formula(dice.randint(1, 3))
        trace = np.round(noise.normal(0.0, 2.0, size=(dice.randint(2, 12), 2)) * 4) / 4
        expected = theirs(text, trace)
        np.testing.assert_allclose(
            ours(formula, maker.params, trace),
            expected,
            rtol=0,
            atol=1e-9,
            err_msg=f"{text}\n{trace}",
        )


def test_random_formulas_have_the_same_robustness() -> None:
    agree(seed=1, count=150)


@pytest.mark.slow
def test_thousands_of_random_formulas_have_the_same_robustness() -> None:
    agree(seed=2, count=2000)


X = np.array([[3.0, -3.0], [1.0, -2.0], [4.0, -1.0], [-1.0, 2.0], [5.0, -4.0]])
POSITIVE = Compare(op="le", left=Param(index=0), right=Slot(index=0), scale=1)
OTHER = Compare(op="le", left=Param(index=0), right=Slot(index=1), scale=1)


def test_difference_next_and_previous_beyond_the_trace() -> None:
    following = Temporal(op="eventually", low=1, high=1, arg=POSITIVE)
    assert theirs("next(x >= 0)", X) == [1.0, 4.0, -1.0, 5.0, math.inf]
    assert (
        theirs("s_next(x >= 0)", X)
        == ours(following, [0.0, 1.0], X)
        == [1.0, 4.0, -1.0, 5.0, -math.inf]
    )
    strict = trace_values(following, X, [0.0, 1.0])
    assert strict.robustness[0, :4].tolist() == [1.0, 4.0, -1.0, 5.0]
    assert np.isnan(strict.robustness[0, 4])


def test_difference_windows_beyond_the_trace_are_unknown_here_when_strict() -> None:
    always = Temporal(op="always", low=2, high=3, arg=POSITIVE)
    assert theirs("always[0,2](x >= 0)", X) == [1.0, -1.0, -1.0, -1.0, 5.0]
    strict = trace_values(always, X, [0.0, 1.0, 0.0, 2.0])
    assert strict.robustness[0, :4].tolist() == [1.0, -1.0, -1.0, -1.0]
    assert np.isnan(strict.robustness[0, 4])


def test_difference_closed_until_is_an_option_here() -> None:
    params = [0.0, 1.0, 0.0, -1.0]
    assert theirs("(x >= 0) until (y >= 0)", X) == [1.0, 1.0, 2.0, 2.0, -4.0]
    assert ours(Until(op="until", low=2, high=3, left=POSITIVE, right=OTHER), params, X) == [
        1.0,
        1.0,
        2.0,
        2.0,
        -4.0,
    ]
    assert ours(
        Until(op="until", low=2, high=3, left=POSITIVE, right=OTHER, closed=True), params, X
    ) == [-1.0, -1.0, -1.0, -1.0, -4.0]


def test_difference_missing_numbers_are_unknown_here() -> None:
    gap = X.copy()
    gap[1, 0] = math.nan
    assert (
        theirs("once[0,1](x >= 0)", gap)[:3] != [3.0, 3.0, 4.0]
        or theirs("historically[0,1](x >= 0)", gap)[1] == 3.0
    )
    once = Temporal(op="once", low=2, high=3, arg=POSITIVE)
    assert ours(once, [0.0, 1.0, 0.0, 1.0], gap)[:3] == [3.0, 3.0, 4.0]
    historically = ours(
        Temporal(op="historically", low=2, high=3, arg=POSITIVE), [0.0, 1.0, 0.0, 1.0], gap
    )
    assert math.isnan(historically[1])


def test_difference_one_step_is_a_trace_here() -> None:
    with pytest.raises(UnboundLocalError):
        theirs("x >= 0", X[:1])
    assert ours(POSITIVE, [0.0, 1.0], X[:1]) == [3.0]


def test_difference_iff_and_xor_are_numbers_there() -> None:
    assert theirs("(x >= 0) xor (y >= 0)", X)[0] == 6.0
    both = Or(args=(And(args=(POSITIVE, Not(arg=OTHER))), And(args=(Not(arg=POSITIVE), OTHER))))
    assert ours(both, [0.0, 1.0], X)[0] == 3.0


STEPS = np.array([[4.0, -1.0], [-3.0, 2.0], [9.0, 5.0]])


def test_difference_until_without_an_upper_end_may_begin_later() -> None:
    until = Until(op="until", low=1, high=2, left=POSITIVE, right=OTHER)
    assert theirs("(x >= 0) until (y >= 0)", STEPS) == ours(until, [0.0, 0.0, -1.0], STEPS)
    assert ours(until, [0.0, 0.0, -1.0], STEPS) == [2.0, 2.0, 5.0]
    closed = until.model_copy(update={"closed": True})
    assert ours(closed, [0.0, 0.0, -1.0], STEPS) == [-1.0, -3.0, 5.0]
    with pytest.raises(rtamt.RTAMTException, match="inf"):
        theirs("(x >= 0) until[1,inf] (y >= 0)", STEPS)
    assert ours(until, [0.0, 1.0, -1.0], STEPS) == [2.0, -3.0, -math.inf]


def test_difference_previous_before_the_trace() -> None:
    before = Temporal(op="once", low=1, high=1, arg=POSITIVE)
    assert theirs("prev(x >= 0)", STEPS) == [math.inf, 4.0, -3.0]
    assert theirs("s_prev(x >= 0)", STEPS) == ours(before, [0.0, 1.0], STEPS)
    assert ours(before, [0.0, 1.0], STEPS) == [-math.inf, 4.0, -3.0]


def test_difference_missing_numbers_do_not_depend_on_the_order_of_arguments() -> None:
    gap = np.array([[3.0, 1.0], [math.nan, 1.0], [4.0, 1.0]])
    assert math.isnan(theirs("(x >= 0) and (y >= 0)", gap)[1])
    assert theirs("(y >= 0) and (x >= 0)", gap)[1] == 1.0
    for both in (And(args=(POSITIVE, OTHER)), And(args=(OTHER, POSITIVE))):
        found = trace_values(both, gap, [0.0], end="clip")
        assert not found.satisfied[0, 1]
        assert not found.violated[0, 1]


def test_difference_equality_is_a_strict_violation_here() -> None:
    below = Compare(op="lt", left=Slot(index=0), right=Param(index=0), scale=0)
    assert theirs("x < 4", STEPS)[0] == ours(below, [4.0], STEPS)[0] == 0.0
    assert trace_satisfaction(below, STEPS, [4.0]) is False
    at_most = Compare(op="le", left=Slot(index=0), right=Param(index=0), scale=0)
    assert trace_satisfaction(at_most, STEPS, [4.0]) is True


def test_difference_xor_and_iff_use_and_or_not_here() -> None:
    xor = Or(args=(And(args=(POSITIVE, Not(arg=OTHER))), And(args=(Not(arg=POSITIVE), OTHER))))
    assert theirs("(x >= 0) xor (y >= 0)", STEPS) == [5.0, 5.0, 4.0]
    assert ours(xor, [0.0], STEPS) == [1.0, 2.0, -5.0]
    iff = Or(args=(And(args=(POSITIVE, OTHER)), And(args=(Not(arg=POSITIVE), Not(arg=OTHER)))))
    assert theirs("(x >= 0) iff (y >= 0)", STEPS) == [-5.0, -5.0, -4.0]
    assert ours(iff, [0.0], STEPS) == [-1.0, -2.0, 5.0]
