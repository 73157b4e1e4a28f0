"""Intervals of violation rates against published values and SciPy."""

from __future__ import annotations

import pytest
from scipy.stats import binomtest

from fedkg.evaluation.violation_rate_drift import (
    difference_interval,
    measure_drift,
    wilson_interval,
)


@pytest.mark.parametrize(("count", "total"), [(0, 7), (3, 50), (7, 7), (499, 1000)])
def test_wilson_intervals_are_those_of_scipy(count: int, total: int) -> None:
    expected = binomtest(count, total).proportion_ci(method="wilson")
    assert wilson_interval(count, total) == pytest.approx((expected.low, expected.high))


def test_the_interval_of_a_difference_is_that_of_newcombe() -> None:
    """Table II of Newcombe (1998), method 10: 56/70 - 48/80."""
    assert difference_interval((56, 70), (48, 80)) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_drift_needs_an_interval_beside_zero() -> None:
    assert measure_drift(30, 100, (10, 100)).state == "higher"
    assert measure_drift(10, 100, (30, 100)).state == "lower"
    assert measure_drift(11, 100, (10, 100)).state == "none"
    assert measure_drift(0, 0, (10, 100)).state == "unknown"
    assert measure_drift(1, 10, None).state == "unknown"
