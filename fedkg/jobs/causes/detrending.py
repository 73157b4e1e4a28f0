"""Remove what all measurements share before causal discovery: a periodic pattern, a slow drift.

Clients that follow one clock or wear out together predict each other without causing each other.
Letters: T steps, D columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


def remove_season(values: F64, season: int, known: int) -> F64:
    """Values [T, D] minus their mean seasonal pattern, estimated from the first `known` steps."""
    place = np.arange(len(values)) % season
    own = values[:known]
    counts = np.bincount(place[:known], minlength=season)
    sums = np.stack(
        [np.bincount(place[:known], weights=column, minlength=season) for column in own.T], axis=1
    )
    means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], own.mean(axis=0))
    return np.asarray(values - means[place], dtype=np.float64)


def remove_trend(values: F64, trend: int, starts: Sequence[int] = (0,)) -> F64:
    """Values [T, D] minus the mean of the `trend` steps before each, within its run.

    Later steps have no influence. The first steps of a run use the steps available before them; the
    very first value becomes 0.
    """
    found = np.empty_like(values)
    for start, stop in pairwise((*starts, len(values))):
        own = values[start:stop]
        sums = np.concatenate([np.zeros((1, own.shape[1])), np.cumsum(own - own[:1], axis=0)])
        here = np.arange(len(own))
        begin = np.maximum(here - trend, 0)
        found[start:stop] = (
            own - own[:1] - (sums[here] - sums[begin]) / np.maximum(here - begin, 1)[:, None]
        )
    return found
