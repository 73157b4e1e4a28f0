"""`fedkg run`: train a federation from a job file; with `--grid` or `--seeds`, run a sweep."""

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
from fedkg.cli.observation_options import (
    LOOPBACK,
    MetricsAddress,
    MetricsPort,
    Notify,
    Track,
    create_observation,
)
from fedkg.errors import JobError, MissingExtra, Stopped, UsageError

if TYPE_CHECKING:
    from fedkg.jobs import Run
    from fedkg.jobs.sweep.sweep import Sweep
    from fedkg.operations.run_event_listeners import Observation

DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""System errors for a full disk, an exceeded quota, or a file that is too large."""


def run(
    job: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[JOB.yaml]", help="The job file; after --grid, more fields and values."
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="The run folder; default: a new one in runs/."
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="a.b=c", help="Change one field of the job; can be repeated."
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            "--seeds", metavar="N", help="One run per seed: a number of seeds, or a list (3,7,11)."
        ),
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid",
            metavar="a.b=c,d",
            help="One run per combination of these fields' values; can be repeated.",
        ),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            metavar="N",
            min=1,
            help=(
                "Parallel runs of --grid and --seeds, each in a process with a share of the "
                "processors."
            ),
        ),
    ] = 1,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="DIR", help="Continue a stopped run.")
    ] = None,
    track: Track = None,
    notify: Notify = None,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """Train a federation from a job file, and write a report.

    The run folder contains the job, a description of the machine, the figures of every round,
    checkpoints and `report.html`. Ctrl-C stops the run; `fedkg run --resume DIR` continues it
    without changing the result. With --seeds or --grid there is one run folder per combination, and
    one common comparison.

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
            "give either a job file, or --resume with a run folder",
            received="neither" if path is None else "both",
            help="fedkg run job.yaml, or fedkg run --resume runs/tuesday",
        )
    if resume is not None and (folder or changes or axes or seeds):
        raise UsageError(
            "--resume cannot be combined with --out, --set, --seeds or --grid, because it "
            "continues the run with the job that is stored in its folder",
            help="leave out these options, or start a new run: fedkg run JOB.yaml",
        )
    _require_job_file(path)
    if any(find_spec(name) is None for name in ("torch", "yaml", "scipy")):
        raise MissingExtra("training", "run")
    options = (
        ("--resume", resume),
        ("--out", folder),
        *(("--set", change) for change in changes or []),
        ("--seeds", seeds),
        ("--track", track),
        *(("--notify", target) for target in notify or []),
        ("--metrics-port", metrics_port),
    )
    given = [
        str(word)
        for name, value in (*options, ("--jobs", jobs if jobs > 1 else None))
        if value is not None
        for word in (name, value)
    ]
    observation = create_observation(track, notify, metrics_port, metrics_address)
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
            if observation:
                raise UsageError(
                    "a job of kind `causes` has no rounds to track",
                    help="remove --track, --notify and --metrics-port",
                )
            _run_causes(path, folder, changes or [], axes or seeds or jobs > 1, as_json)
            return
        from fedkg.cli.comparison_output import print_comparison
        from fedkg.jobs.sweep.stored_plan import is_sweep

        done: Run | Sweep
        if axes or seeds is not None or (resume is not None and is_sweep(resume)):
            done = _run_or_resume_sweep(
                path, folder, changes or [], axes, seeds, resume, jobs, trust_code, observation
            )
        else:
            if jobs > 1:
                raise UsageError(
                    "--jobs runs several trainings at once, so it requires --grid or --seeds",
                    help="to train the sites of one run in several processes, set "
                    "`training.workers` in the job",
                )
            done = _run_or_resume(path, folder, changes or [], resume, trust_code, observation)
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
        )  # events already showed all other notes
        print_comparison(
            done.results,
            (*done.sentences, *notes, f"checksum of the log: {_checksum(done.folder)}"),
            f"report: {done.report}" if done.report else f"run folder: {done.folder}",
        )
    if getattr(done, "failed", {}):
        raise typer.Exit(1)


def _require_job_file(path: Path | None) -> None:
    """Raises UsageError if the job file is not a file."""
    if path is not None and path.is_dir():
        from fedkg.jobs.folder import ENVIRONMENT
        from fedkg.jobs.sweep.stored_plan import is_sweep

        is_run = (path / ENVIRONMENT).is_file() or is_sweep(path)
        advice = (
            f"to continue its run: fedkg run --resume {path}"
            if is_run
            else "give the job file, such as job.yaml"
        )
        raise UsageError(f"{path} is a folder, not a job file", help=advice)
    if path is not None and not path.is_file():
        raise UsageError(
            f"job file {path} does not exist", help="paths are relative to the current folder"
        )


