"""`fedkg run --seeds --grid` and `fedkg status`: many runs in one command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Command = Callable[..., Any]

JOB = {
    "name": "small",
    "rules": ["rules.fkg"],
    "sites": ["north", "south"],
    "data": {"rows": 600, "min_samples": 20},
    "model": {"hidden": [4]},
    "training": {"rounds": 1, "participation": 1.0, "local_steps": 2, "executor": "sequential"},
    "scoring": {"probe_rows": 20, "rows_per_rule": 1},
    "compare": {"algorithm": ["fedavg", "scfa"]},
}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB))
    return tmp_path / "job.yaml"


@pytest.mark.slow
def test_several_seeds_in_one_command(fedkg: Command, job: Path, tmp_path: Path) -> None:
    done = fedkg("run", "job.yaml", "--seeds", "2", "--out", "here")
    assert done.code == 0
    assert done.out.rstrip().endswith("report: here/report.html")
    assert "95 %" in done.out
    assert "Each site alone" in done.out
    assert "[6/6]" in done.err
    report = (tmp_path / "here" / "report.html").read_text()
    for section in ("comparison", "differences", "sites", "learning"):
        assert f'<section id="{section}">' in report
    assert not (tmp_path / "here" / "cells" / "s0" / "report.html").exists()
    again = fedkg("run", "--resume", "here", "--json")
    assert [row["algorithm"] for row in again.json["results"]] == ["fedavg", "scfa", "local_only"]
    told = fedkg("status", "here")
    assert "2 of 2 runs done" in told.out
    assert fedkg("status", "here/cells/s0", "--json").json["runs"][0]["trials"][0]["round"] == 1


@pytest.mark.slow
def test_a_grid_takes_what_follows_it(fedkg: Command, job: Path, tmp_path: Path) -> None:
    done = fedkg(
        "run",
        "job.yaml",
        "--out",
        "here",
        "--set",
        "theory=true",
        "--grid",
        "algorithm.name=fedavg,scfa",
        "data.alpha=1,10",
        "--json",
    )
    assert done.code == 0
    assert [path.name for path in sorted((tmp_path / "here" / "cells").iterdir())] == [
        *("fedavg-alpha1", "fedavg-alpha10", "scfa-alpha1", "scfa-alpha10")
    ]
    assert len(done.json["results"]) == 6
    assert (
        (tmp_path / "here" / "comparison.csv")
        .read_text()
        .startswith("data.alpha,corrupted,algorithm,")
    )
    report = (tmp_path / "here" / "report.html").read_text()
    assert '<section id="theory">' in report
    assert "Bound on the least squared gradient" in report


def test_a_run_that_fails_ends_the_command_with_one(fedkg: Command, job: Path) -> None:
    done = fedkg("run", "job.yaml", "--out", "here", "--grid", "data.min_samples=20,5000")
    assert done.code == 1
    assert "min_samples5000 failed" in done.out
    assert "FedAvg" in done.out or "fedavg" in done.out
    told = fedkg("status", "here")
    assert "1 of 2 runs done, 1 failed" in told.out
    assert "continue: fedkg run --resume here" in told.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["job.yaml", "--grid", "training.rouns=1,2"], 1, "did you mean `rounds`"),
        (["job.yaml", "data.alpha=1"], 2, "give one job file"),
        (["job.yaml", "other.yaml"], 2, "give one job file"),
        (["job.yaml", "--seeds", "none"], 2, "--seeds 5"),
        (["job.yaml", "--seeds", "99999999999"], 2, "too many seeds"),
        (["job.yaml", "--seeds", "1," + "9" * 4900], 2, "not a number of seeds"),
        (["job.yaml", "--set", "title=" + "[" * 2000], 2, "the value is not YAML"),
        (["--resume", "here", "--seeds", "2"], 2, "--resume cannot be combined with"),
        (["--grid", "data.alpha=1,2"], 2, "give either a job file"),
    ],
)
def test_wrong_calls_are_rejected_before_anything_is_run(
    fedkg: Command, job: Path, tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    done = fedkg("run", *arguments)
    assert done.code == code
    assert words in done.err
    assert not (tmp_path / "runs").exists()


def test_status_of_what_is_no_run(fedkg: Command, tmp_path: Path) -> None:
    done = fedkg("status", "nowhere")
    assert done.code == 2
    assert "nowhere is not a run folder" in done.err


def test_a_run_leaves_the_folder_of_a_sweep_alone(
    fedkg: Command, job: Path, tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "sweep.json").write_text("{}")
    done = fedkg("run", "job.yaml", "--out", "here")
    assert done.code == 2
    assert "here holds a sweep, not a run" in done.err
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["sweep.json"]


def test_one_run_is_not_several_at_once(fedkg: Command, job: Path, tmp_path: Path) -> None:
    done = fedkg("run", "job.yaml", "--jobs", "2", "--out", "here")
    assert done.code == 2
    assert "it requires --grid or --seeds" in done.err
    assert not (tmp_path / "here").exists()
    assert fedkg("run", "job.yaml", "--seeds", "2", "--jobs", "0").code == 2
