"""Federated Granger learning against one plain loop over steps and clients, with and without differential privacy.

Source: Mohanty et al. 2025, algorithm 2 with regressors at t - 1 everywhere, and section 7; measurements are clipped to B_y, theta is
projected to a spectral norm of B_theta. The loop shares with the product the order in which noise is drawn, nothing else.

Letters: M clients, T steps, P_m states and D_m measurements of client m, L lags.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedkg.errors import UsageError
from fedkg.granger.kalman import Client
from fedkg.granger.learn import Rates, learn
from fedkg.granger.moments import series_of
from fedkg.granger.private import Cover
from fedkg.granger.protocol import ClientSide, exchanged

F64 = NDArray[np.float64]
SENT = 1.25
"""In the formula of the Gaussian mechanism."""


def client(stream: np.random.Generator, name: str, states: int, seen: int, steps: int) -> Client:
    """A client with a contracting transition and a filter that forgets."""
    transition = 0.9 * stream.uniform(-1, 1, (states, states)) / states
    emission = stream.standard_normal((seen, states))
    gain = 0.5 * np.linalg.pinv(emission)
    measurements = 2 * stream.standard_normal((steps, seen))
    return Client(
        name=name, transition=transition, emission=emission, gain=gain, measurements=measurements
    )


def filtered(one: Client, y: F64) -> F64:
    """The states [T, P] of a client's filter: predict, then correct by the gain times the residual."""
    h = np.zeros(len(one.transition))
    found = []
    for row in y:
        predicted = one.transition @ h
        h = predicted + one.gain @ (row - one.emission @ predicted)
        found.append(h)
    return np.array(found)


def spread(bound: float, epsilon: float, delta: float) -> float:
    """The deviation of the Gaussian mechanism for a sensitivity."""
    return bound * np.sqrt(2 * np.log(SENT / delta)) / epsilon


def plain(  # one page, in the order of the paper's algorithm
    clients: list[Client],
    allowed: NDArray[np.bool_],
    orders: tuple[int, ...],
    rates: Rates,
    epochs: int,
    cover: dict[str, float] | None,
    seed: int,
) -> tuple[dict[tuple[int, int, int], F64], list[F64], F64, F64]:
    """The blocks A_mn at each lag, theta of each client, and the losses [E, M] of the clients and [E] of the server."""
    number, lags = range(len(clients)), max(orders)
    streams = np.random.default_rng(seed).spawn(len(clients) + 1)
    ys = [one.measurements.copy() for one in clients]
    if cover is not None:
        for y in ys:
            for row in y:
                row *= min(1.0, cover["measurement"] / np.sqrt((row**2).sum()))
    own = [filtered(one, y) for one, y in zip(clients, ys, strict=True)]
    theta = [np.zeros_like(one.gain) for one in clients]
    cause = {
        (m, n, lag): np.zeros((len(clients[m].transition), len(clients[n].transition)))
        for m in number
        for n in number
        if m != n and allowed[m, n]
        for lag in range(1, orders[m] + 1)
    }
    losses, total = np.zeros((epochs, len(clients))), np.zeros(epochs)
    for epoch in range(epochs):
        sent: list[list[F64]] = []  # h_c of all clients, one entry for each step
        for t in range(1, len(ys[0])):
            plain_states, augmented = [], []
            for m in number:
                h, a = own[m][t - 1], own[m][t - 1] + theta[m] @ ys[m][t - 1]
                if cover is not None:
                    noise = streams[m].standard_normal((2, len(h)))
                    far = 2 * cover["measurement"] * cover["response"]
                    further = 2 * cover["measurement"] * cover["augmentation"]
                    a = a + spread(far + further, cover["augmented"], cover["delta"]) * noise[0]
                    h = h + spread(far, cover["filtered"], cover["delta"]) * noise[1]
                plain_states.append(h)
                augmented.append(a)
            sent.append(plain_states)
            if t < lags:
                continue
            old = {key: block.copy() for key, block in cause.items()}
            gradients = []
            for m in number:
                a_mm = clients[m].transition
                e = a_mm @ (augmented[m] - plain_states[m])
                for (to, n, lag), block in old.items():
                    if to == m:
                        e = e - block @ sent[-lag][n]
                total[epoch] += e @ e
                u = 2 * a_mm.T @ e
                if cover is not None:
                    u = u * min(1.0, cover["gradient"] / np.sqrt(u @ u))
                    deviation = spread(2 * cover["gradient"], cover["returned"], cover["delta"])
                    u = u + deviation * streams[-1].standard_normal(len(u))
                gradients.append(u)
                for (to, n, lag), block in old.items():
                    if to == m:
                        h = sent[-lag][n]
                        size = 1.0 if rates.normalised is None else rates.normalised + h @ h
                        step = np.outer(e, h) - rates.ridge * block
                        cause[m, n, lag] = block + 2 * rates.causes * step / size
            for m in number:
                y, lift = ys[m][t - 1], clients[m].emission @ clients[m].transition
                r = ys[m][t] - lift @ (own[m][t - 1] + theta[m] @ y)
                losses[epoch, m] += r @ r
                step = 2 * rates.client * np.outer(lift.T @ r, y) - rates.server * np.outer(
                    gradients[m], y
                )
                step = step - 2 * rates.client * rates.ridge * theta[m]
                size = 1.0 if rates.normalised is None else rates.normalised + y @ y
                theta[m] = theta[m] + step / size
                if cover is not None:
                    u, s, v = np.linalg.svd(theta[m], full_matrices=False)
                    theta[m] = u @ np.diag(np.minimum(s, cover["augmentation"])) @ v
    counted = len(ys[0]) - lags
    return cause, theta, losses / counted, total / counted


def response(one: Client, steps: int) -> float:
    """sum_k |((I - K C) A)^k K|, from the definition."""
    f = one.transition - one.gain @ one.emission @ one.transition
    return sum(
        float(np.linalg.svd(np.linalg.matrix_power(f, k) @ one.gain)[1][0]) for k in range(steps)
    )


@settings(max_examples=40)
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
    rates = Rates(client=0.02, server=0.01, causes=0.015, ridge=ridge, normalised=normalised)
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
    cause, theta, losses, total = plain(clients, allowed, orders, rates, 2, cover, seed % 97)
    ways: list[Any] = [found] if covered else [found, learn(series, rates, epochs=2)]
    for way in ways:
        for m in range(len(clients)):
            np.testing.assert_allclose(way.augmentations[m], theta[m], rtol=1e-7, atol=1e-9)
            for n in range(len(clients)):
                for lag in range(1, max(orders) + 1):
                    expected = cause.get((m, n, lag), 0.0)
                    np.testing.assert_allclose(
                        way.block(series, m, n, lag), expected, rtol=1e-6, atol=1e-8
                    )
        np.testing.assert_allclose(way.client_loss, losses, rtol=1e-7)
        np.testing.assert_allclose(way.server_loss, total, rtol=1e-7, atol=1e-12)


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
    """What a client with a record sends at each step, with the same noise for every record."""
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


@settings(max_examples=60)
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
    """A filter with A = 0.98 forgets slowly: the bound for one step, 2 B_y |K|, misses most of the change, and the bound used is reached."""
    steps, gain = 60, 0.0835
    one = Client(
        name="boiler",
        transition=np.array([[0.98]]),
        emission=np.eye(1),
        gain=np.array([[gain]]),
        measurements=np.ones((steps, 1)),
    )
    with pytest.raises(UsageError, match=r"boiler: its filter .* the whole record") as caught:
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
