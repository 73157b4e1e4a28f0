"""The distance to each agent's set as a term of its objective: FedAvg, FedProx and SCAFFOLD in
penalised form.

Letters: C clients of a stack.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.pcfedavg.agent_sets import AgentSets
from fedkg.federated.round_steps import OfClients, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class PenaltySchedule:
    """The weight rho_r of the penalty in round r = 1, 2, ...

    Args:
        first: rho of the first round, at least 0; None: the square root of the number of rounds,
            in all rounds (theorem 3.4).
        growing: ``first * sqrt(r)`` in round r, instead of ``first`` in all rounds.
    """

    first: float | None = None
    growing: bool = False

    def __post_init__(self) -> None:
        if self.first is not None and not (math.isfinite(self.first) and self.first >= 0):
            raise JobError(
                "`first`, the penalty of the first round, must be a number of at least 0",
                received=str(self.first),
            )
        if self.growing and self.first is None:
            raise JobError(
                "a growing penalty needs `first`, its value in the first round",
                expected="first=...",
            )

    def at(self, round: int, rounds: int) -> float:
        """Return rho of a round, given the number of rounds."""
        if self.first is None:
            return math.sqrt(rounds)
        return self.first * math.sqrt(round) if self.growing else self.first


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SetPenalty(OfClients):
    """``rho_r / 2 dist^2(x, X_i)``: a penalty on the distance of the shared model to client i's set
    (section 5, the penalised baselines).

    Args:
        sets: the sets of the clients.
        schedule: the weights rho_r; its `first` is required.
    """

    sets: AgentSets
    schedule: PenaltySchedule

    def __post_init__(self) -> None:
        if self.schedule.first is None:
            raise JobError(
                "a penalty in the loss needs `first`, its weight in the first round",
                expected="PenaltySchedule(first=...)",
            )

    @property
    def reads(self) -> Literal["parameters"]:
        """See `KnownTerm.reads`."""
        return "parameters"

    def value(self, step: Step) -> Tensor:
        """See `Term.value`."""
        return (
            0.5
            * self.schedule.at(step.round, step.round)
            * self.sets.distance2(step.params, step.clients)
        )

    def slope(self, step: Step) -> dict[str, Tensor]:
        """See `SlopedTerm.slope`: ``rho_r (x - P(x))``."""
        strength = self.schedule.at(step.round, step.round)
        return {
            name: strength * value
            for name, value in self.sets.residual(dict(step.params), step.clients).items()
        }
