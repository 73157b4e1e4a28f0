"""Progress events of a run, and the log that keeps them in the run folder."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

EVENTS = "events.jsonl"
"""The log of a run's events: one JSON object per line (docs/reference/events.schema.json)."""

EventKind = Literal[
    "prepared", "trial", "round", "site", "trial_done", "note", "finished", "stopped", "failed"
]

ENDS: frozenset[EventKind] = frozenset({"finished", "stopped", "failed"})
"""Kinds that end a run; a resumed run continues after the last two."""

Values = Mapping[str, float | str]
"""Figures by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event.

    Attributes:
        kind: ``prepared`` (data and rules are ready), ``trial`` (a trial starts or continues),
            ``round`` (a round is done), ``site`` (a site's update was not used in a round),
            ``trial_done``, ``note`` (a message for the user), ``finished``, ``stopped`` (on
            request, can be resumed), ``failed``.
        message: a sentence.
        folder: the run folder; None before it exists.
        trial: id of the trial.
        trial_number: number of the trial, from 1.
        trials: number of trials in the run.
        round: rounds done in this trial.
        rounds: rounds of this trial.
        site: the site of a `site` event.
        values: figures of the round.
        sites: figures of each site of a `round` by name: the columns of `clients.csv`, and
            `violated` and `evaluated` as in `rules`. A site with a `status` was excluded or is
            corrupted.
        rules: `violated` and `evaluated` of each rule, and `hard` (1 or 0). In a `round`, pairs of
            a bound row and a site's model on the probe, violated beyond the rule's tolerance; in
            `trial_done`, cases of the deployed model on the test as in `rules.csv`. Empty if no
            rule was evaluated.
    """

    kind: EventKind
    message: str = ""
    folder: Path | None = None
    trial: str = ""
    trial_number: int = 0
    trials: int = 0
    round: int = 0
    rounds: int = 0
    site: str = ""
    values: Values = field(default_factory=dict)
    sites: Mapping[str, Values] = field(default_factory=dict)
    rules: Mapping[str, Values] = field(default_factory=dict)


MOST_LOGGED_RULES = 100
"""Rules of a round that the log keeps, so that a thousand rules do not fill the disk."""

Listener = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """A listener that does nothing."""


def event_fields(event: Event) -> dict[str, Any]:
    """An event as JSON, with the time now in UTC (ISO 8601). `Any`: JSON.

    Figures that were not measured (NaN) are left out; an infinite one is the text ``inf``.
    """
    return {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "kind": event.kind,
        "message": event.message,
        "trial": event.trial or None,
        "round": event.round if event.trial else None,
        "rounds": event.rounds if event.trial else None,
        "site": event.site or None,
        "values": {
            name: str(value) if isinstance(value, float) and math.isinf(value) else value
            for name, value in event.values.items()
            if value == value
        },
    }


def most_violated_rules(rules: Mapping[str, Values]) -> dict[str, Any]:
    """The rules of a round as the log keeps them, most violated first. `Any`: JSON.

    Returns:
        ``rules``: violated and evaluated by name, at most `MOST_LOGGED_RULES`; ``omitted_rules``:
        the number of the others. Empty without an evaluated rule.
    """
    rates = {
        name: float(counts["violated"]) / float(counts["evaluated"])
        for name, counts in rules.items()
        if counts["evaluated"]
    }
    if not rates:
        return {}
    listed = sorted(rates, key=lambda name: (-rates[name], name))[:MOST_LOGGED_RULES]
    kept = {
        name: {which: rules[name][which] for which in ("violated", "evaluated")} for name in listed
    }
    return {"rules": kept, "omitted_rules": len(rates) - len(kept)}


class EventLog:
    """A listener that appends every event to `events.jsonl` of a run folder.

    Each line is written at once, so that a killed process leaves at most one unfinished line at
    the end: readers ignore it, and the next process removes it. The file is opened for each line,
    so it may be moved away while the run continues.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / EVENTS
        if self.path.is_file():
            with self.path.open("rb+") as file:
                file.truncate(_end_of_last_line(file.read()))

    def __call__(self, event: Event) -> None:
        """Append one event."""
        fields = event_fields(event)
        fields |= most_violated_rules(event.rules) if event.kind == "round" else {}
        line = json.dumps(fields, ensure_ascii=False, allow_nan=False) + "\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            body = line.encode("utf-8", errors="backslashreplace")
            if os.write(file, body) < len(body):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        finally:
            os.close(file)


def _end_of_last_line(body: bytes) -> int:
    return body.rfind(b"\n") + 1
