"""What all measurements have in common is taken away before causes are looked for: a course that repeats, a slow drift.

Clients that follow one clock, or wear out together, foretell each other without driving each other. Letters: T steps, D columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


def remove_season(values: F64, season: int, known: int) -> F64:
    """Values [T, D] less the mean course over so many steps, as the first `known` steps have it."""
    place = np.arange(len(values)) % season
    own = values[:known]
    counts = np.bincount(place[:known], minlength=season)
    sums = np.stack(
        [np.bincount(place[:known], weights=column, minlength=season) for column in own.T], axis=1
    )
    means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], own.mean(axis=0))
    return np.asarray(values - means[place], dtype=np.float64)


def remove_trend(values: F64, trend: int, starts: Sequence[int] = (0,)) -> F64:
    """Values [T, D] less the mean of the `trend` steps before each, within its run: nothing of later steps comes in.

    The first steps of a run have the mean of those that there are before them; the very first is 0.
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
