"""Worker processes give the same results, to the bit, as stacks in one process.

Errors name the client and the cause, and no process remains.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Literal

import pytest
import torch
from algorithm_contracts import CONTRACTS, made, settings_for, task
from federations import classes, identical
from torch import Tensor, nn

from fedkg.errors import JobError
from fedkg.federated import Choice, Problem, Settings, fedavg, initial_state, to_tensors, train
from fedkg.federated.client.start_points import BestModel
from fedkg.federated.executors import Processes, Work, WorkerPool, executor_choice_by_timing
from fedkg.federated.executors.shared_tensors import Room, plan_of
from fedkg.federated.problem import pool
from fedkg.federated.round_steps import Step
from fedkg.federated.server.robust import TrimmedMean
from fedkg.models import TorchModule

NAMES: tuple[Literal["stacked", "processes"], ...] = ("stacked", "processes")
SETTINGS = Settings(
    rounds=2, local_epochs=2, batch=8, learning_rate=0.1, executor="processes", chunk=2
)


@pytest.fixture(scope="module")
def worker_pool() -> Iterator[WorkerPool]:
    with WorkerPool(2) as workers:
        yield workers


@dataclass(frozen=True)
class Curved:
    """A term without a closed-form derivative, like the penalty of rules."""

    def value(self, step: Step) -> Tensor:
        return 0.1 * torch.stack(
            [value.sin().flatten(1).sum(1) for value in step.params.values()]
        ).sum(0)


@dataclass(frozen=True)
class Failing:
    """Fails at client 3 in a worker process: raises, or ends the process."""

    kill: bool = False

    def value(self, step: Step) -> Tensor:
        if multiprocessing.parent_process() is not None and 3 in step.clients.tolist():
            if self.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("the third has no such thing")
        return torch.zeros(len(step.clients), dtype=torch.float64) + 0.0 * next(
            iter(step.params.values())
        ).flatten(1).sum(1)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CONTRACTS))
def test_processes_are_stacks_to_the_bit(name: str, worker_pool: WorkerPool) -> None:
    algorithm = made(name).with_terms(Curved())
    stacked = train(task(), algorithm, settings_for(name, executor="stacked", chunk=2))
    side_by_side = train(
        task(), algorithm, settings_for(name, executor="processes", chunk=2), crew=worker_pool
    )
    for (one, was), (other, record) in zip(stacked, side_by_side, strict=True):
        assert identical(to_tensors(one)[0], to_tensors(other)[0])
        assert (was.clients, was.alpha, was.train_loss, was.bytes_down) == (
            record.clients,
            record.alpha,
            record.train_loss,
            record.bytes_down,
        )


def test_an_aggregate_that_keeps_all_updates_keeps_whose_they_are(worker_pool: WorkerPool) -> None:
    """There are more stacks than slots of the worker pool.

    The buffers of the first ones are overwritten before the round ends.
    """
    algorithm = replace(fedavg(), aggregate=TrimmedMean(trim=0.5), start=BestModel(models=2))
    problem, settings = classes((30, 28, 9, 9, 9, 9, 9, 9, 5, 5)), replace(SETTINGS, chunk=1)
    by = [
        [
            state
            for state, _ in train(
                problem, algorithm, replace(settings, executor=name), crew=worker_pool
            )
        ]
        for name in NAMES
    ]
    for one, other in zip(*by, strict=True):
        assert identical(to_tensors(one)[0], to_tensors(other)[0])


def test_an_error_in_a_worker_is_raised_here_and_the_crew_goes_on(worker_pool: WorkerPool) -> None:
    problem = classes((9,) * 6)
    with pytest.raises(ValueError, match="the third has no such thing") as caught:
        list(train(problem, fedavg().with_terms(Failing()), SETTINGS, crew=worker_pool))
    assert any(
        "in a worker process" in note and "Traceback" in note for note in caught.value.__notes__
    )
    *_, (state, _) = train(problem, fedavg(), SETTINGS, crew=worker_pool)
    *_, (expected, _) = train(problem, fedavg(), replace(SETTINGS, executor="stacked"))
    assert identical(state.models, expected.models)


def test_a_round_that_is_given_up_does_not_spoil_the_next(worker_pool: WorkerPool) -> None:
    problem = classes((9,) * 12)
    work = Work(problem=problem, algorithm=fedavg(), settings=SETTINGS, pool=pool(problem.clients))
    state, everybody = initial_state(problem, fedavg(), SETTINGS), torch.arange(12)
    for _ in range(3):
        first = next(Processes(chunk=1, crew=worker_pool).train(work, state, everybody))
        assert first.clients.tolist() == [0]
    found = {
        int(one.clients): one.update["layers.0.weight"].clone()
        for one in Processes(chunk=1, crew=worker_pool).train(work, state, everybody)
    }
    other = {
        int(one.clients): one.update["layers.0.weight"]
        for one in executor_choice_by_timing.Stacked(chunk=1).train(work, state, everybody)
    }
    assert list(found) == list(other) == list(range(12))
    assert all(torch.equal(found[client], other[client]) for client in found)


def test_what_cannot_be_sent_is_named_before_a_process_is_started() -> None:
    base = classes((9,) * 4)
    problem = Problem(
        model=TorchModule(build=lambda: nn.Linear(6, 4), sample=(6,)),
        loss=base.loss,
        clients=replace(base.clients, x=base.clients.x),
    )
    single = replace(
        problem, clients=replace(base.clients, x=tuple(x.float() for x in base.clients.x))
    )
    with pytest.raises(JobError, match=r"the model cannot be sent(.|\n)*can be imported"):
        next(train(single, fedavg(), SETTINGS))


def test_one_stack_needs_no_process() -> None:
    with WorkerPool(2) as unused:
        list(train(classes((9,)), fedavg(), SETTINGS, crew=unused))
        assert unused.pids == []


@pytest.mark.slow
def test_a_worker_that_dies_is_named_with_the_clients_it_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(multiprocessing.active_children())
    with pytest.raises(
        JobError,
        match=r"the process worker [12] of 2 ended unexpectedly; "
        r"it trained (site_2, )?site_3(.|\n)*SIGKILL",
    ):
        list(
            train(
                classes((9,) * 6),
                fedavg().with_terms(Failing(kill=True)),
                replace(SETTINGS, workers=2),
            )
        )
    assert set(multiprocessing.active_children()) <= before
    assert list(tmp_path.iterdir()) == []


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from federations import classes
from fedkg.federated import Settings, fedavg, train
from fedkg.federated.executors import WorkerPool
settings = Settings(rounds=100000, local_epochs=1, batch=4, executor="processes", chunk=1)
{guard}
    with WorkerPool(2) as crew:
        for state, record in train(classes((9,) * 6), fedavg(), settings, crew=crew):
            if state.round == 1:
                print(*crew.pids, flush=True)
"""


