"""`fedkg run`: train a federation as a job file says; with `--grid` or `--seeds`, as many as they say."""

from __future__ import annotations

import errno
import os
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from fedkg.cli.console import AsJson, TrustCode, print_json
from fedkg.errors import JobError, MissingExtra, Stopped, UsageError

if TYPE_CHECKING:
    from fedkg.jobs import Run
    from fedkg.jobs.sweep.sweep import Sweep

DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a system says where nothing more can be written: no space, no quota, a file at its largest."""


def run(
    job: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[JOB.yaml]", help="The job file; behind --grid, more fields and values."
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="The run folder; by default a new one under runs/."
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="a.b=c",
            help="Change one field of the job; may be given several times.",
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            "--seeds",
            metavar="N",
            help="A run for each of so many seeds, or of those in a list (3,7,11).",
        ),
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid",
            metavar="a.b=c,d",
            help="A run for each combination of these fields' values; may be given several times.",
        ),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            metavar="N",
            min=1,
            help="Runs of --grid and --seeds at once, a process and a share of the processors each.",
        ),
    ] = 1,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="DIR", help="Go on with a run that was stopped."),
    ] = None,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """Train a federation as a job file says, and write a report.

    Everything goes into a run folder: the job, what the machine is, every round's figures, checkpoints and `report.html`.
    Ctrl-C stops the run; `fedkg run --resume DIR` goes on where it was, to the bit.
    With --seeds or --grid there is a folder for each run beneath one, and one comparison of all.

    \b
    Examples:
      fedkg run examples/milling/job.yaml
      fedkg run job.yaml --out runs/tuesday --set training.rounds=20 --set data.path=history.csv
      fedkg run job.yaml --seeds 5 --jobs 2
      fedkg run job.yaml --grid algorithm=fedavg,scfa data.alpha=0.1,1,10
      fedkg run --resume runs/tuesday
    """
    path, axes = _split_arguments(job or [], grid)
    if (path is None) == (resume is None):
        raise UsageError(
            "give a job file, or --resume with a run folder",
            help="fedkg run job.yaml, or fedkg run --resume runs/tuesday",
        )
    if resume is not None and (folder or changes or axes or seeds):
        raise UsageError(
            "--resume takes the job as it is in the folder",
            help="leave out --out, --set, --seeds and --grid, or start a new run",
        )
    _require_job_file(path)
    if any(find_spec(name) is None for name in ("torch", "yaml", "scipy")):
        raise MissingExtra("training", "run")
    options = (
        ("--resume", resume),
        ("--out", folder),
        *(("--set", change) for change in changes or []),
        ("--seeds", seeds),
    )
    given = [
        str(word)
        for name, value in (*options, ("--jobs", jobs if jobs > 1 else None))
        if value is not None
        for word in (name, value)
    ]
    again = [
        "fedkg",
        "run",
        *([] if path is None else [str(path)]),
        *given,
        *(["--grid", *axes] if axes else []),
        *(["--trust-code"] if trust_code else []),
    ]
    with _explain_stop(shlex.join(again), resume or folder), stop_on_sigterm():
        from fedkg.jobs.causes.job_file import is_causes_job

        if path is not None and is_causes_job(path):
            _run_causes(path, folder, changes or [], axes or seeds or jobs > 1, as_json)
            return
        from fedkg.cli.results import print_comparison
        from fedkg.jobs.sweep.plan import is_sweep

        done: Run | Sweep
        if axes or seeds is not None or (resume is not None and is_sweep(resume)):
            done = _run_or_resume_sweep(
                path, folder, changes or [], axes, seeds, resume, jobs, trust_code
            )
        else:
            if jobs > 1:
                raise UsageError(
                    "--jobs: there is one run only",
                    help="`training.workers` in the job trains its sites in several processes",
                )
            done = _run_or_resume(path, folder, changes or [], resume, trust_code)
    if as_json:
        failed = dict(getattr(done, "failed", {}))
        told = {
            "folder": str(done.folder),
            "report": None if done.report is None else str(done.report),
            "checksum": _checksum(done.folder),
            "results": done.results,
        }
        print_json(told | ({"failed": failed} if failed else {}))
    else:
        notes = (
            done.notes if getattr(done, "failed", {}) else ()
        )  # all others were told when they came up
        print_comparison(
            done.results,
            (*done.sentences, *notes, f"checksum of the log: {_checksum(done.folder)}"),
            f"report: {done.report}" if done.report else f"run folder: {done.folder}",
        )
    if getattr(done, "failed", {}):
        raise typer.Exit(1)


def _require_job_file(path: Path | None) -> None:
    """Raises UsageError where no file stands in the job file's place."""
    if path is not None and path.is_dir():
        from fedkg.jobs.folder import ENVIRONMENT
        from fedkg.jobs.sweep.plan import is_sweep

        is_run = (path / ENVIRONMENT).is_file() or is_sweep(path)
        advice = (
            f"to go on with the run in it: fedkg run --resume {path}"
            if is_run
            else "give the job file, job.yaml or as it is called"
        )
        raise UsageError(f"{path} is a folder, not a job file", help=advice)
    if path is not None and not path.is_file():
        raise UsageError(
            f"there is no job file {path}", help="a path is looked for in the folder you stand in"
        )


