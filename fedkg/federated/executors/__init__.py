"""Executors: how the local work of a round is carried out.

All of them give the same result within float tolerance.

Clients draw the same batches and dropout masks in each of them, so what differs is the order of
float sums. In float32 that can put a
ReLU unit that is within rounding of zero on the other side; then, and only then, runs differ by
more than rounding.
"""

from fedkg.federated.executors.processes import Processes
from fedkg.federated.executors.protocol import Executor, Updates, Work
from fedkg.federated.executors.ranks import Ranks, Shared
from fedkg.federated.executors.sequential import Sequential
from fedkg.federated.executors.stacked import Stacked
from fedkg.federated.executors.worker_pool import WorkerPool, cores
from fedkg.federated.state import Choice

EXECUTORS = ("sequential", "stacked", "processes")
"""Names of executors in `Choice.executor`; ``auto`` chooses among them."""


def executor_of(
    choice: Choice, crew: WorkerPool | None = None, ranks: Ranks | None = None
) -> Executor:
    """The executor that was chosen, in each of the ranks where there are several.

    Without worker processes the stacked one takes the place of theirs, which comes to the same to
    the bit.
    """
    if ranks is not None:
        return Shared(
            ranks=ranks,
            executor=executor_of(choice, crew),
            chunk=choice.chunk,
            sorted=choice.executor != "sequential",
        )
    if choice.executor == "sequential":
        return Sequential()
    return (
        Stacked(chunk=choice.chunk)
        if choice.executor == "stacked" or crew is None
        else Processes(chunk=choice.chunk, crew=crew)
    )


__all__ = [
    "EXECUTORS",
    "Executor",
    "Processes",
    "Ranks",
    "Sequential",
    "Shared",
    "Stacked",
    "Updates",
    "Work",
    "WorkerPool",
    "cores",
    "executor_of",
]
