"""Noise from the operating system's generator has the distribution that the ledger states."""

import math
import os

import numpy as np
import pytest
from scipy import stats

from fedkg.errors import JobError
from fedkg.privacy import system_noise
from fedkg.privacy.system_noise import DEVIATION, add_noise, discrete_gaussian, grid_of, uniform

DRAWS = 100_000


@pytest.fixture
def repeated_bytes(monkeypatch):
    """`os.urandom` with a fixed sequence, so that no test fails by chance."""
    bits = np.random.default_rng(7)
    monkeypatch.setattr(os, "urandom", lambda count: bits.bytes(count))


@pytest.mark.usefixtures("repeated_bytes")
def test_moments_and_distribution_are_gaussian():
    draws = discrete_gaussian(DRAWS) / DEVIATION

    # five standard errors of each moment
    assert abs(draws.mean()) < 5 / math.sqrt(DRAWS)
    assert abs(draws.std() - 1) < 5 / math.sqrt(2 * DRAWS)
    assert abs(stats.skew(draws)) < 5 * math.sqrt(6 / DRAWS)
    assert abs(stats.kurtosis(draws)) < 5 * math.sqrt(24 / DRAWS)
    assert stats.kstest(draws, "norm").statistic < 1.63 / math.sqrt(DRAWS)  # level 0.01


@pytest.mark.usefixtures("repeated_bytes")
def test_small_deviations_match_the_probabilities_number_by_number(monkeypatch):
    """With a deviation of 2, each whole number has a probability that can be summed by hand."""
    monkeypatch.setattr(system_noise, "DEVIATION", 2)
    monkeypatch.setattr(system_noise, "DEVIATION_BITS", 1)
    weights = {x: math.exp(-(x**2) / 8) for x in range(-60, 61)}
    total = sum(weights.values())

    draws = discrete_gaussian(DRAWS)

    seen = range(-6, 7)
    counts = [int((draws == x).sum()) for x in seen]
    expected = [DRAWS * weights[x] / total for x in seen]
    rest = DRAWS - sum(expected)
    found = stats.chisquare([*counts, DRAWS - sum(counts)], [*expected, rest])
    assert found.pvalue > 0.01


@pytest.mark.usefixtures("repeated_bytes")
def test_draws_that_float_cannot_decide_have_the_same_distribution(monkeypatch):
    """Every comparison by further bits, in decimal arithmetic."""
    monkeypatch.setattr(system_noise, "UNSURE", 2.0)

    draws = discrete_gaussian(3_000) / DEVIATION

    assert stats.kstest(draws, "norm").statistic < 1.63 / math.sqrt(3_000)


def test_released_numbers_lie_on_a_grid_that_does_not_depend_on_the_data():
    step = grid_of(1.5, 0.1, 2_000)
    value = np.random.default_rng(0).normal(size=(1, 2_000))

    released = add_noise(value, np.array([step]))

    steps = released / step
    assert np.abs(steps - np.rint(steps)).max() < 1e-6
    assert stats.kstest((released - value)[0] / (DEVIATION * step), "norm").pvalue > 1e-6


def test_the_noise_makes_up_for_rounding():
    """The largest change of a rounded release, divided into the deviation, is the ledger's noise:
    half a step on both sides of every number."""
    noise, sensitivity, numbers = 2.0, 0.3, 10_000
    step = grid_of(noise, sensitivity, numbers)

    largest = sensitivity + step * math.sqrt(numbers)

    assert DEVIATION * step / largest == pytest.approx(noise, rel=1e-12)
    with pytest.raises(JobError, match="noise is too large for this many parameters"):
        grid_of(1000.0, 0.3, 10**8)


def test_two_draws_differ_and_uniform_numbers_are_above_zero():
    assert not np.array_equal(discrete_gaussian(50), discrete_gaussian(50))
    draws = uniform(1000)
    assert ((draws > 0) & (draws <= 1)).all()
    assert stats.kstest(draws, "uniform").pvalue > 1e-6
