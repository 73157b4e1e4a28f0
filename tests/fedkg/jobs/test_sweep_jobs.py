"""Parallel runs of a sweep: equal figures, failures, stops, and missing devices."""

from __future__ import annotations

import os
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from fedkg.errors import JobError, Stopped
from fedkg.jobs import Event
from fedkg.jobs.sweep import parallel_runs
from fedkg.jobs.sweep.grid import parse_axis
from fedkg.jobs.sweep.parallel_runs import split_processors
from fedkg.jobs.sweep.run_status import read_status
from fedkg.jobs.sweep.stored_plan import read_plan
from fedkg.jobs.sweep.sweep import resume_sweep, run_sweep

pytestmark = pytest.mark.usefixtures("no_report")

SMALL = [
    "training.rounds=2",
    "corrupt=null",
    "data.rows=700",
    "algorithm=fedavg",
    "compare={}",
    "evaluation.local_baseline=false",
]


@pytest.fixture
def job(job_fields: dict[str, Any], tmp_path: Path) -> Path:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job_fields))
    return tmp_path / "job.yaml"


def test_processors_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 3, 5, 7, 9}, raising=False)
    assert split_processors(1) == [(1, 3, 5, 7, 9)]
    assert split_processors(2) == [(1, 3), (5, 7, 9)]
    assert split_processors(7) == [(1,), (3,), (5,), (7,), (9,), (1,), (3,)]


def do_nothing(tell: object) -> str:
    """A task."""
    return ""


@pytest.mark.parametrize(("runs", "most"), [([], 1), ([4, 2], 2)])
def test_no_more_shares_are_made_than_there_are_runs(
    runs: list[int], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remaining runs of a sweep share the whole machine."""
    asked: list[int] = []

    def one(jobs: int) -> list[tuple[int, ...]]:
        asked.append(jobs)
        return []

    def stop(connections: object) -> list[object]:
        raise KeyboardInterrupt

    monkeypatch.setattr(parallel_runs, "split_processors", one)
    monkeypatch.setattr(parallel_runs, "wait", stop)
    tasks = {number: parallel_runs.Task(function=do_nothing, arguments=()) for number in runs}
    with pytest.raises(KeyboardInterrupt) if runs else nullcontext():
        assert not list(parallel_runs.run_in_parallel(tasks, 10**12, lambda run, event: None))
    assert asked == [most]


@pytest.mark.slow
def test_runs_side_by_side_are_those_one_after_the_other_and_a_failed_one_leaves_them_alone(
    job: Path, tmp_path: Path
) -> None:
    grid = [parse_axis("data.min_samples=20,5000,21")]
    one = run_sweep(job, grid, None, out=tmp_path / "one", overrides=SMALL)
    events: list[Event] = []
    seen: list[list[str]] = []

    def watch(event: Event) -> None:
        events.append(event)
        if event.kind in ("trial", "note"):
            told = read_status(tmp_path / "two")
            assert told.running
            seen.append([run.state for run in told.runs])

    two = run_sweep(job, grid, None, out=tmp_path / "two", overrides=SMALL, jobs=2, on_event=watch)
    assert [row | {"seconds": None} for row in two.results] == [
        row | {"seconds": None} for row in one.results
    ]
    assert two.failed == one.failed
    assert list(two.failed) == ["min_samples5000"]
    for name in ("min_samples20", "min_samples21"):
        states = [
            (tmp_path / folder / "cells" / name / "checkpoints").glob("*")
            for folder in ("one", "two")
        ]
        assert len({tuple(file.read_bytes() for file in sorted(files)) for files in states}) == 1
    assert sorted(event.trial_number for event in events if event.kind == "trial_done") == [1, 3]
    assert {event.trials for event in events if event.kind in ("trial", "round", "trial_done")} == {
        3
    }
    told = [event.message for event in events if event.kind == "note"]
    assert {
        f"run {place} of 3: {cell.id}"
        for place, cell in enumerate(read_plan(tmp_path / "two"), start=1)
    } <= set(told)
    assert len(told) == len(set(told))
    assert [run.state for run in read_status(tmp_path / "two").runs] == ["done", "failed", "done"]
    assert all(state in ("open", "begun", "done", "failed") for states in seen for state in states)
    assert all(states[2] != "done" for states in seen[:1])


@pytest.mark.slow
def test_a_run_whose_process_is_killed_has_failed_and_goes_on_later(
    job: Path, tmp_path: Path
) -> None:
    import multiprocessing

    def kill(event: Event) -> None:
        if event.message == "run 1 of 2: s0":
            (child,) = (one for one in multiprocessing.active_children() if one.name == "task 1")
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)

    sweep = run_sweep(job, [], (0, 1), out=tmp_path / "s", overrides=SMALL, jobs=2, on_event=kill)
    assert list(sweep.failed) == ["s0"]
    assert "SIGKILL" in sweep.failed["s0"]
    again = resume_sweep(tmp_path / "s")
    assert not again.failed
    assert again.results[0]["seed_list"] == [0, 1]
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_ctrl_c_ends_all_runs_and_the_sweep_goes_on_with_another_number_at_once(
    job: Path, tmp_path: Path
) -> None:
    import multiprocessing

    def stop(event: Event) -> None:
        if event.kind == "round":
            raise KeyboardInterrupt

    with pytest.raises(Stopped, match="fedkg run --resume"):
        run_sweep(
            job,
            [],
            (0, 1),
            out=tmp_path / "s",
            overrides=[*SMALL, "training.rounds=12"],
            jobs=2,
            on_event=stop,
        )
    assert not multiprocessing.active_children()
    assert not read_status(tmp_path / "s").running
    whole = run_sweep(
        job, [], (0, 1), out=tmp_path / "whole", overrides=[*SMALL, "training.rounds=12"]
    )
    again = resume_sweep(tmp_path / "s")
    assert [row | {"seconds": None} for row in again.results] == [
        row | {"seconds": None} for row in whole.results
    ]


def test_a_device_that_is_not_there_is_reported_before_the_first_run(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        JobError, match=r"--grid training\.device=cuda: .*this computer has no device cuda"
    ):
        run_sweep(
            job, [parse_axis("training.device=cpu,cuda")], None, out=tmp_path / "s", overrides=SMALL
        )
    assert not (tmp_path / "s").exists()
    with pytest.raises(JobError, match=r"^training\.device: this computer has no device cuda"):
        run_sweep(job, [], (0, 1), out=tmp_path / "s", overrides=[*SMALL, "training.device=cuda"])
    assert not (tmp_path / "s").exists()
