"""Nearest satisfying traces: the paper's cases, all templates, random formulas against MILP."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from tries import tries

import fedkg
from fedkg.constraints.meaning.trace_robustness import trace_satisfaction
from fedkg.errors import HorizonError, SetError
from fedkg.pack import Bank
from fedkg.teacher import Teacher, milp
from fedkg.teacher.formula_unrolling import Unrolling
from fedkg.teacher.literals import Literals

HEAD = """
timeline step 1 h ends clip
output x in % span 0 .. 1000
output y in % span 0 .. 1000
use rules templates.operational_range, templates.until, templates.temporal_implication
use rules templates.existence, templates.extremes, templates.intra_task
use rules templates.nested_intra_task, templates.multiple_eventualities, templates.template_free
"""
FORMULAS = {
    "range": "follows operational_range(x, 20, 60, 1, 4)",
    "two ranges that overlap": (
        "(follows operational_range(x, 20, 60, 0, 3)) and (follows operational_range(x, 30, 80, "
        "2, 5))"
    ),
    "existence": "(follows existence(x, 40, 45, 0, 2)) and (follows existence(x, 70, 72, 3, 5))",
    "existence in windows that "
    "overlap": "(follows existence(x, 40, 45, 0, 3)) and (follows existence(x, 42, 50, 1, 4))",
    "extremes": "follows extremes(x, 90, 10, 0, 3)",
    "until": "follows until(x, 70, 20, 0, 4)",
    "two untils": "(follows until(x, 70, 20, 0, 2)) and (next (follows until(x, 60, 30, 0, 2)))",
    "a difference": "follows intra_task(x, y, 5, 0, 4)",
    "response": "follows temporal_implication(x, 60, 50, 0, 3, 1, 2)",
    "response to a higher value": "follows temporal_implication(x, 40, 70, 0, 3, 1, 2)",
    "response of another signal": "follows nested_intra_task(x, y, 50, 60, 0, 3, 0, 2)",
    "multiple eventualities": "follows multiple_eventualities(x, 80, 0, 2, 95, 2, 5)",
    "nested": "follows always_soon_above(x, 60, 0, 3, 2)",
    "long enough": "follows soon_long_below(x, 30, 0, 3, 1)",
    "past": "always [2, 5] if x > 50 % then once [1, 2] y > 50 %",
    "since": "always [3, 5] (x >= 20 % since y <= 30 %)",
    "an equation": "always x == y +/- 3 %",
    "unequal": "eventually [0, 1] not x == 50 % +/- 20 %",
    "a sum": "always x + 2 * y <= 150 %",
}


def bank(condition: str) -> Bank:
    pack = fedkg.compile(text=f"{HEAD}rule r require initially ({condition})\n")
    [found] = pack.banks
    return found


@pytest.fixture(scope="module")
def banks() -> dict[str, Bank]:
    return {name: bank(condition) for name, condition in FORMULAS.items()}


def predicted(seed: int, rows: int, channels: int) -> Tensor:
    return (
        torch.rand(
            rows, 6, channels, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
        )
        * 100
    )


def by_program(found: Bank, trace: Tensor) -> np.ndarray:
    literals = Literals(found.slots.shape[1], list(torch.from_numpy(found.params[:1]).T))
    unrolling = Unrolling(6, found.params[0].tolist(), True, literals)
    return milp.solve_nearest(
        unrolling.expressions, unrolling.at(found.skeleton, 0), literals.found, trace.numpy()
    )


@pytest.mark.parametrize("name", FORMULAS)
@tries(6)
@given(seed=st.integers(0, 2**31))
def test_the_nearest_trace_satisfies_and_costs_what_the_program_finds(
    banks: dict[str, Bank], name: str, seed: int
) -> None:
    found = banks[name]
    traces = predicted(seed, 2, found.slots.shape[1])
    teacher = Teacher(found, 6, clip=True)
    assert not teacher.by_program
    nearest = teacher.nearest(traces)
    for trace, moved in zip(traces, nearest, strict=True):
        assert (
            trace_satisfaction(found.skeleton, moved.numpy(), found.params[0].tolist(), end="clip")
            is True
        )
        best = np.abs(by_program(found, trace) - trace.numpy()).sum()
        assert float((trace - moved).abs().sum()) == pytest.approx(best, abs=2e-3)
    torch.testing.assert_close(teacher.nearest(nearest), nearest, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_distance_of_zero_is_satisfaction(banks: dict[str, Bank], name: str) -> None:
    found = banks[name]
    traces = predicted(1, 200, found.slots.shape[1])
    distance = Teacher(found, 6, clip=True).distance(traces)
    verdicts = [
        trace_satisfaction(found.skeleton, trace.numpy(), found.params[0].tolist(), end="clip")
        for trace in traces
    ]
    strictly = (distance > 1e-3).tolist()
    assert all(
        verdict is True
        for verdict, far in zip(verdicts, distance.tolist(), strict=True)
        if far == 0
    )
    assert not any(verdict is True for verdict, far in zip(verdicts, strictly, strict=True) if far)


def project_values(condition: str, *trace: float) -> list[float]:
    found = bank(condition)
    moved = Teacher(found, len(trace), clip=True).nearest(
        torch.tensor(trace, dtype=torch.float64)[None, :, None]
    )
    return moved.flatten().tolist()


def test_the_papers_cases() -> None:
    assert project_values("follows operational_range(x, 0, 2, 0, 2)", -1, 1, 3) == [0, 1, 2]
    assert project_values("eventually [0, 2] x >= 4 %", 1, 3, 2) == [1, 4, 2]
    assert project_values(
        "follows temporal_implication(x, 1.5, 1, 0, 4, 1, 2)", 0, 2, 0, 0, 0.4
    ) == pytest.approx([0, 1.499, 0, 0, 0.4])
    assert project_values(
        "follows temporal_implication(x, 1.5, 1, 0, 4, 1, 2)", 0, 2, 0, 0.8, 0.4
    ) == [0, 2, 0, 1, 0.4]


def test_a_difference_is_shared_evenly() -> None:
    found = bank("always x - y >= 4 %")
    moved = Teacher(found, 2, clip=True).nearest(torch.tensor([[[1.0, 1.0], [9.0, 1.0]]]))
    assert moved.tolist() == [[[3.0, -1.0], [9.0, 1.0]]]


def test_the_gradient_is_that_of_the_norm() -> None:
    teacher = Teacher(bank("follows operational_range(x, 0, 2, 0, 2)"), 3, clip=True)
    trace = torch.tensor([[[-1.0], [1.0], [3.0]]], requires_grad=True)
    teacher.distance(trace).sum().backward()
    assert trace.grad is not None
    torch.testing.assert_close(trace.grad.flatten(), torch.tensor([-1 / 3, 0, 1 / 3]))


def test_each_client_has_its_own_bounds() -> None:
    found = bank("follows existence(x, 40, 45, 0, 2)")
    params = torch.from_numpy(found.params).repeat(3, 1)
    [low, high] = [i for i, value in enumerate(found.params[0].tolist()) if value in (40.0, 45.0)]
    params[1, [low, high]], params[2, [low, high]] = (
        torch.tensor([80.0, 85.0]).double(),
        torch.tensor([70.0, 70.0]).double(),
    )
    teacher = Teacher(found, 3, params=params, clip=True)
    trace = torch.tensor([50.0, 60.0, 10.0])[None, :, None].repeat(3, 1, 1)
    moved = teacher.nearest(trace, client=torch.tensor([0, 1, 2])).squeeze(-1)
    assert moved.tolist() == [[45.0, 60.0, 10.0], [50.0, 80.0, 10.0], [50.0, 70.0, 10.0]]


def test_a_rule_holds_at_every_step() -> None:
    pack = fedkg.compile(
        text=f"{HEAD}rule r require if x >= 80 % then eventually [1, 2] x <= 60 %\n"
    )
    trace = torch.tensor([[[10.0], [85.0], [70.0], [65.0], [90.0], [61.0]]], dtype=torch.float64)
    clipped = Teacher(pack.banks[0], 6, clip=True)
    assert clipped.nearest(trace).flatten().tolist() == [10.0, 85.0, 70.0, 60.0, 90.0, 60.0]
    inside = Teacher(pack.banks[0], 6)  # in the last two steps the formula looks beyond the trace
    assert inside.nearest(trace).flatten().tolist() == [10.0, 85.0, 70.0, 60.0, 90.0, 61.0]
    first = Teacher(pack.banks[0], 6, clip=True, everywhere=False)
    assert torch.equal(first.nearest(trace), trace)


def test_convexity_of_the_distance() -> None:
    """Lemma 1: convex for conjunctions of bounds at every step; not so for eventually."""
    dice = torch.Generator().manual_seed(0)
    one, other = (
        torch.rand(400, 6, 1, generator=dice, dtype=torch.float64) * 100 for _ in range(2)
    )
    share = torch.rand(400, 1, 1, generator=dice, dtype=torch.float64)

    def gap(condition: str) -> Tensor:
        teacher = Teacher(bank(condition), 6, clip=True)
        between = teacher.distance(share * one + (1 - share) * other)
        return (
            share.flatten() * teacher.distance(one)
            + (1 - share.flatten()) * teacher.distance(other)
            - between
        )

    assert float(gap("follows operational_range(x, 20, 60, 1, 4)").min()) >= -1e-12
    assert float(gap("follows existence(x, 20, 60, 0, 1)").min()) < -1e-3


def test_channels_in_several_combinations_are_solved_by_programs() -> None:
    found = bank("always (x + y <= 100 % and x - y <= 10 % and x >= 30 %)")
    teacher = Teacher(found, 2, clip=True)
    assert teacher.by_program
    moved = teacher.nearest(torch.tensor([[[90.0, 20.0], [40.0, 40.0]]], dtype=torch.float64))
    assert float(moved[0, 0].sum()) <= 100 + 1e-6
    torch.testing.assert_close(
        (moved - torch.tensor([[[90.0, 20.0], [40.0, 40.0]]])).abs().sum().item(),
        60.0,
        atol=1e-5,
        rtol=0,
    )


def test_formulas_without_nearest_trace_are_rejected() -> None:
    with pytest.raises(SetError, match="no trace satisfies"):
        Teacher(bank("(always x >= 5 %) and (eventually x <= 4 %)"), 3, clip=True)
    with pytest.raises(SetError, match="not linear"):
        Teacher(bank("always x * y >= 5 %"), 3, clip=True)
    with pytest.raises(HorizonError, match="beyond the trace"):
        Teacher(bank("follows existence(x, 40, 45, 0, 5)"), 3)
    with pytest.raises(SetError, match="do not fit"):
        Teacher(bank("always x >= 5 %"), 3, clip=True).nearest(torch.zeros(2, 4, 1))


def test_bounds_that_push_each_other_far_are_met_by_programs() -> None:
    """Nine differences of 100 move ten channels to 450 on both sides, beyond any single bound."""
    names = [f"c{i}" for i in range(10)]
    outputs = "".join(f"output {name} in % span -1000 .. 1000\n" for name in names)
    steps = " and ".join(f"{high} - {low} >= 100 %" for low, high in pairwise(names))
    [found] = fedkg.compile(
        text=f"timeline step 1 h ends clip\n{outputs}rule r require {steps}\n"
    ).banks
    moved = Teacher(found, 1, clip=True).nearest(torch.zeros(1, 1, 10, dtype=torch.float64))
    assert float(moved.abs().sum()) == pytest.approx(2 * (50 + 150 + 250 + 350 + 450), abs=1e-3)


def test_parameters_that_one_teacher_cannot_hold_are_rejected() -> None:
    found = bank("always [0, 3] x <= 50 %")
    params = torch.from_numpy(found.params).repeat(2, 1)
    other = params.clone()
    other[1][params[1] == 3] = 2
    with pytest.raises(SetError, match="client 1 has different bounds of windows"):
        Teacher(found, 6, params=other, clip=True)
    with pytest.raises(SetError, match="client 0 has a parameter without a value"):
        Teacher(found, 6, params=params.where(params != 50, torch.nan), clip=True)
    with pytest.raises(SetError, match="params= does not fit"):
        Teacher(found, 6, params=params[:, :1], clip=True)


def test_of_traces_that_are_equally_near_always_the_same_one_is_taken() -> None:
    """Ties choose the lower of two bounds, and the later of two steps."""
    either = Teacher(bank("x <= 10 % or x >= 30 %"), 1, clip=True)
    assert either.nearest(torch.tensor([[[20.0]]])).flatten().tolist() == [10.0]
    some = Teacher(bank("eventually [0, 1] x >= 40 %"), 3, clip=True)
    assert some.nearest(torch.tensor([[[30.0]] * 3])).flatten().tolist() == [30.0, 40.0, 30.0]


def test_bounds_on_one_combination_are_one_group_whatever_their_numbers() -> None:
    found = bank("x - 0.3 * y >= 0.7 % and x - 0.3 * y <= 12.1 %")
    teacher = Teacher(found, 1, clip=True)
    assert not teacher.by_program
    moved = teacher.nearest(torch.tensor([[[30.0, 9.0]]], dtype=torch.float64))
    assert moved.flatten().tolist() == pytest.approx([14.8, 9.0])


def test_a_bank_of_several_rules_is_rejected() -> None:
    """Bound rows of equal form share a bank; a teacher would satisfy the first one alone."""
    outputs = "output x in % span 0 .. 100\noutput y in % span 0 .. 100\n"
    rules = "rule a require always x <= 80 %\nrule b require always y <= 60 %\n"
    found = fedkg.compile(text=outputs + rules).banks[0]
    assert found.rows == 2
    with pytest.raises(SetError, match="must have one row") as caught:
        Teacher(found, 3, clip=True)
    assert "of one rule or of several, share a bank" in caught.value.received
