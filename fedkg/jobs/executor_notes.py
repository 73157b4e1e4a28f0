"""How sites are trained, in a line for whoever watches: without stacks, workers and seconds, which `rounds.csv` and the report hold."""

from __future__ import annotations

from typing import assert_never

from fedkg.federated.settings import ExecutorName
from fedkg.federated.state import Choice
from fedkg.jobs.folder import EXECUTOR_PREFIX


def format_executor_note(note: str, choice: Choice | None, asked: ExecutorName) -> str:
    """A round's note as it is told: that of the executor in plain words, any other as it is.

    Args:
        choice: how the training is carried out; None where that is not known. asked: what the job says of it.
    """
    if choice is None or not note.startswith(EXECUTOR_PREFIX):
        return note
    many = f", up to {choice.chunk} at a time" if choice.chunk > 1 else ""
    match choice.executor:
        case "processes":
            how = f"side by side in several processes{many}"
        case "stacked" if choice.chunk > 1:
            how = f"together{many}"
        case _:
            how = "one after the other"
    match asked:
        case "auto":
            why = "the quickest way on this machine by a short trial, which the report tells"
        case "stacked" | "processes" | "sequential":
            why = "as the job says"
        case _:
            assert_never(asked)
    return f"the sites of a round are trained {how}: {why}"
