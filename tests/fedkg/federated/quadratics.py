"""Agents with quadratic losses, solvable by hand, and PC-FedAvg as a plain loop over them.

Letters: m agents, n numbers of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.federated import Clients, Problem
from fedkg.models import Noise, Params

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """A model with its parameters as output: [C, n], for any row."""

    size: int

    def init(self, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        return {
            "point": torch.randn(
                self.size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
            ).to(dtype)
        }

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        return params["point"].unsqueeze(1).expand(-1, x.shape[-2], -1)


@dataclass(frozen=True)
class Quadratic:
    """``z' Q z / 2 - b' z``; a target row is the flattened Q, then b."""

    def value(self, output: Tensor, target: Tensor) -> Tensor:
        size = output.shape[-1]
        q, b = target[..., : size * size].unflatten(-1, (size, size)), target[..., size * size :]
        return 0.5 * torch.einsum("cbi,cbij,cbj->cb", output, q, output) - (b * output).sum(-1)

    def value_and_slope(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        size = output.shape[-1]
        q, b = target[..., : size * size].unflatten(-1, (size, size)), target[..., size * size :]
        return self.value(output, target), torch.einsum("cbij,cbj->cbi", q, output) - b


def quadratics(q: Vector, b: Vector) -> Problem:
    """One sample for each agent: exact gradients. q: [m, n, n]. b: [m, n]."""
    rows = [
        torch.from_numpy(np.concatenate([one.reshape(-1), other])).unsqueeze(0)
        for one, other in zip(q, b, strict=True)
    ]
    agents = tuple(f"agent_{place}" for place in range(len(q)))
    data = Clients(
        names=agents, x=tuple(torch.zeros(1, 1, dtype=torch.float64) for _ in q), y=tuple(rows)
    )
    return Problem(model=Point(q.shape[1]), loss=Quadratic(), clients=data)


def with_sizes(problem: Problem, sizes: Sequence[int]) -> Problem:
    """The same agents with these numbers of samples.

    All samples of an agent are copies of its first one, so the gradients stay the same.
    """
    data = problem.clients
    x = tuple(one[:1].repeat(size, 1) for one, size in zip(data.x, sizes, strict=True))
    y = tuple(one[:1].repeat(size, 1) for one, size in zip(data.y, sizes, strict=True))
    return replace(problem, clients=replace(data, x=x, y=y))


def random_task(
    seed: int = 0, agents: int = 5, size: int = 6
) -> tuple[Vector, Vector, Vector, Vector]:
    """Q, b, and boxes [low, high] of the agents that have no common point."""
    generator = np.random.default_rng(seed)
    q, b = np.zeros((agents, size, size)), generator.normal(size=(agents, size))
    for place in range(agents):
        turn, _ = np.linalg.qr(generator.normal(size=(size, size)))
        q[place] = turn @ np.diag(generator.uniform(0.2, 1.0, size)) @ turn.T
    centre = np.linspace(-1.0, 1.0, agents)[:, None] * np.where(np.arange(size) % 2 == 0, 1.0, -1.0)
    return q, b, centre - 0.3, centre + 0.3


def objective(q: Vector, b: Vector, strengths: Vector, x: Vector) -> float:
    """f of problem (1) at the agents' points x [m, n]."""
    mean = x.mean(0)
    losses = 0.5 * np.einsum("i,kij,j->k", mean, q, mean) - b @ mean
    return float((losses + strengths / 2 * ((x - mean) ** 2).sum(1)).mean())


def slope(q: Vector, b: Vector, strengths: Vector, x: Vector) -> Vector:
    """The gradient of f, [m, n]."""
    mean, agents = x.mean(0), len(x)
    pull = strengths[:, None] * (x - mean)
    return ((q @ mean - b).mean(0) + pull - pull.mean(0)) / agents


def solution(q: Vector, b: Vector, strengths: Vector, low: Vector, high: Vector) -> Vector:
    """The minimiser of f within boxes, by projected gradient steps with momentum."""
    x = np.clip(np.zeros_like(low), low, high)
    step = 1.0 / (1.0 + strengths.max())
    ahead, last, t = x, x, 1.0
    for _ in range(20_000):
        x = np.clip(ahead - step * slope(q, b, strengths, ahead), low, high)
        following = (1 + np.sqrt(1 + 4 * t * t)) / 2
        ahead, last, t = x + (t - 1) / following * (x - last), x, following
    return last


@dataclass(frozen=True, kw_only=True)
class Agents:
    """The agents' objectives F_i with their sets, block by block as in the specification."""

    q: Vector
    b: Vector
    strengths: Vector
    low: Vector
    high: Vector
    cross: bool = True

    def value(self, i: int, penalty: float, x: Vector) -> float:
        """F_i at all blocks x [m, n]."""
        z = x.mean(0)
        away = x[i] - np.clip(x[i], self.low[i], self.high[i])
        loss = 0.5 * z @ self.q[i] @ z - self.b[i] @ z
        return float(
            loss + self.strengths[i] / 2 * ((x[i] - z) ** 2).sum() + penalty / 2 * (away**2).sum()
        )

    def gradient(self, i: int, penalty: float, x: Vector) -> Vector:
        """The gradient of F_i.

        Without `cross` the other blocks lack their part of the regulariser.
        """
        agents, z = len(x), x.mean(0)
        g, e = self.q[i] @ z - self.b[i], x[i] - z
        result = np.repeat(
            (g / agents - (self.strengths[i] / agents * e if self.cross else 0.0))[None], agents, 0
        )
        away = x[i] - np.clip(x[i], self.low[i], self.high[i])
        result[i] = g / agents + self.strengths[i] * (1 - 1 / agents) * e + penalty * away
        return result

    def loop(
        self, x: Vector, *, penalties: Sequence[float], steps: Sequence[float], local_steps: int = 1
    ) -> tuple[Vector, Vector]:
        """The server's blocks [m, n] after one round per penalty, and the mean of those after each
        round.
        """
        total = np.zeros_like(x)
        for penalty, step in zip(penalties, steps, strict=True):
            sent = []
            for i in range(len(x)):
                mine = x.copy()
                for _ in range(local_steps):
                    mine = mine - step * self.gradient(i, penalty, mine)
                sent.append(mine)
            x = np.mean(sent, 0)
            total += x
        return x, total / len(penalties)

    def distance2(self, x: Vector) -> Vector:
        """dist^2 of each agent's block to its box, [m]."""
        result: Vector = ((x - np.clip(x, self.low, self.high)) ** 2).sum(1)
        return result
