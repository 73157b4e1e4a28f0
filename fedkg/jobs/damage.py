"""Damage to the files of a run folder, and what can be done about it; nothing here trains or rebuilds."""

from __future__ import annotations

from collections.abc import Sequence

from fedkg.errors import JobError, UsageError
from fedkg.jobs.folder import (
    ENVIRONMENT,
    FINAL_TABLES,
    JOB,
    LOCK,
    PACK,
    REPORT,
    RESTORE_HELP,
    RESULTS,
    SPLIT,
    THEORY,
    TRIALS,
    Damage,
    RunFolder,
)

FROM_CHECKPOINTS = (*FINAL_TABLES, "privacy.csv", "constants.csv")
"""Tables that follow from the last checkpoint of each training."""

FROM_TABLES = (RESULTS, THEORY, REPORT)
"""Files that follow from the tables and are written whenever a run ends."""

REBUILDABLE = frozenset((JOB, PACK, TRIALS, SPLIT, "checks.csv", *FROM_CHECKPOINTS, *FROM_TABLES))
"""Files that `fedkg run --resume` can rebuild."""


def require_intact(folder: RunFolder) -> None:
    """Raises JobError when a file of a run is not as the run wrote it, or its log is damaged."""
    found = folder.damage()
    if found:
        raise damage_error(folder, found)


def repair_help(folder: RunFolder, damage: Damage) -> str:
    """What to do about a damaged file."""
    if damage.file in REBUILDABLE:
        return f"fedkg run --resume {folder.path} rebuilds it"
    return RESTORE_HELP


def damage_error(folder: RunFolder, found: Sequence[Damage]) -> JobError:
    """The error that reports damaged files, with the first one that cannot be rebuilt in detail."""
    first = next((damage for damage in found if damage.file not in REBUILDABLE), found[0])
    others = [damage.file for damage in found if damage is not first]
    more = f"; also damaged: {', '.join(others[:5])}" if others else ""
    more += f" and {len(others) - 5} more" if len(others) > 5 else ""
    return first.error(folder.path, repair_help(folder, first) + more)


def require_run(folder: RunFolder) -> None:
    """Raises UsageError when a folder is not a run's, JobError when its log or its first files are gone."""
    if not folder.exists():
        if folder.path.is_dir():
            require_intact(folder)
        if (folder.path / LOCK).exists():
            raise UsageError(
                f"the run in {folder.path} ended before its first training",
                help=f"begin again: fedkg run JOB.yaml --out {folder.path}",
            )
        raise UsageError(
            f"{folder.path} is not a run folder",
            expected=f"a folder with {ENVIRONMENT} in it, as `fedkg run` makes them",
            help="start one: fedkg run JOB.yaml --out DIR",
        )
