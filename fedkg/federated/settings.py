"""How a federation is run, whatever it learns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from fedkg.errors import JobError

Schedule = Literal["constant", "cosine"]
ExecutorName = Literal["auto", "stacked", "processes", "sequential"]
Precision = Literal["float32", "bfloat16"]
Wire = Literal["bfloat16", "float16"]

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What one client does otherwise than all: each as in `Settings`, None for as all do.

    Raises:
        JobError: naming the field that is wrong.
    """

    learning_rate: float | None = None
    local_epochs: int | None = None
    batch: int | None = None

    def __post_init__(self) -> None:
        for name in ("local_epochs", "batch"):
            if getattr(self, name) is not None:
                _at_least_one(name, getattr(self, name))
        if self.learning_rate is not None and not (
            math.isfinite(self.learning_rate) and self.learning_rate > 0
        ):
            raise JobError(
                "`learning_rate` must be a finite number above 0", received=str(self.learning_rate)
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a federated training; immutable and checked.

    Args:
        rounds: T, communication rounds.
        participation: share of the clients that take part in each round, above 0 up to 1; at least
            one client takes part.
        local_epochs: full passes over a client's samples in each round. Give either this or
            `local_steps`.
        local_steps: minibatch steps in each round, the same number for all clients, each on newly
            drawn samples.
        batch: samples in a minibatch; the last one of an epoch may be smaller.
        learning_rate: learning rate of the clients.
        schedule: schedule of the learning rate over the rounds: ``constant``, or ``cosine`` from
            the full rate down towards 0.
        seed: seed of all random choices.
        own: settings of single clients, by name. The schedule applies to all clients.
        executor: ``sequential`` (one client after the other, the reference), ``stacked`` (all
            sampled clients in one tensor program), ``processes`` (stacks in parallel, in worker
            processes of one thread each), or ``auto`` (measures the first steps and selects one).
        workers: number of worker processes; None: the number of processors.
        threads: threads of the tensor library within an operation, during the training. These
            threads wait actively for each other: with another program on one core, two threads were
            measured up to 20 times slower than one. Therefore the default is one; small models gain
            little from more. Compiled loops do not use this setting: their threads sleep while they
            wait, and there are as many as torch has at the start of the training.
        chunk: largest number of clients in one stack; None: `memory` (and the measurement of
            ``auto``) determines it.
        memory: bytes that a stack of clients may use, or the stacks of all workers together.
        client_memory: bytes that the memory about clients (private layers, control variates) may
            use. Beyond that, fedkg keeps the largest parts in files.
        min_clients: minimum number of clients with usable updates in a round.
        skipped_rounds: how many rounds in a row with fewer clients are skipped: the models stay as
            they are. One more raises `TooFewClients`.
        precision: ``bfloat16`` computes the model's answers and their derivatives in mixed
            precision (`torch.autocast`), by automatic differentiation. Parameters, losses and sums
            keep their precision. For accelerators; most CPUs are slower with it.
        wire: the number format of updates on their way to the server, see
            `fedkg.federated.client.wire_precision`; None: unchanged.
        secure_aggregation: the server learns the sum of the updates alone, see
            `fedkg.deploy.secure_aggregation`; needs real sites (``sites=`` of `train`).
        scores_at_sites: each client scores the model that it has after its update, with the layers
            that it keeps for itself, and tells the result. Nothing checks that it is true.
        measure: evaluate the rules for the updates even if the algorithm does not use the result,
            so that the violation rate is known.
        measure_divergence: record how much the updates of each round differ; this holds all of
            them in memory.

    Raises:
        JobError: naming the field that is wrong.
    """

    rounds: int
    participation: float = 1.0
    local_epochs: int | None = None
    local_steps: int | None = None
    batch: int = 32
    learning_rate: float = 0.01
    schedule: Schedule = "constant"
    seed: int = 0
    own: Mapping[str, Own] = field(default_factory=dict, hash=False)
    executor: ExecutorName = "auto"
    workers: int | None = None
    threads: int = 1
    chunk: int | None = None
    memory: int = 512 * MIB
    client_memory: int = 1024 * MIB
    min_clients: int = 1
    skipped_rounds: int = 0
    precision: Precision = "float32"
    wire: Wire | None = None
    secure_aggregation: bool = False
    scores_at_sites: bool = False
    measure: bool = True
    measure_divergence: bool = False

    def __post_init__(self) -> None:
        for name in ("rounds", "batch", "threads", "memory", "client_memory", "min_clients"):
            _at_least_one(name, getattr(self, name))
        for name in ("local_epochs", "local_steps", "chunk", "workers"):
            if getattr(self, name) is not None:
                _at_least_one(name, getattr(self, name))
        if self.skipped_rounds < 0:
            raise JobError(
                "`skipped_rounds` must not be negative", received=str(self.skipped_rounds)
            )
        if not 0 < self.participation <= 1:
            raise JobError(
                "`participation`, the share of clients in a round, is out of range",
                expected="0 < participation <= 1",
                received=str(self.participation),
            )
        if (self.local_epochs is None) == (self.local_steps is None):
            received = f"local_epochs={self.local_epochs}, local_steps={self.local_steps}"
            raise JobError(
                "give either `local_epochs` or `local_steps`, and not both", received=received
            )
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise JobError(
                "`learning_rate` must be a finite number above 0", received=str(self.learning_rate)
            )
        kinds = {"schedule": Schedule, "executor": ExecutorName, "precision": Precision}
        for chosen, choices in (
            {name: get_args(kind) for name, kind in kinds.items()}
            | {"wire": (*get_args(Wire), None)}
        ).items():
            if getattr(self, chosen) not in choices:
                raise JobError(
                    f"`{chosen}` has an unknown value",
                    expected=", ".join(map(str, choices)),
                    received=repr(getattr(self, chosen)),
                )

    def rate(self, round: int) -> float:
        """The learning rate of round 1, 2, ...; cosine: ``learning_rate (1 + cos(pi (round - 1) /
        rounds)) / 2``.
        """
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * 0.5 * (1.0 + math.cos(math.pi * (round - 1) / self.rounds))

    def sampled(self, population: int) -> int:
        """K, how many of the clients take part in a round: ``participation * population`` rounded
        half up, at least one.
        """
        return max(1, min(population, math.floor(self.participation * population + 0.5)))


def _at_least_one(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise JobError(f"`{name}` must be a whole number of at least 1", received=repr(value))
