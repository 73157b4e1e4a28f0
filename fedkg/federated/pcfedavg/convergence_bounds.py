"""PC-FedAvg's theory as numbers: step sizes, what is measured, and what the theorems promise of it.

The constants are our derivation, checked against simulations: the formulas with the paper's
constants are not legible in our copy.

Letters: m agents, n parameters of each, R rounds, H local steps, L_f smoothness of the losses,
lambda_i local regularisation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.federated.pcfedavg.agent_sets import AgentSets
from fedkg.models.model_protocols import Params

ZERO = 1e-4
"""Numbers of a model that are smaller count as 0."""


def smoothness(loss: float, penalty: float, strengths: Sequence[float], agents: int) -> float:
    """L_rho of the penalised objectives F_i: ``L_f / m + rho + lambda_max (1 - 1 / m)`` (after
    lemma 4.1, with its tighter norms).
    """
    return loss / agents + penalty + max(strengths, default=0.0) * (1 - 1 / agents)


def step_size(smoothness: float, local_steps: int) -> float:
    """The step up to which the theorem holds: ``min(1 / (4 L_rho), 1 / (8 L_rho (H - 1)))``, the
    second for H > 1 alone.
    """
    first = 1 / (4 * smoothness)
    return first if local_steps < 2 else min(first, 1 / (8 * smoothness * (local_steps - 1)))


def doubts(step: float, smoothness: float, local_steps: int) -> tuple[str, ...]:
    """Why a step size is too large: it diverges, or the agents drift apart within a round; nothing
    where it is not.
    """
    if step > 2 / smoothness:
        return (
            (
                f"the step size {step:.3g} is above 2 / L = {2 / smoothness:.3g}, so the training"
                " diverges: use a smaller learning rate"
            ),
        )
    if local_steps > 1 and step > step_size(smoothness, local_steps) * (1 + 1e-9):
        most = step_size(smoothness, local_steps)
        return (
            (
                f"the agents drift apart within {local_steps} local steps of size {step:.3g}, so"
                f" the result is biased: a learning rate of at most {most:.3g} is safe"
            ),
        )
    return ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """Measurements of the agents' models x_1 .. x_m.

    Attributes:
        distance2: float64 [m], ``dist^2(x_i, X_i)``.
        total: their sum, a^2.
        spread: ``mean |x_i - mean x|^2``.
        sparsity: the share of numbers below 1e-4 in size.
        regularised: ``mean lambda_i / 2 |x_i - mean x|^2``, what the objective adds to the mean
            loss at the average.
    """

    distance2: Tensor
    spread: float
    sparsity: float
    regularised: float

    @property
    def total(self) -> float:
        """a^2."""
        return float(self.distance2.sum())


def measured(models: Params, sets: AgentSets, strengths: Sequence[float]) -> Measured:
    """Measure how far the models of m agents are from their sets and from each other.

    Args:
        models: parameters of the agents' models, each [m, ...].
        sets: the feasible set of each agent.
        strengths: lambda_i of each agent, the weight of its local regularisation.
    """
    flat = torch.cat([value.flatten(1) for value in models.values()], 1).to(torch.float64)
    apart = (flat - flat.mean(0)).square().sum(1)
    return Measured(
        distance2=sets.distance2(models, torch.arange(flat.shape[0], device=flat.device)).to(
            torch.float64
        ),
        spread=float(apart.mean()),
        sparsity=float((flat.abs() < ZERO).to(torch.float64).mean()),
        regularised=float(
            (apart * torch.tensor(strengths, dtype=torch.float64, device=flat.device)).mean()
        )
        / 2,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What holds of the average of the iterates, given how far the penalised objective is from its
    value at the solution.

    Attributes:
        upper: ``f - f* <= upper``.
        infeasibility: ``sqrt(sum_i dist^2) <= infeasibility``.
        lower: ``f - f* >= lower``.
    """

    upper: float
    infeasibility: float
    lower: float


def gap(start_distance2: float, step: float, iterations: int) -> float:
    """D of the mean of iterates 1 to K, for one local step in each round and exact gradients.

    It is ``|x^0 - x*|^2 / (2 step K)`` for a step of at most 1 / L.
    """
    return start_distance2 / (2 * step * iterations)


def certificate(gap: float, slope: float, penalty: float, agents: int) -> Certificate:
    """The certificate from D and G.

    With ``f - f* >= -G a`` and ``rho / (2 m) a^2 - G a <= D``: ``a <= (m / rho) (G + sqrt(G^2 + 2
    rho D / m))`` (after proposition 4.8).

    Args:
        gap: D, an upper bound of ``F_rho(x) - F_rho(x*)``.
        slope: G, the length of the gradient of f at the solution.
        penalty: rho, above 0.
        agents: m.
    """
    away = agents / penalty * (slope + math.sqrt(slope * slope + 2 * penalty * gap / agents))
    return Certificate(upper=gap, infeasibility=away, lower=-slope * away)


def limit_infeasibility(slope: float, penalty: float, agents: int) -> float:
    """Where a ends for a large penalty: ``m G / rho``, as the penalised minimiser misses each set
    by ``m |grad_i f(x*)| / rho``.
    """
    return agents * slope / penalty
