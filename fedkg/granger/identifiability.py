"""What the learning can identify: an account of how far learnt causes fall short of the true ones,
and why.

Letters: M clients, P states of a client, S states of all, O states of all others.
Source: section 5 of the specification's reading of Mohanty et al. 2025. theta sees the client's own
measurements alone, so that it learns
what can be read in them of the one-step surprise A_mn h_n; the server then regresses that on h_n.
In the long run, where the filters
follow the states (K C near I) and eta_2 is small against eta_1,

    A_m -> (sum_n A_mn Sigma_nm) Sigma_mm^-1 Sigma_mo Sigma_oo^-1      (o: the states of all others)

which for two clients is the truth times the squared canonical correlations of h_n and h_m. No
batching cures it.

That takes A_mm for granted. Dynamics that a client fits to its own measurements alone are A_mm +
sum_n A_mn Sigma_nm Sigma_mm^-1: they take
up what the others' influence has in common with the client's own past, and leave as surprise what
cannot be read in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.granger.edge_significance import joint
from fedkg.granger.moments import Series

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How much of an edge the learning can see.

    Attributes:
        driver: name of the driving client.
        driven: name of the driven client.
        kept: the share of the driver's influence that is expected to be learnt, between 0 and 1.
        read: the share of the driver's states that can be read in those of the driven client: the
            mean squared canonical correlation.
        taken: the share of the influence that the driven client's own dynamics have taken up.
    """

    driver: str
    driven: str
    kept: float
    read: float
    taken: float

    def text(self) -> str:
        """The message for users."""
        edge, lost = f"{self.driver} to {self.driven}", 1 - self.kept
        if lost < 0.1:
            return f"{edge}: learnt nearly whole"
        seen = (
            f"only {self.read:.0%} of {self.driver}'s states can be read in what {self.driven}"
            " measures"
        )
        why = f"because {seen}"
        if self.taken >= 0.1:
            why = (
                f"because {self.driven}'s own dynamics have taken up {self.taken:.0%} of the"
                " influence, as those do that are fitted to a client's measurements alone, and"
                " what is left hardly shows in what it measures at the time"
            )
        size = "hardly at all" if lost >= 0.95 else f"about {lost:.0%} too small"
        return f"{edge}: expected to be learnt {size}, {why}"


def readings(series: Series) -> tuple[Reading, ...]:
    """Return the share of every allowed edge that can be learned, for the system that is fitted to
    all states together.

    The concept page "How federated Granger learning works" explains the shares.

    With the blocks B of `fedkg.granger.edge_significance.joint`, G = A_mm - B_mm is the part
    of the others in a client's own dynamics, and E = (B_mo Sigma_om - G Sigma_mm) Sigma_mm^-1
    Sigma_mo Sigma_oo^-1 is the limit of the learning. Shares are projections on the influence
    B_mn h_n: kept = tr(E_mn Sigma_nn B_mn^T) / tr(B_mn Sigma_nn B_mn^T), taken = tr(G Sigma_mn
    B_mn^T) over the same. The influence of an edge without effect is random, so its shares
    have no meaning.
    """
    lagged = series.regressors[series.lags - 1 : -1]
    total, names = series.states.shape[1], [client.name for client in series.clients]
    covariance = np.cov(lagged, rowvar=False).reshape(lagged.shape[1], -1)
    blocks, found = joint(series), []
    for m, here in enumerate(series.places):
        others = series.drivers(m)
        own = np.zeros(len(others), dtype=np.bool_)
        own[here] = True
        inverse = np.linalg.pinv(covariance[own][:, own], hermitian=True)
        before = series.within(m, np.arange(len(names)) == m)
        before[:total] = False  # further lags of the client itself: part of what surprises it
        rest = others | before
        gained = series.clients[m].transition - blocks[here][:, own]
        surprise = (
            blocks[here][:, rest] @ covariance[rest][:, own] - gained @ covariance[own][:, own]
        )
        learnt = np.zeros((len(gained), len(others)))
        learnt[:, others] = (
            surprise
            @ inverse
            @ covariance[own][:, others]
            @ np.linalg.pinv(covariance[others][:, others], hermitian=True)
        )
        for n, there in enumerate(series.places):
            if m == n or not series.allowed[m, n]:
                continue
            place = np.zeros(total, dtype=np.bool_)
            place[there] = True
            driver = np.tile(place, series.lags)
            acts = blocks[here][:, driver] @ covariance[driver][:, driver]
            size = max(float((acts * blocks[here][:, driver]).sum()), 1e-300)
            across = covariance[there, here]
            other = np.linalg.pinv(covariance[there, there], hermitian=True)
            found.append(
                Reading(
                    driver=names[n],
                    driven=names[m],
                    kept=_share(float((learnt[:, driver] * acts).sum()) / size),
                    read=_share(float(np.trace(across @ inverse @ across.T @ other)) / len(across)),
                    taken=_share(
                        float((gained @ covariance[own][:, driver] * blocks[here][:, driver]).sum())
                        / size
                    ),
                )
            )
    return tuple(found)


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))