def _script(folder: Path, guard: str) -> subprocess.Popen[str]:
    file = folder / "script.py"
    file.write_text(SCRIPT.format(tests=str(Path(__file__).parent), guard=guard))
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.Popen(
        [sys.executable, str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


SOON = 2.0
"""Seconds within which a worker ends after the death of its parent."""


def _all_end_soon(handles: list[int]) -> None:
    """Wait for processes by their Linux handles, together at most `SOON`."""
    left, begun = list(handles), time.monotonic()
    while left:
        ended = wait(left, timeout=max(0.0, begun + SOON - time.monotonic()))
        assert ended, f"{len(left)} processes still run {SOON:g} s after their parent"
        left = [handle for handle in left if handle not in ended]
    for handle in handles:
        os.close(handle)


IMPORTING = """
import sys, time
from multiprocessing import get_context
from fedkg._internal.parent_bound_process import run_in_child, started_by_main_thread

if __name__ == "__main__":
    sys.path.insert(0, "{folder}")
    child = get_context("spawn").Process(
        target=run_in_child, args=("slow_module:run", (), None, started_by_main_thread()))
    child.start()
    print(child.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="processes are waited for by Linux's handles"
)
def test_a_worker_ends_with_its_parent_while_it_still_imports(tmp_path: Path) -> None:
    (tmp_path / "slow_module.py").write_text(
        'import pathlib, time\npathlib.Path(__file__).with_name("begun").touch()\ntime.sleep(600)\n'
    )
    (tmp_path / "script.py").write_text(IMPORTING.format(folder=tmp_path))
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py")], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        handle = os.pidfd_open(int(parent.stdout.readline()))
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        parent.kill()
        _all_end_soon([handle])


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="processes are waited for by Linux's handles"
)
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    with _script(tmp_path, 'if __name__ == "__main__":') as parent:
        assert parent.stdout is not None
        handles = [os.pidfd_open(int(pid)) for pid in parent.stdout.readline().split()]
        assert len(handles) == 2
        parent.kill()
        _all_end_soon(handles)
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


@pytest.mark.slow
def test_a_script_without_its_guard_is_told_so(tmp_path: Path) -> None:
    with _script(tmp_path, "if True:") as parent:
        _, said = parent.communicate(timeout=300)
    assert parent.returncode == 1
    assert 'train inside `if __name__ == "__main__":`' in said
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def test_auto_measures_processes_where_they_promise_to_save_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a fake clock: a client's step takes a second, independent of the others in its stack."""
    monkeypatch.setattr(
        executor_choice_by_timing,
        "_seconds_per_step",
        lambda work, state, executor, clients: float(len(clients)),
    )
    problem = classes([30] * 40, hidden=(16,))
    settings = Settings(rounds=2, local_epochs=1, batch=8)
    job = Work(problem=problem, algorithm=fedavg(), settings=settings, pool=pool(problem.clients))
    state = initial_state(problem, fedavg(), settings)
    measured: list[int] = []

    def fake_side_by_side(
        work: object, state: object, clients: object, executor: Processes
    ) -> float:
        measured.append(executor.chunk)
        return 100.0 if len(measured) == 1 else 150.0

    monkeypatch.setattr(executor_choice_by_timing, "_side_by_side", fake_side_by_side)
    assert executor_choice_by_timing.choose(job, state).executor == "stacked"
    assert measured == []
    choice = executor_choice_by_timing.choose(job, state, WorkerPool(2))
    assert (choice.executor, choice.chunk) == ("processes", measured[0])
    assert choice.reason.startswith(
        f"processes with stacks of {measured[0]}: 100 s a round by the first steps, against stacks"
        " of 40"
    )
    assert (
        executor_choice_by_timing.choose(job, state, WorkerPool(2)).executor == "stacked"
    )  # 150 s against 160 s: within measurement noise
    monkeypatch.setattr(executor_choice_by_timing, "WORTH", 1e9)
    assert (
        "2 processes would save 160 s in all at best"
        in executor_choice_by_timing.choose(job, state, WorkerPool(2)).reason
    )
    assert len(measured) == 2


def test_processes_take_the_stacks_that_are_best_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        executor_choice_by_timing,
        "_seconds_per_step",
        lambda work, state, executor, clients: 1.0 if len(clients) == 4 else float(len(clients)),
    )
    problem = classes([30] * 40, hidden=(16,))
    settings = Settings(rounds=2, local_epochs=1, batch=8, executor="processes")
    job = Work(problem=problem, algorithm=fedavg(), settings=settings, pool=pool(problem.clients))
    state = initial_state(problem, fedavg(), settings)
    assert executor_choice_by_timing.choose(job, state, WorkerPool(2)) == Choice(
        executor="processes",
        chunk=4,
        threads=1,
        reason=(
            "2 processes, as the job says, with stacks of 4, the best in one process by the first"
            " steps"
        ),
    )


def test_a_room_shows_what_another_map_of_it_wrote(tmp_path: Path) -> None:
    tensors = {
        "rows": torch.randn(3, 1, 5).expand(3, 4, 5),
        "same": torch.randn(1, 2, dtype=torch.float64).expand(7, 2),
        "flags": torch.tensor([True, False, True]),
        "none": torch.zeros(0, 3),
        "number": torch.tensor(3),
        "turned": torch.arange(6).view(2, 3).t(),
    }
    one, other = Room(tmp_path / "room"), Room(tmp_path / "room")
    assert identical(other.read(one.write(tensors)), tensors)
    assert plan_of(tensors)[0]["same"].stored == (1, 2)
    larger = {"more": torch.randn(1000, 1000)}
    plan = one.write(larger)
    assert identical(other.read(plan), larger)
