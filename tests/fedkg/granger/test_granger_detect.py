"""Losses step by step, and faults detected from them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plants import setting_s, uneven

from fedkg.errors import UsageError
from fedkg.granger.fault_detection import area_under_roc, step_losses
from fedkg.granger.learn import Rates, at_rest, losses_of
from fedkg.granger.moments import moments, series_of


@pytest.mark.parametrize("lags", [1, 2])
def test_the_means_of_the_steps_are_the_losses(lags: int) -> None:
    _, plain = uneven(1, steps=80)
    series = series_of(plain.clients, lags=lags)
    found = at_rest(series, Rates(ridge=0.1))
    each = step_losses(series, found)
    for m, place in enumerate(series.places):
        own, server = losses_of(
            moments(series, m), found.augmentations[m], found.causes[place, series.drivers(m)]
        )
        assert each.client[lags:, m].mean() == pytest.approx(own, rel=1e-9)
        assert each.server[lags:, m].mean() == pytest.approx(server, rel=1e-9)


def test_a_fault_is_seen_where_it_is() -> None:
    _, series = setting_s(0, 800)
    faulty = np.zeros(800, dtype=np.bool_)
    faulty[600:650] = True
    broken = [client.measurements.copy() for client in series.clients]
    broken[1][faulty] += 1.0
    changed = series_of(
        [
            type(c)(
                name=c.name,
                transition=c.transition,
                emission=c.emission,
                gain=c.gain,
                measurements=y,
            )
            for c, y in zip(series.clients, broken, strict=True)
        ]
    )
    losses = step_losses(changed, at_rest(series, Rates()))
    assert area_under_roc(losses.client[:, 1], faulty) > 0.95
    assert area_under_roc(losses.client[:, 0], faulty) == pytest.approx(0.5, abs=0.15)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=20).filter(
        lambda rows: len({bad for _, bad in rows}) == 2
    )
)
def test_the_area_is_the_share_of_pairs(rows: list[tuple[int, bool]]) -> None:
    scores, faulty = (
        np.array([score for score, _ in rows], dtype=float),
        np.array([bad for _, bad in rows]),
    )
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[faulty] for b in scores[~faulty]]
    assert area_under_roc(scores, faulty) == pytest.approx(np.mean(pairs))


def test_one_kind_alone_has_no_area() -> None:
    with pytest.raises(UsageError, match="needs both faulty and healthy"):
        area_under_roc(np.ones(3), np.zeros(3, dtype=np.bool_))
