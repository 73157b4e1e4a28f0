"""The plan of a sweep, as stored in its folder; reading it imports no training code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from fedkg.errors import JobError, UsageError
from fedkg.jobs.folder import SWEEP_PLAN, RunFolder
from fedkg.jobs.schema.job_reader import parse_job
from fedkg.jobs.sweep.grid import Cell

CELLS = "cells"
"""The folder of the run folders."""


def is_sweep(folder: Path) -> bool:
    """Whether a folder contains a sweep. Raises JobError if its log is damaged."""
    return (folder / SWEEP_PLAN).is_file() or SWEEP_PLAN in RunFolder(folder).log.states()


def sweep_error(folder: Path) -> UsageError:
    """The error for a sweep in the place of a run; it names the first run of the sweep."""
    cells = sorted(path.name for path in (folder / CELLS).glob("*") if path.is_dir())
    return UsageError(
        f"{folder} holds a sweep, not a run",
        help=f"choose one of its runs, such as {folder / CELLS / cells[0]}"
        if cells
        else f"start its runs: fedkg run --resume {folder}",
    )


def read_plan(folder: Path) -> tuple[Cell, ...]:
    """The runs of a sweep.

    Raises:
        UsageError: the folder does not contain a sweep.
        JobError: the plan is damaged.
    """
    if not is_sweep(folder):
        raise UsageError(
            f"{folder} is not the folder of a sweep",
            expected=f"a folder with {SWEEP_PLAN}",
            help="start one: fedkg run JOB.yaml --seeds 5 --out DIR",
        )
    plan = RunFolder(folder).read_json(SWEEP_PLAN)
    cells = plan.get("cells") if isinstance(plan, dict) else None
    named = {"id", "setting", "seed", "job"}
    if isinstance(cells, list):
        cells = cells if all(map(_names_a_folder, cells)) else None
    if (
        not isinstance(cells, list)
        or not cells
        or not all(isinstance(entry, dict) and named <= entry.keys() for entry in cells)
    ):
        raise JobError(
            f"{folder / SWEEP_PLAN} is damaged: the sweep cannot continue",
            received="required fields are missing",
            help="restore it from a copy, or start a new sweep with another --out",
        )
    return tuple(
        Cell(
            id=entry["id"],
            setting=tuple(entry["setting"].items()),
            seed=entry["seed"],
            job=parse_job(entry["job"], name=f"{folder / SWEEP_PLAN}, {entry['id']}", base=folder),
        )
        for entry in cells
    )


def _names_a_folder(entry: object) -> bool:
    """Whether a run's id is a folder name inside the sweep, so that `..` cannot lead outside."""
    name = entry.get("id") if isinstance(entry, dict) else None
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", name) is not None


def merge_setting(cell: Cell, setting: Mapping[str, str]) -> dict[str, str]:
    """The setting of a trial in a sweep.

    The grid's fields, except the algorithm, and the job's own.
    """
    return {
        field: value
        for field, value in cell.setting
        if field != "algorithm" and field not in setting
    } | dict(setting)
