"""Federated Granger learning against plain loops, with and without differential privacy.

Letters: M clients, T steps, P_m states and D_m measurements of client m, L lags.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from plain_granger import SENT, Steps, at_rest, on_averages, sequential
from tries import tries

from fedkg.errors import UsageError
from fedkg.granger.differential_privacy import Cover
from fedkg.granger.kalman import Client
from fedkg.granger.learn import Rates, learn
from fedkg.granger.moments import series_of
from fedkg.granger.protocol import ClientSide, exchanged

F64 = NDArray[np.float64]


def client(stream: np.random.Generator, name: str, states: int, seen: int, steps: int) -> Client:
    """A client with a contracting transition and a filter that forgets."""
    transition = 0.9 * stream.uniform(-1, 1, (states, states)) / states
    emission = stream.standard_normal((seen, states))
    gain = 0.5 * np.linalg.pinv(emission)
    measurements = 2 * stream.standard_normal((steps, seen))
    return Client(
        name=name, transition=transition, emission=emission, gain=gain, measurements=measurements
    )


def response(one: Client, steps: int) -> float:
    """sum_k |((I - K C) A)^k K|, from the definition."""
    f = one.transition - one.gain @ one.emission @ one.transition
    return sum(
        float(np.linalg.svd(np.linalg.matrix_power(f, k) @ one.gain)[1][0]) for k in range(steps)
    )


@pytest.mark.parametrize("together", [False, True])
@tries(20)
@given(
    seed=st.integers(0, 2**31),
    sizes=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), min_size=2, max_size=4),
    lags=st.integers(1, 3),
    normalised=st.sampled_from([None, 0.5]),
    ridge=st.sampled_from([0.0, 0.1]),
    covered=st.booleans(),
)
def test_the_plain_loop(
    seed: int,
    sizes: list[tuple[int, int]],
    lags: int,
    normalised: float | None,
    together: bool,
    ridge: float,
    covered: bool,
) -> None:
    stream, steps = np.random.default_rng(seed), 12
    clients = [
        client(stream, f"client {place}", states, states + more, steps)
        for place, (states, more) in enumerate(sizes)
    ]
    allowed = stream.random((len(clients),) * 2) < 0.8
    orders = tuple(int(one) for one in stream.integers(1, lags + 1, len(clients)))
    steps_of: dict[str, Any] = {
        "client": 0.02,
        "server": 0.01,
        "causes": 0.015,
        "ridge": ridge,
        "normalised": normalised,
        "together": together,
    }
    rates = Rates(**steps_of)
    series = series_of(clients, allowed, lags=orders)
    cover = None
    if covered:
        cover = {
            "measurement": 1.5,
            "response": max(response(one, steps) for one in clients),
            "augmentation": 0.05,
            "gradient": 0.1,
            "filtered": 0.8,
            "augmented": 0.6,
            "returned": 0.9,
            "delta": 1e-3,
        }
    found = exchanged(
        series, rates, epochs=2, cover=None if cover is None else Cover(**cover), seed=seed % 97
    )
    expected = sequential(clients, allowed, orders, Steps(**steps_of), 2, cover, seed % 97)
    ways = [(found, expected)]
    if not covered:
        ways.append((learn(series, rates, epochs=2), expected))
        slow = steps_of | {"client": 1e-3, "server": 5e-4, "causes": 1e-4}
        averaged = on_averages(clients, allowed, orders, Steps(**slow), 3)
        ways.append((learn(series, Rates(**slow), mode="batch", epochs=3), averaged))
    if ridge and not covered:  # without noise, directions that nothing excites are undetermined
        resting = at_rest(clients, allowed, orders, Steps(**steps_of))
        ways.append((learn(series, rates, mode="closed_form"), resting))
    for way, wanted in ways:
        for m in range(len(clients)):
            np.testing.assert_allclose(way.augmentations[m], wanted.theta[m], rtol=1e-7, atol=1e-9)
            for n in range(len(clients)):
                for lag in range(1, max(orders) + 1):
                    block = wanted.causes.get((m, n, lag), 0.0)
                    np.testing.assert_allclose(
                        way.block(series, m, n, lag), block, rtol=1e-6, atol=1e-8
                    )
        np.testing.assert_allclose(way.client_loss, wanted.client_loss, rtol=1e-7)
        np.testing.assert_allclose(way.server_loss, wanted.server_loss, rtol=1e-7, atol=1e-12)


def bounds(measurement: float, response_: float) -> Cover:
    return Cover(
        measurement=measurement,
        response=response_,
        augmentation=0.2,
        gradient=1.0,
        filtered=0.5,
        augmented=0.5,
        returned=0.5,
    )


def messages(one: Client, y: F64, cover: Cover, gradients: F64) -> list[tuple[F64, F64]]:
    """A client's messages at each step, with the same noise for every record."""
    changed = Client(
        name=one.name,
        transition=one.transition,
        emission=one.emission,
        gain=one.gain,
        measurements=y,
    )
    rates = Rates(client=0.05, server=0.05)
    side = ClientSide(changed, rates, cover, np.random.default_rng(0))
    found = []
    for t in range(1, len(y)):
        found.append(side.send(t))
        side.receive(t, gradients[t])
    return found


