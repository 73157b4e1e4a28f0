"""The recursion of one client as a matrix, and where it comes to rest.

Letters: P states and D measurements of the client, O states of all others that may drive it, N = P
(O + D).
Source: Mohanty et al. 2025, theorem 5.4 and section 5 in the corrected form (errata E1 - E4):
Delta^{k+1} = H Delta^k + J with
Delta = [vec(A_mn), n != m; vec(theta_m)], vec column by column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import FedkgError
from fedkg.granger.moments import Moments

F64 = NDArray[np.float64]

DENSE = 3000
"""Unknowns up to which the equations are solved as one matrix; beyond, by conjugate gradients."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recursion:
    """H, [N, N], and J, [N]."""

    matrix: F64
    push: F64

    @property
    def radius(self) -> float:
        """rho(H): the recursion converges where it is below 1."""
        return float(np.abs(np.linalg.eigvals(self.matrix)).max())

    @property
    def distance(self) -> float:
        """The spectral norm of I - H."""
        return float(np.linalg.norm(np.eye(len(self.matrix)) - self.matrix, 2))


def recursion(
    known: Moments, *, client: float, server: float, causes: float | F64, ridge: float = 0.0
) -> Recursion:
    """H and J of one client for the rates eta_1, eta_2, gamma (one, or one of each driving state
    [O]) and the ridge lambda.
    """
    states, seen = known.surprise.shape
    others = known.joint.shape[1]
    curve = 2 * client * known.square + 2 * server * known.transition.T @ known.transition
    eye = np.eye(states)
    rates = np.broadcast_to(np.asarray(causes, dtype=np.float64), (others,))
    top = np.diag(np.repeat(1 - 2 * rates * ridge, states)) - 2 * np.kron(
        rates[:, None] * known.driving, eye
    )
    right = 2 * np.kron(rates[:, None] * known.joint.T, known.transition)
    left = 2 * server * np.kron(known.joint, known.transition.T)
    bottom = np.eye(states * seen) * (1 - 2 * client * ridge) - np.kron(known.measured, curve)
    push = np.concatenate(
        [np.zeros(states * others), (2 * client * known.surprise).ravel(order="F")]
    )
    return Recursion(matrix=np.block([[top, right], [left, bottom]]), push=push)


def curvature(
    known: Moments, *, client: float, server: float, ridge: float = 0.0
) -> tuple[float, float]:
    """The least and the greatest eigenvalue of the Hessian of Phi = eta_1 <L_a> + eta_2 <L_s>: mu
    and L of the rates (section 5).
    """
    symmetric = recursion(known, client=client, server=server, causes=server, ridge=ridge)
    values = np.linalg.eigvalsh(
        np.eye(len(symmetric.matrix)) - (symmetric.matrix + symmetric.matrix.T) / 2
    )
    return float(values[0]), float(values[-1])


def resting(known: Moments, client: float, server: float, ridge: float = 0.0) -> tuple[F64, F64]:
    """theta [P, D] and the row of causes [P, O] at rest.

    The causes follow from theta, A_m = A theta Q (S + lambda)^-1; what is left is symmetric in
    theta:
    eta_1 (B^T B theta G + lambda theta) + eta_2 A^T A theta (G - Q (S + lambda)^-1 Q^T) = eta_1
    <B^T r_c y^T>.
    """
    others = known.driving.shape[0]
    back = (
        np.linalg.pinv(known.driving + ridge * np.eye(others), hermitian=True)
        if others
        else np.zeros((0, 0))
    )
    left = known.measured - known.joint @ back @ known.joint.T
    own = known.transition.T @ known.transition

    def curved(theta: F64) -> F64:
        return (
            client * (known.square @ theta @ known.measured + ridge * theta)
            + server * own @ theta @ left
        )

    states, seen = known.surprise.shape
    if states * seen <= DENSE:
        matrix = client * (
            np.kron(known.square, known.measured) + ridge * np.eye(states * seen)
        ) + server * np.kron(own, left)
        theta = np.asarray(
            np.linalg.lstsq(matrix, client * known.surprise.ravel(), rcond=1e-13)[0].reshape(
                states, seen
            ),
            dtype=np.float64,
        )
    else:
        theta = _conjugate(curved, client * known.surprise)
    return theta, np.asarray(known.transition @ theta @ known.joint @ back, dtype=np.float64)


def _conjugate(curved: Callable[[F64], F64], right: F64) -> F64:
    """Conjugate gradients from zero for a symmetric positive semidefinite map of matrices.

    Raises FedkgError where it does not settle.
    """
    from scipy.sparse.linalg import LinearOperator, cg

    shape = right.shape
    operator = LinearOperator(
        (right.size, right.size),
        matvec=lambda flat: curved(flat.reshape(shape)).ravel(),
        dtype=np.float64,
    )
    found, failed = cg(operator, right.ravel(), rtol=1e-12, atol=0.0, maxiter=20 * right.size)
    if failed:
        raise FedkgError(
            "the closed form of the learning did not converge",
            help="set `ridge` above 0, such as 0.01",
        )
    return np.asarray(found, dtype=np.float64).reshape(shape)
