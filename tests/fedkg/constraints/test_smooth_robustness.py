"""Robustness in the semantics of a call.

By norms, its sign is the verdict; by log-sum-exp, it lies within its bound of the exact one.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import formulas, packs, tables
from test_sound import F32, F64, report_of
from test_torch_windows import answers_for, ending
from test_window_gradients import LIMIT, OPERATORS, OUT, batch, le, module_of, over, single
from torch import Tensor
from tries import tries

from fedkg.constraints.engine.penalty import FARTHEST
from fedkg.constraints.report import ConstraintReport
from fedkg.pack import (
    And,
    AtLeast,
    Bank,
    Compare,
    Formula,
    Implies,
    Initially,
    Not,
    Or,
    Pack,
    Temporal,
    Until,
)
from fedkg.pack.formulas import ClassIn, everywhere

ANY_PACK = st.one_of(packs(temporal=True, members=True), packs(skeletons=formulas()))
CALLS = (
    ANY_PACK,
    tables(max_rows=6),
    st.integers(0, 99),
    st.booleans(),
    st.sampled_from(["strict", "clip"]),
    st.sampled_from([F32, F64]),
)


def check_signs(
    pack: Pack, table: np.ndarray, seed: int, unknown: bool, end: str, dtype: torch.dtype
) -> None:
    """Assert that robustness by norms has the right sign.

    Not negative where satisfied, negative where violated, not a number elsewhere, and infinite
    where the exact one is.
    """
    answers = torch.from_numpy(answers_for(seed, len(table), unknown)).to(dtype).requires_grad_()
    report = report_of(ending(pack, end), table, answers, semantics="sound")
    found = report.smooth_robustness
    assert torch.equal(found >= 0, report.satisfied)
    assert torch.equal(found < 0, report.violated)
    assert torch.equal(torch.isnan(found), torch.isnan(report.robustness))
    assert torch.equal(torch.isinf(found), torch.isinf(report.robustness))
    finite = found.isfinite()
    if found.requires_grad and finite.any():
        (gradient,) = torch.autograd.grad(found[finite].sum(), answers)
        assert torch.isfinite(gradient).all()


@given(*CALLS)
@tries(30)
def test_the_sign_of_robustness_never_lies(
    pack: Pack, table: np.ndarray, seed: int, unknown: bool, end: str, dtype: torch.dtype
) -> None:
    check_signs(pack, table, seed, unknown, end, dtype)


@pytest.mark.slow
@given(*CALLS)
@tries(400)
def test_the_sign_of_robustness_lies_in_none_of_many(
    pack: Pack, table: np.ndarray, seed: int, unknown: bool, end: str, dtype: torch.dtype
) -> None:
    check_signs(pack, table, seed, unknown, end, dtype)


def leeway(formula: Formula, steps: int) -> float:
    """The largest error of log-sum-exp robustness of a formula, in temperatures.

    For traces of `steps` steps and sets of three.
    """
    match formula:
        case And() | Or():
            return max(leeway(arg, steps) for arg in formula.args) + math.log(len(formula.args))
        case Implies():
            return max(
                leeway(formula.antecedent, steps), leeway(formula.consequent, steps)
            ) + math.log(2)
        case Not() | Initially():
            return leeway(formula.arg, steps)
        case AtLeast():
            return leeway(formula.arg, steps) + math.log(8)
        case Temporal():
            return leeway(formula.arg, steps) + math.log(steps + 1)
        case Until():
            sides = max(leeway(formula.left, steps), leeway(formula.right, steps))
            return (
                sides
                + math.log(2) * (4 * math.ceil(math.log2(steps + 1)) + 3)
                + math.log(steps + 1)
            )
        case ClassIn():
            return math.log(max(1, len(formula.inside), len(formula.outside)))
        case _:
            return 0.0


def least_scale(bank: Bank, row: int) -> float:
    """Of the comparisons of a row; no member's is below it in these banks."""
    scales = [
        bank.params[row, part.scale]
        for table, part in everywhere(bank.skeleton)
        if table < 0 and isinstance(part, Compare)
    ]
    return float(min(scales, default=math.inf))


def check_nearness(report: ConstraintReport, pack: Pack, temperature: float, steps: int) -> None:
    """Compare with the exact robustness, for margins within the reach.

    Minima and maxima of clipped numbers are clipped minima and maxima.
    """
    exact, found, start = report.robustness, report.smooth_robustness, 0
    assert torch.isnan(found)[torch.isnan(exact)].all()
    for bank in pack.banks:
        for row in range(bank.rows):
            unit = least_scale(bank, row)
            near = temperature * leeway(bank.skeleton, steps) * min(unit, 1e3) + 1e-9
            pair = [values[:, start + row] for values in (exact, found)]
            known = ~torch.isnan(pair[1])
            assert torch.equal(torch.isinf(pair[0])[known], torch.isinf(pair[1])[known])
            both = known & torch.isfinite(pair[0])
            reach = FARTHEST * (unit if math.isfinite(unit) else 1.0)
            within = pair[0].clamp(-reach, reach)
            assert ((within - pair[1]).abs()[both] <= near + 1e-9 * within.abs()[both]).all()
        start += bank.rows


@given(
    st.one_of(packs(temporal=True), packs(skeletons=formulas())),
    tables(max_rows=6),
    st.integers(0, 99),
    st.booleans(),
)
@tries(30)
def test_log_sum_exp_stays_within_its_bound(
    pack: Pack, table: np.ndarray, seed: int, unknown: bool
) -> None:
    answers = torch.from_numpy(answers_for(seed, len(table), unknown))
    for temperature in (0.3, 0.01):
        report = report_of(
            ending(pack, "clip"), table, answers, semantics="smooth", temperature=temperature
        )
        check_nearness(report, pack, temperature, len(table))


