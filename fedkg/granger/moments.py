"""What the learning needs of the data: averages over time, with regressors at t - 1 and targets at t.

Letters: M clients, T steps, S states of all clients, O states of all others, P states of the client, D measurements of the client.
Source: Mohanty et al. 2025, section 5, in the corrected form (regressors at t - 1 everywhere; erratum E5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import UsageError
from fedkg.granger.kalman import Client, estimated
from fedkg.granger.system import places_of

F64 = NDArray[np.float64]
Allowed = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """All clients with the states that their filters estimate.

    Attributes:
        states: [T, S], those of all clients side by side. allowed: bool [M, M], true where client n (column) may drive client m (row).
    """

    clients: tuple[Client, ...]
    states: F64
    allowed: Allowed

    @property
    def places(self) -> list[slice]:
        """Where the states of each client stand."""
        return places_of([len(client.transition) for client in self.clients])

    def drivers(self, m: int) -> NDArray[np.bool_]:
        """Which of all states may drive client m: [S]; its own do not count among them."""
        sizes = [len(client.transition) for client in self.clients]
        row = self.allowed[m].copy()
        row[m] = False
        return np.repeat(row, sizes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments:
    """Averages over t = 2 .. T for one client.

    Attributes:
        transition: A, [P, P]. lift: B = C A, [D, P]. measured: G = <y y^T>, [D, D]. driving: <h h^T> of the others' states, [O, O].
        joint: Q = <y h^T>, [D, O]. surprise: <B^T r_c y^T>, [P, D]. loss: <|r_c|^2>.
    """

    transition: F64
    lift: F64
    measured: F64
    driving: F64
    joint: F64
    surprise: F64
    loss: float

    @property
    def square(self) -> F64:
        """B^T B, [P, P]."""
        return self.lift.T @ self.lift


def series_of(clients: Sequence[Client], allowed: Allowed | None = None) -> Series:
    """The filters' states of all clients, as long as the shortest recording is.

    Args:
        allowed: bool [M, M], who may drive whom (columns drive rows); None: everybody everybody.

    Raises:
        UsageError: fewer than two clients, recordings of unlike length, or a prior of another size.
    """
    if len(clients) < 2:
        raise UsageError("causes are between clients", expected="at least two", received=str(len(clients)))
    lengths = {len(client.measurements) for client in clients}
    if len(lengths) > 1 or min(lengths) < 3:
        raise UsageError(
            "the clients' recordings must be of the same steps",
            expected="one length of at least 3",
            received=", ".join(map(str, sorted(lengths))),
        )
    prior = np.ones((len(clients), len(clients)), dtype=np.bool_) if allowed is None else allowed
    if prior.shape != (len(clients), len(clients)):
        raise UsageError(
            "the prior must say of every pair of clients whether one may drive the other",
            expected=f"[{len(clients)}, {len(clients)}]",
            received=str(list(prior.shape)),
        )
    states = np.concatenate([estimated(client) for client in clients], axis=1)
    return Series(clients=tuple(clients), states=np.ascontiguousarray(states), allowed=prior)


def surprises(series: Series, m: int) -> F64:
    """r_c^t = y^t - C A h^{t-1} of client m, [T, D]; zero at the first step, which has no step before it."""
    client = series.clients[m]
    own = series.states[:, series.places[m]]
    found = client.measurements - np.concatenate([np.zeros((1, own.shape[1])), own[:-1]]) @ (client.emission @ client.transition).T
    found[0] = 0.0
    return np.ascontiguousarray(found)


def moments(series: Series, m: int) -> Moments:
    """The averages for client m; states of clients that may not drive it are left out."""
    client = series.clients[m]
    lift = client.emission @ client.transition
    before = client.measurements[:-1]
    others = series.states[:-1][:, series.drivers(m)]
    surprise = surprises(series, m)[1:]
    count = len(before)
    return Moments(
        transition=client.transition,
        lift=lift,
        measured=before.T @ before / count,
        driving=others.T @ others / count,
        joint=before.T @ others / count,
        surprise=(surprise @ lift).T @ before / count,
        loss=float((surprise**2).sum() / count),
    )
