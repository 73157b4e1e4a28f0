"""`fedkg watch`: follow a run or a sweep in the terminal until it ends."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkg.cli.console import print_line, print_note, stdout_console
from fedkg.cli.status import summarise, trial_table
from fedkg.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from fedkg.jobs.sweep.run_status import FolderStatus
    from fedkg.operations.watch import RunView, SiteView

INTERVAL = 1.0
"""Seconds between two looks at the folder."""

MOST_SITES = 20
"""Sites that a frame lists: those left out most often first."""


def watch(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a run, or of a sweep.")
    ],
    once: Annotated[bool, typer.Option("--once", help="Show the state now, and exit.")] = False,
) -> None:
    """Follow a run until it ends: rounds, figures, zones, violations, sites and notes.

    The run may start later. Without a terminal, each event is one line.

    \b
    Examples:
      fedkg watch runs/tuesday
      fedkg watch runs/tuesday --once
    """
    if find_spec("yaml") is None:
        raise MissingExtra("reading run folders", "run")
    with closing(_Watched(folder)) as watched:
        if once:
            watched.look()
            if watched.status is None:
                raise UsageError(
                    f"there is no run in {folder}", help="start one: fedkg run JOB.yaml"
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


class _Watched:
    """A run or a sweep, followed.

    Attributes:
        status: the last status; None before the run started.
        views: the run folders by the run's id.
        recent: the id of the run that had the last event.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.status: FolderStatus | None = None
        self.views: dict[str, RunView] = {}
        self.recent = ""
        self._read: set[str] = set()

    def close(self) -> None:
        """Close all files."""
        for view in self.views.values():
            view.close()

    def look(self) -> list[tuple[str, dict[str, Any]]]:
        """Read what is new; return new events with the id of their run. `Any`: JSON."""
        from fedkg.jobs.sweep.run_status import read_status
        from fedkg.jobs.sweep.stored_plan import CELLS, is_sweep
        from fedkg.operations.watch import RunView

        try:
            self.status = read_status(self.folder)
        except UsageError:  # there is no run yet
            if self.status is not None:
                raise
            return []
        found: list[tuple[str, dict[str, Any]]] = []
        for run in self.status.runs:
            place = self.folder / CELLS / run.id if is_sweep(self.folder) else self.folder
            view = self.views.setdefault(run.id, RunView(folder=place))
            if run.id not in self._read:
                found += [(run.id, event) for event in view.update()]
            if run.state == "done":  # a sweep may have more runs than a process may open files
                self._read.add(run.id)
                view.close()
        found.sort(key=lambda one: one[1]["time"])
        if found:
            self.recent = found[-1][0]
        return found

    def has_ended(self) -> bool:
        """Whether no process works on the folder any more."""
        return (
            self.status is not None
            and not self.status.running
            and any(run.state != "open" for run in self.status.runs)
        )


def _follow(watched: _Watched) -> bool:
    """Show the folder until the run ends; return whether it ended before it was finished."""
    from rich.live import Live

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
    what = event["message"] or event["kind"]
    if event["kind"] == "round":
        what = f"round {event['round']}/{event['rounds']}: {_figures(event)}"
    elif event["kind"] == "site":
        what = f"{event['site']} is excluded from round {event['round']}: {event['message']}"
    elif event["kind"] == "trial":
        what = f"starts after round {event['round']}" if event["round"] else "starts"
    elif event["kind"] in ("failed", "stopped", "finished"):
        what = f"{event['kind']}: {event['message']}"
    named = event["trial"] and event["kind"] != "trial_done"  # that message names it
    return f"{_clock(event['time'])} {run}{event['trial'] + ' ' if named else ''}{what}"


def _figures(event: dict[str, Any]) -> str:
    """The figures of a round, with both counts of the violation rate. `Any`: JSON."""
    from fedkg.cli.progress import figures_text  # imports the evaluation of rules
    from fedkg.violation_rate_zones import describe_rate

    values = event["values"]
    rate = describe_rate(values.get("violated", 0), values.get("evaluated", 0))
    over_all = f"over all sites {rate}" if rate else "rules not evaluated"
    return ", ".join(part for part in (figures_text(values), over_all) if part)


def _clock(text: str) -> str:
    """The local time of day of a UTC time."""
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%H:%M:%S")
    except ValueError:
        return text


def _frame(watched: _Watched) -> RenderableType:
    """The whole view."""
    from rich.console import Group
    from rich.text import Text

    if watched.status is None:
        return Text(f"waiting for a run in {watched.folder}")
    document = watched.status.document()
    parts: list[RenderableType] = [trial_table(document)]
    view = watched.views.get(watched.recent)
    if view is not None and view.last is not None:
        last = view.last
        place = f"round {last['round']} of {last['rounds']}, {_clock(last['time'])}"
        parts += [Text(""), Text(f"{last['trial']}, {place}: {_figures(last)}")]
    if view is not None and view.sites:
        parts += [Text(""), _site_table(view)]
    if view is not None and view.notes:
        parts.append(Text(""))
        parts += [Text(f"{_clock(when)} {note}") for when, note in view.notes]
    parts += [Text(f"{run['id']}: {run['error']}") for run in document["runs"] if run["error"]]
    return Group(*parts, Text(""), Text(summarise(document)))


def _site_table(view: RunView) -> Table:
    """The sites of the current trial."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in ("site", "samples", "last update", "validity", "weight", "left out", ""):
        table.add_column(header, justify="left" if header in ("site", "") else "right")
    ordered = sorted(view.sites.items(), key=lambda one: (-one[1].exclusions, one[0]))
    for name, site in ordered[:MOST_SITES]:
        cells = (name, site.samples, _last_update(view, site), *_shares(site), site.reason)
        table.add_row(*map(Text, cells))
    if len(ordered) > MOST_SITES:
        table.add_row(Text(f"and {len(ordered) - MOST_SITES} more sites"))
    return table


def _last_update(view: RunView, site: SiteView) -> str:
    if not site.round:
        return "none"
    when = view.times.get(site.round)
    return f"round {site.round}" + (f", {_clock(when)}" if when else "")


def _shares(site: SiteView) -> tuple[str, str, str]:
    validity, weight = (
        f"{float(text):.3f}" if text else "-" for text in (site.validity, site.alpha)
    )
    return validity, weight, str(site.exclusions)
