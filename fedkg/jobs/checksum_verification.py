"""Compare all files of a run or a sweep with their logged checksums, without changing anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fedkg.errors import JobError
from fedkg.jobs.file_damage import damage_error, require_run
from fedkg.jobs.folder import JOB, TRIALS, RunFolder
from fedkg.jobs.sweep.stored_plan import CELLS, is_sweep, read_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of comparing a folder with its logs.

    Attributes:
        folder: the run or sweep.
        files: number of files with a logged checksum.
        entries: number of entries in the log.
        checksum: SHA-256 of the last log entry.
        problems: messages about damage; empty if all files are intact.
    """

    folder: Path
    files: int
    entries: int
    checksum: str
    problems: tuple[str, ...]


def verify(folder: str | Path, *, checksum: str | None = None) -> Verification:
    """Compare every file of a run, a sweep with its runs, or a causal discovery with its log.

    Args:
        checksum: a previously noted checksum of the last entry; the log must contain it.

    Raises:
        UsageError: the folder holds none of these.
    """
    run_folder = RunFolder(Path(folder))
    problems: list[str] = []
    try:
        if not is_sweep(run_folder.path) and JOB not in run_folder.log.states():
            require_run(run_folder)
        entries, last = run_folder.log.entries, run_folder.log.last
        if checksum is not None and checksum not in run_folder.log.checksums():
            problems.append(
                f"{run_folder.log.path} does not contain the checksum {checksum}: the log "
                "was replaced"
                " or truncated since"
            )
    except JobError as error:
        return Verification(
            folder=run_folder.path, files=0, entries=0, checksum="", problems=(str(error),)
        )
    run_folders = [run_folder]
    if is_sweep(run_folder.path):
        try:
            run_folders += [
                RunFolder(run_folder.path / CELLS / cell.id) for cell in read_plan(run_folder.path)
            ]
        except JobError as error:
            problems.append(str(error))
    files = 0
    for one in run_folders:
        if one.path.is_dir():
            problems += _problems(one)
            files += len(one.log.states()) if not problems else 0
    return Verification(
        folder=run_folder.path,
        files=files,
        entries=entries,
        checksum=last,
        problems=tuple(dict.fromkeys(problems)),
    )


def _problems(run_folder: RunFolder) -> Iterator[str]:
    try:
        found = run_folder.damage()
        for damage in found:
            yield str(damage_error(run_folder, [damage]))
        if not found and TRIALS in run_folder.log.states():
            from fedkg.jobs.checkpoint import load_state

            for entry in run_folder.read_json(TRIALS):
                load_state(run_folder, entry["id"])
    except JobError as error:
        yield str(error)
