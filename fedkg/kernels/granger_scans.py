"""Compiled loops over time.

Letters: T steps, S states of all clients at all lags, P states of the client, D measurements of the
client.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkg.kernels.kernel_compilation import kernel

F64 = NDArray[np.float64]


@kernel
def affine_scan(step: F64, pushes: F64) -> F64:
    """x^t = step x^{t-1} + pushes^t from zero: [T, P]."""
    steps, states = pushes.shape
    found = np.empty((steps, states))
    for t in range(steps):
        for i in range(states):
            value = pushes[t, i]
            if t:
                for j in range(states):
                    value += step[i, j] * found[t - 1, j]
            found[t, i] = value
    return found


@kernel
def epoch(
    y: F64,
    h: F64,
    lags: int,
    aligned: F64,
    surprise: F64,
    transition: F64,
    square: F64,
    theta: F64,
    row: F64,
    allowed: F64,
    sizes: F64,
    rates: F64,
    losses: F64,
) -> int:
    """One client's pass through all steps in the order of time: algorithm 2 with the corrected
    equations, in place.

    Args:
        y: measurements, [T, D].
        h: regressors, [T, S].
        lags: number of steps that the regressors reach back.
        aligned: B^T r_c with B = C A, [T, P].
        surprise: |r_c|^2, [T].
        transition: A, [P, P].
        square: B^T B, [P, P].
        theta: the augmentation, [P, D], updated in place.
        row: the causes of this client, [P, S], updated in place.
        allowed: 1 for each column of `row` that is learnt, else 0, for the first columns only: as
            many as there are states at the client's own lags. The other columns stay 0.
        sizes: for each column the squared norm of the states of its driver, [T, S]; read only if
            steps are normalised for each driver separately.
        rates: six numbers: eta_1, eta_2, gamma, ridge, epsilon of normalised steps (-1 for other
            steps), and 1 if the server divides by the norm of all drivers together, else 0.
        losses: [2], to which the sums of |r_a|^2 and |e|^2 over the steps are added.

    Returns:
        The first step at which a loss is not finite; 0 if there is none.
    """
    steps, seen = y.shape
    states, total = len(row), len(allowed)
    eta1, eta2, gamma, ridge, eps, together = (
        rates[0],
        rates[1],
        rates[2],
        rates[3],
        rates[4],
        rates[5] > 0.0,
    )
    d, e, push, fitted = np.empty(states), np.empty(states), np.empty(states), np.empty(states)
    for t in range(lags, steps):
        before, now = y[t - 1], h[t - 1]
        for i in range(states):
            value = 0.0
            for k in range(seen):
                value += theta[i, k] * before[k]
            d[i] = value
        client, server = surprise[t], 0.0
        for i in range(states):
            value, curved = 0.0, 0.0
            for j in range(states):
                value += transition[i, j] * d[j]
                curved += square[i, j] * d[j]
            for j in range(total):
                value -= row[i, j] * now[j]
            e[i] = value
            fitted[i] = curved
            client += d[i] * (curved - 2.0 * aligned[t, i])
            server += value * value
        if not (np.isfinite(client) and np.isfinite(server)):
            return t
        losses[0] += client
        losses[1] += server
        own, whole = 1.0, 1.0
        if eps >= 0.0:
            own, whole = eps, eps
            for k in range(seen):
                own += before[k] * before[k]
            for j in range(total):
                whole += allowed[j] * now[j] * now[j]
        for i in range(states):
            back = 0.0
            for j in range(states):
                back += transition[j, i] * e[j]
            push[i] = (2.0 * eta1 * (aligned[t, i] - fitted[i]) - 2.0 * eta2 * back) / own
        shrink = 1.0 - 2.0 * eta1 * ridge / own
        for i in range(states):
            for j in range(total):
                rate = 2.0 * gamma / (whole if together or eps < 0.0 else eps + sizes[t - 1, j])
                row[i, j] += rate * allowed[j] * (e[i] * now[j] - ridge * row[i, j])
            for k in range(seen):
                theta[i, k] = shrink * theta[i, k] + push[i] * before[k]
    return 0


@kernel
def filled_scan(y: F64, emission: F64, transition: F64, gain: F64) -> F64:
    """Return the posterior states [T, P] of a filter from zero; unknown measurements (NaN) are
    filled in place.

    What is unknown is taken to be what the filter expects, C A h^{t-1}: it corrects nothing, and no
    later step has a say in it.
    """
    steps, seen = y.shape
    states = len(transition)
    found = np.zeros((steps, states))
    ahead = np.zeros(states)
    for t in range(steps):
        if t:
            for i in range(states):
                value = 0.0
                for j in range(states):
                    value += transition[i, j] * found[t - 1, j]
                ahead[i] = value
        for i in range(states):
            found[t, i] = ahead[i]
        for k in range(seen):
            expected = 0.0
            for j in range(states):
                expected += emission[k, j] * ahead[j]
            if np.isnan(y[t, k]):
                y[t, k] = expected
            miss = y[t, k] - expected
            for i in range(states):
                found[t, i] += gain[i, k] * miss
    return found
