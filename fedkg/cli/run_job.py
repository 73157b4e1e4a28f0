"""`fedkg run`: train a federation as a job file says."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkg.cli.screen import AsJson, out, print_json, say
from fedkg.errors import MissingExtra, Stopped, UsageError

if TYPE_CHECKING:
    from fedkg.jobs import Run


KEY = (
    "F1: mean ± spread over seeds, last round; found: failures found; right: alarms that are right; target: first round to reach it;",
    "worst site: share of the rules its model breaks, with the zone; sent: bytes to and from all sites.",
)


def run(
    job: Annotated[Path | None, typer.Argument(metavar="[JOB.yaml]", help="The job file.")] = None,
    folder: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="The run folder; by default a new one under runs/.")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="a.b=c", help="Change one field of the job; may be given several times.")
    ] = None,
    resume: Annotated[Path | None, typer.Option("--resume", metavar="DIR", help="Go on with a run that was stopped.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train a federation as a job file says, and write a report.

    Everything goes into a run folder: the job, what the machine is, every round's figures, checkpoints and `report.html`.
    Ctrl-C stops the run; `fedkg run --resume DIR` goes on where it was, to the bit.

    \b
    Examples:
      fedkg run examples/milling/job.yaml
      fedkg run job.yaml --out runs/tuesday --set training.rounds=20 --set data.path=history.csv
      fedkg run --resume runs/tuesday
    """
    if (job is None) == (resume is None):
        raise UsageError("give a job file, or --resume with a run folder", help="fedkg run job.yaml, or fedkg run --resume runs/tuesday")
    if resume is not None and (folder or changes):
        raise UsageError("--resume takes the job as it is in the folder", help="leave out --out and --set, or start a new run")
    if job is not None and not job.is_file():
        raise UsageError(f"there is no job file {job}")
    done = _train(job, folder, changes or [], resume)
    if as_json:
        print_json({"folder": str(done.folder), "report": None if done.report is None else str(done.report), "results": done.results})
    else:
        _show(done)


def _train(job: Path | None, folder: Path | None, changes: list[str], resume: Path | None) -> Run:
    from fedkg.cli.progress import Watch

    if any(find_spec(name) is None for name in ("torch", "yaml", "scipy")):
        raise MissingExtra("training", "run")
    from fedkg.jobs import resume as resume_job
    from fedkg.jobs import run_job

    place = resume or folder
    with _stoppable(), Watch() as watch:
        try:
            if resume is not None:
                return resume_job(resume, on_event=watch)
            assert job is not None
            return run_job(job, out=folder, overrides=changes, on_event=watch)
        except KeyboardInterrupt:
            raise Stopped("stopped", help=f"fedkg run --resume {place}" if place else "") from None


@contextmanager
def _stoppable() -> Iterator[None]:
    """A polite request to end (SIGTERM) stops a run as Ctrl-C does: at once, resumable, with exit code 3."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _show(done: Run) -> None:
    from rich.table import Table
    from rich.text import Text

    console = out()
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("setting", overflow="fold")
    table.add_column("algorithm", no_wrap=True)
    for header in ("F1", "found", "right", "target", "worst site", "sent"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in done.results:
        table.add_row(*(Text(cell) for cell in _cells(row)))
    console.print(table)
    console.print(Text("\n".join(KEY) + "\n", style="dim"))
    for sentence in (*done.sentences, *done.notes):
        say(sentence)
    say(f"report: {done.report}" if done.report else f"run folder: {done.folder}")


def _cells(row: dict[str, Any]) -> list[str]:
    """One line of the comparison as texts. `Any`: a row of `results.json`."""
    setting = [f"{name.rpartition('.')[2]} {value}" for name, value in row["setting"].items()]
    setting += [f"{row['corrupted']} corrupted"] if row["corrupted"] else []
    target = row["rounds_to_target"]["mean"]
    reached = f" ({row['reached']}/{row['seeds']})" if 0 < row["reached"] < row["seeds"] else ""
    spread = row["f1"]["spread"]
    return [
        ", ".join(setting),
        row["title"],
        _mean(row["f1"], ".2f") + (f" ±{spread:.2f}" if spread is not None else ""),
        _mean(row["recall"], ".0%"),
        _mean(row["precision"], ".0%"),
        ("never" if target is None else f"{target:.0f}") + reached,
        f"{_mean(row['rho_worst'], '.0%')} {row['zone']}".strip(),
        "-" if row["bytes"]["mean"] is None else f"{row['bytes']['mean'] / 1e6:.1f} MB",
    ]


def _mean(value: dict[str, Any], form: str) -> str:
    """A mean over seeds. `Any`: numbers or None."""
    return "-" if value["mean"] is None else f"{value['mean']:{form}}"
