"""Repeat a finished run from its folder and compare the results bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fedkg.errors import JobError, UsageError
from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.events import Listener, ignore_event
from fedkg.jobs.folder import CSV_FIELDS, TRIALS, RunFolder, next_free_folder
from fedkg.jobs.job_privacy import has_system_noise
from fedkg.jobs.run_initial_files import describe_environment
from fedkg.jobs.runner import repeat_run
from fedkg.jobs.schema.job_reader import parse_job
from fedkg.jobs.sweep.stored_plan import is_sweep, sweep_error

MACHINE_COLUMNS = frozenset({"seconds", "notes"})
"""Columns that depend on the machine: times, and measurements for the choice of an executor."""

MAX_DIFFERENCES = 20
"""Number of differences that are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """The result of repeating a run.

    Attributes:
        folder: the second run.
        differences: at most `MAX_DIFFERENCES` descriptions; empty if both runs are identical.
        more: number of further differences.
        compared: number of compared figures and models.
        environment_changes: changed versions of software or platform.
    """

    folder: Path
    differences: tuple[str, ...]
    more: int
    compared: int
    environment_changes: tuple[str, ...]


def reproduce(
    folder: str | Path,
    *,
    out: str | Path | None = None,
    on_event: Listener = ignore_event,
    trust_code: bool = False,
) -> Reproduction:
    """Repeat all trials of a finished run, and compare figures and models.

    The job, the pack and the executors come from the folder. The data files must be unchanged.

    Args:
        out: folder of the second run; by default the next free ``NAME-again-001`` next to the
            first.
        trust_code: whether code that the job imports (`model.path`) may run.

    Raises:
        UsageError: the folder holds a sweep or no run, `out` exists, or the job imports untrusted
            code.
        JobError: the run is not finished, or one of its files has changed.
        Stopped: on Ctrl-C.
    """
    first = RunFolder(Path(folder))
    if is_sweep(first.path):
        raise sweep_error(first.path)
    environment_changes = tuple(_environment_changes(first.environment())) if first.exists() else ()
    if first.exists() and not all(entry.get("done") for entry in first.read_json(TRIALS)):
        raise JobError(
            f"the run in {folder} is not finished",
            help=f"finish it first: fedkg run --resume {folder}",
        )
    if first.exists() and has_system_noise(
        parse_job(first.environment()["job"], name=str(first.path), base=first.path)
    ):
        raise UsageError(
            f"the run in {folder} cannot be reproduced: its noise came from the operating system",
            help="`fedkg verify` checks the files of the run; for a run to reproduce, "
            "set `privacy.randomness: seeded`, which only simulates privacy",
        )
    place = (
        Path(out)
        if out is not None
        else next_free_folder(f"{first.path.name}-again", first.path.parent)
    )
    second = RunFolder(
        repeat_run(first.path, place, on_event=on_event, trust_code=trust_code).folder
    )
    found, compared = compare_runs(first, second)
    return Reproduction(
        folder=second.path,
        differences=tuple(found[:MAX_DIFFERENCES]),
        more=max(0, len(found) - MAX_DIFFERENCES),
        compared=compared,
        environment_changes=environment_changes,
    )


def compare_runs(first: RunFolder, second: RunFolder) -> tuple[list[str], int]:
    """Compare the tables of two finished runs cell by cell, and their last models bit by bit.

    Returns:
        The differences, and the number of compared figures and models.
    """
    found, compared = [], 0
    for name in CSV_FIELDS:
        before, now = first.rows(name), second.rows(name)
        compared += sum(len(row) - len(MACHINE_COLUMNS & row.keys()) for row in before)
        found += list(_table_differences(name, before, now))
    for entry in first.read_json(TRIALS):
        compared += 1
        found += list(_model_differences(first, second, entry["id"]))
    return found, compared


def _environment_changes(environment: dict[str, Any]) -> Iterator[str]:
    """Versions, platform and compiled loops that have changed since the run. `Any`: JSON."""
    now = describe_environment()
    for name in ("fedkg", "python", "platform", "compiled_loops"):
        if environment.get(name) != now[name]:
            yield f"{name}: {environment.get(name)} -> {now[name]}"
    for name, version in now["libraries"].items():
        if (before := environment.get("libraries", {}).get(name)) != version:
            yield f"{name}: {before} -> {version}"


def _table_differences(
    name: str, before: list[dict[str, str]], now: list[dict[str, str]]
) -> Iterator[str]:
    """Differences between two tables, cell by cell as text; numbers are stored exactly."""
    if len(before) != len(now):
        yield f"{name}: {len(before)} lines -> {len(now)}"
        return
    for one, other in zip(before, now, strict=True):
        for field, value in one.items():
            if field not in MACHINE_COLUMNS and other[field] != value:
                where = ", ".join(
                    f"{key} {one[key]}"
                    for key in ("trial", "round", "client", "rule")
                    if one.get(key)
                )
                yield (
                    f"{name}, {where}: {field} {value or 'nothing'} -> {other[field] or 'nothing'}"
                )


def _model_differences(first: RunFolder, second: RunFolder, trial: str) -> Iterator[str]:
    """Differences between the last server models."""
    one, other = load_state(first, trial), load_state(second, trial)
    if one is None or other is None or one.models.keys() != other.models.keys():
        yield f"checkpoint of {trial}: models are missing or have other parameters"
        return
    for name, value in one.models.items():
        if not torch.equal(value, other.models[name]):
            away = float((value.double() - other.models[name].double()).abs().max())
            yield f"checkpoint of {trial}: `{name}` differs by up to {away:.3g}"
