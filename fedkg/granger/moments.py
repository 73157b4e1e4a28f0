"""What the learning needs of the data: averages over time, with regressors at t - 1 and targets at
t.

Letters: M clients, T steps, S states of all clients, L lags, O states of all others at all lags, P
states of the client, D measurements of
the client.
Source: Mohanty et al. 2025, section 5, in the corrected form (regressors at t - 1 everywhere;
erratum E5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.safe_text import list_first
from fedkg.errors import UsageError
from fedkg.granger.kalman import Client, estimated
from fedkg.granger.synthetic_systems import places_of

F64 = NDArray[np.float64]
Allowed = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """All clients with the states that their filters estimate.

    Attributes:
        states: [T, S], those of all clients side by side.
        allowed: bool [M, M], true where client n (column) may drive client m (row).
        orders: L_m of each client: the states of others at t - 1 .. t - L_m may drive it at t;
            empty: one each, as in the paper. A lag belongs to the equation of the client that is
            driven, as the order of an equation of a VAR does: every client sends its states once,
            and the server keeps as many of them as the longest equation asks for.
    """

    clients: tuple[Client, ...]
    states: F64
    allowed: Allowed
    orders: tuple[int, ...] = ()

    @property
    def lags(self) -> int:
        """L, the most lags of any client.

        All are learnt from the same steps, those before which L others are known.
        """
        return max(self.orders, default=1)

    def order(self, m: int) -> int:
        """L_m, how many lags client m's equation has."""
        return self.orders[m] if self.orders else 1

    @property
    def places(self) -> list[slice]:
        """The positions of the states of each client."""
        return places_of([len(client.transition) for client in self.clients])

    @property
    def regressors(self) -> F64:
        """The states of the last L steps side by side, [T, L S]: row t holds those of t, t - 1,
        ...; zeros before the first.
        """
        if self.lags == 1:
            return self.states
        steps, total = self.states.shape
        found = np.zeros((steps, self.lags * total))
        for lag in range(self.lags):
            found[lag:, lag * total : (lag + 1) * total] = self.states[: steps - lag]
        return found

    def drivers(self, m: int) -> NDArray[np.bool_]:
        """Which of the regressors may drive client m: [L S]; neither its own states nor lags beyond
        its own number count among them.
        """
        row = self.allowed[m].copy()
        row[m] = False
        return self.within(m, row)

    def within(self, m: int, clients: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The regressors of some clients, bool [M], at the lags of client m's equation: [L S]."""
        once = np.repeat(clients, [len(client.transition) for client in self.clients])
        return np.concatenate(
            [once if lag < self.order(m) else np.zeros_like(once) for lag in range(self.lags)]
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments:
    """Averages over t = L + 1 .. T for one client, written ``<...>``.

    y are its measurements at t - 1, and h the states at t - 1 and earlier lags that may drive it; O
    counts these alone. r_c is its surprise at t (see `surprises`).

    Attributes:
        transition: A, [P, P].
        lift: B = C A, [D, P].
        measured: G = ``<y y^T>``, [D, D].
        driving: ``<h h^T>``, [O, O].
        joint: Q = ``<y h^T>``, [D, O].
        surprise: ``<B^T r_c y^T>``, [P, D].
        loss: ``<|r_c|^2>``.
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


def series_of(
    clients: Sequence[Client], allowed: Allowed | None = None, *, lags: int | Sequence[int] = 1
) -> Series:
    """The filtered states of all clients as one series for learning.

    Args:
        allowed: bool [M, M], which clients may drive which (columns drive rows); None: all pairs.
        lags: L_m of each client, in their order; or one number for all.

    Raises:
        UsageError: fewer than two clients, recordings of different lengths, a prior of another
            size, or more lags than the recordings have steps.
    """
    if len(clients) < 2:
        raise UsageError(
            "causal discovery needs at least two clients",
            expected="at least two",
            received=str(len(clients)),
        )
    lengths = {len(client.measurements) for client in clients}
    if len(lengths) > 1 or min(lengths) < 3:
        raise UsageError(
            "the recordings of all clients must have the same number of steps, at least 3",
            received=list_first(
                [f"{client.name} {len(client.measurements)}" for client in clients], 8
            ),
            help="use recordings with at least 3 steps"
            if min(lengths) < 3
            else "cut the recordings to the steps that all of them have",
        )
    prior = np.ones((len(clients), len(clients)), dtype=np.bool_) if allowed is None else allowed
    if prior.shape != (len(clients), len(clients)):
        raise UsageError(
            "the prior must state for every pair of clients whether one may drive the other",
            expected=f"[{len(clients)}, {len(clients)}]",
            received=str(list(prior.shape)),
        )
    orders = orders_of(lags, len(clients), min(lengths))
    states = np.concatenate([estimated(client) for client in clients], axis=1)
    return Series(
        clients=tuple(clients), states=np.ascontiguousarray(states), allowed=prior, orders=orders
    )


def orders_of(lags: int | Sequence[int], clients: int, steps: int) -> tuple[int, ...]:
    """The lags of each client.

    Raises UsageError: not one for each client, or not 1 .. steps - 2 of them.
    """
    orders = (
        (int(lags),) * clients
        if isinstance(lags, int | np.integer)
        else tuple(int(one) for one in lags)
    )
    if len(orders) != clients:
        raise UsageError(
            "`lags` must have one number for each client",
            expected=f"{clients} numbers, or one for all",
            received=f"{len(orders)} numbers",
        )
    for order in orders:
        if not 1 <= order < steps - 1:
            raise UsageError(
                "the number of lags does not fit the length of the series",
                expected=f"1 .. {steps - 2}, for series of {steps} steps",
                received=f"{order} lags",
                help="use fewer lags, or a longer recording",
            )
    return orders


def surprises(series: Series, m: int) -> F64:
    """r_c^t = y^t - C A h^{t-1} of client m, [T, D]; zero at the first step, which has no step
    before it.
    """
    client = series.clients[m]
    own = series.states[:, series.places[m]]
    found = (
        client.measurements
        - np.concatenate([np.zeros((1, own.shape[1])), own[:-1]])
        @ (client.emission @ client.transition).T
    )
    found[0] = 0.0
    return np.ascontiguousarray(found)


def moments(series: Series, m: int) -> Moments:
    """The averages for client m; states of clients that may not drive it are left out."""
    client = series.clients[m]
    lift = client.emission @ client.transition
    known = slice(series.lags - 1, -1)  # from where all lags are known
    before = client.measurements[known]
    others = series.regressors[known][:, series.drivers(m)]
    surprise = surprises(series, m)[series.lags :]
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
