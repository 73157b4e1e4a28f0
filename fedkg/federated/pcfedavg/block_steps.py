"""PC-FedAvg's joints: every agent works on a vector of blocks, one for each agent, and is bound to
a set in its own block alone.

Source: Ebrahimi, Burbano and Yousefian 2026, algorithm 1; the stored text lacks the formulas, the
update rule is the gradient of

    F_i(x) = f_i(mean x) + lambda_i / 2 |x_i - mean x|^2 + rho / 2 dist^2(x_i, X_i)

Two forms: with all blocks, as the paper writes it, and with two vectors. The steps of the blocks of
others are all the same, so that an
agent needs no more than its own block and the mean of all, and has no more to say than how both
changed.

Letters: m agents, C of them in a stack; the server holds one block for each agent, [m, ...].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.federated.client.optimisers import LocalSteps
from fedkg.federated.client_axis_broadcasting import per_client
from fedkg.federated.pcfedavg.agent_sets import AgentSets
from fedkg.federated.round_steps import Offer, Setting, StartRule
from fedkg.federated.state import ServerState
from fedkg.models.model_protocols import Gradient, OuterProduct, Params

if TYPE_CHECKING:
    from fedkg.federated.executors.protocol import Work

OWN, MEAN = "own/", "mean/"
"""Before the names of parameters in the form with two vectors: an agent's own block, and its
estimate of the mean of all blocks.
"""


@dataclass(frozen=True, slots=True)
class AllBlocks(StartRule):
    """Every agent begins with the server's blocks of all agents, each [C, m, ...]."""

    @override
    def model_count(self, population: int) -> int:
        """See `StartRule.model_count`: a block for each agent."""
        return population

    @override
    def offer(self, state: ServerState, clients: Tensor) -> Offer:
        """See `StartRule.offer`."""
        models = {
            name: value.expand(len(clients), *value.shape) for name, value in state.models.items()
        }
        return Offer(models=models, groups=clients, names=tuple(state.models))

    @override
    def offer_models(self, work: Work, state: ServerState, clients: Tensor) -> Offer:
        """See `StartRule.offer_models`: the server's block of each agent."""
        models = {name: value[clients] for name, value in state.models.items()}
        return Offer(models=models, groups=clients, names=tuple(state.models))


@dataclass(frozen=True, slots=True)
class OwnAndMean(AllBlocks):
    """Every agent begins with its own block and the mean of all, each [C, ...]."""

    @override
    def offer(self, state: ServerState, clients: Tensor) -> Offer:
        """See `StartRule.offer`."""
        own = {OWN + name: value[clients] for name, value in state.models.items()}
        mean = {
            MEAN + name: value.mean(0).expand(len(clients), *value.shape[1:])
            for name, value in state.models.items()
        }
        return Offer(models=own | mean, groups=clients, names=tuple(state.models))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps(LocalSteps):
    """The common part of both forms: the numbers of an agent, and the two parts of its step.

    Args:
        sets: the sets of the agents; None if no agent has one.
        strengths: lambda_i, one number for all agents or one for each.
    """

    sets: AgentSets | None
    strengths: tuple[float, ...]

    def begin(self, setting: Setting, variables: Params) -> Params:
        """See `LocalUpdate.begin`: who the agents are and how many, lambda_i, rho_r and the step of
        the round, each [C].
        """
        like, count = next(iter(variables.values())), len(setting.clients)
        every = torch.tensor(self.strengths, dtype=like.dtype, device=like.device)
        held = next(iter(setting.state.models.values())).shape[0]
        numbers = setting.state.joints["before"]
        return {
            "agent": setting.clients,
            "agents": like.new_full((count,), held),
            "strength": every[setting.clients] if len(every) > 1 else every.expand(count),
            "penalty": numbers["penalty"].to(like).expand(count),
            "step": numbers["step"].to(like).expand(count),
        }

    def _both(
        self, own: Params, average: Params, gradient: Mapping[str, Gradient], carry: Params
    ) -> tuple[Params, Params]:
        """The descent of every block, ``g / m - lambda_i / m e``, and what comes to it in the own
        one, ``lambda_i e + rho (x - P(x))``.

        Here ``e = x_i - mean x``, and both are of the point before the step.
        """
        away = {} if self.sets is None else self.sets.residual(own, carry["agent"])
        common, extra = {}, {}
        for name, slope in gradient.items():
            dense = slope.dense() if isinstance(slope, OuterProduct) else slope
            strength, penalty = (
                per_client(carry["strength"], dense),
                per_client(carry["penalty"], dense),
            )
            pull = strength * (own[name] - average[name])
            common[name] = (dense - pull) / per_client(carry["agents"], dense)
            extra[name] = pull + penalty * away[name] if name in away else pull
        return common, extra


