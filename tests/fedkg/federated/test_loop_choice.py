"""Compiled loops serve from the second round of a training that is long enough for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch

from fedkg.federated import (
    Clients,
    CrossEntropy,
    Own,
    Problem,
    ServerState,
    Settings,
    fedavg,
    train,
)
from fedkg.federated.client import loop_choice
from fedkg.federated.client.loop_choice import compile_for, estimate_seconds, is_worth_loops
from fedkg.federated.executors.protocol import Work
from fedkg.federated.problem import pool
from fedkg.federated.state import from_tensors, to_tensors
from fedkg.kernels import compiled_loop_policy
from fedkg.kernels.compiled_loop_policy import can_compile_loops
from fedkg.models import MLP, Recurrent

pytestmark = pytest.mark.skipif(not can_compile_loops(), reason="needs compiled loops")

SETTINGS = Settings(
    rounds=4, local_epochs=1, batch=4, learning_rate=0.5, seed=3, executor="stacked"
)
SIZES = (9, 4, 13)


@pytest.fixture(autouse=True)
def _auto() -> Iterator[None]:
    """The default setting in place of the tests' setting ``on``."""
    with (
        patch.object(compiled_loop_policy, "waits_for_loops", lambda: False),
        patch.object(loop_choice, "waits_for_loops", lambda: False),
    ):
        yield


def problem() -> Problem:
    dice = torch.Generator().manual_seed(1)
    xs = tuple(torch.randn(size, 5, generator=dice) for size in SIZES)
    return Problem(
        model=MLP(inputs=5, hidden=(8,), outputs=2),
        loss=CrossEntropy(),
        clients=Clients(names=("a", "b", "c"), x=xs, y=tuple((x[:, 0] > 0).long() for x in xs)),
    )


def work(settings: Settings = SETTINGS) -> Work:
    task = problem()
    return Work(problem=task, algorithm=fedavg(), settings=settings, pool=pool(task.clients))


def states(worth: float, state: ServerState | None = None) -> list[ServerState]:
    """The states after each round, if loops are worth loading from so many seconds on."""
    with (
        patch.object(loop_choice, "WORTH_SECONDS", worth),
        patch.object(loop_choice, "compile_ahead", lambda names: None),
    ):
        return [one for one, _ in train(problem(), fedavg(), SETTINGS, state)]


def equal(left: ServerState, right: ServerState) -> bool:
    return all(torch.equal(left.models[name], value) for name, value in right.models.items())


def test_a_short_training_equals_one_without_loops() -> None:
    with patch.object(loop_choice, "can_compile_loops", lambda: False):
        without = states(0.0)
    short = states(1e9)
    assert [equal(*pair) for pair in zip(short, without, strict=True)] == [True] * 4
    assert not any(state.choice is not None and state.choice.loops for state in short)


def test_a_long_training_uses_loops_from_its_second_round() -> None:
    with patch.object(compiled_loop_policy, "waits_for_loops", lambda: True):
        with_loops = states(0.0)
    long, short = states(0.0), states(1e9)
    assert equal(long[0], short[0])
    assert not equal(long[0], with_loops[0]), "loops differ in the last bits"
    assert not equal(long[1], short[1])
    with patch.object(compiled_loop_policy, "waits_for_loops", lambda: True):
        from_second = states(0.0, long[0])
    assert [equal(*pair) for pair in zip(long[1:], from_second, strict=True)] == [True] * 3


def test_a_training_continues_with_the_same_bits() -> None:
    whole = states(0.0)
    for done in range(1, 4):
        saved = from_tensors(*to_tensors(whole[done - 1]))
        rest = states(1e9, saved)  # the choice was made before the first round
        assert [equal(*pair) for pair in zip(whole[done:], rest, strict=True)] == [True] * len(rest)


@pytest.mark.slow
def test_worker_processes_give_the_same_bits() -> None:
    """A worker has the environment of the tests, with loops from the first call, so compare the
    rounds that use loops in both.
    """
    first = states(0.0)[0]
    assert first.choice is not None
    elsewhere = replace(first, choice=replace(first.choice, executor="processes", chunk=1))
    assert equal(states(0.0, first)[-1], states(0.0, elsewhere)[-1])


def test_the_estimate_grows_with_the_work() -> None:
    seconds = estimate_seconds(work())
    assert estimate_seconds(work(replace(SETTINGS, rounds=8))) == pytest.approx(2 * seconds)
    assert estimate_seconds(work(replace(SETTINGS, local_epochs=3))) == pytest.approx(3 * seconds)
    steps = 4 * (3 + 1 + 4)
    one_by_one = replace(SETTINGS, own={"a": Own(batch=1)})  # 9 steps of the first client, not 3
    assert estimate_seconds(work(one_by_one)) == pytest.approx(4 * 14 * 2e-4, rel=0.05)
    assert seconds == pytest.approx(steps * 2e-4, rel=0.05)
    assert not is_worth_loops(work())
    assert is_worth_loops(work(replace(SETTINGS, rounds=1000)))


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (MLP(inputs=5, hidden=(8,), outputs=2), ["perceptron"]),
        (Recurrent(cell="gru", features=5, history=3, horizon=1, outputs=2, hidden=4), ["cells"]),
    ],
)
def test_the_background_compiles_what_a_training_needs(
    model: MLP | Recurrent, names: list[str]
) -> None:
    found: list[str] = []
    task = work()
    task = replace(task, problem=replace(task.problem, model=model))
    with patch.object(loop_choice, "compile_ahead", found.extend):
        compile_for(task)
    assert found == names
