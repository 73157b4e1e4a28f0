"""Fuzz run folders: damage the files of a finished and of a stopped run, then verify, show and
resume it.

Every damage must be reported (a `FedkgError` with a help) or repaired so that the folder ends with
the same bytes as the undamaged run.
Anything else is a failure: another exception, an accepted change, two commands that disagree, or
more time or memory than allowed.

    python tests/fuzz/runs.py --seconds 60 --memory 2000 --seed 0
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fedkg.errors import FedkgError
from fedkg.jobs import Event, resume, run_job
from fedkg.jobs.checksum_log import LOG
from fedkg.jobs.checksum_verification import verify
from fedkg.jobs.events import EVENTS
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.sweep.run_status import read_status

RULES = """\
signal torque in N.m column "Torque [Nm]" span 0 .. 80
signal wear in min column "Tool wear [min]" span 0 .. 260
output failure in probability span 0 .. 1 column "Machine failure"
rule strain require if torque * wear > 11000 N.m.min then failure >= 0.5
rule turns require torque > 0 N.m
"""
SECONDS_PER_CASE = 30
"""A case that takes longer is a failure; the slowest rebuild takes about a second."""


def job(rules: Path) -> dict[str, Any]:
    """A job with two trainings of three rounds on three sites."""
    return {
        "name": "fuzz",
        "rules": [str(rules)],
        "sites": 3,
        "data": {"rows": 900, "categories": ["Type"], "min_samples": 20},
        "model": {"hidden": [4]},
        "training": {"rounds": 3, "batch": 64, "executor": "sequential"},
        "scoring": {"probe_rows": 20, "rows_per_rule": 2},
        "evaluation": {"local_baseline": False},
        "compare": {"algorithm": ["fedavg", "scfa"]},
    }


def files_of(folder: Path) -> list[Path]:
    """Files that a damage may hit; the lock is empty, and the events have no checksum."""
    return sorted(
        path for path in folder.rglob("*") if path.is_file() and path.name not in (".lock", EVENTS)
    )


def content(folder: Path, *, finished: bool) -> dict[str, Any]:
    """What must be equal in the end: all bytes of a finished run, of a resumed one all but times
    and what shows them.
    """
    found: dict[str, Any] = {}
    for path in files_of(folder):
        name = str(path.relative_to(folder))
        if name == "rounds.csv" and not finished:
            rows = RunFolder(folder).rows(name)
            found[name] = [{**row, "seconds": "", "notes": ""} for row in rows]
        elif name != LOG and (finished or name != "report.html"):
            found[name] = path.read_bytes()
    return found


def flip(chance: random.Random, folder: Path) -> str:
    """Change one to four bits of a file."""
    path = chance.choice([path for path in files_of(folder) if path.stat().st_size])
    body = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 4)):
        body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
    path.write_bytes(body)
    return path.name


def truncate(chance: random.Random, folder: Path) -> str:
    """Keep the beginning of a file."""
    path = chance.choice(files_of(folder))
    path.write_bytes(path.read_bytes()[: chance.randint(0, path.stat().st_size)])
    return path.name


def delete(chance: random.Random, folder: Path) -> str:
    """Remove a file."""
    path = chance.choice(files_of(folder))
    path.unlink()
    return path.name


def swap(chance: random.Random, folder: Path) -> str:
    """Exchange two files."""
    one, other = chance.sample(files_of(folder), 2)
    one_body, other_body = one.read_bytes(), other.read_bytes()
    one.write_bytes(other_body)
    other.write_bytes(one_body)
    return f"{one.name} and {other.name}"


def extend(chance: random.Random, folder: Path) -> str:
    """Append a copy of a file's own last bytes, or random ones."""
    path = chance.choice(files_of(folder))
    body, length = path.read_bytes(), chance.randint(1, 80)
    path.write_bytes(body + (body[-length:] if chance.random() < 0.5 else chance.randbytes(length)))
    return path.name


