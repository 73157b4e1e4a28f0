"""Differential privacy of the messages: the specification's numbers, bounds, effect of noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plants import setting_s

from fedkg.errors import UsageError
from fedkg.granger.differential_privacy import (
    Cover,
    clip,
    clipped_rows,
    multiplier,
    projected,
    response,
)
from fedkg.granger.learn import Rates
from fedkg.granger.protocol import exchanged

COVER = Cover(
    measurement=1.0,
    response=0.5,
    augmentation=0.25,
    gradient=1.0,
    filtered=0.5,
    augmented=0.5,
    returned=0.5,
)


def test_12_the_numbers_of_the_specification() -> None:
    assert multiplier(1e-5) == pytest.approx(4.844805, abs=5e-7)
    assert pytest.approx(9.6896, abs=5e-5) == COVER.sigma_filtered
    assert pytest.approx(14.5344, abs=5e-5) == COVER.sigma_augmented
    assert pytest.approx(19.3792, abs=5e-5) == COVER.sigma_returned
    assert COVER.spent(10) == pytest.approx((10.0, 2e-4))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6), st.floats(1e-3, 1e3))
def test_13_clipping(values: list[float], bound: float) -> None:
    given_ = np.array(values)
    found = clip(given_, bound)
    assert np.linalg.norm(found) <= bound * (1 + 1e-12)
    if np.linalg.norm(given_) <= bound:
        assert (found == given_).all()


def test_rows_and_matrices_are_held() -> None:
    stream = np.random.default_rng(0)
    rows = clipped_rows(5 * stream.standard_normal((20, 3)), 2.0)
    assert np.linalg.norm(rows, axis=1).max() <= 2.0 * (1 + 1e-12)
    theta = stream.standard_normal((2, 5))
    assert np.linalg.norm(projected(theta, 0.5), 2) == pytest.approx(0.5)
    assert projected(theta, 10.0) is theta


def test_the_formula_is_refused_where_it_does_not_hold() -> None:
    with pytest.raises(UsageError, match="must be between 0 and 1"):
        Cover(
            measurement=1,
            response=1,
            augmentation=1,
            gradient=1,
            filtered=1.5,
            augmented=0.5,
            returned=0.5,
        )
    _, series = setting_s(0, 200)
    with pytest.raises(UsageError, match="farther than `response`"):
        exchanged(series, Rates(), cover=COVER)


def test_a_covered_learning_keeps_its_bounds_and_the_seed_decides() -> None:
    _, series = setting_s(0, 200)
    size = max(
        response(client.transition, client.emission, client.gain, 200) for client in series.clients
    )
    cover = Cover(
        measurement=5.0,
        response=size,
        augmentation=0.1,
        gradient=1.0,
        filtered=0.9,
        augmented=0.9,
        returned=0.9,
    )
    rates = Rates(client=1e-4, server=1e-5, causes=1e-6)
    first, again, other = (exchanged(series, rates, cover=cover, seed=seed) for seed in (1, 1, 2))
    assert (first.causes == again.causes).all()
    assert (first.causes != other.causes).any()
    assert all(np.linalg.norm(theta, 2) <= 0.1 * (1 + 1e-9) for theta in first.augmentations)
