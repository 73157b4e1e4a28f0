"""What a run folder shows while another process writes it: new events, sites and notes."""

from __future__ import annotations

import csv
import json
import os
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fedkg.errors import UsageError
from fedkg.jobs.events import EVENTS
from fedkg.jobs.folder import CSV_FIELDS

if TYPE_CHECKING:
    from fedkg.jobs.sweep.run_status import FolderStatus

MOST_BYTES = 1 << 24
"""Bytes that one look reads from a file; a longer file takes several looks."""

MOST_NOTES = 5
"""Notes that a view remembers."""

MEASURED_ROUNDS = 20
"""Rounds from which the remaining time is estimated: the speed may change during a run."""


class LineFollower:
    """Reads the complete lines of a growing file.

    A file that is moved away is read to its end, then the next one of that name from its start. A
    file that became shorter is read again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._offset = 0

    def read(self) -> tuple[list[str], bool]:
        """The new lines, and whether they start a new file."""
        lines = self._read_rest()
        if not self._is_replaced():
            return lines, False
        self.close()
        try:
            self._file = self._path.open("rb")
        except OSError:
            return lines, False
        return [*lines, *self._read_rest()], True

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._file, self._offset = None, 0

    def _is_replaced(self) -> bool:
        try:
            now = self._path.stat()
        except OSError:
            return False
        if self._file is None:
            return True
        held = os.fstat(self._file.fileno())
        return (held.st_dev, held.st_ino) != (now.st_dev, now.st_ino) or now.st_size < self._offset

    def _read_rest(self) -> list[str]:
        if self._file is None:
            return []
        self._file.seek(self._offset)
        body = self._file.read(MOST_BYTES)
        body = body[: body.rfind(b"\n") + 1]
        self._offset += len(body)
        return body.decode("utf-8", errors="replace").splitlines()


@dataclass(slots=True, kw_only=True)
class SiteView:
    """A site in the current trial.

    Attributes:
        samples: its training samples.
        round: the last round with a usable update; 0 for none.
        validity: the validity score of its last update; "" if it was not scored.
        alpha: the weight of its last update.
        exclusions: rounds in which its update was not used.
        reason: why not, the last time.
    """

    samples: str = ""
    round: int = 0
    validity: str = ""
    alpha: str = ""
    exclusions: int = 0
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class RunView:
    """One run folder, followed.

    Attributes:
        last: the last `round` event; None before the first.
        times: the time of each round of the current trial, as in `events.jsonl`.
        notes: the last notes with their times.
        sites: the sites of the current trial by name.
        rules: names of rules with violated and evaluated verdicts of the last round, most violated
            first.
        omitted_rules: number of evaluated rules that `rules` leaves out.
    """

    folder: Path
    last: dict[str, Any] | None = None  # Any: JSON
    times: dict[int, str] = field(default_factory=dict)
    notes: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=MOST_NOTES))
    sites: dict[str, SiteView] = field(default_factory=dict)
    rules: list[tuple[str, int, int]] = field(default_factory=list)
    omitted_rules: int = 0
    _trial: str = ""
    _events: LineFollower = field(init=False)
    _clients: LineFollower = field(init=False)

    def __post_init__(self) -> None:
        self._events = LineFollower(self.folder / EVENTS)
        self._clients = LineFollower(self.folder / "clients.csv")

    def update(self) -> list[dict[str, Any]]:
        """Read what is new; return the new events. `Any`: JSON."""
        lines, _ = self._events.read()
        events = [event for line in lines if (event := _parse(line)) is not None]
        for event in events:
            self._add_event(event)
        rows, is_new = self._clients.read()
        if is_new:  # a resumed run removes rounds after its last checkpoint
            self._trial = ""
        for row in csv.reader(rows):
            if len(row) == len(CSV_FIELDS["clients.csv"]) and row[1].isdecimal():
                self._add_site(dict(zip(CSV_FIELDS["clients.csv"], row, strict=True)))
        return events

    def seconds_per_round(self) -> float | None:
        """Mean time of the last rounds of the current trial; None before its second round."""
        times = [*islice(reversed(self.times.values()), MEASURED_ROUNDS + 1)]
        if len(times) < 2:
            return None
        try:
            last, first = datetime.fromisoformat(times[0]), datetime.fromisoformat(times[-1])
        except ValueError:
            return None
        return (last - first).total_seconds() / (len(times) - 1)

    def close(self) -> None:
        """Close the files."""
        self._events.close()
        self._clients.close()

    def _add_event(self, event: dict[str, Any]) -> None:
        match event["kind"]:
            case "trial":
                self.times.clear()
            case "round":
                self.last = event
                self.times[event["round"]] = event["time"]
                self.rules, self.omitted_rules = _rules(event)
            case "note" | "failed" | "stopped":
                self.notes.append((event["time"], event["message"]))
            case _:
                pass

    def _add_site(self, row: dict[str, str]) -> None:
        if row["trial"] != self._trial:
            self._trial = row["trial"]
            self.sites.clear()
        site = self.sites.setdefault(row["client"], SiteView())
        site.samples, site.validity, site.alpha = row["samples"], row["validity"], row["alpha"]
        if row["status"].startswith("excluded"):
            site.exclusions += 1
            site.reason = row["status"].partition(": ")[2]
        else:
            site.round = int(row["round"])


class FolderView:
    """A run or a sweep, followed.

    Attributes:
        folder: the folder of the run or of the sweep.
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

    def remaining_seconds(self) -> float | None:
        """Estimated time until the run with the last event ends; None if it is not known.

        Every round that is left counts as long as the last rounds of the current trial.
        """
        view = self.views.get(self.recent)
        if self.status is None or not self.status.running or view is None:
            return None
        seconds = view.seconds_per_round()
        [trials] = [run.trials for run in self.status.runs if run.id == self.recent]
        left = sum(trial.rounds - trial.round for trial in trials)
        return None if seconds is None or not left else seconds * left


def _rules(event: dict[str, Any]) -> tuple[list[tuple[str, int, int]], int]:
    """The rules of a `round` event, and the number of those that it leaves out. `Any`: JSON."""
    rules = event.get("rules")
    if not isinstance(rules, dict):
        return [], 0
    found = [
        (name, int(counts["violated"]), int(counts["evaluated"]))
        for name, counts in rules.items()
        if isinstance(counts, dict) and counts.get("evaluated")
    ]
    omitted = event.get("omitted_rules")
    return found, omitted if isinstance(omitted, int) else 0


def _parse(line: str) -> dict[str, Any] | None:
    """One event; None if the line is not one, for example after the file was cut. `Any`: JSON."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    needed = {"time", "kind", "message", "trial", "round", "rounds", "site", "values"}
    return event if isinstance(event, dict) and needed <= event.keys() else None
