"""Regression by classes: a number's span cut into bins of equal width (Fan et al. 2022, appendix C).

Bin i of k over [l, u] is ``[l + i w, l + (i + 1) w)`` with ``w = (u - l) / k``; the last one has its end, u, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


def bin_edges(span: tuple[float, float], count: int) -> Float:
    """The ends of the bins, [count + 1]. Raises ValueError for a span or a count that gives no bins."""
    low, high = span
    if count < 1 or not low < high or not np.isfinite([low, high]).all():
        raise ValueError(f"no {count} bins between {low:g} and {high:g}")
    return np.linspace(low, high, count + 1)


def bin_centres(ends: Float) -> Float:
    """The middle of each bin, [k]."""
    return np.asarray((ends[1:] + ends[:-1]) / 2)


def bin_of(number: Float, ends: Float) -> Float:
    """The bin of each number, as float64 [B]; NaN for what is unknown, the outermost bin for what lies outside of the span."""
    place = np.clip(
        np.searchsorted(ends, number + _slack(ends), side="right") - 1, 0, len(ends) - 2
    ).astype(np.float64)
    return np.where(np.isnan(number), np.nan, place)


def bins_in_interval(interval: Float, ends: Float, *, open_end: bool = False) -> NDArray[np.bool_]:
    """Which bins an interval meets, bool [B, k], from intervals [B, 2]; an empty interval, or one beyond the span, meets none.

    Args:
        open_end: the intervals are without their upper ends: a bin that begins there is not met.
    """
    low, high = interval[:, :1], interval[:, 1:]
    below, above = ends[None, :-1], ends[None, 1:]
    slack = _slack(ends)
    meets = (low + slack < above) & (high - slack > below if open_end else high + slack >= below)
    meets[:, -1] |= (low[:, 0] <= ends[-1]) & (high[:, 0] >= ends[-2])
    return np.asarray(meets & (low <= high))


def _slack(ends: Float) -> float:
    """How far below a bin's beginning a number still counts as that beginning: 0.3 is the end of the third tenth of 0 .. 1."""
    return 1e-12 * float(ends[-1] - ends[0])


def expected_number(probabilities: Float, ends: Float) -> Float:
    """The mean of the bins' centres under probabilities [B, k]: a number for each sample, [B]."""
    return np.asarray(probabilities @ bin_centres(ends))
