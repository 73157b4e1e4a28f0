"""A run that stops after any round and resumes ends with the bytes of an uninterrupted run.

Each configuration is trained once, and its folder is copied at every round and when a training has
ended: what a process that is killed there leaves behind. Each copy is then resumed.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from run_figures import figures
from test_forecast_jobs import RULES

from fedkg.jobs import Event, resume, run_job
from fedkg.jobs.folder import TRIALS, RunFolder

pytestmark = pytest.mark.usefixtures("no_report")

NOT_OF_THE_RUN = (
    *("checkpoints", ".lock", "environment.json", "job.yaml", "rounds.csv", "log.jsonl"),
    "events.jsonl",
)
"""Files that `equal_bytes` compares differently or not at all.

Rounds.csv and events.jsonl have times, the log has checksums, rows in files have positions.
"""

TABLE: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "scfa-families": {"algorithm": "scfa", "scoring": {"combine": "product"}},
    "graded-scores": {"algorithm": "scfa", "scoring": {"graded": True}},
    "fedprox": {"algorithm": "fedprox"},
    "fedadam": {"algorithm": "fedadam"},
    "fedyogi": {"algorithm": "fedyogi"},
    "fedadagrad": {"algorithm": "fedadagrad"},
    "scaffold": {"algorithm": "scaffold", "training": {"local_steps": 3}},
    "scaffnew": {"algorithm": "scaffnew", "training": {"local_steps": 3}},
    "fedrep": {"algorithm": "fedrep"},
    "ditto": {"algorithm": "ditto"},
    "ifca": {"algorithm": "ifca"},
    "local-only": {"algorithm": "local_only"},
    "centralised": {"algorithm": "centralised"},
    "median": {"algorithm": "median"},
    "trimmed-mean": {
        "algorithms": {"trimmed": {"aggregate": {"trimmed_mean": {"trim": 0.34}}}},
        "algorithm": "trimmed",
    },
    "krum": {"algorithms": {"one": {"aggregate": {"krum": {"attackers": 0}}}}, "algorithm": "one"},
    "fltrust": {"algorithm": "fltrust"},
    "momentum": {"algorithms": {"m": {"local": {"sgd": {"momentum": 0.9}}}}, "algorithm": "m"},
    "local-adam": {"algorithms": {"m": {"local": {"adam": {}}}}, "algorithm": "m"},
    "penalty": {"training": {"penalty": 2.0}},
    "projection": {"training": {"projection": True}},
    "stacked": {"training": {"executor": "stacked", "chunk": 2}},
    "stacked-one": {"training": {"executor": "stacked", "chunk": 1}},
    "processes": {"training": {"executor": "processes", "workers": 2, "chunk": 1}},
    "sampled": {"training": {"participation": 0.6}},
    "every-second": {"training": {"checkpoint_every": 2}, "evaluation": {"every": 2}},
    "odd-layers": {"model": {"hidden": [33, 17, 9]}},
    "wide": {"model": {"hidden": [33]}, "algorithm": "fedadam"},
    "dropout": {"model": {"hidden": [7], "dropout": 0.3}},
    "tabnet": {"model": {"kind": "tabnet", "hidden": None}},
    "bfloat16": {"training": {"precision": "bfloat16"}},
    "wire": {"training": {"wire": "float16"}},
    "client-privacy": {
        "privacy": {"unit": "client", "epsilon": 50.0, "clip": 1.0, "noise": 0.5},
        "data": {"features": ["Torque [Nm]", "Tool wear [min]"]},
    },
    "theory": {
        "theory": {"draws": 20},
        "training": {"local_steps": 2},
        "model": {"hidden": [33, 17]},
    },
    "theory-adam": {
        "model": {"hidden": [33, 17]},
        "theory": {"draws": 20, "every": 2},
        "algorithm": "fedadam",
        "training": {"local_steps": 2, "checkpoint_every": 2},
    },
    "corrupted": {"corrupt": {"site": "linz"}},
    "attacked": {
        "simulation": {"attacks": {"kind": "replayed_update", "sites": ["linz"], "first_round": 2}}
    },
    "several": {"compare": {"algorithm": ["fedavg", "scfa", "fedadam"]}},
    "rows-in-files": {
        "compare": {"algorithm": ["fedavg", "ditto"]},
        "model": {"hidden": [512, 256]},
        "training": {"client_memory": 1, "checkpoint_every": 2},
    },
}
"""Changes to a small job on tables, by topic."""

FORECAST: dict[str, dict[str, Any]] = {
    "gru": {},
    "fedstl": {
        "algorithms": {
            "fedstl": {"grouping": {"fedstl": {"clusters": 2, "share": 0.3}}, "private": {}}
        },
        "algorithm": "fedstl",
    },
    "pcfedavg": {
        "algorithms": {"kept": {"agents": {"given": {"radius": 1.5}}}},
        "algorithm": "kept",
        "theory": {"draws": 10},
    },
    "kept-in-sets": {
        "algorithms": {"kept": {"sets": {"penalty": 0.5, "given": {"radius": 1.5}}}},
        "algorithm": "kept",
    },
}
"""Changes to a small job that forecasts."""

QUICK = ("scfa-families", "odd-layers", "every-second", "theory")
"""Configurations that run every time; the others are marked slow."""


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    found = dict(base)
    for key, value in changes.items():
        mixed = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = {**found[key], **value} if mixed else value
    return found


def equal_bytes(one: Path, other: Path) -> None:
    assert figures(one) == figures(other)
    for path in sorted(one.iterdir()):
        if path.name not in NOT_OF_THE_RUN:
            assert path.read_bytes() == (other / path.name).read_bytes(), path.name


def check_every_stop(job: dict[str, Any], tmp_path: Path) -> None:
    """Train a job once, then resume from the state after each of its rounds."""
    folder, stops = tmp_path / "whole", []

    def copy(event: Event) -> None:
        if event.kind in ("round", "trial_done"):
            stops.append(shutil.copytree(folder, tmp_path / f"stop-{len(stops)}"))

    run_job(job, out=folder, on_event=copy)
    last = shutil.copytree(folder, tmp_path / "ended")
    trials = json.loads((last / TRIALS).read_text())
    RunFolder(last).write_json(TRIALS, [{**trial, "done": False} for trial in trials])
    assert len(stops) >= 4
    for stop in (*stops, last):
        resume(stop)
        equal_bytes(folder, stop)
        shutil.rmtree(stop)


def table_job(job_fields: dict[str, Any], name: str) -> dict[str, Any]:
    plain = {**job_fields, "corrupt": None, "compare": {}, "algorithm": "fedavg"}
    return merged(plain, TABLE[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_run_resumes_to_the_byte(name: str, job_fields: dict[str, Any], tmp_path: Path) -> None:
    check_every_stop(table_job(job_fields, name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(TABLE) - set(QUICK)))
def test_every_configuration_resumes_to_the_byte(
    name: str, job_fields: dict[str, Any], tmp_path: Path
) -> None:
    check_every_stop(table_job(job_fields, name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FORECAST))
def test_every_forecast_resumes_to_the_byte(name: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.fkg"
    rules.write_text(RULES)
    job = {
        "name": "day",
        "rules": [str(rules)],
        "data": {
            "set": "traffic",
            "size": 240,
            "clients": 4,
            "min_samples": 3,
            "window": {
                "history": 12,
                "horizon": 6,
                "stride": 6,
                "targets": ["volume"],
                "gaps": "interpolate",
            },
        },
        "model": {"kind": "gru", "hidden": 5, "layers": 1},
        "training": {
            "rounds": 3,
            "participation": 1.0,
            "learning_rate": 0.05,
            "batch": 8,
            "executor": "stacked",
        },
        "evaluation": {"local_baseline": False},
        "algorithm": "fedavg",
    }
    check_every_stop(merged(job, FORECAST[name]), tmp_path)
