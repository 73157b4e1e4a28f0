"""Algorithms as values; each is a choice at some joints of the round."""

from collections.abc import Callable

from fedkg.federated.algorithm import Algorithm
from fedkg.federated.algorithms.fedavg import fedavg
from fedkg.federated.algorithms.scfa import scfa

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {"fedavg": fedavg, "scfa": scfa}
"""Algorithms that a job may name, with what makes them; the keyword arguments are the job's algorithm options."""

__all__ = ["ALGORITHMS", "Algorithm", "fedavg", "scfa"]