@pytest.mark.parametrize(
    "name", [name for name, (_, members) in OPERATORS.items() if members] + ["until", "nested"]
)
def test_members_and_windows_approach_the_exact_ones(name: str) -> None:
    skeleton, members = OPERATORS[name]
    module = module_of(single(skeleton, end="clip", members=members))
    x, y = batch(3, count=4, steps=6)
    for whole in (True, False):
        reports = [
            module(x, y, **options)
            for options in ({}, {"semantics": "smooth", "temperature": 1e-5})
        ]
        exact, smooth = ((r if whole else r.at_steps).smooth_robustness for r in reports)
        # a lag is unknown at the first steps: NaN in both
        assert torch.allclose(exact, smooth, atol=1e-3, equal_nan=True)
        robustness = (reports[0] if whole else reports[0].at_steps).robustness
        assert torch.allclose(exact, robustness, rtol=0.0, atol=0.0, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("semantics", ["smooth", "sound"])
def test_gradients_are_finite_differences(name: str, semantics: str) -> None:
    skeleton, members = OPERATORS[name]
    module = module_of(single(skeleton, end="strict", members=members))
    x, y = batch(6, count=1, steps=5)

    def robustness_of(answers: Tensor) -> Tensor:
        report = module(x, answers, semantics=semantics, temperature=0.2)
        values = torch.cat(
            [report.at_steps.smooth_robustness.flatten(), report.smooth_robustness.flatten()]
        )
        return values[values.detach().isfinite()]

    assert torch.autograd.gradcheck(robustness_of, y.requires_grad_())


def two_limits(scale: float) -> tuple[Pack, Tensor]:
    """Failure and quality are at most 0.3 each; here they are 1.3 and 0.6."""
    other = le(OUT.model_copy(update={"index": 1}), LIMIT)
    pack = single(And(args=(le(OUT, LIMIT), other)), end="clip")
    pack.banks[0].params[0, 1] = scale
    return pack, torch.tensor([[1.3, 0.6, 0.0, 0.0, 0.0]], dtype=F64)


@pytest.mark.parametrize("scale", [1.0, 250.0])
def test_by_hand_in_source_units(scale: float) -> None:
    pack, y = two_limits(scale)
    found = {
        kind: module_of(pack)(
            torch.zeros(1, 4, dtype=F64), y, semantics=kind
        ).smooth_robustness.item()
        for kind in ("smooth", "sound")
    }
    t = 0.05 * scale
    assert found["smooth"] == pytest.approx(-t * math.log(math.exp(1.0 / t) + math.exp(0.3 / t)))
    assert found["sound"] == pytest.approx(-math.hypot(1.0, 0.3), rel=1e-6)


@pytest.mark.parametrize("semantics", ["smooth", "sound"])
@pytest.mark.parametrize("answer", [-7e32, 7e32])
def test_a_margin_beyond_all_measure_is_still_a_number(semantics: str, answer: float) -> None:
    pack, _ = two_limits(1.0)
    for skeleton in (le(OUT, LIMIT), pack.banks[0].skeleton, over("always", le(OUT, LIMIT))):
        module = module_of(single(skeleton, low=0, high=0, end="clip"))
        answers = torch.full((1, 2, 5), answer, dtype=torch.float32)
        answers[..., 1] = 0.2
        report = module(torch.zeros(1, 2, 4), answers, semantics=semantics)
        for each in (report, report.at_steps):
            assert torch.equal(each.smooth_robustness.isfinite(), each.robustness.isfinite())
            assert torch.equal(each.smooth_robustness.sign(), each.robustness.sign())


@pytest.mark.parametrize("scale", [1.0, 26.72])
@pytest.mark.parametrize("answer", [4.6e47, -4.6e47])
def test_a_margin_beyond_the_reach_counts_as_the_reach(scale: float, answer: float) -> None:
    pack, y = two_limits(scale)
    y[0, 0] = answer
    report = module_of(pack)(torch.zeros(1, 4, dtype=F64), y, semantics="smooth")
    assert abs(report.robustness.item()) == pytest.approx(0.3 if answer < 0 else 4.6e47)
    check_nearness(report, pack, 0.05, 1)


@pytest.mark.parametrize("semantics", ["smooth", "sound"])
def test_a_strict_comparison_that_holds_by_next_to_nothing_holds(semantics: str) -> None:
    module = module_of(single(Not(arg=le(OUT, LIMIT)), limit=0.0))
    for column in (0, 1):
        answers = torch.zeros(1, 5, dtype=F64)
        answers[0, column] = 1e-108
        report = module(torch.zeros(1, 4, dtype=F64), answers, semantics=semantics)
        assert torch.equal(report.smooth_robustness >= 0, report.satisfied)


def test_a_window_is_the_smooth_least_of_its_steps() -> None:
    module = module_of(single(over("always", le(OUT, LIMIT)), low=0, high=0, limit=0.0, end="clip"))
    y = torch.zeros(1, 3, 5, dtype=F64)
    y[0, :, 0] = torch.tensor([3.0, -1.0, 4.0])
    report = module(torch.zeros(1, 3, 4, dtype=F64), y, semantics="sound")
    assert report.at_steps.smooth_robustness[0, :, 0].tolist() == pytest.approx([-3.0, 1.0, -4.0])
    assert report.smooth_robustness.item() == pytest.approx(-5.0)
    assert report.robustness.item() == -4.0
