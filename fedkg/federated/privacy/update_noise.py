"""What happens to updates before anybody sees them, and to their sum.

Letters: C clients of a stack, G models the server holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedkg.federated.client_axis_broadcasting import per_client
from fedkg.models.model_protocols import Params
from fedkg.models.random_streams import normal
from fedkg.privacy import Randomness, system_noise


def add_system_noise(sums: Params, noise: float, sensitivity: Tensor) -> Params:
    """Sums [C, ...] with noise from the operating system's generator, see
    `fedkg.privacy.system_noise`.

    Args:
        noise: the standard deviation of the noise, as a multiple of the sensitivity.
        sensitivity: [C], how far one unit can move all numbers of a row together; 0 adds no noise.
    """
    sizes = [value[0].numel() for value in sums.values()]
    flat = torch.cat([value.flatten(1).double().cpu() for value in sums.values()], 1).numpy()
    steps = [system_noise.grid_of(noise, one, sum(sizes)) for one in sensitivity.tolist()]
    noised = torch.from_numpy(system_noise.add_noise(flat, np.asarray(steps)))
    parts = torch.split(noised, sizes, 1)
    return {
        name: part.reshape(value.shape).to(value)
        for part, (name, value) in zip(parts, sums.items(), strict=True)
    }


@dataclass(frozen=True, slots=True)
class NoPrivacy:
    """Updates are sent as they are."""

    @property
    def noisy(self) -> bool:
        """See `PrivacyRule.noisy`."""
        return False

    def client(self, update: Params, keys: Tensor) -> Params:
        """See `PrivacyRule.client`."""
        return update

    def server(self, update: Params, key: Tensor) -> Params:
        """See `PrivacyRule.server`."""
        return update


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedClients:
    """Client-level privacy at a trusted server (McMahan and others 2018): clients' updates are
    clipped, and their sum gets noise.

    Use it with `FixedMean`, which divides by a number that is fixed in advance: one client more or
    less changes the mean by at most ``clip / expected``, and the noise on each coordinate is
    ``noise`` times that.

    Args:
        clip: the largest norm of an update after clipping, over all its parameters together.
        noise: the standard deviation of the noise, as a multiple of `clip`.
        expected: m, the number by which sums are divided.
        randomness: where the noise comes from.
    """

    clip: float
    noise: float
    expected: float
    randomness: Randomness = "seeded"

    @property
    def noisy(self) -> bool:
        """See `PrivacyRule.noisy`."""
        return True

    def client(self, update: Params, keys: Tensor) -> Params:
        """See `PrivacyRule.client`."""
        squares = torch.stack(
            [value.double().flatten(1).square().sum(1) for value in update.values()]
        )
        norm = squares.sum(0).sqrt()
        factor = torch.where(norm > self.clip, self.clip / norm, 1.0)
        return {name: value * per_client(factor, value) for name, value in update.items()}

    def server(self, update: Params, key: Tensor) -> Params:
        """See `PrivacyRule.server`."""
        if self.randomness == "system":
            models = len(next(iter(update.values())))
            sensitivity = torch.full((models,), self.clip / self.expected, dtype=torch.float64)
            return add_system_noise(update, self.noise, sensitivity)
        noised = {}
        for place, (name, value) in enumerate(update.items()):
            scale = value.new_full((1,), self.noise * self.clip / self.expected)
            noised[name] = value + normal(key.view(1), place, value.numel(), scale).view(
                value.shape
            )
        return noised
