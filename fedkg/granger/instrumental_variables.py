"""Tests of causes that measurement noise does not deceive: earlier steps as instruments.

Letters: M clients, T steps, S states of all clients, L lags, P states of a client, D measurements
of a client, Z instruments.

States that a filter estimates are the true ones and an error. Where clients are slow and noisy, a
client's own past then explains less of
it than its true state would, and what a neighbour measures of that true state looks like a cause,
although nothing acts back (errors in
variables; Granger and Morris 1976). More lags of the own past take up a part of it. Reading the
regressors
through steps that share no error with them. The server can have states whose errors are white: z =
(K C)^-1 (h^t - (I - K C) A h^{t-1}) =
h + (K C)^-1 K v, from the states that it is sent and K C, [P, P], which each client sends once.
Then z^t - sum A_l z^{t-l} is
w + v^t - sum A_l v^{t-l}, which is uncorrelated with z of L + 1 steps before and earlier. That
holds where L lags are all that the true
states have: what a client's own dynamics have beyond them is in the error and in the instruments
alike, and is taken for causes.
Nothing here is differentially private: the states are read as they are, and K C, which was fitted
to measurements, is sent in clear.
Source: instruments for dynamics in noise, Soederstrom 2007, section 6; Wald test with a covariance
after Newey and West 1987; instruments
are weak below an F of 10, Staiger and Stock 1997, by driver as in Sanderson and Windmeijer 2016.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.granger.edge_significance import own_and_others
from fedkg.granger.moments import Series

F64 = NDArray[np.float64]
STRONG = 10.0
"""The F of a driver's instruments from which the test is believed."""
LEAST = 4
"""Minimum number of steps per instrument for a p-value."""
DEPTH = 2
"""How many more steps serve as instruments than there are lags."""


def white(series: Series) -> F64:
    """The states with errors that are white, [T, S]: what the server makes of the filters' states
    and each client's K C.
    """
    found = np.empty_like(series.states)
    for client, place in zip(series.clients, series.places, strict=True):
        seen, own = client.gain @ client.emission, series.states[:, place]
        late = np.concatenate([np.zeros((1, own.shape[1])), own[:-1]])
        pushes = own - late @ (client.transition - seen @ client.transition).T  # K y
        found[:, place] = pushes @ np.linalg.pinv(seen).T
    return found


def under_noise(series: Series) -> F64:
    """p-values of edges with noise allowed for, [M, M]; row m, column n: n drives m.

    NaN if it is not available.

    It is not available for drivers so quick that their earlier steps tell little of a step (F below
    10), of clients with too few steps for the instruments, and of pairs that the prior rules out.
    Second and further lags of one state are hard to tell from the first by earlier steps, so it is
    seldom available for clients with more than one lag. It is wrong for clients with dynamics of a
    higher order than their lags; `fedkg.granger.edge_significance.p_values` accounts for this:
    use the larger of both.
    """
    clients = range(len(series.clients))
    found = np.full((len(clients),) * 2, np.nan)
    states = white(series)[1:]  # the state before the first is not known
    for m, place in enumerate(series.places):
        used, order = own_and_others(series, m), series.order(m)
        first = 2 * order + DEPTH
        once = used[: states.shape[1]]
        if len(states) - first <= LEAST * (order + DEPTH) * int(once.sum()):
            continue
        before = _behind(states, range(1, order + 1), first)[:, used[: order * len(once)]]
        instruments = np.linalg.qr(_behind(states[:, once], range(order + 1, first + 1), first))[0]
        fit = _fitted(before, instruments, states[first:, place], order)
        for n in clients:
            driver = series.within(m, np.arange(len(clients)) == n)[used]
            if m != n and series.allowed[m, n] and fit.strength(driver) >= STRONG:
                found[m, n] = fit.wald(driver)
    return found


def _behind(states: F64, lags: range, first: int) -> F64:
    """Return the states at several lags before each of the steps first .. T - 1, side by side."""
    return np.concatenate([states[first - lag : len(states) - lag] for lag in lags], axis=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Fit:
    """Two-stage least squares of one client with K regressors.

    Attributes:
        square: sums of products of the regressors, [K, K].
        read: sums of products of the part of the regressors that the instruments explain, [K, K].
        weights: coefficients of the regressors for each state, [P, K].
        covariance: covariance of `weights` row by row, [P K, P K].
        steps: number of steps of the regression.
        instruments: Z.
    """

    square: F64
    read: F64
    weights: F64
    covariance: F64
    steps: int
    instruments: int

    def strength(self, driver: NDArray[np.bool_]) -> float:
        """The least F with which the instruments say of a driver, [K], what the other regressors do
        not.
        """
        alone = np.zeros((len(driver), int(driver.sum())))
        alone[driver] = np.eye(alone.shape[1])
        alone[~driver] = -np.linalg.lstsq(
            self.read[~driver][:, ~driver], self.read[~driver][:, driver], rcond=None
        )[0]
        told = alone.T @ self.read @ alone
        left = alone.T @ self.square @ alone - told
        ratio = np.linalg.pinv(left, hermitian=True) @ told
        spare = self.instruments - int((~driver).sum())
        return float(np.linalg.eigvals(ratio).real.min()) * (self.steps - self.instruments) / spare

    def wald(self, driver: NDArray[np.bool_]) -> float:
        """The p-value of a driver's weights being 0, by an F of the Wald statistic."""
        from scipy.stats import f

        tested = np.tile(driver, len(self.weights))
        value = self.weights.ravel()[tested]
        statistic = float(
            value @ np.linalg.pinv(self.covariance[np.ix_(tested, tested)], hermitian=True) @ value
        )
        return float(f.sf(statistic / len(value), len(value), self.steps - len(driver)))


def _fitted(before: F64, instruments: F64, now: F64, order: int) -> _Fit:
    """Regressors [T, K], orthonormal instruments [T, Z], states [T, P]; errors go with those of
    some steps around, L of them at least.
    """
    read = instruments @ (instruments.T @ before)
    square = read.T @ before
    weights = np.linalg.lstsq(square, read.T @ now, rcond=None)[0]
    left = now - before @ weights
    scores = (left[:, :, None] * read[:, None, :]).reshape(len(left), -1)
    spread = scores.T @ scores
    width = order + int(4 * (len(left) / 100) ** (2 / 9))
    for lag in range(1, width + 1):
        across = scores[lag:].T @ scores[:-lag]
        spread += (1 - lag / (width + 1)) * (across + across.T)
    bread = np.kron(np.eye(now.shape[1]), np.linalg.pinv(square, hermitian=True))
    return _Fit(
        square=before.T @ before,
        read=square,
        weights=np.ascontiguousarray(weights.T),
        covariance=bread @ spread @ bread,
        steps=len(left),
        instruments=instruments.shape[1],
    )