@dataclass(frozen=True, slots=True, kw_only=True)
class AllBlockSteps(_Steps):
    """Steps on all blocks, [C, m, ...]; all of them are sent."""

    @override
    def point(self, variables: Params) -> Params:
        """See `LocalUpdate.point`: the agent's own estimate of the population's average."""
        return {name: value.mean(1) for name, value in variables.items()}

    def advance(
        self,
        variables: Params,
        gradient: Mapping[str, Gradient],
        carry: Params,
        rate: float | Tensor,
    ) -> None:
        """See `LocalUpdate.advance`."""
        agent = carry["agent"]
        here = torch.arange(len(agent), device=agent.device)
        own = {name: value[here, agent] for name, value in variables.items()}
        common, extra = self._both(own, self.point(variables), gradient, carry)
        for name, value in variables.items():
            step = per_client(carry["step"], own[name])
            value.sub_((step * common[name]).unsqueeze(1))
            value[here, agent] -= step * extra[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoVectorSteps(_Steps):
    """The same steps on an agent's own block and its mean of all; two vectors are sent."""

    @override
    def point(self, variables: Params) -> Params:
        """See `LocalUpdate.point`."""
        return {
            name.removeprefix(MEAN): value
            for name, value in variables.items()
            if name.startswith(MEAN)
        }

    def advance(
        self,
        variables: Params,
        gradient: Mapping[str, Gradient],
        carry: Params,
        rate: float | Tensor,
    ) -> None:
        """See `LocalUpdate.advance`."""
        own = {name: variables[OWN + name] for name in gradient}
        common, extra = self._both(own, self.point(variables), gradient, carry)
        for name, value in own.items():
            step = per_client(carry["step"], value)
            variables[MEAN + name].sub_(
                step * (common[name] + extra[name] / per_client(carry["agents"], value))
            )
            value.sub_(step * (common[name] + extra[name]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockSums:
    """Sums so far: the changes of all blocks [m, ...], the change common to all [...], and the
    weights.
    """

    blocks: Params
    common: Params
    weight: Tensor


@dataclass(frozen=True, slots=True)
class BlockMean:
    """``x_j <- sum_i w_i x_ij / sum_i w_i`` for every block j: all agents update all blocks."""

    @property
    def needs_server_update(self) -> bool:
        """See `AggregationRule.needs_server_update`."""
        return False

    def begin(self, models: Params, server_update: Params | None = None) -> BlockSums:
        """See `AggregationRule.begin`."""
        first = next(iter(models.values()))
        return BlockSums(
            blocks={name: torch.zeros_like(value) for name, value in models.items()},
            common={name: torch.zeros_like(value[0]) for name, value in models.items()},
            weight=torch.zeros((), dtype=torch.float64, device=first.device),
        )

    def add(self, fold: BlockSums, update: Params, weights: Tensor, groups: Tensor) -> BlockSums:
        """See `AggregationRule.add`."""
        blocks = {
            name: total + torch.tensordot(weights.to(total), update[name], 1)
            for name, total in fold.blocks.items()
        }
        return BlockSums(blocks=blocks, common=fold.common, weight=fold.weight + weights.sum())

    def finish(self, fold: BlockSums) -> Params:
        """See `AggregationRule.finish`."""
        inverse = torch.where(fold.weight > 0, 1.0 / fold.weight, 0.0)
        return {
            name: (total + fold.common[name]) * inverse.to(total)
            for name, total in fold.blocks.items()
        }

    def counted(self, fold: BlockSums) -> None:
        """See `AggregationRule.counted`."""
        return


@dataclass(frozen=True, slots=True)
class TwoVectorMean(BlockMean):
    """The same mean from two vectors of each agent."""

    @override
    def add(self, fold: BlockSums, update: Params, weights: Tensor, groups: Tensor) -> BlockSums:
        """See `AggregationRule.add`."""
        blocks, common = {}, {}
        for name, total in fold.blocks.items():
            agents, own = total.shape[0], update[OWN + name]
            others = (agents * update[MEAN + name] - own) / max(
                1, agents - 1
            )  # how each block of another has changed
            blocks[name] = total.index_add(0, groups, per_client(weights, others) * (own - others))
            common[name] = fold.common[name] + torch.tensordot(weights.to(total), others, 1)
        return BlockSums(blocks=blocks, common=common, weight=fold.weight + weights.sum())
