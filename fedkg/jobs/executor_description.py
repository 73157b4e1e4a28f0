"""Short descriptions of how sites are trained, for the terminal.

Stack sizes, workers and timings are in `rounds.csv` and in the report.
"""

from __future__ import annotations

from typing import assert_never

from fedkg.federated.settings import ExecutorName
from fedkg.federated.state import Choice
from fedkg.federated.train import AT_SITES
from fedkg.jobs.folder import EXECUTOR_PREFIX


def format_executor_note(note: str, choice: Choice | None, asked: ExecutorName) -> str:
    """A round's note for the terminal: plain words for the executor's note, others unchanged.

    Args:
        choice: the executor of the trial; None if unknown.
        asked: `training.executor` of the job.
    """
    if choice is None or not note.startswith(EXECUTOR_PREFIX):
        return note
    if choice.reason == AT_SITES.reason:
        return choice.reason
    many = f", up to {choice.chunk} at a time" if choice.chunk > 1 else ""
    match choice.executor:
        case "processes":
            how = f"in parallel processes{many}"
        case "stacked" if choice.chunk > 1:
            how = f"together{many}"
        case _:
            how = "one after the other"
    match asked:
        case "auto":
            why = "the fastest way on this machine in a short measurement (see the report)"
        case "stacked" | "processes" | "sequential":
            why = "as the job requests"
        case _:
            assert_never(asked)
    return f"the sites of a round are trained {how}: {why}"
