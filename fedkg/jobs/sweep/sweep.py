"""Run every combination of a grid with every seed, each in its own run folder below one parent.

The parent holds the plan, written before the first run, and the combined results. Progress is what
the run folders say, so the process may die at any moment.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fedkg.errors import FedkgError, JobError, MissingExtra, Stopped, UsageError
from fedkg.jobs import unevaluated_rules
from fedkg.jobs.checksum_log import LOG
from fedkg.jobs.code_trust import require_trust
from fedkg.jobs.comparison.injection import describe_injection
from fedkg.jobs.comparison.paired_test import describe_setting_differences
from fedkg.jobs.comparison.privacy_noise_diagnosis import (
    ProtectedTrial,
    explain_lost_training,
    protected_trials,
)
from fedkg.jobs.comparison.privacy_spending import describe_privacy
from fedkg.jobs.comparison.site_spread import describe_local_training
from fedkg.jobs.comparison.summary import Result, describe_comparison
from fedkg.jobs.events import Event, Listener, ignore_event
from fedkg.jobs.file_damage import require_intact
from fedkg.jobs.folder import (
    COMPARISON_TABLE,
    FAILED_RUNS,
    REPORT,
    RESULTS,
    SWEEP_PLAN,
    RunFolder,
    next_free_folder,
)
from fedkg.jobs.runner import RUNS_FOLDER, resume, run_job
from fedkg.jobs.schema.job_differences import list_differences
from fedkg.jobs.sweep.grid import Axis, Cell, expand_grid
from fedkg.jobs.sweep.merged_results import comparison_csv, merge_results
from fedkg.jobs.sweep.parallel_runs import Task, TaskListener, run_in_parallel
from fedkg.jobs.sweep.stored_plan import CELLS, is_sweep, read_plan
from fedkg.jobs.trial_expansion import plan_trials
from fedkg.jobs.trial_training import require_devices
from fedkg.jobs.unused_settings import find_untrained_algorithms


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """A finished sweep.

    Attributes:
        folder: the parent folder.
        results: the comparison over all runs.
        sentences: the comparison in words.
        report: the HTML report; None if it could not be written.
        failed: reasons of failed runs by folder name; other runs are unaffected.
        notes: further remarks.
    """

    folder: Path
    results: list[Result]
    sentences: tuple[str, ...]
    report: Path | None
    failed: Mapping[str, str]
    notes: tuple[str, ...] = ()


def run_sweep(
    job: Path,
    axes: Sequence[Axis],
    seeds: Sequence[int] | None,
    *,
    out: Path | None = None,
    overrides: Sequence[str] = (),
    on_event: Listener = ignore_event,
    jobs: int = 1,
    trust_code: bool = False,
) -> Sweep:
    """Run all unfinished combinations, then compare them.

    Args:
        job: the job file.
        axes: fields and their values.
        seeds: one run each; None leaves them to the job.
        out: the parent folder, by default the next free ``runs/NAME-001``; an existing sweep with
            the same
            plan continues.
        jobs: number of parallel runs.
        trust_code: whether code that the jobs import (`model.path`) may run.

    Raises:
        UsageError, JobError: before any run: an invalid field, value or combination, or a folder
            with
            other content.
        Stopped: on Ctrl-C; the message says how to continue.
    """
    cells = expand_grid(job, overrides, axes, seeds)
    require_trust((cell.job for cell in cells), trust_code)
    _require_devices(cells)
    folder = RunFolder(out if out is not None else next_free_folder(cells[0].job.name, RUNS_FOLDER))
    if is_sweep(folder.path):
        _reject_changed(folder, cells)
    elif folder.exists():
        raise UsageError(f"{folder.path} contains a run, not a sweep", help="choose another --out")
    else:
        _make_folder(folder.path)
        folder.write_json(
            SWEEP_PLAN,
            {"format": 1, "axes": _axes(axes), "cells": [_entry(cell) for cell in cells]},
        )
    for note in find_untrained_algorithms(cells[0].job, plan_trials(cells[0].job)):
        on_event(Event(kind="note", message=note))
    return resume_sweep(folder.path, on_event=on_event, jobs=jobs, trust_code=trust_code)


def resume_sweep(
    folder: Path, *, on_event: Listener = ignore_event, jobs: int = 1, trust_code: bool = False
) -> Sweep:
    """Continue a sweep: skip finished runs, continue stopped ones, retry failed ones.

    Args:
        jobs: number of parallel runs, each in its own process (`fedkg.jobs.sweep.parallel_runs`).
        trust_code: whether code that the jobs import (`model.path`) may run.

    Raises:
        UsageError: a job imports untrusted code.
        Stopped: on Ctrl-C; the message says how to continue.
    """
    sweep_folder = RunFolder(folder)
    cells = read_plan(folder)
    require_trust((cell.job for cell in cells), trust_code)
    failed: dict[str, str] = {}
    with sweep_folder.locked():
        for note in _recover(sweep_folder, cells):
            on_event(Event(kind="note", message=note))
        counts = [len(plan_trials(cell.job)) for cell in cells]
        watched = _EventRelay(on_event, cells, counts)
        left = [
            number
            for number, cell in enumerate(cells)
            if not RunFolder(folder / CELLS / cell.id).is_finished()
        ]
        if left:
            sweep_folder.write_json(FAILED_RUNS, failed)
        over = (
            run_in_parallel(
                {
                    number: Task(function=_run_planned_cell, arguments=(number, folder, trust_code))
                    for number in left
                },
                jobs,
                watched,
            )
            if jobs > 1
            else _run_in_order(folder, cells, left, watched, trust_code)
        )
        try:
            with closing(over):
                for number, why in over:
                    if why:
                        failed[cells[number].id] = why
                        on_event(
                            Event(
                                kind="note",
                                message=f"{cells[number].id} failed, the other runs continue: "
                                f"{why}",
                            )
                        )
                    sweep_folder.write_json(FAILED_RUNS, failed)
        except (KeyboardInterrupt, Stopped) as error:
            raise Stopped(
                f"stopped; finished rounds are in {folder}",
                help=f"to continue: fedkg run --resume {folder}",
            ) from error
        return _finish(
            sweep_folder,
            cells,
            {cell.id: failed[cell.id] for cell in cells if cell.id in failed},
            on_event,
        )


def _run_in_order(
    folder: Path, cells: Sequence[Cell], left: Sequence[int], tell: TaskListener, trust_code: bool
) -> Generator[tuple[int, str]]:
    """Run cells in this process, in order; yield each index and the reason of failure or ``""``.

    Raises Stopped, KeyboardInterrupt.
    """
    for number in left:
        tell(number, Event(kind="prepared"))
        yield number, run_cell(cells[number], folder, partial(tell, number), trust_code)


def run_cell(cell: Cell, folder: Path, on_event: Listener, trust_code: bool) -> str:
    """Run one cell of a sweep; return the reason of failure or ``""``.

    Raises Stopped, KeyboardInterrupt.
    """
    sweep_folder = folder / CELLS / cell.id
    try:
        if RunFolder(sweep_folder).exists():
            resume(sweep_folder, on_event=on_event, report=False, trust_code=trust_code)
        else:
            run_job(
                cell.job, out=sweep_folder, on_event=on_event, report=False, trust_code=trust_code
            )
    except Stopped:
        raise
    except FedkgError as error:
        return str(error)
    except (
        RuntimeError,
        ValueError,
        ArithmeticError,
        MemoryError,
        OSError,
    ) as error:  # errors of one combination, such as overflow or lack of memory
        return f"{type(error).__name__}: {error}"
    return ""


def _run_planned_cell(tell: Listener, number: int, folder: Path, trust_code: bool) -> str:
    """Run a cell of a stored plan, in its own process; see `run_cell`."""
    return run_cell(read_plan(folder)[number], folder, tell, trust_code)


class _EventRelay:
    """Relays events of runs as events of the sweep.

    A note that several runs repeat appears once.
    """

    def __init__(self, on_event: Listener, cells: Sequence[Cell], counts: Sequence[int]) -> None:
        self._on_event, self._cells, self._counts = on_event, cells, counts
        self._begun: set[int] = set()
        self._said: set[str] = set()

    def __call__(self, cell: int, event: Event) -> None:
        """Relay an event of a cell; its first event announces the cell."""
        if cell not in self._begun:
            self._begun.add(cell)
            self._on_event(
                Event(
                    kind="note",
                    message=f"run {cell + 1} of {len(self._cells)}: {self._cells[cell].id}",
                )
            )
        match event.kind:
            case "trial" | "round" | "trial_done":
                before = sum(self._counts[:cell])
                text = (
                    f"{event.message or event.trial} in {self._cells[cell].id}"
                    if event.kind == "trial_done"
                    else event.message
                )
                self._on_event(
                    replace(
                        event,
                        message=text,
                        trial_number=before + event.trial_number,
                        trials=sum(self._counts),
                    )
                )
            case "note" if event.message not in self._said:
                self._said.add(event.message)
                self._on_event(event)
            case "site" | "stopped" | "failed":
                self._on_event(event)
            case _:
                pass


def _require_devices(cells: Sequence[Cell]) -> None:
    """Check the devices of all runs before the first starts.

    Raises JobError with the setting that asks for a missing device.
    """
    for cell in cells:
        try:
            require_devices(plan_trials(cell.job))
        except JobError as error:
            if not cell.setting:
                raise
            where = ", ".join(f"{field}={value}" for field, value in cell.setting)
            raise JobError(f"--grid {where}: {error}") from error


def _privacy_rows(folder: Path, cells: Sequence[Cell]) -> list[dict[str, str]]:
    """The rows of `privacy.csv` of all finished runs, with unique trial names."""
    done = (cell.id for cell in cells if RunFolder(folder / cell.id).is_finished())
    return [
        row | {"trial": f"{name}/{row['trial']}"}
        for name in done
        for row in RunFolder(folder / name).rows("privacy.csv")
    ]


def _protected_trials(folder: Path, cells: Sequence[Cell], measure: str) -> list[ProtectedTrial]:
    """The protected trials of all finished runs."""
    found: list[ProtectedTrial] = []
    for cell in cells:
        run = RunFolder(folder / cell.id)
        if run.is_finished() and (private := run.rows("privacy.csv")):
            trivial = run.read_json(RESULTS).get("trivial")
            found += protected_trials(
                plan_trials(cell.job),
                run.rows("rounds.csv"),
                private,
                measure,
                math.nan if trivial is None else trivial,
            )
    return found


def _finish(
    sweep_folder: RunFolder, cells: Sequence[Cell], failed: Mapping[str, str], on_event: Listener
) -> Sweep:
    results = merge_results(sweep_folder.path / CELLS, cells)
    target = cells[0].job.evaluation.target_of(results[0]["measure"] if results else "f1")
    done = [
        RunFolder(sweep_folder.path / CELLS / cell.id).read_json(RESULTS)
        for cell in cells
        if cell.id not in failed
    ]
    each = [run["not_evaluated"] for run in done]
    unknown = {
        rule: reason
        for rule, reason in (each[0] if each else {}).items()
        if all(rule in one for one in each)
    }
    sentences = [
        *describe_comparison(results, target),
        *describe_setting_differences(results),
        *describe_local_training(results),
        *describe_injection(results),
        *describe_privacy(_privacy_rows(sweep_folder.path / CELLS, cells)),
        *unevaluated_rules.describe_unevaluated(unknown),
    ]
    sentences += explain_lost_training(
        _protected_trials(
            sweep_folder.path / CELLS, cells, results[0]["measure"] if results else "f1"
        )
    )
    sweep_folder.write_json(
        RESULTS,
        {
            "title": cells[0].job.title,
            "target": None if math.isnan(target) else target,
            "sentences": sentences,
            "rows": results,
            "rules": done[0]["rules"] if done else {},
            "not_evaluated": unknown,
            "failed": failed,
        },
    )
    sweep_folder.write_text(COMPARISON_TABLE, comparison_csv(results))
    sweep_folder.log_files(
        f"{CELLS}/{cell.id}/{LOG}"
        for cell in cells
        if RunFolder(sweep_folder.path / CELLS / cell.id).is_finished()
    )
    report, notes = None, tuple(f"{name} failed: {why}" for name, why in failed.items())
    try:
        from fedkg.report import write_report

        report = write_report(sweep_folder.path)
    except MissingExtra as error:
        notes = (*notes, str(error))
    on_event(Event(kind="finished", message=str(report or sweep_folder.path)))
    return Sweep(
        folder=sweep_folder.path,
        results=results,
        sentences=tuple(sentences),
        report=report,
        failed=failed,
        notes=notes,
    )


def _recover(sweep_folder: RunFolder, cells: Sequence[Cell]) -> list[str]:
    """Finish interrupted writes, and list what fedkg rebuilds.

    Raises:
        JobError: a damaged file cannot be rebuilt.
    """
    sweep_folder.recover()
    notes = []
    for damage in sweep_folder.damage():
        what = "was missing" if damage.missing else "was damaged"
        if damage.file in (FAILED_RUNS, RESULTS, COMPARISON_TABLE, REPORT):
            notes.append(f"{damage.file} {what}: rebuilt from the runs")
        elif damage.missing and not (sweep_folder.path / damage.file).parent.exists():
            notes.append(f"{Path(damage.file).parent} {what}: fedkg trains it again")
        else:
            raise damage.error(sweep_folder.path)
    for cell in cells:
        run = RunFolder(sweep_folder.path / CELLS / cell.id)
        if run.is_finished():
            require_intact(run)
    return notes


def _entry(cell: Cell) -> dict[str, Any]:
    return {
        "id": cell.id,
        "setting": dict(cell.setting),
        "seed": cell.seed,
        "job": cell.job.model_dump(mode="json"),
    }


def _axes(axes: Sequence[Axis]) -> dict[str, list[str]]:
    return {axis.field: list(axis.values) for axis in axes}


def _make_folder(folder: Path) -> None:
    try:
        (folder / CELLS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make the folder {folder}",
            received=error.strerror or str(error),
            help="choose another --out, in a folder that you may write to",
        ) from error


def _reject_changed(folder: RunFolder, cells: Sequence[Cell]) -> None:
    """Raises UsageError if the folder contains a sweep with another plan."""
    begun = {cell.id: cell.job.model_dump(mode="json") for cell in read_plan(folder.path)}
    now = {cell.id: cell.job.model_dump(mode="json") for cell in cells}
    changed = list_differences(begun, now)
    if changed:
        raise UsageError(
            f"{folder.path} contains another sweep\n  " + "\n  ".join(changed),
            help="undo the change, or start a new sweep with another --out",
        )
