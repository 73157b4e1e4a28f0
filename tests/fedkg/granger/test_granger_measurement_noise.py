"""Measurement noise creates no edges.

Earlier steps serve as instruments, and the criterion chooses the length of the past.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from fedkg.granger.edge_significance import memories, p_values
from fedkg.granger.instrumental_variables import under_noise, white
from fedkg.granger.moments import Series, series_of
from fedkg.granger.state_extraction import Measured, client_of
from fedkg.granger.synthetic_systems import System, recorded

TRUE = np.eye(3, k=-1, dtype=bool)
NONE = ~TRUE & ~np.eye(3, dtype=bool)


@cache
def _chain(
    seed: int, *, noise: float, own: float = 0.9, steps: int = 1200, states: int = 1
) -> Series:
    """Three clients in a chain; their dynamics are fitted to their measurements."""
    stream = np.random.default_rng(seed)
    emissions = tuple(stream.standard_normal((6, states)) / np.sqrt(6) for _ in range(3))
    transition = np.kron(own * np.eye(3) + 0.2 * TRUE, np.eye(states))
    seen = recorded(
        System(transition=transition, emissions=emissions, process=np.eye(3 * states), noise=noise),
        steps,
        seed=seed + 1000,
    )
    return series_of(
        [
            client_of(Measured(name=str(m), columns=tuple("abcdef"), values=y), states)
            for m, y in enumerate(seen.measurements)
        ]
    )


@pytest.mark.parametrize("states", [1, 2])
def test_the_server_makes_white_errors_of_what_it_is_sent(states: int) -> None:
    """z is (K C)^-1 K y: a function of each step's measurements alone."""
    series = _chain(0, noise=0.5, steps=100, states=states)
    for client, place in zip(series.clients, series.places, strict=True):
        alone = client.measurements @ (np.linalg.inv(client.gain @ client.emission) @ client.gain).T
        assert white(series)[:, place] == pytest.approx(alone, abs=1e-9)


def test_slow_noisy_clients_make_no_edges() -> None:
    """Six chains: conditioning on the last step alone reports a third of the unrelated pairs.

    With noise allowed for, it is one in twenty.
    """
    plain, longer, allowed = [], [], []
    for seed in range(6):
        series = _chain(seed, noise=1.0)
        plain.append(p_values(series, shifts=39, seed=seed, longest=1))
        longer.append(p_values(series, shifts=39, seed=seed))
        allowed.append(under_noise(series))
    rates = [(np.array(one)[:, NONE] <= 0.05).mean() for one in (plain, longer, allowed)]
    assert rates[0] > 0.25
    assert rates[1] < rates[0]
    assert rates[2] <= 0.1
    assert (np.array(allowed)[:, TRUE] <= 0.05).mean() >= 0.95


def test_the_past_is_as_long_as_the_data_asks() -> None:
    assert max(memories(_chain(0, noise=1e-4))) <= 2
    assert min(memories(_chain(0, noise=1.0))) >= 2
    assert memories(_chain(0, noise=1.0), 1) == (1, 1, 1)
    short = _chain(0, noise=1.0, steps=20)
    assert memories(short) == (1, 1, 1)
    assert memories(series_of(short.clients, lags=(1, 2, 1))) == (1, 2, 1)


def test_undetermined_p_values_are_nan() -> None:
    series = _chain(0, noise=0.3)
    assert np.isfinite(under_noise(series)).sum() == 6
    fewer = replace(series, allowed=TRUE)
    assert (np.isfinite(under_noise(fewer)) == TRUE).all()
    quick = _chain(0, noise=0.3, own=0.0)
    assert np.isnan(under_noise(quick)[NONE]).all()  # a step does not predict the next
    assert np.isnan(under_noise(_chain(0, noise=0.3, steps=30))).all()
