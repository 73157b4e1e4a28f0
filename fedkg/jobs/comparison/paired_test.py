"""The paired test behind every statement that one algorithm is better than another."""

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
"""95 % quantiles of Student's t with 1, 2, ... degrees of freedom.

They decrease, so the last one is conservative for more degrees of freedom.
"""

EQUAL_PAIRS_TOLERANCE = 1e-6
"""Relative spread below which two pairs count as the same value twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest:
    """A figure of one algorithm against another on the same seeds.

    Attributes:
        differences: one minus other, seed by seed, if both were measured.
        mean: of the differences.
        spread: their standard deviation; NaN for fewer than two.
        direction: 1 if the first is significantly higher, -1 if lower, 0 otherwise: a paired
            one-sided
            t-test at 5 %. With three seeds the mean must exceed 1.7 times the spread. Two equal
    pairs         have no spread and prove nothing. The test covers seeds only, not other data,
    sites or models.
    """

    differences: tuple[float, ...]
    mean: float
    spread: float
    direction: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean; None for fewer than two pairs.

        It is two-sided, so it may contain 0 if `direction` is not 0.
        """
        return mean_interval(self.differences)

    @property
    def higher(self) -> int:
        """Number of seeds on which the first algorithm is higher."""
        return sum(pair > 0 for pair in self.differences)

    @property
    def lower(self) -> int:
        """Number of seeds on which the first algorithm is lower."""
        return sum(pair < 0 for pair in self.differences)


def paired_test(one: Sequence[float | None], other: Sequence[float | None]) -> PairedTest:
    """Test two lists of figures, seed by seed; None and NaN mark unmeasured values."""
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