@tries(60)
@given(
    seed=st.integers(0, 2**31),
    states=st.integers(1, 3),
    slow=st.booleans(),
    which=st.sampled_from(["whole", "one step", "signs"]),
)
def test_no_other_record_moves_a_message_farther_than_its_noise_is_made_for(
    seed: int, states: int, slow: bool, which: str
) -> None:
    stream, steps = np.random.default_rng(seed), 30
    one = client(stream, "turbine", states, states + 1, steps)
    if slow:
        one = Client(
            name="turbine",
            transition=0.98 * np.eye(states),
            emission=one.emission,
            gain=0.1 * np.linalg.pinv(one.emission),
            measurements=one.measurements,
        )
    cover = bounds(1.0, response(one, steps))
    first, other = one.measurements, 5 * stream.standard_normal(one.measurements.shape)
    if which == "one step":
        changed = int(stream.integers(steps))
        other = np.where(np.arange(steps)[:, None] == changed, other, first)
    if which == "signs":
        first = np.tile(10 * stream.standard_normal(one.measurements.shape[1]), (steps, 1))
        other = -first
    gradients = stream.standard_normal((steps, states))
    pairs = zip(
        messages(one, first, cover, gradients), messages(one, other, cover, gradients), strict=True
    )
    scale = np.sqrt(2 * np.log(SENT / cover.delta))
    for (a, h), (a_other, h_other) in pairs:
        assert np.linalg.norm(h - h_other) <= cover.sigma_filtered * cover.filtered / scale + 1e-9
        assert np.linalg.norm(a - a_other) <= cover.sigma_augmented * cover.augmented / scale + 1e-9


def test_a_slow_filter_takes_the_noise_of_its_whole_response() -> None:
    """A filter with A = 0.98 forgets slowly.

    The bound for one step, 2 B_y |K|, misses most of the change; the bound that fedkg uses is
    reached.
    """
    steps, gain = 60, 0.0835
    one = Client(
        name="boiler",
        transition=np.array([[0.98]]),
        emission=np.eye(1),
        gain=np.array([[gain]]),
        measurements=np.ones((steps, 1)),
    )
    with pytest.raises(
        UsageError, match="boiler: a change of the whole recording can move"
    ) as caught:
        exchanged(series_of([one, one]), Rates(), cover=bounds(1.0, gain))
    assert "over 60 steps" in str(caught.value)
    cover = bounds(1.0, response(one, steps))
    quiet = np.zeros((steps, 1))
    up = messages(one, np.ones((steps, 1)), cover, quiet)
    down = messages(one, -np.ones((steps, 1)), cover, quiet)
    moved = float(abs(up[-1][1] - down[-1][1])[0])
    assert moved > 9 * 2 * gain
    assert moved == pytest.approx(cover.moved_filtered, rel=0.01)
    assert cover.spent(steps) == pytest.approx((60.0, 60 * 2e-5))
