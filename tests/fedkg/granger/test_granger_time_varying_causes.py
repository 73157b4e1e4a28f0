"""Lags above one, causes that change, and continued learning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plants import clients_of, setting_s, uneven

from fedkg.errors import UsageError
from fedkg.granger.edge_significance import best_lags, innovation_label, p_values
from fedkg.granger.effects import edges, effect_horizons
from fedkg.granger.kalman import Client
from fedkg.granger.learn import Rates, at_rest, learn
from fedkg.granger.moments import Series, series_of
from fedkg.granger.synthetic_systems import two_clients
from fedkg.granger.time_varying_causes import (
    at_rest_of,
    changes,
    continued,
    cut,
    initial_averages,
    windowed,
)


def _delayed(delay: int, steps: int = 1500) -> tuple[Client, ...]:
    """Client 2 takes 0.5 of client 1's state of `delay` steps before.

    Both are measured almost without noise.
    """
    stream = np.random.default_rng(0)
    first, second = np.zeros((steps, 1)), np.zeros((steps, 1))
    for t in range(delay, steps):
        first[t] = 0.8 * first[t - 1] + stream.standard_normal()
        second[t] = 0.3 * second[t - 1] + 0.5 * first[t - delay] + 0.1 * stream.standard_normal()
    emission, gain = np.eye(1), 0.999 * np.eye(1)
    seen = [own + 0.001 * stream.standard_normal((steps, 1)) for own in (first, second)]
    return tuple(
        Client(
            name=name,
            transition=np.array([[rate]]),
            emission=emission,
            gain=gain,
            measurements=values,
        )
        for name, rate, values in zip(("a", "b"), (0.8, 0.3), seen, strict=True)
    )


@pytest.mark.parametrize("delay", [1, 2, 3])
def test_the_criterion_finds_the_lag(delay: int) -> None:
    series = series_of(_delayed(delay), lags=delay)
    assert best_lags(series, 4).tolist() == [0, delay]
    label = innovation_label(series)
    found = [label[1, lag * 2] for lag in range(delay)]
    assert found == pytest.approx([0.0] * (delay - 1) + [0.5], abs=0.02)
    (strongest, *_) = edges(series, at_rest(series, Rates()))
    assert (strongest.driver, strongest.driven, strongest.lag) == ("a", "b", delay)
    reached = effect_horizons(series, replace(at_rest(series, Rates()), causes=label), 0)
    assert [(one.client, one.first) for one in reached] == [("b", delay)]
    assert p_values(series, shifts=19)[1, 0] == pytest.approx(0.05)


def test_more_lags_than_needed_change_little_and_too_many_are_rejected() -> None:
    _, series = uneven(0, steps=300)
    wide = series_of(series.clients, lags=2)
    found = learn(wide, Rates(client=1e-3, server=1e-3, causes=1e-3), epochs=3)
    assert found.causes.shape == (6, 12)
    assert found.strengths(wide).shape == (2, 3, 3)
    batch = learn(wide, Rates(client=1e-3, server=1e-3, causes=1e-3), mode="batch", epochs=3)
    assert np.isfinite(batch.causes).all()
    with pytest.raises(UsageError, match="the number of lags"):
        series_of(series.clients, lags=299)


def _switched() -> Series:
    """Setting S in which client 2 is driven only in the second half."""
    without, within = two_clients(seed=0, drive=0.0), two_clients(seed=0)
    stream = np.random.default_rng(3)
    states = np.zeros((2000, 4))
    for t in range(1, 2000):
        transition = (without if t < 1000 else within).transition
        states[t] = transition @ states[t - 1] + np.sqrt(
            np.diag(within.process)
        ) * stream.standard_normal(4)
    made = []
    for client, place in zip(
        clients_of(within, steps=3, seed=0), (slice(0, 2), slice(2, 4)), strict=True
    ):
        seen = states[:, place] @ client.emission.T + 0.1 * stream.standard_normal((2000, 8))
        made.append(replace(client, measurements=seen))
    return series_of(made)


def test_windows_show_when_an_edge_begins() -> None:
    found = windowed(_switched(), window=500, stride=500)
    assert found.starts.tolist() == [0, 500, 1000, 1500]
    before, after = found.strength[:2, 1, 0], found.strength[2:, 1, 0]
    assert before.max() < 0.1
    assert after.min() > 0.3
    with pytest.raises(UsageError, match="the window does not fit the series"):
        windowed(_switched(), window=5000, stride=1)


def test_the_change_is_found_where_it_is() -> None:
    series = _switched()
    (at,) = changes(series, 1, least=100)
    assert at == pytest.approx(1000, abs=100)
    assert changes(setting_s(0, 1500)[1], 1, least=100) == ()


def test_parts_together_are_the_whole() -> None:
    _, series = setting_s(0, 1200)
    stream = initial_averages(cut(series, 0, 500))
    for start, stop in ((500, 700), (700, 1200)):
        stream = continued(stream, cut(series, start - series.lags, stop))
    whole = at_rest(series, Rates())
    found = at_rest_of(stream, series)
    assert stream.weight == 1199
    # the first step of a part has no innovation, so the parts overlap by one step and no step is
    # lost
    assert found.causes == pytest.approx(whole.causes, abs=1e-9)


def test_what_is_forgotten_weighs_less() -> None:
    series = _switched()
    kept, fading = (initial_averages(cut(series, 0, 1000), forget=forget) for forget in (0.0, 0.01))
    kept, fading = (continued(stream, cut(series, 999, 2000)) for stream in (kept, fading))
    assert (
        at_rest_of(fading, series).strength(series)[1, 0]
        > at_rest_of(kept, series).strength(series)[1, 0]
    )
    with pytest.raises(UsageError, match="share"):
        initial_averages(series, forget=1.0)
