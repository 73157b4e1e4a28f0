"""What the learning can identify: an account of how far learnt causes fall short of the true ones, and why.

Letters: M clients, P states of a client, S states of all, O states of all others.
Source: section 5 of the specification's reading of Mohanty et al. 2025. theta sees the client's own measurements alone, so that it learns
what can be read in them of the one-step surprise A_mn h_n; the server then regresses that on h_n. In the long run, where the filters
follow the states (K C near I) and eta_2 is small against eta_1,

    A_m -> (sum_n A_mn Sigma_nm) Sigma_mm^-1 Sigma_mo Sigma_oo^-1      (o: the states of all others)

which for two clients is the truth times the squared canonical correlations of h_n and h_m. No batching cures it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.granger.moments import Series
from fedkg.granger.system import places_of

F64 = NDArray[np.float64]


def limit(transition: F64, covariance: F64, sizes: tuple[int, ...], m: int) -> F64:
    """What is learnt of the row of client m in the long run, [P, S], from the true system: 0 in the client's own columns.

    Args:
        transition: A, [S, S]. covariance: of the states in the long run, [S, S]. sizes: P of each client.
    """
    own = np.zeros(len(transition), dtype=np.bool_)
    own[places_of(sizes)[m]] = True
    surprise = transition[own][:, ~own] @ covariance[~own][:, own]
    read = surprise @ np.linalg.pinv(covariance[own][:, own], hermitian=True)
    found = np.zeros((int(own.sum()), len(transition)))
    found[:, ~own] = read @ covariance[own][:, ~own] @ np.linalg.pinv(covariance[~own][:, ~own], hermitian=True)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How much of an edge the learning can see.

    Attributes:
        driver, driven: names. kept: the share of the edge's strength that is expected to be learnt, between 0 and 1: the mean squared
            canonical correlation of the two clients' estimated states.
    """

    driver: str
    driven: str
    kept: float

    def text(self) -> str:
        """What people are told."""
        lost = 1 - self.kept
        if lost < 0.1:
            return f"{self.driver} to {self.driven}: learnt nearly whole"
        return (
            f"{self.driver} to {self.driven}: expected to be learnt about {lost:.0%} too small, because only {self.kept:.0%} of "
            f"{self.driver}'s states can be read in what {self.driven} measures"
        )


def readings(series: Series) -> tuple[Reading, ...]:
    """How much of every allowed edge can be learnt, from the estimated states themselves."""
    covariance = np.cov(series.states, rowvar=False).reshape(series.states.shape[1], -1)
    names = [client.name for client in series.clients]
    found = []
    for m, here in enumerate(series.places):
        for n, there in enumerate(series.places):
            if m == n or not series.allowed[m, n]:
                continue
            across = covariance[there, here]
            own = np.linalg.pinv(covariance[here, here], hermitian=True)
            other = np.linalg.pinv(covariance[there, there], hermitian=True)
            share = float(np.trace(across @ own @ across.T @ other)) / len(across)
            found.append(Reading(driver=names[n], driven=names[m], kept=min(1.0, max(0.0, share))))
    return tuple(found)
