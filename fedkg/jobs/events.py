"""Progress events of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

EventKind = Literal["prepared", "trial", "round", "trial_done", "note", "finished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event.

    Attributes:
        kind: ``prepared`` (data and rules are ready), ``trial`` (a trial starts or continues),
            ``round`` (a round is done), ``trial_done``, ``note`` (a message for the user),
    ``finished``.
        message: a sentence.
        trial: id of the trial.
        trial_number: number of the trial, from 1.
        trials: number of trials in the run.
        round: rounds done in this trial.
        rounds: rounds of this trial.
        values: figures of the round.
    """

    kind: EventKind
    message: str = ""
    trial: str = ""
    trial_number: int = 0
    trials: int = 0
    round: int = 0
    rounds: int = 0
    values: Mapping[str, float | str] = field(default_factory=dict)


Listener = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """A listener that does nothing."""
