"""How a federation is run, whatever it learns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from fedkg.errors import JobError

Schedule = Literal["constant", "cosine"]
ExecutorName = Literal["auto", "stacked", "sequential"]

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a federated training; immutable and checked.

    Args:
        rounds: T, communication rounds.
        participation: share of the clients that is sampled in each round, above 0 up to 1; at least one client is.
        local_epochs: full passes over a client's samples in each round; or
        local_steps: minibatch steps in each round, the same number for all clients, each on samples drawn afresh. Give one of the two.
        batch: samples in a minibatch; the last one of an epoch may be smaller.
        learning_rate: of the clients.
        schedule: of the learning rate over the rounds: ``constant``, or ``cosine`` from the full rate down towards 0.
        seed: of every random choice.
        executor: ``sequential`` (one client after the other, the reference), ``stacked`` (all sampled clients one tensor program), or
            ``auto`` (measures both on the first steps and picks).
        threads: intra-operation threads while training. Threads of one operation wait for each other spinning: with one core busy
            elsewhere, two were measured up to 20 times slower than one. So one is the default; small models gain little from more.
        chunk: most clients in one stack; None leaves it to `memory` (and to the measurement of ``auto``).
        memory: bytes that a stack of clients may take.
        min_clients: fewest clients whose updates must be usable in a round, else `TooFewClients`.
        measure: judge the updates by the rules even where the algorithm takes no notice of them, so that its violation rate is known.

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
    executor: ExecutorName = "auto"
    threads: int = 1
    chunk: int | None = None
    memory: int = 512 * MIB
    min_clients: int = 1
    measure: bool = True

    def __post_init__(self) -> None:
        for field in ("rounds", "batch", "threads", "memory", "min_clients"):
            self._at_least_one(field)
        for field in ("local_epochs", "local_steps", "chunk"):
            if getattr(self, field) is not None:
                self._at_least_one(field)
        if not 0 < self.participation <= 1:
            raise JobError("participation is a share of the clients", expected="0 < participation <= 1", received=str(self.participation))
        if (self.local_epochs is None) == (self.local_steps is None):
            received = f"local_epochs={self.local_epochs}, local_steps={self.local_steps}"
            raise JobError("give either local_epochs or local_steps", received=received)
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise JobError("learning_rate must be positive", received=str(self.learning_rate))
        for field, choices in (("schedule", get_args(Schedule)), ("executor", get_args(ExecutorName))):
            if getattr(self, field) not in choices:
                raise JobError(f"unknown {field}", expected=", ".join(choices), received=repr(getattr(self, field)))

    def _at_least_one(self, field: str) -> None:
        value = getattr(self, field)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise JobError(f"{field} must be a whole number of at least 1", received=repr(value))

    def rate(self, round: int) -> float:
        """The learning rate of round 1, 2, ...; cosine: ``learning_rate (1 + cos(pi (round - 1) / rounds)) / 2``."""
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * 0.5 * (1.0 + math.cos(math.pi * (round - 1) / self.rounds))

    def sampled(self, population: int) -> int:
        """K, how many of the clients take part in a round: ``participation * population`` rounded half up, at least one."""
        return max(1, min(population, math.floor(self.participation * population + 0.5)))
