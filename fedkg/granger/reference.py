"""Estimates that the learning is held against: what the server could do with the states it has, and how sure an edge is.

Letters: M clients, T steps, S states of all clients, O states of all others, R shifts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import UsageError
from fedkg.granger.moments import Series

F64 = NDArray[np.float64]


def innovation_label(series: Series, ridge: float = 0.0) -> F64:
    """Least squares of h_m^t - A_mm h_m^{t-1} on the others' states at t - 1 .. t - L: the blocks A_mn, [S, L S].

    It needs no augmentation and is not attenuated where the filters follow the states (K C near I), but fits noise where the driven client
    is loud (section 5).
    """
    total = series.states.shape[1]
    found = np.zeros((total, series.lags * total))
    before = series.regressors[series.lags - 1 : -1]
    for m, place in enumerate(series.places):
        drivers = series.drivers(m)
        others, label = before[:, drivers], labels(series, m)
        square = others.T @ others + ridge * len(others) * np.eye(others.shape[1])
        found[place, drivers] = np.linalg.lstsq(square, others.T @ label, rcond=None)[0].T
    return found


def labels(series: Series, m: int) -> F64:
    """h_m^t - A_mm h_m^{t-1} from where all lags are known, [T - L, P]: what others have to do with client m's states."""
    own, known = series.states[:, series.places[m]], slice(series.lags - 1, -1)
    return own[series.lags :] - own[known] @ series.clients[m].transition.T


def best_lags(series: Series, most: int) -> NDArray[np.int64]:
    """How many lags each client's drivers are worth, int64 [M], 0 .. `most`, by the least Bayesian information criterion.

    Of the regression of `innovation_label`: n log|residual covariance| + k log n with n = T - `most` steps for every candidate, and k
    coefficients (Luetkepohl 2005, section 4.3); 0 where no driver is worth its coefficients.

    Raises:
        UsageError: fewer steps than the regression with `most` lags has coefficients, which would fit them whole.
    """
    wide = replace(series, lags=most)
    regressors, total = wide.regressors[most - 1 : -1], series.states.shape[1]
    if len(series.states) - most <= most * total:
        raise UsageError(
            f"too few steps to choose among {most} lags",
            expected=f"more than {most + most * total} steps",
            received=str(len(series.states)),
            help="give a number of lags, or more steps",
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


def p_values(series: Series, *, shifts: int = 99, seed: int = 0) -> F64:
    """How often chance alone makes an edge as strong, [M, M]; row m, column n: n drives m. NaN where nothing is to be tested.

    Under no causation the driver's states may as well be those of another time: they are shifted in a circle by at least a tenth of the
    series, which keeps their own course, and the edge is estimated again by `innovation_label` (a permutation test after Phipson and Smyth
    2010: (1 + those as strong) / (R + 1)). The strength is the reduction of the residual by the driver, given all other drivers.

    Raises:
        UsageError: fewer than 19 shifts, with which nothing can be significant at 5 %.
    """
    if shifts < 19:
        raise UsageError("too few shifts for a p-value", expected="at least 19", received=str(shifts))
    stream = np.random.default_rng(seed)
    steps, clients = len(series.states), len(series.clients)
    least = max(1, steps // 10)
    found = np.full((clients, clients), np.nan)
    for m in range(clients):
        before, label = series.regressors[series.lags - 1 : -1], labels(series, m)
        for n, there in enumerate(series.places):
            if m == n or not series.allowed[m, n]:
                continue
            own = np.zeros(series.states.shape[1], dtype=np.bool_)
            own[there] = True
            driver = np.tile(own, series.lags)
            rest = before[:, series.drivers(m) & ~driver]
            basis = np.linalg.qr(rest)[0] if rest.shape[1] else np.zeros((len(before), 0))
            left = label - basis @ (basis.T @ label)
            seen = _explained(before[:, driver], basis, left)
            places = stream.integers(least, steps - least, size=shifts)
            shifted = (replace(series, states=np.roll(series.states, int(by), axis=0)).regressors[series.lags - 1 : -1] for by in places)
            chance = [_explained(other[:, driver], basis, left) for other in shifted]
            found[m, n] = (1 + sum(one >= seen for one in chance)) / (shifts + 1)
    return found


def _explained(driver: F64, basis: F64, left: F64) -> float:
    """How much of the squared residual `left` a driver's states explain beyond `basis`."""
    own = driver - basis @ (basis.T @ driver)
    new = np.linalg.qr(own)[0]
    return float(((new.T @ left) ** 2).sum())
