"""Differential privacy in both directions, with bounds that are enforced.

Source: Mohanty et al. 2025, section 7; the Gaussian mechanism (Dwork and Roth 2014, theorem A.1). A guarantee is that of one time step; k
releases cost at most k epsilon and k delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import UsageError

F64 = NDArray[np.float64]


def multiplier(delta: float) -> float:
    """sqrt(2 ln(1.25 / delta)): 4.844805 for 1e-5."""
    if not 0 < delta < 1:
        raise UsageError("delta is a probability", expected="0 < delta < 1", received=str(delta))
    return math.sqrt(2 * math.log(1.25 / delta))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """What the messages of the learning are covered by.

    Attributes:
        measurement: B_y, to which measurements are clipped. gain: B_K, which the filter's gain must not exceed.
        augmentation: B_theta, to which theta is projected. gradient: C_g, to which the server's messages are clipped.
        filtered, augmented, returned: epsilon of each of the three messages of a step, below 1, where the formula holds.
        delta: of each of them.
    """

    measurement: float
    gain: float
    augmentation: float
    gradient: float
    filtered: float
    augmented: float
    returned: float
    delta: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("filtered", "augmented", "returned"):
            if not 0 < getattr(self, name) < 1:
                raise UsageError(
                    f"the formula of the Gaussian mechanism holds for 0 < epsilon < 1: `{name}`", received=str(getattr(self, name))
                )
        if min(self.measurement, self.gain, self.augmentation, self.gradient) <= 0:
            raise UsageError("the bounds of measurements, gain, augmentation and gradients are above 0", received=str(self))

    @property
    def sigma_filtered(self) -> float:
        """The deviation of the noise on h_c."""
        return 2 * self.measurement * self.gain * multiplier(self.delta) / self.filtered

    @property
    def sigma_augmented(self) -> float:
        """The deviation of the noise on h_a."""
        return 2 * self.measurement * (self.gain + self.augmentation) * multiplier(self.delta) / self.augmented

    @property
    def sigma_returned(self) -> float:
        """The deviation of the noise on the server's gradients."""
        return 2 * self.gradient * multiplier(self.delta) / self.returned

    def spent(self, steps: int) -> tuple[float, float]:
        """Epsilon and delta of so many steps for a client's measurements, by basic composition."""
        return steps * (self.filtered + self.augmented), steps * 2 * self.delta


def clip(values: F64, bound: float) -> F64:
    """A vector or matrix as a whole with a (Frobenius) norm of at most `bound`: G min(1, C / |G|)."""
    size = float(np.linalg.norm(values))
    return values * min(1.0, bound / size) if size > 0 else values


def clipped_rows(values: F64, bound: float) -> F64:
    """Every row with a norm of at most `bound`."""
    sizes = np.linalg.norm(values, axis=-1, keepdims=True)
    return np.asarray(values * np.minimum(1.0, bound / np.maximum(sizes, 1e-300)), dtype=np.float64)


def projected(theta: F64, bound: float) -> F64:
    """The nearest matrix whose spectral norm is at most `bound`: singular values are cut off there."""
    left, sizes, right = np.linalg.svd(theta, full_matrices=False)
    return theta if sizes.size == 0 or sizes[0] <= bound else np.asarray(left * np.minimum(sizes, bound) @ right, dtype=np.float64)
