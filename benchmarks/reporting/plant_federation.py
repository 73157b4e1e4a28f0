"""A job over generated sites of unequal size, and its run in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

RULES = """
signal torque in N.m span 0 .. 100 column "torque"
signal wear in min span 0 .. 260 column "wear"
output failure in probability span 0 .. 1 column "failure"
rule worn require if wear > 200 min and torque > 50 N.m then failure >= 0.5
"""

KERNELS = {"FEDKG_KERNELS": "off"}
"""Sites train without compiled loops; a run in one process must do the same."""


def write_job(folder: Path, sites: Sequence[str], rounds: int, **sections: object) -> Path:
    """A job file with a sites file, and a table of 40 to 99 rows for each site.

    Args:
        sections: further sections of the job.
    """
    draw = np.random.default_rng(7)
    for name in sites:
        count = int(draw.integers(40, 100))
        torque, wear = draw.uniform(10, 90, count).round(2), draw.uniform(0, 250, count).round(1)
        failure = (torque * wear + draw.normal(0, 1500, count) > 8000).astype(int)
        lines = [f"{t},{w},{f}" for t, w, f in zip(torque, wear, failure, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join(["torque,wear,failure", *lines, ""]))
    described = {"sites": {name: {"url": f"{name}.csv"} for name in sites}}
    (folder / "sites.yaml").write_text(json.dumps(described))
    (folder / "rules.fkg").write_text(RULES)
    job: dict[str, object] = {
        "name": "plants",
        "rules": ["rules.fkg"],
        "data": {
            "sites_file": "sites.yaml",
            "label": "failure",
            "server": 0,
            "test": 0.25,
            "min_samples": 20,
        },
        "model": {"hidden": [8]},
        "training": {
            "rounds": rounds,
            "local_epochs": 1,
            "batch": 16,
            "participation": 1.0,
            "executor": "sequential",
            "threads": 1,
            "chunk": 1,
        },
        "evaluation": {"local_baseline": False},
        "algorithm": "scaffold",
        **sections,
    }
    (folder / "job.yaml").write_text(json.dumps(job, indent=1))
    return folder / "job.yaml"


def run_here(job: Path, folder: Path) -> None:
    """Run a job in a process that reads all tables."""
    subprocess.run(
        [sys.executable, "-m", "fedkg", "run", str(job), "--out", str(folder)],
        env={**os.environ, **KERNELS},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )


def require_equal(folder: Path, other: Path) -> int:
    """The number of equal figures and models of two runs. Raises RuntimeError if some differ."""
    from fedkg.jobs.folder import RunFolder
    from fedkg.jobs.reproduce import compare_runs

    differences, compared = compare_runs(RunFolder(other), RunFolder(folder))
    if differences or not compared:
        raise RuntimeError(f"{folder} differs from {other}: {differences[:3]}")
    return compared
