"""Comparisons of algorithms over few seeds: confidence intervals of a mean by Student's t, the
paired test behind every statement that one algorithm is better than another, and the differences
between algorithms on the same seeds with confidence intervals.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedkg.jobs.comparison_metric import MEASURE_BY_COLUMN, Measure

T_QUANTILES = (
    *(
        12.706205,
        4.302653,
        3.182446,
        2.776445,
        2.570582,
        2.446912,
        2.364624,
        2.306004,
        2.262157,
        2.228139,
    ),
    *(
        2.200985,
        2.178813,
        2.160369,
        2.144787,
        2.131450,
        2.119905,
        2.109816,
        2.100922,
        2.093024,
        2.085963,
    ),
    *(
        2.079614,
        2.073873,
        2.068658,
        2.063899,
        2.059539,
        2.055529,
        2.051831,
        2.048407,
        2.045230,
        2.042272,
    ),
)
"""97.5 % quantiles of Student's t with 1, 2, ... degrees of freedom.

They decrease, so the last one is conservative for more degrees of freedom.
"""


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean.

    ``mean +/- t spread / sqrt(n)``; None for fewer than two values.

    NaN marks an unmeasured value. The interval covers the randomness of seeds (splits, initial
    models, sampling) only, not other data, sites or models.
    """
    known = [value for value in values if not math.isnan(value)]
    if len(known) < 2:
        return None
    half = (
        T_QUANTILES[min(len(known) - 1, len(T_QUANTILES)) - 1]
        * statistics.stdev(known)
        / math.sqrt(len(known))
    )
    mean = statistics.fmean(known)
    return mean - half, mean + half


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


def paired_test_on_common_seeds(
    one: Mapping[int, float | None], other: Mapping[int, float | None]
) -> PairedTest:
    """Test two figures by seed on the seeds of both: of a sweep, single runs can fail."""
    seeds = sorted(one.keys() & other.keys())
    return paired_test([one[seed] for seed in seeds], [other[seed] for seed in seeds])


Result = dict[str, Any]
"""A row of `results.json`. `Any`: texts, numbers and small mappings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """A row of the comparison against a reference row.

    Attributes:
        where: the common setting in words.
        one: name of the row.
        other: name of the reference.
        test: the paired test of one minus other.
        measure: the compared figure.
    """

    where: str
    one: str
    other: str
    test: PairedTest
    measure: Measure


def compare_pairs(results: Sequence[Result]) -> list[PairedDifference]:
    """Every row against FedAvg in its setting (or the first row), on the common seeds.

    If every setting has only one algorithm, this compares the settings with the first one.
    """
    scenarios: dict[tuple[Any, ...], list[Result]] = {}
    figure = results[0]["measure"] if results else "f1"
    for row in results:
        scenarios.setdefault((tuple(row["setting"].items()), row["corrupted"]), []).append(row)
    if all(
        len([row for row in scenario if not row["baseline"]]) < 2 for scenario in scenarios.values()
    ):
        asked = [row for row in results if not row["baseline"]]
        return [
            _compare("", _row_name(row), _row_name(asked[0]), row, asked[0], figure)
            for row in asked[1:]
        ] + _against_baseline(scenarios, figure)
    compared = []
    for scenario in scenarios.values():
        base = next((row for row in scenario if row["preset"] == "fedavg"), scenario[0])
        compared += [
            _compare(_setting_text(row), row["title"], base["title"], row, base, figure)
            for row in scenario
            if row is not base
        ]
    return compared


def describe_setting_differences(results: Sequence[Result]) -> list[str]:
    """Sentences about differences between settings, which `describe_comparison` leaves out."""
    title = MEASURE_BY_COLUMN[results[0]["measure"]].title if results else ""
    return [
        _sentence(pair, title)
        for pair in compare_pairs(results)
        if not pair.where and pair.test.differences
    ]


def _against_baseline(
    scenarios: dict[tuple[Any, ...], list[Result]], figure: str
) -> list[PairedDifference]:
    """Local training against the first row of its setting."""
    return [
        _compare(_setting_text(row), row["title"], scenario[0]["title"], row, scenario[0], figure)
        for scenario in scenarios.values()
        for row in scenario[1:]
        if row["baseline"]
    ]


def _compare(
    where: str, one: str, other: str, row: Result, base: Result, figure: str
) -> PairedDifference:
    return PairedDifference(
        where=where,
        one=one,
        other=other,
        test=compare_on_common_seeds(row, base, figure),
        measure=MEASURE_BY_COLUMN[figure],
    )


def compare_on_common_seeds(
    row: Mapping[str, Any], base: Mapping[str, Any], figure: str
) -> PairedTest:
    """Test a figure of two rows on the seeds of both.

    `Any`: see `fedkg.jobs.comparison.summary.Result`.
    """
    known = (dict(zip(one["seed_list"], one[figure]["values"], strict=True)) for one in (row, base))
    return paired_test_on_common_seeds(*known)


def _setting_text(row: Result) -> str:
    parts = [f"{field.rpartition('.')[2]} {value}" for field, value in row["setting"].items()]
    return (
        ", ".join(parts + ([f"{row['corrupted']} corrupted"] if row["corrupted"] else []))
        or "as given"
    )


def _row_name(row: Result) -> str:
    """The setting of a row, or its algorithm if it has no setting."""
    return row["title"] if _setting_text(row) == "as given" else _setting_text(row)


def _sentence(pair: PairedDifference, title: str) -> str:
    test = pair.test
    if math.isnan(test.mean):
        return ""
    low, high = test.interval or (math.nan, math.nan)
    by = (
        f"{'higher' if test.mean > 0 else 'lower'} by {abs(test.mean):.3f}"
        if test.mean
        else "equal"
    )
    if len(test.differences) == 1:
        return f"{title} with {pair.one} against {pair.other}: {by}, on one seed only."
    clear = "clearly" if test.direction else "not significant:"
    return (
        f"{title} with {pair.one} against {pair.other}: {clear} {by} (95 % interval "
        f"{low:+.3f} to {high:+.3f}, {len(test.differences)} seeds)."
    )
