"""Combine the runs of a sweep into the records of one run, so that one report covers all trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedkg.jobs.folder import ENVIRONMENT, FAILED_RUNS, RESULTS, RunFolder
from fedkg.jobs.sweep.grid import Cell
from fedkg.jobs.sweep.stored_plan import CELLS, merge_setting, read_plan
from fedkg.report.records import Json, RunRecords, TrialRecord, read_run, result_of


def read_sweep(folder: Path) -> RunRecords:
    """Read the records of all runs of a sweep that have started.

    Raises JobError for a damaged file.
    """
    files, cells = RunFolder(folder), read_plan(folder)
    begun = [
        (cell, read_run(folder / CELLS / cell.id))
        for cell in cells
        if RunFolder(folder / CELLS / cell.id).exists()
    ]
    apart = [_with_cell(cell, records) for cell, records in begun]
    results = files.read_json(RESULTS) if RESULTS in files.log.states() else {}
    failed = files.read_json(FAILED_RUNS) if FAILED_RUNS in files.log.states() else {}
    job = cells[0].job.model_dump(mode="json", exclude_defaults=True)
    return _combined(
        folder,
        apart,
        job=_with_all_values(job, cells),
        results=results,
        environment=_environment(folder, begun),
        failed=tuple((str(name), str(why)) for name, why in failed.items()),
        open_runs=len(cells)
        - sum(RunFolder(folder / CELLS / cell.id).is_finished() for cell in cells)
        - len(failed),
    )


def _combined(
    folder: Path,
    parts: Sequence[RunRecords],
    *,
    job: Json,
    results: Json,
    environment: Json,
    failed: tuple[tuple[str, str], ...],
    open_runs: int,
) -> RunRecords:
    """The records of several runs with unique trial ids, as those of one run."""
    import yaml

    target = results.get("target")
    splits = {title: sites for part in reversed(parts) for title, sites in reversed(part.splits)}
    return RunRecords(
        folder=folder,
        job=job,
        job_text=yaml.safe_dump(job, sort_keys=False, allow_unicode=True),
        environment=environment,
        trials=tuple(trial for part in parts for trial in part.trials),
        rounds=tuple(row for part in parts for row in part.rounds),
        clients=tuple(row for part in parts for row in part.clients),
        sites=tuple(row for part in parts for row in part.sites),
        rules=tuple(row for part in parts for row in part.rules),
        forecasts=tuple(row for part in parts for row in part.forecasts),
        sets=tuple(row for part in parts for row in part.sets),
        privacy=tuple(row for part in parts for row in part.privacy),
        checks=parts[0].checks if parts else (),
        results=tuple(result_of(row) for row in results.get("rows", ())),
        sentences=tuple(results.get("sentences", ())),
        splits=tuple(reversed(splits.items())),
        split_note=parts[0].split_note if parts else "",
        rule_texts=results.get("rules", {}),
        target=math.nan if target is None else target,
        title=job.get("title") or job.get("name") or "Training runs",
        theory=_theories([part.theory for part in parts if part.theory]),
        failed=failed,
        open_runs=open_runs,
    )


def _theories(parts: Sequence[Json]) -> Json:
    if not parts:
        return {}
    return {
        "trials": [training for part in parts for training in part["trials"]],
        "properties": parts[0]["properties"],
    }


def _with_cell(cell: Cell, records: RunRecords) -> RunRecords:
    """The records of a run with unique trial ids and the setting of its cell."""
    names = {trial.id: f"{cell.id}/{trial.id}" for trial in records.trials}
    return replace(
        records,
        trials=tuple(_trial_record(cell, trial, names[trial.id]) for trial in records.trials),
        rounds=tuple(
            replace(row, trial=names[row.trial]) for row in records.rounds if row.trial in names
        ),
        clients=tuple(
            replace(row, trial=names[row.trial]) for row in records.clients if row.trial in names
        ),
        sites=tuple(
            replace(row, trial=names[row.trial]) for row in records.sites if row.trial in names
        ),
        rules=tuple(
            replace(row, trial=names[row.trial]) for row in records.rules if row.trial in names
        ),
        forecasts=tuple(
            replace(row, trial=names[row.trial]) for row in records.forecasts if row.trial in names
        ),
        sets=tuple(
            replace(row, trial=names[row.trial]) for row in records.sets if row.trial in names
        ),
        privacy=tuple(
            {**row, "trial": names[row["trial"]]}
            for row in records.privacy
            if row["trial"] in names
        ),
        theory=_theory(cell, records.theory),
        splits=tuple((_title(cell, title), sites) for title, sites in records.splits),
    )


def _trial_record(cell: Cell, trial: TrialRecord, name: str) -> TrialRecord:
    return replace(trial, id=name, setting=tuple(merge_setting(cell, dict(trial.setting)).items()))


def _theory(cell: Cell, theory: Json) -> Json:
    if not theory:
        return {}
    return theory | {
        "trials": [
            one | {"setting": merge_setting(cell, one["setting"])} for one in theory["trials"]
        ]
    }


def _title(cell: Cell, title: str) -> str:
    """The title of a split: the fields of the data that define it."""
    own = [
        f"{field.rpartition('.')[2]} {value}"
        for field, value in cell.setting
        if field.startswith("data.")
    ]
    return ", ".join(dict.fromkeys([*own, *([title] if title else [])]))


def _with_all_values(job: Json, cells: tuple[Cell, ...]) -> Json:
    """The job of the first run, with all values of varied fields."""
    shown: dict[str, Any] = dict(job)
    values: dict[str, list[str]] = {}
    for cell in cells:
        for field, value in cell.setting:
            values.setdefault(field, [])
            if value not in values[field]:
                values[field].append(value)
    if values:
        shown["grid"] = {field: ", ".join(found) for field, found in values.items()}
    seeds = list(dict.fromkeys(str(cell.seed) for cell in cells if cell.seed is not None))
    if seeds:
        shown["seeds"] = ", ".join(seeds)
    return shown


def _environment(folder: Path, begun: list[tuple[Cell, RunRecords]]) -> Json:
    if not begun:
        return {}
    found = dict(RunFolder(folder / CELLS / begun[0][0].id).read_json(ENVIRONMENT))
    return {key: value for key, value in found.items() if key not in ("job_sha256", "started")}
