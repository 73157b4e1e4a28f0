"""Which executor `auto` chooses; it reports the choice and does not change it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from federations import classes

from fedkg.federated import Choice, Settings, fedavg, initial_state, train
from fedkg.federated.executors import Work, executor_choice_by_timing
from fedkg.federated.executors.stacked import fitting
from fedkg.federated.problem import pool

SETTINGS = Settings(rounds=2, local_epochs=1, batch=8)


def work(settings: Settings, count: int = 40) -> Work:
    problem = classes([30] * count, hidden=(16,))
    return Work(problem=problem, algorithm=fedavg(), settings=settings, pool=pool(problem.clients))


def test_many_small_clients_are_stacked_and_the_reason_has_the_measurements() -> None:
    job = work(SETTINGS)
    choice = executor_choice_by_timing.choose(
        job, initial_state(job.problem, job.algorithm, SETTINGS)
    )
    assert choice.executor == "stacked"
    assert choice.chunk >= 16
    assert "by the first steps, against" in choice.reason
    assert "sequential" in choice.reason


@pytest.mark.parametrize(
    ("executor", "chunk", "expected"),
    [("stacked", None, 40), ("stacked", 7, 7), ("sequential", 7, 1)],
)
def test_what_the_job_says_is_done(executor: str, chunk: int | None, expected: int) -> None:
    settings = replace(SETTINGS, executor=executor, chunk=chunk)
    job = work(settings)
    choice = executor_choice_by_timing.choose(
        job, initial_state(job.problem, job.algorithm, settings)
    )
    assert (choice.executor, choice.chunk) == (executor, expected)
    assert "as the job says" in choice.reason


def test_stacks_keep_to_the_memory() -> None:
    roomy, tight = work(SETTINGS), work(replace(SETTINGS, memory=1 << 16))
    state = initial_state(roomy.problem, roomy.algorithm, SETTINGS)
    assert fitting(roomy, state) > 40
    assert 1 <= fitting(tight, state) < 10
    assert executor_choice_by_timing.choose(
        work(replace(SETTINGS, memory=1 << 16, executor="stacked")), state
    ).chunk == fitting(tight, state)
    assert fitting(work(replace(SETTINGS, memory=1)), state) == 1


def test_the_slowest_way_is_never_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fake clock: a stack of C costs C per step and a single client 0.1.

    So training one after the other wins.
    """
    monkeypatch.setattr(
        executor_choice_by_timing,
        "_seconds_per_step",
        lambda job, state, executor, clients: (
            0.1
            if isinstance(executor, executor_choice_by_timing.Sequential)
            else float(len(clients))
        ),
    )
    job = work(SETTINGS)
    state = initial_state(job.problem, job.algorithm, SETTINGS)
    assert executor_choice_by_timing.choose(job, state).executor == "sequential"
    monkeypatch.setattr(executor_choice_by_timing, "_seconds_per_step", lambda *_: 1.0)
    assert executor_choice_by_timing.choose(job, state) == Choice(
        executor="stacked",
        chunk=40,
        threads=1,
        reason=executor_choice_by_timing.choose(job, state).reason,
    )


def test_the_choice_is_made_once_and_noted_in_the_first_record() -> None:
    rounds = list(train(classes([30] * 10), fedavg(), SETTINGS))
    assert rounds[0][1].notes[0].startswith("executor: ")
    assert rounds[1][1].notes == ()
    assert rounds[0][0].choice == rounds[1][0].choice is not None
