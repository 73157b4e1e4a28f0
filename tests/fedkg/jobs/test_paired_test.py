"""The paired t-test, compared with scipy and with hand-computed numbers."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from fedkg.jobs.comparison.paired_test import ONE_SIDED_T_QUANTILES, paired_test

NAN = float("nan")


@pytest.mark.parametrize(
    ("one", "other", "clear"),
    [
        ((0.6, 0.71), (0.5, 0.6), 1),
        ((0.5, 0.6), (0.6, 0.71), -1),
        ((0.6, 0.7), (0.5, 0.6), 0),  # twice the same: no estimate of chance is possible
        ((0.6, 0.7, 0.5), (0.5, 0.6, 0.4), 1),
        ((0.6, 0.7), (0.5, 0.75), 0),
        ((0.6,), (0.1,), 0),
        ((0.6, 0.9), (0.59, 0.5), 0),
        (
            (0.280, 0.472, 0.316),
            (0.187, 0.449, 0.153),
            0,
        ),  # higher on all three seeds by 1.3 times the spread: one chance in fifteen
        ((0.632, 0.643, 0.633), (0.187, 0.449, 0.153), 1),
        ((0.5, 0.5), (0.5, 0.5), 0),
        ((), (), 0),
        ((NAN, 0.6, None, 0.71), (0.1, 0.5, 0.2, 0.6), 1),
    ],
)
def test_a_lead_counts_beyond_chance(
    one: tuple[float, ...], other: tuple[float, ...], clear: int
) -> None:
    assert paired_test(one, other).direction == clear


def test_it_is_the_one_sided_paired_t_test() -> None:
    from scipy import stats

    stream = np.random.Generator(np.random.PCG64(1))
    for count in range(2, 18):
        one, other = stream.normal(0.3, 1.0, count), stream.normal(0.0, 1.0, count)
        p = stats.ttest_rel(one, other, alternative="greater").pvalue
        assert paired_test(one.tolist(), other.tolist()).direction == (
            1 if p < 0.05 else -1 if p > 0.95 else 0
        )


def test_the_quantiles() -> None:
    from scipy import stats

    assert (
        pytest.approx(
            [stats.t.ppf(0.95, i) for i in range(1, len(ONE_SIDED_T_QUANTILES) + 1)], abs=6e-4
        )
        == ONE_SIDED_T_QUANTILES
    )


def test_figures_and_ties() -> None:
    found = paired_test((0.5, 0.4, 0.4), (0.5, 0.5, 0.5))
    assert (found.higher, found.lower) == (0, 2)
    assert found.mean == pytest.approx(-0.2 / 3)
    assert found.spread == pytest.approx(0.1 / math.sqrt(3))


def test_it_needs_no_torch() -> None:
    code = (
        "import sys, fedkg.jobs.comparison.paired_test, fedkg.violation_rate_zones; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
