"""Who takes part in a round."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.randomness import COHORT, cohort
from fedkg.models.random_streams import fold, root, uniform
from fedkg.privacy import Randomness, system_noise


@dataclass(frozen=True, slots=True)
class UniformSampling:
    """Uniformly and without replacement, a new draw each round."""

    def sample(self, *, seed: int, round: int, population: int, size: int) -> Tensor:
        """See `SamplingRule.sample`."""
        return cohort(seed, round, population, size)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSampling:
    """As `UniformSampling`, with more clients than take part: those that it would draw, and spares.

    Args:
        factor: clients that are asked for each one that takes part, at least 1.
    """

    factor: float

    def sample(self, *, seed: int, round: int, population: int, size: int) -> Tensor:
        """See `SamplingRule.sample`; more than `size` positions."""
        asked = min(population, math.ceil(self.factor * size - 1e-9))
        return cohort(seed, round, population, asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonSampling:
    """Each client by chance, independently of all others, as accountants of privacy assume: rounds
    differ in size, and may be empty.

    Args:
        rate: the chance, above 0 up to 1.
        randomness: where it comes from; with ``system`` every call draws other clients.
    """

    rate: float
    randomness: Randomness = "seeded"

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise JobError(
                "`rate`, the probability that a client takes part, must be above 0 and at most 1",
                received=str(self.rate),
            )

    def sample(self, *, seed: int, round: int, population: int, size: int) -> Tensor:
        """See `SamplingRule.sample`; `size` is what is expected, and not kept to."""
        if self.randomness == "system":
            draws = torch.from_numpy(system_noise.uniform(population))
            return torch.nonzero(draws <= self.rate).flatten()
        draws = uniform(fold(root(seed, COHORT, round), population), (population,))
        return torch.nonzero(draws < self.rate).flatten()
