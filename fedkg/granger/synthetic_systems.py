"""Linear state-space systems with known causes, for tests of the learner: h^t = A h^{t-1} + w, y^t
= C h^t + v.

Letters: M clients, T steps, S states of all clients, P states of a client, D measurements of a
client.
Source: Mohanty et al. 2025, section 2; the settings are those in which the learner is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import UsageError

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class System:
    """A system of clients, each with separate states and measurements.

    Attributes:
        transition: A, [S, S]; the block of rows of m and columns of n is what n does to m.
        emissions: C_mm of each client, [D, P].
        process: covariance of w, [S, S].
        noise: variance of every entry of v.
    """

    transition: F64
    emissions: tuple[F64, ...]
    process: F64
    noise: float

    def __post_init__(self) -> None:
        states = sum(self.sizes)
        if self.transition.shape != (states, states) or self.process.shape != (states, states):
            raise UsageError(
                "the transition matrix and the process covariance must have one row "
                "and one column for each state",
                expected=f"[{states}, {states}]",
                received=f"{list(self.transition.shape)} and {list(self.process.shape)}",
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """P of each client."""
        return tuple(emission.shape[1] for emission in self.emissions)

    def block(self, m: int, n: int) -> F64:
        """A_mn: what client n does to client m."""
        places = places_of(self.sizes)
        return self.transition[places[m], places[n]]


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """States [T, S] and the measurements [T, D] of each client."""

    states: F64
    measurements: tuple[F64, ...]


def places_of(sizes: Sequence[int]) -> list[slice]:
    """The positions of the states of each client among all states."""
    ends = np.cumsum([0, *sizes]).tolist()
    return [slice(start, stop) for start, stop in pairwise(ends)]


def recorded(
    system: System, steps: int, *, seed: int, burn_in: int = 50, shift: F64 | None = None
) -> Recording:
    """Simulate a system for T steps, after `burn_in` steps that are discarded.

    Args:
        shift: [T + burn_in, S], added to the states before each step; None: no shift.
    """
    stream = np.random.default_rng(seed)
    whole = steps + burn_in
    root = np.linalg.cholesky(system.process + 1e-300 * np.eye(len(system.process)))
    pushes = stream.standard_normal((whole, len(system.transition))) @ root.T
    states = np.empty_like(pushes)
    now = np.zeros(len(system.transition))
    for t in range(whole):
        now = system.transition @ now + pushes[t]
        if shift is not None:
            now = now + shift[t]
        states[t] = now
    kept = states[burn_in:]
    places = places_of(system.sizes)
    deviation = np.sqrt(system.noise)
    seen = [
        kept[:, place] @ emission.T + deviation * stream.standard_normal((steps, len(emission)))
        for place, emission in zip(places, system.emissions, strict=True)
    ]
    return Recording(kept, tuple(np.ascontiguousarray(one) for one in seen))


def two_clients(
    *,
    seed: int,
    slow: float = 0.98,
    fast: float = 0.5,
    drive: float = 0.25,
    back: float = 0.0,
    measurements: int = 8,
    quiet: float = 0.01,
) -> System:
    """A slow, strongly excited client that drives a fast, quiet one: setting S of two clients with
    two states each.

    Args:
        seed: seed of the emissions.
        slow: A_11 as a multiple of the identity.
        fast: A_22 as a multiple of the identity.
        drive: every entry of A_21, the effect of client 1 on client 2.
        back: every entry of A_12, the effect of client 2 on client 1.
        measurements: D.
        quiet: the variance of the excitation of client 2; that of client 1 is 1.
    """
    stream = np.random.default_rng(seed)
    transition = np.zeros((4, 4))
    transition[:2, :2], transition[2:, 2:] = slow * np.eye(2), fast * np.eye(2)
    transition[2:, :2], transition[:2, 2:] = drive, back
    emissions = tuple(
        stream.standard_normal((measurements, 2)) / np.sqrt(measurements) for _ in range(2)
    )
    return System(
        transition=transition,
        emissions=emissions,
        process=np.diag([1.0, 1.0, quiet, quiet]),
        noise=0.01,
    )
