"""Sweeps: run folders, one comparison, stop and resume, and failed runs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedkg.errors import JobError, Stopped, UsageError
from fedkg.jobs import Event, run_job
from fedkg.jobs.sweep import sweep as sweep_module
from fedkg.jobs.sweep.grid import parse_axis
from fedkg.jobs.sweep.run_status import read_status
from fedkg.jobs.sweep.sweep import resume_sweep, run_sweep

pytestmark = pytest.mark.usefixtures("no_report")

SMALL = ["training.rounds=2", "corrupt=null", "data.rows=700"]


@pytest.fixture
def job(job_fields: dict[str, Any], tmp_path: Path) -> Path:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job_fields))
    return tmp_path / "job.yaml"


def figures(sweep: Any) -> list[Any]:
    """The files that must not depend on how often a sweep was stopped."""
    return [
        (
            row["setting"],
            row["algorithm"],
            row["f1"]["values"],
            row["rho_mean"]["values"],
            row["sites"],
        )
        for row in sweep.results
    ]


@pytest.mark.slow
def test_seeds_in_runs_of_their_own_are_those_of_one_run(job: Path, tmp_path: Path):
    one = run_job(job, out=tmp_path / "one", overrides=[*SMALL, "seeds=[0, 4]"])
    sweep = run_sweep(job, [], (0, 4), out=tmp_path / "sweep", overrides=SMALL)
    assert {path.name for path in (tmp_path / "sweep" / "cells").iterdir()} == {"s0", "s4"}
    for mine, theirs in zip(sweep.results, one.results, strict=True):
        for name in ("f1", "recall", "rho_worst", "bytes"):
            assert mine[name] == theirs[name] or (mine[name]["values"] == theirs[name]["values"])
        assert (mine["seeds"], mine["seed_list"]) == (2, [0, 4])
    assert not sweep.failed


def test_a_grid_is_one_comparison_and_one_table(job: Path, tmp_path: Path):
    sweep = run_sweep(
        job,
        [parse_axis("algorithm.name=fedavg,scfa"), parse_axis("data.alpha=1,10")],
        None,
        out=tmp_path / "grid",
        overrides=SMALL,
    )
    assert [(row["setting"], row["algorithm"]) for row in sweep.results] == [
        ({"data.alpha": "1"}, "fedavg"),
        ({"data.alpha": "1"}, "scfa"),
        ({"data.alpha": "10"}, "fedavg"),
        ({"data.alpha": "10"}, "scfa"),
    ]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "grid" / "comparison.csv").read_text())))
    assert [(row["data.alpha"], row["algorithm"]) for row in rows] == [
        ("1", "fedavg"),
        ("1", "scfa"),
        ("10", "fedavg"),
        ("10", "scfa"),
    ]
    assert float(rows[0]["f1_mean"]) == sweep.results[0]["f1"]["mean"]
    assert json.loads((tmp_path / "grid" / "results.json").read_text())["rows"] == json.loads(
        json.dumps(sweep.results)
    )


@pytest.mark.slow
def test_a_stopped_sweep_goes_on_without_running_again_what_is_done(job: Path, tmp_path: Path):
    whole = figures(run_sweep(job, [], (0, 1, 2), out=tmp_path / "whole", overrides=SMALL))
    seen: list[Event] = []

    def interrupt(event: Event) -> None:
        seen.append(event)
        if sum(one.kind == "round" for one in seen) == 6:
            raise KeyboardInterrupt

    with pytest.raises(Stopped, match="fedkg run --resume") as caught:
        run_sweep(job, [], (0, 1, 2), out=tmp_path / "stopped", overrides=SMALL, on_event=interrupt)
    assert caught.value.exit_code == 130
    told = read_status(tmp_path / "stopped")
    assert [run.state for run in told.runs] == ["done", "begun", "open"]
    assert [training.round for training in told.runs[1].trials] == [2, 0]
    assert not told.running
    first = (tmp_path / "stopped" / "cells" / "s0" / "results.json").stat().st_mtime_ns
    rest: list[Event] = []
    assert figures(resume_sweep(tmp_path / "stopped", on_event=rest.append)) == whole
    assert (tmp_path / "stopped" / "cells" / "s0" / "results.json").stat().st_mtime_ns == first
    assert [event.trial_number for event in rest if event.kind == "trial_done"] == [3, 4, 5, 6]
    assert {event.trials for event in rest if event.kind == "trial_done"} == {6}
    assert [run.state for run in read_status(tmp_path / "stopped").runs] == ["done"] * 3


def test_the_same_sweep_into_its_folder_goes_on_and_another_is_rejected(job: Path, tmp_path: Path):
    run_sweep(job, [], (0,), out=tmp_path / "sweep", overrides=SMALL)
    events: list[Event] = []
    run_sweep(job, [], (0,), out=tmp_path / "sweep", overrides=SMALL, on_event=events.append)
    assert [event.kind for event in events] == ["finished"]
    with pytest.raises(UsageError, match="contains another sweep"):
        run_sweep(job, [], (0, 1), out=tmp_path / "sweep", overrides=SMALL)
    run_job(job, out=tmp_path / "run", overrides=SMALL)
    with pytest.raises(UsageError, match="contains a run, not a sweep"):
        run_sweep(job, [], (0,), out=tmp_path / "run", overrides=SMALL)


def test_a_run_that_fails_is_reported_and_does_not_lose_the_others(job: Path, tmp_path: Path):
    events: list[Event] = []
    sweep = run_sweep(
        job,
        [parse_axis("data.min_samples=20,5000")],
        None,
        out=tmp_path / "s",
        overrides=SMALL,
        on_event=events.append,
    )
    assert [row["setting"] for row in sweep.results] == [{"data.min_samples": "20"}] * 2
    assert list(sweep.failed) == ["min_samples5000"]
    assert "5000" in sweep.failed["min_samples5000"]
    assert any("failed, the other runs continue" in event.message for event in events)
    told = read_status(tmp_path / "s")
    assert [run.state for run in told.runs] == ["done", "failed"]
    assert "5000" in told.runs[1].error


def test_algorithms_are_compared_on_the_seeds_whose_runs_did_not_fail(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail_once(*given: Any, out: Path, **options: Any) -> Any:
        if Path(out).name == "scfa-s1":
            raise JobError("this run fails")
        return run_job(*given, out=out, **options)

    monkeypatch.setattr(sweep_module, "run_job", fail_once)
    axes = [parse_axis("algorithm.name=fedavg,scfa")]
    sweep = run_sweep(job, axes, (0, 1, 2), out=tmp_path / "s", overrides=SMALL)
    assert list(sweep.failed) == ["scfa-s1"]
    assert [row["seed_list"] for row in sweep.results] == [[0, 1, 2], [0, 2]]


def test_nothing_is_made_of_a_grid_with_a_wrong_field(job: Path, tmp_path: Path):
    with pytest.raises(JobError, match="did you mean `rounds`"):
        run_sweep(job, [parse_axis("training.rouns=1,2")], None, out=tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()
    with pytest.raises(UsageError, match="not the folder of a sweep"):
        resume_sweep(tmp_path / "sweep")
