"""PC-FedAvg's certificates beside what a run came to.

The theorems refer to the solution, which a run does not know. The nearest feasible point of the
agents' last models replaces it, so
that the numbers are estimates, exact once the run has converged.

Letters: m agents, P parameters of each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.federated.client.per_client_settings import batch_for, steps_for
from fedkg.federated.executors.protocol import Work
from fedkg.federated.pcfedavg.block_steps import AllBlockSteps, TwoVectorSteps
from fedkg.federated.pcfedavg.convergence_bounds import (
    certificate,
    gap,
    limit_infeasibility,
    measured,
)
from fedkg.federated.pcfedavg.round_step_sizes import RoundNumbers
from fedkg.federated.pcfedavg.running_average import AddAndAverage, averaged
from fedkg.federated.state import ServerState
from fedkg.federated.theory.scfa_constants import client_gradients
from fedkg.models.model_protocols import Params


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """What a run measures of the average of the iterates, and what the theorems promise of it.

    The certificate (`upper`, `bound` and `lower`) is NaN if the theorem's D is not known. That is
    so for more than one local step in a round, minibatches that do not contain all samples, and a
    growing penalty.

    Attributes:
        infeasibility: a, measured: ``sqrt(sum_i dist^2(x_i, X_i))``.
        slope: G, the length of the objective's gradient at the nearest feasible point.
        penalty: rho of the last round.
        limit: the limit of a for a large penalty, ``m G / rho``.
        upper: the upper bound of the objective minus its optimum.
        bound: the upper bound of a.
        lower: the lower bound of the objective minus its optimum.
    """

    infeasibility: float
    slope: float
    penalty: float
    limit: float
    upper: float
    bound: float
    lower: float


def promised(work: Work, begun: ServerState, state: ServerState) -> Promised | None:
    """What the theory promises of a finished PC-FedAvg run; None for another algorithm or server
    step, or for agents without sets.

    Args:
        work: the training.
        begun: the state before the first round.
        state: the state after the last round.
    """
    local = work.algorithm.local
    if not isinstance(local, AllBlockSteps | TwoVectorSteps) or local.sets is None:
        return None
    if not isinstance(work.algorithm.server, AddAndAverage):
        return None
    agents = len(work.problem.clients.names)
    strengths = local.strengths if len(local.strengths) == agents else local.strengths * agents
    everybody = torch.arange(agents)
    feasible = local.sets.projected(state.models, everybody)
    mean = averaged(state.joints["server"])
    numbers = state.joints["before"]
    penalty, step = float(numbers["penalty"]), float(numbers["step"])
    away = math.sqrt(measured(mean, local.sets, strengths).total)
    slope = float(_slope(work, feasible, strengths).norm())
    found = None
    if _has_known_bound(work, everybody):
        start = float((_flat(begun.models) - _flat(feasible)).square().sum())
        found = certificate(gap(start, step, state.round), slope, penalty, agents)
    return Promised(
        infeasibility=away,
        slope=slope,
        penalty=penalty,
        limit=limit_infeasibility(slope, penalty, agents),
        upper=math.nan if found is None else found.upper,
        bound=math.nan if found is None else found.infeasibility,
        lower=math.nan if found is None else found.lower,
    )


def _has_known_bound(work: Work, everybody: Tensor) -> bool:
    """Whether the theorem's D is known: one step a round, along the exact gradient of one and the
    same objective.
    """
    before, sizes = work.algorithm.before, work.pool.sizes
    alike = not (isinstance(before, RoundNumbers) and before.schedule.growing)
    return (
        alike
        and int(steps_for(work, everybody).max()) == 1
        and bool((sizes <= batch_for(work, everybody)).all())
    )


def _slope(work: Work, blocks: Params, strengths: tuple[float, ...]) -> Tensor:
    """The gradient of the objective at blocks [m, ...], float64 [m, P].

    Of ``f(x) = mean_i f_i(mean x) + lambda_i / 2 |x_i - mean x|^2`` (the specification's equation
    1): block j has
    ``(mean_i grad f_i(mean x) + lambda_j (x_j - mean x) - mean_i lambda_i (x_i - mean x)) / m``.
    """
    centre = {name: value.mean(0) for name, value in blocks.items()}
    own = torch.stack([gradient for _, gradient in client_gradients(work.problem, centre)]).mean(0)
    flat = _flat(blocks)
    pulled = torch.tensor(strengths, dtype=torch.float64).unsqueeze(1) * (flat - flat.mean(0))
    return (own + pulled - pulled.mean(0)) / len(flat)


def _flat(blocks: Params) -> Tensor:
    """Blocks end to end, float64 [m, P], in the order of `client_gradients`."""
    return torch.cat([value.flatten(1) for _, value in sorted(blocks.items())], 1).to(torch.float64)
