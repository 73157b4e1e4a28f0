"""`fedkg reproduce`: identical results, and the report of differences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedkg.errors import UsageError
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.reproduce import reproduce

Command = Callable[..., Any]

JOB = {
    "name": "small",
    "data": {"set": "mnist", "size": 60, "split": "iid", "min_samples": 5},
    "sites": 2,
    "model": {"kind": "softmax"},
    "training": {"rounds": 2, "executor": "auto"},
    "compare": {"algorithm": ["fedavg", "ditto"]},
    "evaluation": {"local_baseline": False},
}


@pytest.fixture
def done(fedkg: Command, tmp_path: Path) -> Path:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB))
    assert fedkg("run", "job.yaml", "--out", "first").code == 0
    return tmp_path / "first"


def test_the_same_comes_of_it_to_the_bit(fedkg: Command, done: Path) -> None:
    again = fedkg("reproduce", "first", "--json")
    assert again.code == 0, again.err
    assert again.json["same"] is True
    assert again.json["compared"] > 100
    assert again.json["environment_changes"] == []
    assert again.json["folder"].endswith("first-again-001")
    assert "identical" in fedkg("reproduce", "first").out


def test_what_differs_is_reported(fedkg: Command, done: Path) -> None:
    folder = RunFolder(done)
    lines = folder.rows("rounds.csv")
    lines[1]["accuracy"] = "0.123"
    folder.rewrite("rounds.csv", lines)
    found = reproduce(done)
    assert len(found.differences) == 1
    assert "rounds.csv, trial fedavg-s0, round 2: accuracy 0.123 -> " in found.differences[0]
    assert fedkg("reproduce", "first").code == 1


def test_a_run_that_is_not_finished_and_a_folder_that_is_none_are_rejected(
    fedkg: Command, done: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="is not a run folder"):
        reproduce(tmp_path / "nothing")
    with pytest.raises(UsageError, match="holds a run already"):
        reproduce(done, out=done)
    folder = RunFolder(done)
    records = folder.read_json("trials.json")
    records[1]["done"] = False
    folder.write_json("trials.json", records)
    found = fedkg("reproduce", "first")
    assert found.code == 1
    assert "not finished" in found.err
