"""Drift of violation rates: is the difference of two proportions more than chance?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Z = 1.959963984540054
"""The 97.5 % quantile of the normal distribution, for intervals of 95 %."""

METHOD = "Newcombe (1998), method 10: hybrid of Wilson intervals, 95 %"

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The change of a rule's violation rate.

    Attributes:
        before: the earlier rate; None if it is not known.
        difference: the rate now minus the earlier one; None if one of them is not known.
        interval: the 95 % interval of the difference; None without one.
        state: ``higher`` or ``lower`` if the interval excludes 0, ``none`` if it contains 0,
            ``unknown`` without an interval.
    """

    before: float | None
    difference: float | None
    interval: Interval | None
    state: Literal["higher", "lower", "none", "unknown"]


def measure_drift(violated: int, decided: int, before: tuple[int, int] | None) -> Drift:
    """The drift of a violation rate, with the interval of independent evaluations.

    Consecutive rows resemble each other, so real intervals are wider.

    Args:
        violated: violated evaluations now.
        decided: evaluations with a verdict now.
        before: the same two numbers earlier; None if they are not known.
    """
    if before is None or not before[1] or not decided:
        rate = before[0] / before[1] if before is not None and before[1] else None
        return Drift(before=rate, difference=None, interval=None, state="unknown")
    low, high = difference_interval((violated, decided), before)
    return Drift(
        before=before[0] / before[1],
        difference=violated / decided - before[0] / before[1],
        interval=(low, high),
        state="higher" if low > 0 else "lower" if high < 0 else "none",
    )


def wilson_interval(count: int, total: int) -> Interval:
    """Wilson's score interval of a proportion (Wilson 1927, without continuity correction).

    Args:
        count: successes.
        total: trials, at least 1.
    """
    z, share = Z, count / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    root = math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    half = z / (1 + z * z / total) * root
    low = 0.0 if count == 0 else max(0.0, middle - half)
    return low, 1.0 if count == total else min(1.0, middle + half)


def difference_interval(one: tuple[int, int], other: tuple[int, int]) -> Interval:
    """The interval of the difference of two independent proportions.

    Newcombe, Statistics in Medicine 17 (1998), 873-890, method 10.

    Args:
        one: successes and trials.
        other: those of the proportion that is subtracted.
    """
    p, q = one[0] / one[1], other[0] / other[1]
    (low, high), (lower, upper) = wilson_interval(*one), wilson_interval(*other)
    return (p - q - math.hypot(p - low, upper - q), p - q + math.hypot(high - p, q - lower))
