"""Executors: how the local work of a round is carried out. All of them give the same result within float tolerance.

Clients draw the same batches and dropout masks in each of them, so what differs is the order of float sums. In float32 that can put a
ReLU unit that is within rounding of zero on the other side; then, and only then, runs differ by more than rounding.
"""

from fedkg.federated.executors.interface import Executor, Updates, Work
from fedkg.federated.executors.sequential import Sequential
from fedkg.federated.executors.stacked import Stacked

EXECUTORS: dict[str, type[Sequential] | type[Stacked]] = {"sequential": Sequential, "stacked": Stacked}
"""Executors by the name in `Choice.executor`; ``auto`` chooses among them."""

__all__ = ["EXECUTORS", "Executor", "Sequential", "Stacked", "Updates", "Work"]
