"""The teacher's traces satisfy the rule in their dtype, by the module and by the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedkg
from fedkg.constraints.meaning.trace_robustness import trace_satisfaction
from fedkg.errors import SetError
from fedkg.teacher import Teacher

HEAD = """
timeline step 1 h ends clip
output x in % span -10000 .. 10000
output y in % span -10000 .. 10000
"""
FORMULAS = {
    "a bound that float32 does not have": "always x <= 60.1 %",
    "strictly": "always (x > 33.3 % and y < 66.7 %)",
    "strictly and far": "always x > 4321.1 %",
    "a multiple": "always 1.1 * x <= 60.1 %",
    "a shifted one": "always x + 273.15 % >= 333.3 %",
    "a sum": "always x + 2 * y <= 150.1 %",
    "weights": "always 0.1 * x + 0.3 * y >= 33.3 %",
    "a quotient": "always (x - y) / 3 <= 7.7 %",
    "a strict difference": "always x - y > 5.1 %",
    "an equation": "always x == y +/- 0.3 %",
    "unequal": "always not x == 50.1 % +/- 20.3 %",
    "not equal to a sum": "eventually [0, 2] not x + y == 100.1 % +/- 30.3 %",
    "a response": "always if x + y >= 90.1 % then eventually [1, 2] x + y <= 40.3 %",
    "either": "always (x <= 10.1 % or x >= 90.3 %)",
}
SUMS = {
    "two sums": "always (x + y <= 100.1 % and x - y <= 10.1 % and x >= 30.1 %)",
    "a choice of sums": "always (x + y <= 50.1 % or x - 2 * y >= 20.3 %)",
}


@pytest.fixture(scope="module")
def packs() -> dict[str, fedkg.Pack]:
    return {
        name: fedkg.compile(text=f"{HEAD}rule r require initially ({condition})\n")
        for name, condition in (FORMULAS | SUMS).items()
    }


def check(pack: fedkg.Pack, traces: torch.Tensor) -> Teacher:
    """Returned traces satisfy the rule by interpreter and module, and are fixed points."""
    [found] = pack.banks
    teacher = Teacher(found, traces.shape[1], clip=True)
    moved = teacher.nearest(traces)
    assert moved.dtype == traces.dtype
    verdicts = [
        trace_satisfaction(
            found.skeleton, trace.double().numpy(), found.params[0].tolist(), end="clip"
        )
        for trace in moved
    ]
    assert verdicts == [True] * len(moved)
    names = [pack.manifest.contract.columns[column].name for column in found.slots[0]]
    rules = pack.constraints(x=fedkg.columns(["nothing"]), y=fedkg.columns(names))
    report = rules(torch.zeros(*moved.shape[:2], 1, dtype=moved.dtype), moved)
    assert not bool(report.violated.any())
    assert bool(report.satisfied.all())
    if not teacher.by_program:
        assert torch.equal(teacher.nearest(moved), moved)
    return teacher


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FORMULAS)
@settings(max_examples=2)
@given(seed=st.integers(0, 2**31), size=st.sampled_from([1e-2, 1.0, 100.0, 1e4]))
def test_returned_traces_satisfy_the_rule_in_their_own_dtype(
    packs: dict[str, fedkg.Pack], name: str, dtype: torch.dtype, seed: int, size: float
) -> None:
    channels = packs[name].banks[0].slots.shape[1]
    traces = (
        torch.rand(10, 3, channels, generator=torch.Generator().manual_seed(seed), dtype=dtype)
        * size
    )
    assert not check(packs[name], traces).by_program


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", SUMS)
@settings(max_examples=2)
@given(seed=st.integers(0, 2**31), size=st.sampled_from([1.0, 100.0, 1e4]))
def test_those_found_by_programs_do_too(
    packs: dict[str, fedkg.Pack], name: str, dtype: torch.dtype, seed: int, size: float
) -> None:
    traces = torch.rand(2, 1, 2, generator=torch.Generator().manual_seed(seed), dtype=dtype) * size
    assert check(packs[name], traces).by_program


@pytest.mark.parametrize("name", FORMULAS)
def test_no_more_is_moved_than_rounding_asks_for(packs: dict[str, fedkg.Pack], name: str) -> None:
    [found] = packs[name].banks
    traces = (
        torch.rand(
            20,
            4,
            found.slots.shape[1],
            generator=torch.Generator().manual_seed(0),
            dtype=torch.float64,
        )
        * 100
    )
    teacher = Teacher(found, 4, clip=True)
    exact, single = teacher.nearest(traces.float().double()), teacher.nearest(traces.float())
    size = float(exact.abs().max())
    np.testing.assert_allclose(single.double().numpy(), exact.numpy(), atol=2e-5 * size, rtol=0)


def test_a_trace_on_its_bound_stays() -> None:
    [found] = fedkg.compile(
        text=f"{HEAD}rule r require initially (always (x <= 60 % and x + y <= 90 %))\n"
    ).banks
    on = torch.tensor([[[60.0, 30.0], [59.0, 31.0]]])
    teacher = Teacher(found, 2, clip=True)
    assert teacher.by_program
    assert (
        teacher.nearest(on) - on
    ).abs().max() < 1e-5 * 90  # programs stay away from it by the rounding error
    sums = fedkg.compile(text=f"{HEAD}rule r require initially (always x + y <= 90 %)\n").banks[0]
    assert torch.equal(Teacher(sums, 2, clip=True).nearest(on), on)


def test_whole_numbers_are_rejected(packs: dict[str, fedkg.Pack]) -> None:
    [found] = packs["either"].banks
    with pytest.raises(SetError, match=r"expected: float32 or float64\n  received: int64"):
        Teacher(found, 3, clip=True).nearest(torch.full((1, 3, 1), 50))


def test_a_client_that_there_is_not_is_named(packs: dict[str, fedkg.Pack]) -> None:
    [found] = packs["either"].banks
    teacher = Teacher(found, 3, params=torch.from_numpy(found.params).repeat(2, 1), clip=True)
    traces = torch.zeros(4, 3, 1)
    for wrong in (2, -1):
        with pytest.raises(
            SetError, match=rf"the client of trace 1\n  expected: 0 \.\. 1\n  received: {wrong}"
        ):
            teacher.nearest(traces, client=torch.tensor([0, wrong, 1, 0]))
    with pytest.raises(SetError, match=r"expected: int64 \[4\]\n  received: int64 \[3\]"):
        teacher.nearest(traces, client=torch.tensor([0, 1, 1]))
    with pytest.raises(SetError, match=r"received: float32 \[4\]"):
        teacher.nearest(traces, client=torch.zeros(4))
