"""Differential privacy in both directions, with bounds that are enforced.

Adjacency: two data sets are neighbours when the whole record of one client differs, at any number
of steps. A filter remembers, so that a
measurement moves the states of all later steps: h^t = sum_k F^k K y^{t-k} with F = (I - K C) A.
Clipped records differ by at most
2 B_y at each step, and so do states by at most 2 B_y sum_k |F^k K|, which `response` computes.
theta follows the record too; it is
projected, so that theta y of two records differ by at most 2 B_theta B_y. Each of the k messages of
a client costs epsilon and delta for
its whole record, all of them at most k epsilon and k delta.

Source: Mohanty et al. 2025, section 7, where a state before a step is treated as constant, which
covers a change at one step and the
message of that step alone; the Gaussian mechanism (Dwork and Roth 2014, theorem A.1).
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
        raise UsageError(
            "delta must be a probability", expected="0 < delta < 1", received=str(delta)
        )
    return math.sqrt(2 * math.log(1.25 / delta))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """Bounds and noise of the messages of the learning, for a change of a client's whole record.

    Attributes:
        measurement: B_y, to which the measurements of each step are clipped (L2 norm).
        response: B_R, which the response of a client's filter must not exceed, see `response`.
        augmentation: B_theta, the bound on the spectral norm of theta, which is projected to it.
        gradient: C_g, the norm to which the server's messages are clipped.
        filtered: epsilon of a client's message h_c in a step, the state of its filter; between 0
            and 1, where the formula holds.
        augmented: epsilon of a client's message h_a in a step, the augmented state; between 0
            and 1.
        returned: epsilon of the server's message in a step, a gradient; between 0 and 1.
        delta: delta of each of these messages.
    """

    measurement: float
    response: float
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
                    f"`{name}` must be between 0 and 1: the formula of the Gaussian "
                    "mechanism holds only there",
                    received=str(getattr(self, name)),
                )
        for name in ("measurement", "response", "augmentation", "gradient"):
            if not getattr(self, name) > 0:
                raise UsageError(
                    f"the bound `{name}` must be above 0", received=str(getattr(self, name))
                )

    @property
    def moved_filtered(self) -> float:
        """The sensitivity of h_c: by how much another record moves one message of it (L2 norm)."""
        return 2 * self.measurement * self.response

    @property
    def moved_augmented(self) -> float:
        """The sensitivity of h_a: by how much another record moves one message of it (L2 norm)."""
        return 2 * self.measurement * (self.response + self.augmentation)

    @property
    def sigma_filtered(self) -> float:
        """The deviation of the noise on h_c."""
        return self.moved_filtered * multiplier(self.delta) / self.filtered

    @property
    def sigma_augmented(self) -> float:
        """The deviation of the noise on h_a."""
        return self.moved_augmented * multiplier(self.delta) / self.augmented

    @property
    def sigma_returned(self) -> float:
        """The deviation of the noise on the server's gradients."""
        return 2 * self.gradient * multiplier(self.delta) / self.returned

    def spent(self, steps: int) -> tuple[float, float]:
        """Return epsilon and delta of the given number of steps for the whole record of a client,
        by basic composition; each epoch sends every step again.
        """
        return steps * (self.filtered + self.augmented), steps * 2 * self.delta


def response(transition: F64, emission: F64, gain: F64, steps: int) -> float:
    """How far a filter's state can move when all measurements of a record do: ``sum_k |F^k K|_2``
    for k = 0 .. steps - 1.

    Args:
        transition: A, [P, P], with P states; F = (I - K C) A.
        emission: C, [D, P], with D measurements.
        gain: K, [P, D].
        steps: number of steps of the record.
    """
    step = transition - gain @ emission @ transition
    total, moved = 0.0, gain
    for _ in range(steps):
        total += float(np.linalg.norm(moved, 2))
        moved = step @ moved
    return total


def clip(values: F64, bound: float) -> F64:
    """A vector or matrix as a whole with a (Frobenius) norm of at most `bound`: G min(1, C /
    |G|).
    """
    size = float(np.linalg.norm(values))
    return values * min(1.0, bound / size) if size > 0 else values


def clipped_rows(values: F64, bound: float) -> F64:
    """Every row with a norm of at most `bound`."""
    sizes = np.linalg.norm(values, axis=-1, keepdims=True)
    return np.asarray(values * np.minimum(1.0, bound / np.maximum(sizes, 1e-300)), dtype=np.float64)


def projected(theta: F64, bound: float) -> F64:
    """Return the nearest matrix with spectral norm at most `bound`, by clipping singular values."""
    left, sizes, right = np.linalg.svd(theta, full_matrices=False)
    return (
        theta
        if sizes.size == 0 or sizes[0] <= bound
        else np.asarray(left * np.minimum(sizes, bound) @ right, dtype=np.float64)
    )
