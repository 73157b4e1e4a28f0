"""The clients' Kalman filters: each sees its own measurements alone, and knows nothing of the
others.

Letters: T steps, P states, D measurements.
Source: Mohanty et al. 2025, section 3; the gain is the steady one of the discrete algebraic Riccati
equation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import UsageError
from fedkg.granger.scans import affine_scan

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Client:
    """A client of the learning: its filter and its measurements.

    Attributes:
        name: name of the client, for messages.
        transition: A_mm, [P, P], which the server knows too.
        emission: C_mm, [D, P].
        gain: K, [P, D].
        measurements: y, [T, D], without unknown values.
    """

    name: str
    transition: F64
    emission: F64
    gain: F64
    measurements: F64

    def __post_init__(self) -> None:
        d, p = self.emission.shape
        shapes = (self.transition.shape, self.gain.shape, self.measurements.shape[1:])
        if shapes != ((p, p), (p, d), (d,)):
            raise UsageError(
                f"{self.name}: transition, gain and measurements do not fit the emission [{d},"
                f" {p}]",
                expected=f"[{p}, {p}], [{p}, {d}], [T, {d}]",
                received=f"{list(shapes[0])}, {list(shapes[1])}, {list(self.measurements.shape)}",
            )
        for name in ("transition", "emission", "gain", "measurements"):
            if not np.isfinite(getattr(self, name)).all():
                raise UsageError(
                    f"{self.name}: `{name}` has values that are not numbers",
                    help="fill the gaps first: a filter cannot continue after an unknown value"
                    if name == "measurements"
                    else f"correct the matrix `{name}`",
                )
        radius = radius_of(self.transition - self.transition @ self.gain @ self.emission)
        if radius >= 1:
            raise UsageError(
                f"{self.name}: the filter is not stable",
                expected="a spectral radius of transition - transition @ gain @ emission below 1",
                received=f"{radius:.6g}",
                help="choose another gain",
            )


def radius_of(matrix: F64) -> float:
    """The spectral radius: the largest absolute eigenvalue."""
    return float(np.abs(np.linalg.eigvals(matrix)).max())


def steady_gain(transition: F64, emission: F64, process: F64, noise: F64) -> F64:
    """The gain K [P, D] that a Kalman filter settles at.

    Args:
        transition: transition of the states, [P, P].
        emission: measurements from states, [D, P].
        process: covariance of the noise that moves the states, [P, P].
        noise: covariance of the noise of the measurements, [D, D].

    Raises:
        UsageError: no gain stabilises the filter, for example because no measurement depends on a
            state that grows.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_discrete_are

    try:
        spread = solve_discrete_are(transition.T, emission.T, process, noise)
        factor = cho_factor(emission @ spread @ emission.T + noise)
    except (LinAlgError, ValueError) as error:
        raise UsageError(
            "no steady Kalman gain exists for these matrices",
            received=str(error),
            help="use measurements that depend on all states, and a positive definite noise"
            " covariance",
        ) from error
    return np.ascontiguousarray(cho_solve(factor, emission @ spread).T)


def estimated(client: Client) -> F64:
    """The posterior states [T, P] of a client's filter, from zero: h^t = (I - K C) A h^{t-1} + K
    y^t.
    """
    step = client.transition - client.gain @ (client.emission @ client.transition)
    return affine_scan(
        np.ascontiguousarray(step), np.ascontiguousarray(client.measurements @ client.gain.T)
    )


def oracle(
    transition: F64,
    emissions: tuple[F64, ...],
    process: F64,
    noise: float,
    measurements: tuple[F64, ...],
) -> F64:
    """The posterior states [T, S] of one filter that knows the whole system and sees all
    measurements: what a federation cannot have.
    """
    from scipy.linalg import block_diag

    emission = block_diag(*emissions)
    together = np.concatenate(measurements, axis=1)
    gain = steady_gain(transition, emission, process, noise * np.eye(len(emission)))
    return estimated(
        Client(
            name="oracle",
            transition=transition,
            emission=emission,
            gain=gain,
            measurements=together,
        )
    )
