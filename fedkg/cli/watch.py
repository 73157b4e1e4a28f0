"""`fedkg watch`: follow a run or a sweep in the terminal until it ends."""

from __future__ import annotations

import time
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkg.cli.console import print_line, print_note, stdout_console
from fedkg.cli.status import rich_table
from fedkg.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fedkg.operations.run_follower import FolderView

INTERVAL = 1.0
"""Seconds between two looks at the folder."""

MOST_ROWS = 20
"""Sites, and rules, that a frame lists."""


def watch(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a run, or of a sweep.")
    ],
    once: Annotated[bool, typer.Option("--once", help="Show the state now, and exit.")] = False,
) -> None:
    """Follow a run until it ends: rounds, figures, sites, rules, lost sites, remaining time, notes.

    The run may start later. Without a terminal, each event is one line.

    \b
    Examples:
      fedkg watch runs/tuesday
      fedkg watch runs/tuesday --once
    """
    if find_spec("yaml") is None:
        raise MissingExtra("reading run folders", "run")
    from fedkg.operations.run_follower import FolderView

    with closing(FolderView(folder)) as watched:
        if once:
            watched.look()
            if watched.status is None:
                raise UsageError(
                    f"there is no run in {folder}",
                    help=f"correct the path, or start a run: fedkg run JOB.yaml --out {folder}",
                )
            stdout_console().print(_frame(watched))
            failed = any(run.state == "damaged" for run in watched.status.runs)
        else:
            try:
                failed = _follow(watched)
            except KeyboardInterrupt:  # the run continues
                return
    if failed:
        raise typer.Exit(1)


def _follow(watched: FolderView) -> bool:
    """Show the folder until the run ends; return whether it ended before it was finished."""
    from rich.live import Live

    from fedkg.operations.run_progress_texts import summarise

    console = stdout_console()
    several = False
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                watched.look()
                live.update(_frame(watched), refresh=True)
                if watched.has_ended():
                    break
                time.sleep(INTERVAL)
    else:
        if not watched.folder.exists():
            print_note(f"waiting for a run in {watched.folder}")
        while True:
            events = watched.look()
            several = watched.status is not None and len(watched.status.runs) > 1
            for run, event in events:
                print_line(_event_line(event, f"{run} " if several else ""))
            if watched.has_ended():
                break
            time.sleep(INTERVAL)
        assert watched.status is not None
        print_line(summarise(watched.status.document()))
    assert watched.status is not None
    return any(run.state != "done" for run in watched.status.runs)


def _event_line(event: dict[str, Any], run: str) -> str:
    """``08:22:24 scfa round 3/20: F1 0.71, violations 12% (danger), ...``. `Any`: JSON."""
    from fedkg.operations.run_progress_texts import clock, round_figures

    what = event["message"] or event["kind"]
    if event["kind"] == "round":
        what = f"round {event['round']}/{event['rounds']}: {round_figures(event)}"
    elif event["kind"] == "site":
        what = f"{event['site']} is excluded from round {event['round']}: {event['message']}"
    elif event["kind"] == "trial":
        what = f"starts after round {event['round']}" if event["round"] else "starts"
    elif event["kind"] in ("failed", "stopped", "finished"):
        what = f"{event['kind']}: {event['message']}"
    named = event["trial"] and event["kind"] != "trial_done"  # that message names it
    return f"{clock(event['time'])} {run}{event['trial'] + ' ' if named else ''}{what}"


def _frame(watched: FolderView) -> RenderableType:
    """The whole view."""
    from rich.console import Group
    from rich.text import Text

    from fedkg.operations.run_progress_texts import describe_folder

    found = describe_folder(watched, most_rows=MOST_ROWS)
    if found is None:
        return Text(f"waiting for a run in {watched.folder}")
    parts: list[RenderableType] = [rich_table(found.trials)]
    if found.current:
        left = f"; {found.remaining}" if found.remaining else ""
        parts += [Text(""), Text(f"{found.current}{left}")]
    parts += [Text(line) for line in found.lost]
    for table in (found.sites, found.rules):
        if table.rows:
            parts += [Text(""), rich_table(table)]
    if found.notes:
        parts += [Text(""), *map(Text, found.notes)]
    return Group(*parts, *map(Text, found.errors), Text(""), Text(found.summary))
