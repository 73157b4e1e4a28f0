"""Passes through time: NumPy operations step by step, or the compiled loops of
`fedkg.kernels.granger_scans`.

Letters: T steps, S states of all clients at all lags, P states of the client, D measurements of the
client.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkg.kernels.compiled_loop_policy import can_compile_loops

F64 = NDArray[np.float64]


def affine_scan(step: F64, pushes: F64) -> F64:
    """x^t = step x^{t-1} + pushes^t from zero: [T, P]."""
    if can_compile_loops():
        from fedkg.kernels import granger_scans as kernels

        return kernels.affine_scan(step, pushes)
    found = pushes.copy()
    for t in range(1, len(found)):
        found[t] += step @ found[t - 1]
    return found


def filled_scan(y: F64, emission: F64, transition: F64, gain: F64) -> F64:
    """Return the posterior states [T, P] of a filter from zero; unknown measurements (NaN) are
    filled in place. See `kernels.filled_scan`.
    """
    if can_compile_loops():
        from fedkg.kernels import granger_scans as kernels

        return kernels.filled_scan(y, emission, transition, gain)
    found = np.zeros((len(y), len(transition)))
    ahead = np.zeros(len(transition))
    for t, seen in enumerate(y):
        if t:
            ahead = transition @ found[t - 1]
        expected = emission @ ahead
        np.copyto(seen, expected, where=np.isnan(seen))
        found[t] = ahead + gain @ (seen - expected)
    return found


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
    """One client's pass through all steps in the order of time, in place. See `kernels.epoch`.

    Returns:
        The step at which a number was no longer finite, else 0.
    """
    if can_compile_loops():
        from fedkg.kernels import granger_scans as kernels

        return kernels.epoch(
            y, h, lags, aligned, surprise, transition, square, theta, row, allowed, sizes, rates,
            losses,
        )  # fmt: skip
    eta1, eta2, gamma, ridge, eps, together = rates.tolist()
    own, whole = np.ones(len(y)), np.ones((len(y), 1))
    row, h, sizes = (part[:, : len(allowed)] for part in (row, h, sizes))
    if eps >= 0.0:
        own = eps + (y**2).sum(1)
        whole = eps + ((h**2 @ allowed)[:, None] if together else sizes)
    share = 2.0 * gamma * allowed / whole
    with np.errstate(over="ignore", invalid="ignore"):  # divergence is the result
        for t in range(lags, len(y)):
            before, now = y[t - 1], h[t - 1]
            d = theta @ before
            fitted, e = square @ d, transition @ d - row @ now
            client, server = surprise[t] + d @ (fitted - 2.0 * aligned[t]), e @ e
            if not np.isfinite(client + server):
                return t
            losses += client, server
            push = 2.0 * eta1 * (aligned[t] - fitted) - 2.0 * eta2 * (e @ transition)
            row += share[t - 1] * (np.outer(e, now) - ridge * row)
            theta *= 1.0 - 2.0 * eta1 * ridge / own[t - 1]
            theta += np.outer(push / own[t - 1], before)
    return 0
