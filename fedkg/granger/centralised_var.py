"""What a plant that gives up all measurements would find: a vector autoregression at one place,
tested for Granger causes.

Letters: T steps, M clients, D measurements of all clients, L lags, K = L D + 1 coefficients of an
equation.
Source: Luetkepohl 2005, section 3.6.1: the F form of the Wald test that all coefficients of the
causing in the equations of the caused
are zero, the same as `VAR.test_causality(kind="f")` of statsmodels, to which the tests hold it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import UsageError

F64 = NDArray[np.float64]


def centralised(
    measurements: Sequence[F64], *, lags: int = 1, allowed: NDArray[np.bool_] | None = None
) -> F64:
    """p-values of a VAR with a constant on the measurements of all clients, [M, M]; row m, column
    n: n drives m.

    NaN on the diagonal.

    Args:
        measurements: [T, D_m] of each client, with D_m its number of measurements.
        lags: L.
        allowed: bool [M, M], the pairs to test; None: all. The p-values of other pairs are NaN, but
            the measurements of all clients are regressors.

    Raises:
        UsageError: too few steps for the coefficients, or measurements that repeat each other.
    """
    from scipy.stats import f

    together = np.concatenate(measurements, axis=1)
    deviation = together.std(axis=0)
    together = (together - together.mean(axis=0)) / np.where(
        deviation > 0, deviation, 1.0
    )  # the test is the same in every unit
    steps, width = together.shape
    count = steps - lags
    free = count - lags * width - 1
    if free < 1:
        raise UsageError(
            "too few steps for a VAR on all measurements",
            expected=f"more than {lags * (width + 1) + 1} steps",
            received=f"{steps} steps",
            help="use fewer lags, fewer measurements or more steps",
        )
    past = [together[lags - 1 - lag : steps - 1 - lag] for lag in range(lags)]
    known = np.concatenate([np.ones((count, 1)), *past], axis=1)
    if np.linalg.matrix_rank(known) < known.shape[1]:
        raise UsageError(
            "some measurements repeat others, so a VAR cannot distinguish them",
            help="leave out columns that are constant or copies",
        )
    inverse = np.linalg.inv(known.T @ known)
    weights = inverse @ known.T @ together[lags:]
    left = together[lags:] - known @ weights
    spread = left.T @ left / free
    ends = np.cumsum([0, *(own.shape[1] for own in measurements)]).tolist()
    found = np.full((len(measurements),) * 2, np.nan)
    for m in range(len(measurements)):
        caused = slice(ends[m], ends[m + 1])
        for n in range(len(measurements)):
            if m == n or (allowed is not None and not allowed[m, n]):
                continue
            causing = np.concatenate(
                [1 + lag * width + np.arange(ends[n], ends[n + 1]) for lag in range(lags)]
            )
            block = weights[causing, caused]
            solved = np.linalg.solve(inverse[np.ix_(causing, causing)], block)
            wald = float(np.trace(block.T @ solved @ np.linalg.inv(spread[caused, caused])))
            found[m, n] = f.sf(wald / block.size, block.size, width * free)
    return found
