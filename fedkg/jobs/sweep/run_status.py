"""The progress of a run or a sweep, read from its folder while another process may write there."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from fedkg.errors import JobError, UsageError
from fedkg.jobs.file_damage import require_intact, require_run
from fedkg.jobs.folder import FAILED_RUNS, LOCK, TRIALS, RunFolder
from fedkg.jobs.round_exclusion_table import EXCLUSIONS, latest_exclusions
from fedkg.jobs.sweep.stored_plan import CELLS, is_sweep, read_plan

State = Literal["done", "begun", "failed", "open", "damaged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStatus:
    """One trial: finished rounds, and its last measured figures.

    Attributes:
        figure: the figure that decides comparisons.
        violated_share: share of the rules with a violation at the worst site (paper zone).
    """

    id: str
    round: int
    rounds: int
    measure: str
    figure: float | None
    violated_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """One run and its state.

    `open` before its first round, `begun`, `done`, `failed` or `damaged`.
    """

    id: str
    state: State
    trials: tuple[TrialStatus, ...]
    error: str = ""
    exclusions: tuple[dict[str, str], ...] = ()
    """Rows of `exclusions.csv` for the last round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderStatus:
    """The runs of a folder (one, or those of a sweep), and whether a process is working on them."""

    folder: str
    runs: tuple[RunStatus, ...]
    running: bool

    def document(self) -> dict[str, Any]:
        """The status as JSON. `Any`: JSON."""
        return asdict(self)


def read_status(folder: Path) -> FolderStatus:
    """Read the progress of the runs in a folder.

    For an idle run this compares all files with the log, for an active one only the files it reads.

    Raises:
        UsageError: the folder does not contain a run.
        JobError: a file of a sweep is damaged.
    """
    run_folder, running = RunFolder(folder), _is_locked(folder)
    if not is_sweep(folder):
        begun = _run(run_folder, folder.name, "", running)
        if begun.state == "open":
            require_run(run_folder)
        return FolderStatus(folder=str(folder), runs=(begun,), running=running)
    if not running:
        require_intact(run_folder)
    failed = run_folder.read_json(FAILED_RUNS) if FAILED_RUNS in run_folder.log.states() else {}
    runs = tuple(
        _run(RunFolder(folder / CELLS / cell.id), cell.id, failed.get(cell.id, ""), running)
        for cell in read_plan(folder)
    )
    return FolderStatus(folder=str(folder), runs=runs, running=running)


def _run(run_folder: RunFolder, name: str, error: str, running: bool) -> RunStatus:
    try:
        return _read_run(run_folder, name, error, running)
    except JobError as damage:
        return RunStatus(id=name, state="damaged", trials=(), error=str(damage))


def _read_run(run_folder: RunFolder, name: str, error: str, running: bool) -> RunStatus:
    """The status of a run. Raises JobError if one of its files is damaged."""
    if not running and run_folder.path.is_dir():
        require_intact(run_folder)
    if not run_folder.exists():
        return RunStatus(id=name, state="failed" if error else "open", trials=(), error=error)
    rounds: dict[str, list[dict[str, str]]] = {}
    lines = run_folder.rows("rounds.csv", unlogged=running)
    for row in lines:
        rounds.setdefault(row["trial"], []).append(row)
    environment = run_folder.environment()
    wanted, measure = (
        int(environment["job"]["training"]["rounds"]),
        str(environment.get("measure", "f1")),
    )
    trials = tuple(
        _trial_status(entry, rounds.get(entry["id"], []), wanted, measure)
        for entry in run_folder.read_json(TRIALS)
    )
    done = run_folder.is_finished()
    return RunStatus(
        id=name,
        state="done" if done else "failed" if error else "begun",
        trials=trials,
        error="" if done else error,
        exclusions=tuple(latest_exclusions(run_folder.rows(EXCLUSIONS, unlogged=running), lines)),
    )


def _trial_status(
    entry: dict[str, Any], rows: list[dict[str, str]], wanted: int, measure: str
) -> TrialStatus:
    """The status of a trial. `Any`: an entry of `trials.json`."""
    return TrialStatus(
        id=entry["id"],
        round=max((int(row["round"]) for row in rows), default=0),
        rounds=entry["rounds"]
        if entry["done"]
        else int(entry["setting"].get("training.rounds", wanted)),
        measure=measure,
        figure=_last(rows, measure),
        violated_share=_last(rows, "rho_worst"),
    )


def _last(rows: list[dict[str, str]], field: str) -> float | None:
    known = [float(row[field]) for row in rows if row.get(field)]
    return known[-1] if known else None


def _is_locked(folder: Path) -> bool:
    """Whether another process holds the folder's lock."""
    if not (folder / LOCK).is_file():
        return False
    try:
        with RunFolder(folder).locked():
            return False
    except UsageError:
        return True
