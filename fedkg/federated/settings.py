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
            raise JobError("learning_rate must be positive", received=str(self.learning_rate))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a federated training; immutable and checked.

    Args:
        rounds: T, communication rounds.
        participation: share of the clients that is sampled in each round, above 0 up to 1; at least
            one client is.
        local_epochs: full passes over a client's samples in each round; or
        local_steps: minibatch steps in each round, the same number for all clients, each on samples
            drawn afresh. Give one of the two.
        batch: samples in a minibatch; the last one of an epoch may be smaller.
        learning_rate: of the clients.
        schedule: of the learning rate over the rounds: ``constant``, or ``cosine`` from the full
            rate down towards 0.
        seed: of every random choice.
        own: what single clients do otherwise, by name; the schedule is that of all.
        executor: ``sequential`` (one client after the other, the reference), ``stacked`` (all
            sampled clients one tensor program),
            ``processes`` (stacks side by side in worker processes of one thread each), or ``auto``
            (measures on the first steps and picks).
        workers: processes that train side by side; None: as many as there are processors.
        threads: of the tensor library within an operation, while training. They wait for each other
            spinning: with one core busy
            elsewhere, two were measured up to 20 times slower than one. So one is the default;
            small models gain little from more.
            Compiled loops have sleeping threads and take as many as torch has when the training
            begins.
        chunk: most clients in one stack; None leaves it to `memory` (and to the measurement of
            ``auto``).
        memory: bytes that a stack of clients may take, or the stacks of all workers together.
        client_memory: bytes that what is remembered of clients (private layers, control variates)
            may take; the largest of it is kept in
            files beyond that.
        min_clients: minimum number of clients with usable updates in a round, else `TooFewClients`.
        precision: ``bfloat16`` computes the model's answers and their derivatives in mixed
            precision (`torch.autocast`), by automatic
            differentiation; parameters, losses and sums stay as they are. For accelerators: a
            processor is mostly slower with it.
        wire: in what updates travel to the server, see `fedkg.federated.client.wire_precision`;
            None: as they are.
        measure: judge the updates by the rules even where the algorithm takes no notice of them, so
            that its violation rate is known.

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
    precision: Precision = "float32"
    wire: Wire | None = None
    measure: bool = True

    def __post_init__(self) -> None:
        for name in ("rounds", "batch", "threads", "memory", "client_memory", "min_clients"):
            _at_least_one(name, getattr(self, name))
        for name in ("local_epochs", "local_steps", "chunk", "workers"):
            if getattr(self, name) is not None:
                _at_least_one(name, getattr(self, name))
        if not 0 < self.participation <= 1:
            raise JobError(
                "participation must be a share of the clients",
                expected="0 < participation <= 1",
                received=str(self.participation),
            )
        if (self.local_epochs is None) == (self.local_steps is None):
            received = f"local_epochs={self.local_epochs}, local_steps={self.local_steps}"
            raise JobError("give either local_epochs or local_steps", received=received)
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise JobError("learning_rate must be positive", received=str(self.learning_rate))
        kinds = {"schedule": Schedule, "executor": ExecutorName, "precision": Precision}
        for chosen, choices in (
            {name: get_args(kind) for name, kind in kinds.items()}
            | {"wire": (*get_args(Wire), None)}
        ).items():
            if getattr(self, chosen) not in choices:
                raise JobError(
                    f"unknown {chosen}",
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
        raise JobError(f"{name} must be a whole number of at least 1", received=repr(value))