def _run_causes(
    path: Path, folder: Path | None, changes: list[str], many: object, as_json: bool
) -> None:
    """A job that learns who drives whom."""
    from fedkg.cli.console import print_line
    from fedkg.jobs.causes.run import run_causes

    if many:
        raise UsageError(
            "a job of the kind `causes` is one learning",
            help="leave out --seeds, --grid and --jobs",
        )
    done = run_causes(path, out=folder, overrides=changes)
    if as_json:
        print_json(
            {
                "folder": str(done.folder),
                "report": None if done.report is None else str(done.report),
                "checksum": _checksum(done.folder),
                "results": done.results,
            }
        )
        return
    print_line("\n".join(done.sentences))
    print_line(f"checksum of the log: {_checksum(done.folder)}")
    print_line(f"report: {done.report}" if done.report else f"run folder: {done.folder}")


def _checksum(folder: Path) -> str:
    """SHA-256 of the last entry in the log of a run; kept elsewhere, it shows whether the folder was changed later."""
    from fedkg.jobs.folder import RunFolder

    return RunFolder(folder).log.last


def _split_arguments(
    words: Sequence[str], grid: Sequence[str] | None
) -> tuple[Path | None, list[str]]:
    """The job file, and the fields of the grid: those behind --grid, and what follows them without a word before it."""
    files = [word for word in words if not (grid and "=" in word)]
    if len(files) > 1:
        raise UsageError(
            "give one job file",
            received=" ".join(files),
            help="fields and their values follow --grid",
        )
    return (Path(files[0]) if files else None), [
        *(grid or []),
        *(word for word in words if word not in files),
    ]


def _run_or_resume(
    job: Path | None, folder: Path | None, changes: list[str], resume: Path | None, trust_code: bool
) -> Run:
    from fedkg.cli.progress import ProgressDisplay
    from fedkg.federated.executors.ranks import joined
    from fedkg.jobs import resume as resume_job
    from fedkg.jobs import run_job
    from fedkg.jobs.rank_protocol import broadcast_end, follow_rank_zero

    with joined() as ranks:
        if ranks is not None and ranks.rank > 0:
            follow_rank_zero(ranks, trust_code)
            raise typer.Exit
        with ProgressDisplay() as watch:
            if resume is not None:
                done = resume_job(resume, on_event=watch, ranks=ranks, trust_code=trust_code)
            else:
                assert job is not None
                done = run_job(
                    job,
                    out=folder,
                    overrides=changes,
                    on_event=watch,
                    ranks=ranks,
                    trust_code=trust_code,
                )
        broadcast_end(ranks)
        return done


def _run_or_resume_sweep(
    job: Path | None,
    folder: Path | None,
    changes: list[str],
    grid: list[str],
    seeds: str | None,
    resume: Path | None,
    jobs: int,
    trust_code: bool,
) -> Sweep:
    from fedkg.cli.progress import ProgressDisplay
    from fedkg.jobs.sweep.grid import parse_axis, parse_seeds
    from fedkg.jobs.sweep.sweep import resume_sweep, run_sweep

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError(
            "--seeds and --grid are runs of one process each",
            help="start each of them by a torchrun of its own",
        )
    axes, chosen = (
        [parse_axis(text) for text in grid],
        None if seeds is None else parse_seeds(seeds),
    )
    with ProgressDisplay() as watch:
        if resume is not None:
            return resume_sweep(resume, on_event=watch, jobs=jobs, trust_code=trust_code)
        assert job is not None
        return run_sweep(
            job,
            axes,
            chosen,
            out=folder,
            overrides=changes,
            on_event=watch,
            jobs=jobs,
            trust_code=trust_code,
        )


@contextmanager
def _explain_stop(again: str, place: Path | None) -> Iterator[None]:
    """Of a run that is stopped before its first training or after its last: what is written, and how to begin again or go on.

    Raises:
        Stopped: on Ctrl-C. While it trains the run says so itself.
        JobError: where the disk is full, or a file may not grow any more.
    """
    try:
        yield
    except KeyboardInterrupt:
        from fedkg.jobs.folder import ENVIRONMENT
        from fedkg.jobs.sweep.plan import is_sweep

        if place is not None and ((place / ENVIRONMENT).is_file() or is_sweep(place)):
            raise Stopped(
                f"stopped; what is done is in {place}", help=f"fedkg run --resume {place}"
            ) from None
        raise Stopped(
            "stopped before the run folder was made: nothing is written",
            help=f"to begin again: {again}",
        ) from None
    except OSError as error:
        if error.errno not in DISK_FULL_ERRORS:
            raise
        where = error.filename or place or "the run folder"
        go_on = (
            f"fedkg run --resume {place}"
            if place is not None
            else "fedkg run --resume with its folder"
        )
        raise JobError(
            f"cannot write in {where}: {error.strerror}", help=f"make room, then go on: {go_on}"
        ) from error


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """A polite request to end (SIGTERM) stops a run as Ctrl-C does: at once, resumable, with exit code 130."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
