"""Estimates that the learning is held against: what the server could do with the states it has, and
how sure an edge is.

Letters: M clients, T steps, S states of all clients, O states of all others, R shifts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import UsageError
from fedkg.granger.moments import Series

F64 = NDArray[np.float64]
MEMORY = 8
"""Lags of the past beyond which a test is given no more of it."""


def innovation_label(series: Series) -> F64:
    """Least squares of h_m^t - A_mm h_m^{t-1} on the others' states at t - 1 .. t - L: the blocks
    A_mn, [S, L S].

    It needs no augmentation and is not attenuated where the filters follow the states (K C near I),
    but fits noise where the driven client
    is loud (section 5).
    """
    total = series.states.shape[1]
    found = np.zeros((total, series.lags * total))
    before = series.regressors[series.lags - 1 : -1]
    for m, place in enumerate(series.places):
        drivers = series.drivers(m)
        others, label = before[:, drivers], labels(series, m)
        found[place, drivers] = np.linalg.lstsq(others.T @ others, others.T @ label, rcond=None)[
            0
        ].T
    return found


def labels(series: Series, m: int) -> F64:
    """h_m^t - A_mm h_m^{t-1} from where all lags are known, [T - L, P]: what others have to do with
    client m's states.
    """
    own, known = series.states[:, series.places[m]], slice(series.lags - 1, -1)
    return own[series.lags :] - own[known] @ series.clients[m].transition.T


def best_lags(series: Series, most: int) -> NDArray[np.int64]:
    """How many lags each client's drivers are worth, int64 [M], 0 ..

    `most`, by the least Bayesian information criterion.

    Of the regression of `innovation_label`: n log|residual covariance| + k log n with n = T -
    `most` steps for every candidate, and k
    coefficients (Luetkepohl 2005, section 4.3); 0 where no driver is worth its coefficients.

    Raises:
        UsageError: fewer steps than the regression with `most` lags has coefficients, which would
            fit them whole.
    """
    wide = replace(series, orders=(most,) * len(series.clients))
    regressors, total = wide.regressors[most - 1 : -1], series.states.shape[1]
    if len(series.states) - most <= most * total:
        raise UsageError(
            f"too few steps to choose among {most} lags",
            expected=f"more than {most + most * total} steps",
            received=f"{len(series.states)} steps",
            help="state `lags` as a number, or use more steps",
        )
    chosen = np.zeros(len(series.clients), dtype=np.int64)
    for m in range(len(series.clients)):
        label = labels(wide, m)
        count, states = label.shape
        scores = []
        for lags in range(most + 1):
            drivers = wide.drivers(m) & (np.arange(most * total) < lags * total)
            others = regressors[:, drivers]
            left = label - others @ np.linalg.lstsq(others, label, rcond=None)[0] if lags else label
            size = float(np.linalg.slogdet(left.T @ left / count + 1e-12 * np.eye(states))[1])
            scores.append(count * size + states * int(drivers.sum()) * np.log(count))
        chosen[m] = int(np.argmin(scores))
    return chosen


def own_and_others(series: Series, m: int, without: int | None = None) -> NDArray[np.bool_]:
    """Which regressors are client m's own states or those of clients that may drive it, one client
    left out: [L S].
    """
    row = series.allowed[m].copy()
    row[m] = True
    if without is not None:
        row[without] = False
    return series.within(m, row)


def joint(series: Series) -> F64:
    """Least squares of h_m^t on the states of all at t - 1 .. t - L, the client's own among them:
    blocks A_mn and A_mm, [S, L S].

    The server has all states, so that it can fit what a client does to itself together with what
    others do to it. A client that fits A_mm
    alone cannot: it takes a slow driver for its own slowness. What the prior rules out stays 0.
    """
    total = series.states.shape[1]
    found = np.zeros((total, series.lags * total))
    before = series.regressors[series.lags - 1 : -1]
    for m, place in enumerate(series.places):
        used = own_and_others(series, m)
        found[place, used] = np.linalg.lstsq(
            before[:, used], series.states[series.lags :, place], rcond=None
        )[0].T
    return found


def strengths_of(series: Series, blocks: F64) -> F64:
    """The norm of every block over all lags together, [M, M], of estimates [S, L S]; what a client
    does to itself counts as 0.
    """
    clients, total = range(len(series.clients)), series.states.shape[1]
    found = np.zeros((len(series.clients),) * 2)
    for m in clients:
        for n in clients:
            if m != n:
                each = [
                    blocks[series.places[m], lag * total : (lag + 1) * total][:, series.places[n]]
                    for lag in range(series.lags)
                ]
                found[m, n] = np.linalg.norm(np.concatenate(each))
    return found


def memories(series: Series, longest: int = MEMORY) -> tuple[int, ...]:
    """How many lags of the past each client's tests are given: as Akaike's criterion wants, up to
    `longest`, and no fewer than its own.

    A state that is measured with noise, or shown partly by a filter, does not have the order of the
    true process: its own further
    lags, and those of the other drivers, say what the last alone does not (Granger and Morris
    1976). n log|residual covariance| + 2 k of
    the regression of a client's states on those of itself and all its drivers, on the same n steps
    for every candidate; of nested
    regressions, so that one factor of the moments serves all. Four steps a coefficient at least,
    else its own lags are all.
    """
    steps, total = series.states.shape
    most = min(longest, steps // (4 * total) - 1)
    if most <= min(series.order(m) for m in range(len(series.clients))):
        return tuple(series.order(m) for m in range(len(series.clients)))
    wide = replace(series, orders=(most,) * len(series.clients))
    known = np.concatenate([wide.regressors[most - 1 : -1], series.states[most:]], axis=1)
    square, count = known.T @ known, len(known)
    found = []
    for m, place in enumerate(series.places):
        used = np.flatnonzero(own_and_others(wide, m))
        chosen = np.concatenate([used, most * total + np.arange(place.start, place.stop)])
        moments = square[np.ix_(chosen, chosen)]
        factor = np.linalg.cholesky(moments + 1e-10 * np.diag(np.diag(moments) + 1e-300)).T
        states, once = place.stop - place.start, len(used) // most
        right = factor[:, len(used) :]
        scores = []
        for lags in range(1, most + 1):
            left = right[lags * once :]
            scores.append(
                count * float(np.linalg.slogdet(left.T @ left / count)[1])
                + 2 * states * lags * once
            )
        found.append(max(series.order(m), 1 + int(np.argmin(scores))))
    return tuple(found)


def p_values(series: Series, *, shifts: int = 99, seed: int = 0, longest: int = MEMORY) -> F64:
    """The p-value of every edge, [M, M]; row m, column n: n drives m. NaN for edges without a test.

    A p-value is the probability of an edge of at least this strength without causation. Without
    causation, the driver's states could be from another time. The test therefore shifts them
    circularly by at least a tenth of the series and estimates the edge again. This is a permutation
    test after Phipson and Smyth 2010 with the p-value (1 + number of edges as strong) / (R + 1). No
    shift is used twice, so a short series has fewer than `shifts` shifts and larger p-values.

    The strength is the reduction of the residual by the driver at the client's lags, given all
    other drivers and the client's own past (Granger 1969) over as many lags, up to `longest`, as
    `memories` returns. It does not depend on the dynamics that the client assumes. If there are no
    more steps than coefficients, p is 1, because any series would explain everything.

    Raises:
        UsageError: fewer than 19 shifts, with which no edge can be significant at 5 %, or too few
            steps for one shift.
    """
    if shifts < 19:
        raise UsageError("a p-value needs at least 19 shifts", received=str(shifts))
    stream = np.random.default_rng(seed)
    steps, clients = len(series.states), len(series.clients)
    count = min(shifts, distinct_shifts(steps))
    if count < 1:
        raise UsageError(
            "the series is too short for a p-value",
            expected="at least 4 steps",
            received=f"{steps} steps",
        )
    found = np.full((clients, clients), np.nan)
    for m, past in enumerate(memories(series, longest)):
        wide = replace(series, orders=(past,) * clients)
        before, now = wide.regressors[past - 1 : -1], series.states[past:, series.places[m]]
        for n, there in enumerate(series.places):
            if m == n or not series.allowed[m, n]:
                continue
            basis = np.linalg.qr(before[:, own_and_others(wide, m, without=n)])[0]
            if basis.shape[1] + series.order(m) * (there.stop - there.start) >= len(now):
                found[m, n] = 1.0  # any series at all would explain what is left
                continue
            left = now - basis @ (basis.T @ now)
            places = _nearest(steps) + stream.choice(
                distinct_shifts(steps), size=count, replace=False
            )
            seen, *chance = [
                _explained(
                    _late(series.states[:, there], int(by), series.order(m), past), basis, left
                )
                for by in (0, *places)
            ]
            found[m, n] = (1 + sum(one >= seen for one in chance)) / (count + 1)
    return found


def distinct_shifts(steps: int) -> int:
    """By how many steps states can be shifted in a circle and be a tenth of it away on both
    sides.
    """
    return max(0, steps - 2 * _nearest(steps))


def _nearest(steps: int) -> int:
    return max(1, steps // 10)


def _late(states: F64, by: int, lags: int, first: int) -> F64:
    """Return lags of one client's states, rotated by a number of steps, from step `first` on: [T -
    first, L P].
    """
    shifted = np.roll(states, by, axis=0)
    return np.concatenate(
        [shifted[first - 1 - lag : len(shifted) - 1 - lag] for lag in range(lags)], axis=1
    )


def _explained(driver: F64, basis: F64, left: F64) -> float:
    """How much of the squared residual `left` a driver's states explain beyond an orthonormal
    `basis`, to which `left` is orthogonal.
    """
    known = basis.T @ driver
    reached = driver.T @ left
    inverse = np.linalg.pinv(driver.T @ driver - known.T @ known, rcond=1e-10, hermitian=True)
    return float((reached * (inverse @ reached)).sum())


def adjusted(p_values: F64) -> F64:
    """p-values corrected for their number, of the same shape: the lowest false discovery rate at
    which each is reported.

    Of N tests the k-th smallest becomes p N / k, made to rise with k (Benjamini and Hochberg 1995):
    told at 0.05, one edge in twenty of
    those told is expected to be none, however many pairs there are. It holds for independent tests
    and such that go up together
    (Benjamini and Yekutieli 2001). NaN, where nothing was tested, stays so and does not count.

    Example:
        >>> adjusted(np.array([0.01, 0.02, 0.04, np.nan])).tolist()
        [0.03, 0.03, 0.04, nan]
    """
    found = p_values.copy()
    tested = np.isfinite(p_values)
    own = p_values[tested]
    order = np.argsort(own)[::-1]
    ranks = np.arange(len(own), 0, -1)
    risen = np.empty_like(own)
    risen[order] = np.minimum(1.0, np.minimum.accumulate(own[order] * len(own) / ranks))
    risen = np.array(
        [float(f"{value:.15g}") for value in risen]
    )  # 3 of 120 times 6 / 3 is 0.05, and no more than a level of 0.05
    found[tested] = risen
    return found
