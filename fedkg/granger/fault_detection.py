"""Faults seen in the losses: what a client's own loss and the server's say at every step, and how
well they tell faults apart.

Letters: M clients, T steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import UsageError
from fedkg.granger.learn import Learnt
from fedkg.granger.moments import Series, surprises

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepLosses:
    """(L_m)_a [T, M] and |e_m|^2 [T, M] of every step, 0 where a step has no steps before it."""

    client: F64
    server: F64


def step_losses(series: Series, found: Learnt) -> StepLosses:
    """The losses with parameters that stay: a fault in a client's own dynamics shows in its own, a
    changed influence of others in both.
    """
    steps, lags = len(series.states), series.lags
    client, server = np.zeros((steps, len(series.clients))), np.zeros((steps, len(series.clients)))
    before = series.regressors[lags - 1 : -1]
    for m, (own, place) in enumerate(zip(series.clients, series.places, strict=True)):
        moved = own.measurements[lags - 1 : -1] @ found.augmentations[m].T
        miss = surprises(series, m)[lags:] - moved @ (own.emission @ own.transition).T
        gap = moved @ own.transition.T - before @ found.causes[place].T
        client[lags:, m], server[lags:, m] = (miss**2).sum(1), (gap**2).sum(1)
    return StepLosses(client=client, server=server)


def area_under_roc(scores: F64, faulty: NDArray[np.bool_]) -> float:
    """The probability that a faulty step scores above a sound one, ties counted half (Mann and
    Whitney 1947).

    Raises:
        UsageError: only faulty, or only sound steps.
    """
    from scipy.stats import rankdata

    bad, good = int(faulty.sum()), int((~faulty).sum())
    if not bad or not good:
        raise UsageError(
            "the area under a ROC curve needs both faulty and healthy steps",
            received=f"{bad} faulty and {good} healthy steps",
        )
    ranks = rankdata(scores)
    return float((ranks[faulty].sum() - bad * (bad + 1) / 2) / (bad * good))
