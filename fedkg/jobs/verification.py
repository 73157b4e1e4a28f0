"""All files of a run, or of the runs of a sweep, compared with their logs; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fedkg.errors import JobError
from fedkg.jobs.damage import damage_error, require_run
from fedkg.jobs.folder import JOB, TRIALS, RunFolder
from fedkg.jobs.sweep.plan import CELLS, is_sweep, read_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What came of comparing a folder with its logs.

    Attributes:
        folder: the run or sweep. files: number of files with a logged checksum. entries: number of entries in its log.
        checksum: SHA-256 of the last entry of its log. problems: what is damaged, as messages; none when all is intact.
    """

    folder: Path
    files: int
    entries: int
    checksum: str
    problems: tuple[str, ...]


def verify(folder: str | Path, *, checksum: str | None = None) -> Verification:
    """Compare every file of a run, of a sweep with all its runs, or of a causal discovery with the log.

    Args:
        checksum: of a last entry that was kept elsewhere; the log must contain it.

    Raises:
        UsageError: when the folder holds none of these.
    """
    place = RunFolder(Path(folder))
    problems: list[str] = []
    try:
        if not is_sweep(place.path) and JOB not in place.log.states():
            require_run(place)
        entries, last = place.log.entries, place.log.last
        if checksum is not None and checksum not in place.log.checksums():
            problems.append(
                f"{place.log.path} does not contain the checksum {checksum}: the log was written anew"
                " or cut off after it was noted"
            )
    except JobError as error:
        return Verification(
            folder=place.path, files=0, entries=0, checksum="", problems=(str(error),)
        )
    places = [place]
    if is_sweep(place.path):
        try:
            places += [RunFolder(place.path / CELLS / cell.id) for cell in read_plan(place.path)]
        except JobError as error:
            problems.append(str(error))
    files = 0
    for one in places:
        if one.path.is_dir():
            problems += _problems(one)
            files += len(one.log.states()) if not problems else 0
    return Verification(
        folder=place.path,
        files=files,
        entries=entries,
        checksum=last,
        problems=tuple(dict.fromkeys(problems)),
    )


def _problems(place: RunFolder) -> Iterator[str]:
    try:
        found = place.damage()
        for damage in found:
            yield str(damage_error(place, [damage]))
        if not found and TRIALS in place.log.states():
            from fedkg.jobs.checkpoint import load_state

            for entry in place.read_json(TRIALS):
                load_state(place, entry["id"])
    except JobError as error:
        yield str(error)
