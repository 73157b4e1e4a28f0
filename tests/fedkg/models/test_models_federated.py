"""Every model in a federation: rows, images and windows pass unchanged, and executors agree."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from model_examples import EXAMPLES

from fedkg.federated import Clients, Problem, Settings, SquaredError, WorkerPool, fedavg, train
from fedkg.models import Params, predict


def problem(name: str) -> Problem:
    model, sample = EXAMPLES[name]
    generator = torch.Generator().manual_seed(1)
    x = [torch.randn(size, *sample, dtype=torch.float64, generator=generator) for size in (5, 3, 7)]
    params = model.init(9, torch.float64)
    y = [predict(model, params, rows) for rows in x]
    return Problem(
        model=model,
        loss=SquaredError(),
        clients=Clients(names=("a", "b", "c"), x=tuple(x), y=tuple(y)),
    )


def final(task: Problem, executor: str, chunk: int | None = None) -> Params:
    settings = Settings(
        rounds=2, local_epochs=2, batch=3, learning_rate=0.05, executor=executor, chunk=chunk
    )
    *_, (state, _) = train(task, fedavg(), settings)
    return state.params


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_executors_agree_on_every_model(name: str) -> None:
    task = problem(name)
    expected = final(task, "sequential")
    start = task.model.init(0, torch.float64)
    assert any(not torch.equal(expected[key], start[key]) for key in start)
    for chunk in (None, 2):
        for key, value in final(task, "stacked", chunk).items():
            torch.testing.assert_close(value, expected[key], rtol=1e-9, atol=1e-11)


@pytest.fixture(scope="module")
def worker_pool() -> Iterator[WorkerPool]:
    with WorkerPool(2) as workers:
        yield workers


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_processes_train_every_model_as_stacks_do(name: str, worker_pool: WorkerPool) -> None:
    settings = Settings(
        rounds=2, local_epochs=2, batch=3, learning_rate=0.05, executor="processes", chunk=1
    )
    *_, (state, _) = train(problem(name), fedavg(), settings, crew=worker_pool)
    expected = final(problem(name), "stacked", 1)
    assert all(torch.equal(value[0], expected[key]) for key, value in state.models.items())
