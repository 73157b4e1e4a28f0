"""Who takes part in a round."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedkg.federated.randomness import cohort


@dataclass(frozen=True, slots=True)
class UniformSampling:
    """Uniformly and without replacement, a new draw each round."""

    def sample(self, *, seed: int, round: int, population: int, size: int) -> Tensor:
        """See `Sampling.sample`."""
        return cohort(seed, round, population, size)
