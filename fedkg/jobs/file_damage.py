"""Damaged files of a run folder: detection and error messages. Nothing here repairs a file."""

from __future__ import annotations

from collections.abc import Sequence

from fedkg._internal.safe_text import list_first
from fedkg.errors import JobError, UsageError
from fedkg.jobs.folder import (
    ENVIRONMENT,
    FINAL_TABLES,
    INCIDENTS,
    JOB,
    LEARNED,
    LOCK,
    PACK,
    PREDICTION_INCIDENTS,
    REPORT,
    RESTORE_HELP,
    RESULTS,
    SPLIT,
    THEORY,
    TRIALS,
    Damage,
    RunFolder,
)

FROM_CHECKPOINTS = (
    *FINAL_TABLES,
    *("knowledge.csv", "privacy.csv", "constants.csv", "baselines.csv", "forecast_values.csv"),
    "disclosures.csv",
)
"""Tables that fedkg can rebuild from the last checkpoint of each trial."""

FROM_TABLES = (RESULTS, THEORY, REPORT, PREDICTION_INCIDENTS)
"""Files that fedkg derives from the tables, and the last one also from a checkpoint, at the end of
every run."""

REBUILDABLE = frozenset(
    (JOB, PACK, TRIALS, SPLIT, "checks.csv", INCIDENTS, *FROM_CHECKPOINTS, *FROM_TABLES)
)
"""Files that `fedkg run --resume` can rebuild."""


def require_intact(folder: RunFolder) -> None:
    """Raises JobError if a file of a run differs from its checksum, or the log is damaged."""
    found = folder.damage()
    if found:
        raise damage_error(folder, found)


def repair_help(folder: RunFolder, damage: Damage) -> str:
    """Advice for a damaged file."""
    is_discovery = LEARNED in folder.log.states()  # it cannot be resumed
    if damage.file in REBUILDABLE and not is_discovery:
        return f"fedkg run --resume {folder.path} rebuilds it"
    return RESTORE_HELP


def damage_error(folder: RunFolder, found: Sequence[Damage]) -> JobError:
    """The error for damaged files; it details the first one that fedkg cannot rebuild."""
    first = next((damage for damage in found if damage.file not in REBUILDABLE), found[0])
    others = [damage.file for damage in found if damage is not first]
    more = f"; also damaged: {list_first(others, 5)}" if others else ""
    return first.error(folder.path, repair_help(folder, first) + more)


def require_run(folder: RunFolder) -> None:
    """Require a run folder.

    Raises:
        UsageError: the folder does not contain a run.
        JobError: the log or the initial files are missing.
    """
    if not folder.exists():
        from fedkg.jobs.sweep.stored_plan import is_sweep, sweep_error

        if is_sweep(folder.path):
            raise sweep_error(folder.path)
        if folder.path.is_dir():
            require_intact(folder)
        if (folder.path / LOCK).exists():
            raise UsageError(
                f"the run in {folder.path} ended before its first trial started",
                help=f"start again: fedkg run JOB.yaml --out {folder.path}",
            )
        raise UsageError(
            f"{folder.path} is not a run folder",
            expected=f"a folder that `fedkg run` wrote, with {ENVIRONMENT} in it",
            help="start one: fedkg run JOB.yaml --out DIR; before the first round of a federation, "
            "see `fedkg server status`",
        )
