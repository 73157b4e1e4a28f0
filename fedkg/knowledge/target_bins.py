"""Regression as classification: a number's span divided into bins of equal width (Fan et al. 2022,
appendix C).

Bin i of k over [l, u] is ``[l + i w, l + (i + 1) w)`` with ``w = (u - l) / k``; the last one
includes its end, u.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


def bin_edges(span: tuple[float, float], count: int) -> Float:
    """The edges of the bins, [count + 1]. Raises ValueError if the span or the count gives no
    bins."""
    low, high = span
    if count < 1 or not low < high or not np.isfinite([low, high]).all():
        raise ValueError(
            f"cannot divide {low:g} .. {high:g} into {count} bins: a span needs two finite ends,"
            " the lower one first, and at least one bin"
        )
    return np.linspace(low, high, count + 1)


def bin_centres(ends: Float) -> Float:
    """The centre of each bin, [k]."""
    return np.asarray((ends[1:] + ends[:-1]) / 2)


def bin_of(number: Float, ends: Float) -> Float:
    """The bin of each number, as float64 [B]; NaN for unknown numbers, the outermost bin for
    numbers outside the span.
    """
    place = np.clip(
        np.searchsorted(ends, number + bin_slack(ends), side="right") - 1, 0, len(ends) - 2
    ).astype(np.float64)
    return np.where(np.isnan(number), np.nan, place)


def bins_in_interval(interval: Float, ends: Float, *, open_end: bool = False) -> NDArray[np.bool_]:
    """The bins that an interval intersects, bool [B, k], from intervals [B, 2].

    An empty interval, or one outside the span, intersects none.

    Args:
        open_end: the intervals exclude their upper ends, so they do not intersect a bin that begins
            there.
    """
    low, high = interval[:, :1], interval[:, 1:]
    below, above = ends[None, :-1], ends[None, 1:]
    slack = bin_slack(ends)
    reaches = high - slack > below if open_end else high + slack >= below
    meets = (low + slack < above) & reaches
    meets[:, -1] |= (low[:, 0] <= ends[-1]) & reaches[:, -1]
    return np.asarray(meets & (low <= high))


def bin_slack(ends: Float) -> float:
    """Tolerance at the beginning of a bin: 0.3 is the end of the third tenth of 0 .. 1 in spite of
    rounding.
    """
    return 1e-12 * float(ends[-1] - ends[0])


def expected_number(probabilities: Float, ends: Float) -> Float:
    """The mean of the bins' centres under probabilities [B, k]: a number for each sample, [B]."""
    return np.asarray(probabilities @ bin_centres(ends))
