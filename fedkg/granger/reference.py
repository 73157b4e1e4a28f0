"""Estimates that the learning is held against: what the server could do with the states it has, and how sure an edge is.

Letters: M clients, T steps, S states of all clients, O states of all others, R shifts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import UsageError
from fedkg.granger.moments import Series

F64 = NDArray[np.float64]


def innovation_label(series: Series, ridge: float = 0.0) -> F64:
    """Least squares of h_m^t - A_mm h_m^{t-1} on the others' states at t - 1: the blocks A_mn, [S, S].

    It needs no augmentation and is not attenuated where the filters follow the states (K C near I), but fits noise where the driven client
    is loud (section 5).
    """
    found = np.zeros((series.states.shape[1],) * 2)
    before, now = series.states[:-1], series.states[1:]
    for m, place in enumerate(series.places):
        drivers = series.drivers(m)
        others, label = before[:, drivers], now[:, place] - before[:, place] @ series.clients[m].transition.T
        square = others.T @ others + ridge * len(others) * np.eye(others.shape[1])
        found[place, drivers] = np.linalg.lstsq(square, others.T @ label, rcond=None)[0].T
    return found


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
    for m, place in enumerate(series.places):
        before, now = series.states[:-1], series.states[1:]
        label = now[:, place] - before[:, place] @ series.clients[m].transition.T
        for n, there in enumerate(series.places):
            if m == n or not series.allowed[m, n]:
                continue
            drivers = series.drivers(m)
            drivers[there] = False
            rest = before[:, drivers]
            basis = np.linalg.qr(rest)[0] if rest.shape[1] else np.zeros((len(before), 0))
            left = label - basis @ (basis.T @ label)
            seen = _explained(before[:, there], basis, left)
            places = stream.integers(least, steps - least, size=shifts)
            chance = [_explained(np.roll(series.states[:, there], int(by), axis=0)[:-1], basis, left) for by in places]
            found[m, n] = (1 + sum(one >= seen for one in chance)) / (shifts + 1)
    return found


def _explained(driver: F64, basis: F64, left: F64) -> float:
    """How much of the squared residual `left` a driver's states explain beyond `basis`."""
    own = driver - basis @ (basis.T @ driver)
    new = np.linalg.qr(own)[0]
    return float(((new.T @ left) ** 2).sum())