def reorder(chance: random.Random, folder: Path) -> str:
    """Exchange two lines of a file, or remove one."""
    path = chance.choice([*folder.glob("*.csv"), *folder.glob("*.json"), folder / LOG])
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    if len(lines) > 1:
        one, other = chance.sample(range(len(lines)), 2)
        lines[one], lines[other] = lines[other], lines[one]
        if chance.random() < 0.5:
            del lines[one]
        path.write_bytes(b"".join(lines))
    return path.name


DAMAGES = (flip, truncate, delete, swap, extend, reorder)


def outcome(folder: Path, whole: dict[str, Any], *, finished: bool) -> str:
    """``reported``, ``repaired`` or ``unchanged``. Raises AssertionError for anything else."""
    problems = error_of(lambda: [str(problem) for problem in verify(folder).problems])
    intact = problems == []
    shown = error_of(lambda: read_status(folder).runs[0].state != "damaged")
    assert intact == (shown is True), f"verify says {problems}, status says {shown}"
    error = error_of(lambda: resume(folder))
    if isinstance(error, FedkgError):
        assert not intact, f"resume rejects a folder that verify accepts: {error}"
        assert error.help, f"no help: {error}"
        return "reported"
    now = content(folder, finished=finished)
    different = sorted(
        name for name in now.keys() | whole.keys() if now.get(name) != whole.get(name)
    )
    assert not different, f"accepted with other bytes: {', '.join(different)}"
    assert not verify(folder).problems, "resumed, but not intact afterwards"
    return "unchanged" if intact else "repaired"


def error_of(call: Callable[[], object]) -> object:
    """What a call returns, or the error that it reports."""
    try:
        return call()
    except FedkgError as error:
        return error


def cases(base: Path) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """A finished run, and what it was after each round; with the content that each must end
    with.
    """
    rules = base / "rules.fkg"
    rules.write_text(RULES, encoding="utf-8")
    stops: list[Path] = []

    def copy(event: Event) -> None:
        if event.kind in ("round", "trial_done"):
            stops.append(shutil.copytree(base / "run", base / f"stop-{len(stops)}"))

    run_job(job(rules), out=base / "run", on_event=copy)
    yield "finished", base / "run", content(base / "run", finished=True)
    for stop in stops:
        yield "stopped", stop, content(base / "run", finished=False)


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzzer; 1 where a case failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=60, help="time budget")
    parser.add_argument("--memory", type=int, default=2000, help="peak memory in MiB")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--cases", type=int, default=1_000_000, help="most cases")
    given = parser.parse_args(arguments)
    end, counts, failed = time.monotonic() + given.seconds, Counter[str](), 0
    with tempfile.TemporaryDirectory(prefix="fedkg-fuzz-") as name:
        base = Path(name)
        runs = list(cases(base))
        number = given.first
        while number < given.first + given.cases and time.monotonic() < end:
            chance = random.Random(f"{given.seed}-{number}")
            kind, folder, whole = runs[0] if chance.random() < 0.5 else chance.choice(runs[1:])
            copy = shutil.copytree(folder, base / "copy" / "run")
            done, began = [], time.monotonic()
            for _ in range(chance.choice((1, 1, 1, 2, 3))):
                damage = chance.choice(DAMAGES)
                done.append(f"{damage.__name__} {damage(chance, copy)}")
            try:
                found = outcome(copy, whole, finished=kind == "finished")
                assert time.monotonic() - began < SECONDS_PER_CASE, "too slow"
            except Exception as error:  # noqa: BLE001
                # whatever is raised is what the fuzzer looks for
                found, failed = "FAILED", failed + 1
                what = f"{type(error).__name__}: {error}"
                sys.stdout.write(
                    f"seed {given.seed} case {number}, {kind} {folder.name}: {'; '.join(done)}\n "
                    f" {what}\n"
                )
            counts[f"{kind}, {found}"] += 1
            shutil.rmtree(copy.parent)
            number += 1
    peak = _peak_memory()
    for what, count in sorted(counts.items()):
        sys.stdout.write(f"{count:>6} {what}\n")
    sys.stdout.write(f"{number - given.first} cases, {failed} failed, peak memory {peak} MiB\n")
    return int(failed > 0 or peak > given.memory)


def _peak_memory() -> int:
    """The largest memory of this program in MiB. `ru_maxrss` starts with that of the parent."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    raise SystemExit(main())
