"""What a run tells whoever watches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

EventKind = Literal["prepared", "trial", "round", "trial_done", "note", "finished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened.

    Attributes:
        kind: ``prepared`` (data and rules are ready), ``arm`` (a training starts or goes on), ``round`` (one is over), ``arm_done``,
            ``note`` (a sentence for people), ``finished``.
        arm: id of the training. arm_number, arms: which of how many, from 1.
        round, rounds: rounds done in this training, of how many.
        message: a sentence.
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
    """The listener that does nothing."""