def _run_causes(
    path: Path, folder: Path | None, changes: list[str], many: object, as_json: bool
) -> None:
    """Run a causal discovery job."""
    from fedkg.cli.console import print_line
    from fedkg.jobs.causes.run import run_causes

    if many:
        raise UsageError(
            "a job of kind `causes` is one run, so it cannot be repeated for "
            "several seeds or values",
            help="remove --seeds, --grid and --jobs",
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
    """SHA-256 of the last log entry of a run.

    Noted elsewhere, it reveals later changes of the folder.
    """
    from fedkg.jobs.folder import RunFolder

    return RunFolder(folder).log.last


def _split_arguments(
    words: Sequence[str], grid: Sequence[str] | None
) -> tuple[Path | None, list[str]]:
    """Split arguments into the job file and the grid.

    Values of --grid, and words with ``=`` after it.
    """
    files = [word for word in words if not (grid and "=" in word)]
    if len(files) > 1:
        raise UsageError(
            "give one job file",
            received=" ".join(files),
            help="name one job file; write a changed field after --set, and compared values after "
            "--grid",
        )
    return (Path(files[0]) if files else None), [
        *(grid or []),
        *(word for word in words if word not in files),
    ]


def _run_or_resume(
    job: Path | None,
    folder: Path | None,
    changes: list[str],
    resume: Path | None,
    trust_code: bool,
    observation: Observation,
) -> Run:
    from fedkg.cli.progress import ProgressDisplay
    from fedkg.federated.executors.ranks import joined
    from fedkg.jobs import resume as resume_job
    from fedkg.jobs import run_job
    from fedkg.jobs.rank_protocol import broadcast_end, follow_rank_zero
    from fedkg.operations.run_event_listeners import observe

    with joined() as ranks:
        if ranks is not None and ranks.rank > 0:
            follow_rank_zero(ranks, trust_code)
            raise typer.Exit
        with ProgressDisplay() as show, observe(observation, show) as listen:
            if resume is not None:
                done = resume_job(resume, on_event=listen, ranks=ranks, trust_code=trust_code)
            else:
                assert job is not None
                done = run_job(
                    job,
                    out=folder,
                    overrides=changes,
                    on_event=listen,
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
    observation: Observation,
) -> Sweep:
    from fedkg.cli.progress import ProgressDisplay
    from fedkg.jobs.sweep.grid import parse_axis, parse_seeds
    from fedkg.jobs.sweep.sweep import resume_sweep, run_sweep
    from fedkg.operations.run_event_listeners import observe

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError(
            "a sweep (--seeds, --grid, or --resume of one) does not work under torchrun",
            help="start one torchrun per run",
        )
    axes, chosen = (
        [parse_axis(text) for text in grid],
        None if seeds is None else parse_seeds(seeds),
    )
    with ProgressDisplay() as show, observe(observation, show) as listen:
        if resume is not None:
            return resume_sweep(resume, on_event=listen, jobs=jobs, trust_code=trust_code)
        assert job is not None
        return run_sweep(
            job,
            axes,
            chosen,
            out=folder,
            overrides=changes,
            on_event=listen,
            jobs=jobs,
            trust_code=trust_code,
        )


@contextmanager
def _explain_stop(again: str, place: Path | None) -> Iterator[None]:
    """Explain a stop before the first or after the last trial, and how to continue.

    Raises:
        Stopped: on Ctrl-C; during training the run handles it.
        JobError: the disk is full, or a file reached its largest size.
    """
    try:
        yield
    except KeyboardInterrupt:
        from fedkg.jobs.folder import ENVIRONMENT
        from fedkg.jobs.sweep.stored_plan import is_sweep

        if place is not None and ((place / ENVIRONMENT).is_file() or is_sweep(place)):
            raise Stopped(
                f"stopped; finished rounds are in {place}",
                help=f"to continue: fedkg run --resume {place}",
            ) from None
        raise Stopped(
            "stopped before the run folder was created: nothing was written",
            help=f"to start again: {again}",
        ) from None
    except OSError as error:
        if error.errno not in DISK_FULL_ERRORS:
            raise
        where = error.filename or place or "the run folder"
        go_on = f"fedkg run --resume {place}" if place is not None else "fedkg run --resume DIR"
        raise JobError(
            f"cannot write to {where}: {error.strerror}",
            help=f"free some space, then continue: {go_on}",
        ) from error


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """SIGTERM stops a run like Ctrl-C: at once, resumable, with exit code 130."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
