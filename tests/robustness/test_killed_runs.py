"""A run that is killed again and again at random moments ends as if it had never stopped."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fedkg.jobs.folder import RunFolder

RULES = """\
signal torque in N.m column "Torque [Nm]" span 0 .. 80
signal wear in min column "Tool wear [min]" span 0 .. 260
output failure in probability span 0 .. 1 column "Machine failure"
rule strain  kind capacity  require if torque * wear > 11000 N.m.min then failure >= 0.5
rule follows kind temporal  require failure never falls as wear rises
rule turns   kind physical  require torque > 0 N.m
"""
JOB = """\
name: short
rules: [rules.fkg]
sites: [graz, linz, wien]
data: {rows: 1200, categories: [Type], min_samples: 20}
model: {hidden: [8], dropout: 0.2}
training: {rounds: 12, participation: 0.7, batch: 32, learning_rate: 0.1, executor: sequential}
scoring: {probe_rows: 40, rows_per_rule: 2}
compare: {algorithm: [fedavg, scfa]}
corrupt: {site: linz}
"""
KILLS = 8


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "rules.fkg").write_text(RULES, encoding="utf-8")
    (tmp_path / "job.yaml").write_text(JOB, encoding="utf-8")
    return tmp_path / "job.yaml"


def fedkg(*arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fedkg", *map(str, arguments)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
    )


def finished(*arguments: str | Path) -> None:
    process = fedkg(*arguments)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said


def measured_files(folder: Path) -> dict[str, Any]:
    """All figures of a run, without times."""
    place = RunFolder(folder)
    return {
        "results": json.loads((folder / "results.json").read_text(encoding="utf-8")),
        "rounds": [
            {name: cell for name, cell in row.items() if name != "seconds"}
            for row in place.rows("rounds.csv")
        ],
        "clients": place.rows("clients.csv"),
        "rules": place.rows("rules.csv"),
        "checks": place.rows("checks.csv"),
        "states": {
            path.name: path.read_bytes()
            for path in sorted((folder / "checkpoints").glob("*.safetensors"))
        },
    }


def way_on(folder: Path, job: Path) -> tuple[str | Path, ...]:
    """The command to continue a run, or to start again if no trial had started."""
    return (
        ("run", "--resume", folder)
        if (folder / "environment.json").exists()
        else ("run", job, "--out", folder)
    )


@pytest.mark.slow
def test_a_run_that_is_killed_many_times_ends_as_one_that_was_not(
    job: Path, tmp_path: Path
) -> None:
    began = time.monotonic()
    finished("run", job, "--out", tmp_path / "whole")
    whole, length = measured_files(tmp_path / "whole"), time.monotonic() - began
    moments, folder, number, kills = random.Random(7), tmp_path / "killed-0", 0, 0
    while kills < KILLS:
        process = fedkg(*way_on(folder, job))
        try:
            _, said = process.communicate(timeout=moments.uniform(0.2, 0.9) * length)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
            continue
        assert process.returncode == 0, said
        assert measured_files(folder) == whole
        number += 1
        folder = tmp_path / f"killed-{number}"
    finished(*way_on(folder, job))
    assert measured_files(folder) == whole
    assert not list(folder.rglob(".*.part"))


@pytest.mark.slow
def test_a_run_killed_while_it_writes_goes_on_too(job: Path, tmp_path: Path) -> None:
    """Kill the run once a file has grown, so between two writes of one round."""
    finished("run", job, "--out", tmp_path / "whole")
    whole, folder = measured_files(tmp_path / "whole"), tmp_path / "killed"
    for name in ("split.json", "rounds.csv", "clients.csv", "rules.csv", "results.json"):
        before = (folder / name).stat().st_size if (folder / name).exists() else 0
        process = fedkg(*way_on(folder, job))
        while process.poll() is None and not (
            (folder / name).exists() and (folder / name).stat().st_size > before
        ):
            pass
        process.kill()
        process.communicate()
    finished(*way_on(folder, job))
    assert measured_files(folder) == whole
