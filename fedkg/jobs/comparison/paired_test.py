"""Is one algorithm ahead of another, or was it chance? The one place that says so, for the run's summary and for its report alike."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from fedkg.jobs.comparison.mean_interval import mean_interval

ONE_SIDED_T_QUANTILES = (
    6.314,
    2.920,
    2.353,
    2.132,
    2.015,
    1.943,
    1.895,
    1.860,
    1.833,
    1.812,
    1.796,
    1.782,
    1.771,
    1.761,
    1.753,
    1.746,
    1.740,
    1.734,
    1.729,
)
"""95 % quantiles of Student's t with 1, 2, ... degrees of freedom; they fall, so that the last one is on the safe side for all beyond."""

EQUAL_PAIRS_TOLERANCE = 1e-6
"""Spread of two pairs, as a share of their mean, below which they are the same figure twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest:
    """A figure of one algorithm against another's on the same seeds.

    Attributes:
        pairs: one minus the other, seed by seed, where both were measured.
        mean, spread: of the pairs; the spread (standard deviation) is NaN for fewer than two.
        clear: 1 where the one is ahead beyond chance, -1 where the other is, 0 where neither is: a paired t-test of the mean, one-sided at
            5 %. With three seeds the mean must be 1.7 times the spread. Two pairs that are alike have no spread to judge by, and say
            nothing. It says nothing of other data, other sites or other models.
    """

    differences: tuple[float, ...]
    mean: float
    spread: float
    direction: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean (two-sided, so that it may hold 0 where `clear` is not 0); None for fewer than two pairs."""
        return mean_interval(self.differences)

    @property
    def higher(self) -> int:
        """On how many seeds the one is higher."""
        return sum(pair > 0 for pair in self.differences)

    @property
    def lower(self) -> int:
        """On how many seeds the one is lower."""
        return sum(pair < 0 for pair in self.differences)


def paired_test(one: Sequence[float | None], other: Sequence[float | None]) -> PairedTest:
    """The verdict on two lists of figures, seed by seed; None and NaN are figures that were not measured."""
    differences = tuple(
        a - b
        for a, b in zip(one, other, strict=True)
        if a is not None and b is not None and not math.isnan(a - b)
    )
    mean = statistics.fmean(differences) if differences else math.nan
    if len(differences) < 2:
        return PairedTest(differences=differences, mean=mean, spread=math.nan, direction=0)
    spread = statistics.stdev(differences)
    quantile = ONE_SIDED_T_QUANTILES[min(len(differences) - 1, len(ONE_SIDED_T_QUANTILES)) - 1]
    alike = len(differences) == 2 and spread <= EQUAL_PAIRS_TOLERANCE * abs(mean)
    sure = not alike and abs(mean) > quantile * spread / math.sqrt(len(differences))
    return PairedTest(
        differences=differences,
        mean=mean,
        spread=spread,
        direction=0 if not sure else 1 if mean > 0 else -1,
    )
