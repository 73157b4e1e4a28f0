"""What PC-FedAvg sets anew in each round: how much infeasibility counts, and how long a step may
then be.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.errors import JobError
from fedkg.federated.client.batches import steps_of
from fedkg.federated.pcfedavg.convergence_bounds import doubts, smoothness, step_size
from fedkg.federated.pcfedavg.penalty import PenaltySchedule
from fedkg.federated.server.weighting import BySamples
from fedkg.federated.settings import Settings
from fedkg.federated.state import ServerState
from fedkg.models.model_protocols import Params

if TYPE_CHECKING:
    from fedkg.federated.executors.protocol import Work
    from fedkg.federated.server.scoring import ProbeScores, ScoredRows, Weighed


class StepWarning(UserWarning):
    """A step size with which what the theory promises does not hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundNumbers:
    """Sets rho_r and the step of the round, as ``penalty`` and ``step`` in
    ``ServerState.joints["before"]``.

    Args:
        schedule: rho_r, the weight of the penalty in each round r.
        strengths: lambda_i, one number for all agents or one for each.
        smooth: L_f, the smoothness of the losses; None if it is not known. Without `by_rule` it
            serves a warning if the learning rate is too long a step.
        by_rule: whether to use the longest step for which the theorem holds, which changes with
            rho_r, instead of the learning rate; needs `smooth`.
    """

    schedule: PenaltySchedule
    strengths: tuple[float, ...]
    smooth: float | None = None
    by_rule: bool = False

    def begin(self) -> Params:
        """See `BeforeRound.begin`."""
        return _numbers(0.0, 0.0)

    def apply(self, work: Work, state: ServerState, clients: Tensor) -> ServerState:
        """See `BeforeRound.apply`.

        Raises:
            JobError: lambda is given for another number of agents.
        """
        agents, settings = len(work.problem.clients.names), work.settings
        if len(self.strengths) not in (1, agents):
            raise JobError(
                "the strength of the local regularisation must be one number for all agents, or "
                "one for each",
                expected=f"1 or {agents} numbers",
                received=f"{len(self.strengths)} numbers",
            )
        number = state.round + 1
        penalty, step = self.schedule.at(number, settings.rounds), settings.rate(number)
        if self.smooth is not None:
            local_steps = int(steps_of(work.pool.sizes[clients], settings).max())
            if self.by_rule:
                step = step_size(
                    smoothness(self.smooth, penalty, self.strengths, agents), local_steps
                )
            elif number == 1:
                self._warn(settings, self.smooth, agents, local_steps)
        return replace(state, joints={**state.joints, "before": _numbers(penalty, step)})

    def _warn(self, settings: Settings, smooth: float, agents: int, local_steps: int) -> None:
        """Issue a StepWarning for the first round with too long a step, if there is one."""
        for number in range(1, settings.rounds + 1):
            total = smoothness(
                smooth, self.schedule.at(number, settings.rounds), self.strengths, agents
            )
            for doubt in doubts(settings.rate(number), total, local_steps):
                warnings.warn(
                    doubt if number == 1 else f"from round {number} on: {doubt}",
                    StepWarning,
                    stacklevel=3,
                )
                return


def _numbers(penalty: float, step: float) -> Params:
    """The memory of `RoundNumbers`."""
    return {
        "penalty": torch.tensor(penalty, dtype=torch.float64),
        "step": torch.tensor(step, dtype=torch.float64),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Equally(BySamples):
    """Every agent counts the same, whatever its number of samples: the objective is the mean of the
    agents' objectives.
    """

    @override
    def weigh(
        self, samples: Tensor, scores: ProbeScores | None, rows: ScoredRows | None
    ) -> Weighed:
        """See `WeightingRule.weigh`."""
        return BySamples.weigh(self, torch.ones_like(samples), scores, rows)
