"""Stacks stay within their memory limit, measured as the memory of the process.

Includes convolutions and recurrent models.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fedkg.federated import Clients, Problem, Settings, SquaredError, fedavg, initial_state
from fedkg.federated.executors import Stacked, Work
from fedkg.federated.executors.stacked import fitting
from fedkg.federated.problem import pool
from fedkg.models import MODELS, Model

BUDGET = 192 << 20
PEAK = Path("/proc/self/clear_refs")

CASES: dict[str, tuple[Model, tuple[int, ...], int]] = {
    "mlp": (MODELS["mlp"](inputs=64, hidden=(128, 128), outputs=10), (64,), 10),
    "lenet5": (MODELS["lenet5"](image=(1, 28, 28), outputs=10), (1, 28, 28), 10),
    "cnn": (MODELS["cnn"](image=(3, 32, 32), outputs=10), (3, 32, 32), 10),
    "lstm": (MODELS["lstm"](features=2, history=24, horizon=6, outputs=2, hidden=32), (24, 2), 12),
}


def taken(key: str) -> int:
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key)
    )
    return int(line.split()[1]) * 1024


def peak(work: Work, clients: int) -> int:
    """The process's peak memory while a stack is trained, above the level before, in bytes."""
    state = initial_state(work.problem, work.algorithm, work.settings)
    PEAK.write_text("5")  # reset the peak
    before = taken("VmRSS")
    for updates in Stacked(chunk=clients).train(work, state, torch.arange(clients)):
        assert len(updates.clients) == clients
    return taken("VmHWM") - before


@pytest.mark.slow
@pytest.mark.skipif(not PEAK.is_file(), reason="the system does not tell a process's peak")
@pytest.mark.parametrize("name", sorted(CASES))
def test_a_stack_takes_no_more_than_it_may(name: str) -> None:
    model, sample, outputs = CASES[name]
    count = 300
    generator = torch.Generator().manual_seed(1)
    x = tuple(torch.randn(20, *sample, generator=generator) for _ in range(count))
    y = tuple(torch.randn(20, outputs, generator=generator) for _ in range(count))
    problem = Problem(
        model=model,
        loss=SquaredError(),
        clients=Clients(names=tuple(map(str, range(count))), x=x, y=y),
    )
    settings = Settings(
        rounds=1, local_epochs=1, batch=10, learning_rate=0.01, memory=BUDGET, executor="stacked"
    )
    work = Work(problem=problem, algorithm=fedavg(), settings=settings, pool=pool(problem.clients))
    most = min(count, fitting(work, initial_state(problem, fedavg(), settings)))
    assert most > 2
    peak(work, 1)  # memory that libraries allocate on first use
    assert peak(replace(work, settings=replace(settings, chunk=most)), most) < BUDGET
