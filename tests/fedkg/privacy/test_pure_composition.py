"""Releases with known guarantees composed with others.

Never less than what they cost, never more than their sum.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkg.errors import JobError
from fedkg.privacy import Gaussian, Spent, epsilon_at_most, epsilon_of, noise_for
from fedkg.privacy.accountants import ORDERS, _pure


@given(st.floats(1e-3, 5.0))
def test_the_curve_is_that_of_randomised_response(epsilon: float) -> None:
    curve, orders = _pure(epsilon), np.asarray(ORDERS)
    assert bool((curve <= epsilon * (1 + 1e-12)).all())
    assert bool((curve <= orders * epsilon**2 / 2 * (1 + 1e-9)).all())
    place = next(number for number, order in enumerate(ORDERS) if order == 2.0)
    odds = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert curve[place] == pytest.approx(
        math.log(odds**2 / (1 - odds) + (1 - odds) ** 2 / odds), rel=1e-9, abs=1e-12
    )


@settings(deadline=None)
@given(st.floats(0.02, 2.0), st.integers(1, 30), st.sampled_from([1e-2, 1e-4, 1e-6]))
def test_many_releases_cost_no_less_than_they_do(each: float, releases: int, delta: float) -> None:
    """For k randomised responses, the exact probability that a guarantee fails is known."""
    told = epsilon_of((Spent(what="answers", epsilon=each, releases=releases),), delta)
    assert told <= releases * each * (1 + 1e-12)
    true, other = math.exp(each) / (1 + math.exp(each)), 1 / (1 + math.exp(each))
    fails = math.fsum(
        math.comb(releases, k)
        * max(
            0.0,
            true**k * other ** (releases - k) - math.exp(told) * other**k * true ** (releases - k),
        )
        for k in range(releases + 1)
    )
    assert fails <= delta * (1 + 1e-9)


def test_many_small_releases_cost_less_than_their_sum() -> None:
    assert epsilon_of((Spent(what="answers", epsilon=0.05, releases=100),), 1e-5) < 0.6 * 5.0


def test_too_little_to_be_shown_is_told_as_such() -> None:
    def training(noise: float) -> tuple[Gaussian, ...]:
        return (Gaussian(what="training", noise=noise, rate=0.1, releases=10),)

    with pytest.raises(JobError, match="the accountant `rdp` cannot prove epsilon") as caught:
        noise_for(1e-4, 1e-5, training)
    assert "an epsilon of at least" in str(caught.value)
    with pytest.raises(
        JobError, match="other releases of the same unit have spent as much"
    ) as caught:
        noise_for(
            0.4, 1e-5, lambda noise: (*training(noise), Spent(what="mined properties", epsilon=0.5))
        )
    assert "mined properties" in str(caught.value)


def test_which_unit_is_worst_off_in_several_trainings_hangs_on_the_order() -> None:
    """Two units of about one epsilon each: one in few sums with little noise, one in many with
    much.
    """
    delta = 1e-5
    few = (Gaussian(what="training", noise=1.0, rate=0.02, releases=40),)
    many = (Gaussian(what="training", noise=8.0, rate=1.0, releases=4),)
    assert epsilon_of(few, delta) > epsilon_of(many, delta)
    assert epsilon_of(many * 20, delta) > epsilon_of(
        few * 20, delta
    )  # a single unit's history: the ledgers with the highest cost do not bound it
    together = epsilon_at_most([[few, many]] * 20, delta)
    assert max(epsilon_of(few * 20, delta), epsilon_of(many * 20, delta)) <= together * (1 + 1e-12)
    assert together < 20 * epsilon_of(few, delta)
    assert epsilon_at_most([[many]] * 20, delta) == pytest.approx(epsilon_of(many * 20, delta))
    assert (
        epsilon_at_most(
            [[few], [(Gaussian(what="training", noise=0.0, rate=1.0, releases=1),)]], delta
        )
        == math.inf
    )
