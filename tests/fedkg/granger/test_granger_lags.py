"""Lags of each client: equal ones equal a common number of lags to the bit.

A client's lags affect no other client.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plants import uneven

from fedkg.errors import UsageError
from fedkg.granger.differential_privacy import Cover
from fedkg.granger.edge_significance import best_lags, innovation_label, joint, p_values
from fedkg.granger.effects import edges, effect_horizons
from fedkg.granger.identifiability import readings
from fedkg.granger.kalman import Client
from fedkg.granger.learn import Learnt, Mode, Rates, learn
from fedkg.granger.learning_on_accelerators import learn_in_chunks
from fedkg.granger.moments import Series, series_of
from fedkg.granger.neural_augmentation import learn_bent
from fedkg.granger.protocol import exchanged, traffic

ALLOWED = np.array([[True, True, False], [True, True, True], [True, True, True]])
RATES = Rates(client=1e-3, server=5e-4, causes=1e-3, ridge=0.1)
TOGETHER = Rates(client=0.01, server=0.005, causes=0.01, normalised=1.0, together=True)
APART = Rates(client=0.01, server=0.005, causes=0.01, normalised=1.0)
ORDERS = st.tuples(*[st.integers(1, 3)] * 3)


def _series_with_lags(orders: tuple[int, ...] | int, steps: int = 60) -> Series:
    return series_of(uneven(4, steps=steps)[1].clients, ALLOWED, lags=orders)


def _rows(series: Series, found: Learnt, m: int) -> tuple[np.ndarray, np.ndarray]:
    return found.causes[series.places[m]], found.augmentations[m]


@pytest.mark.parametrize("mode", ["sequential", "batch", "closed_form"])
@given(orders=ORDERS, m=st.integers(0, 2))
def test_a_client_s_lags_are_its_own(mode: Mode, orders: tuple[int, ...], m: int) -> None:
    """A client learns the same, to the bit, as if all clients had the largest number of lags.

    Its further blocks stay 0.
    """
    series, wide = _series_with_lags(orders, 24), _series_with_lags(max(orders), 24)
    found, other = (
        learn(series, RATES, mode=mode, epochs=2),
        learn(wide, RATES, mode=mode, epochs=2),
    )
    if orders[m] == max(orders):
        for own, peer in zip(_rows(series, found, m), _rows(wide, other, m), strict=True):
            assert (own == peer).all()
    total = series.states.shape[1]
    assert not found.causes[series.places[m], orders[m] * total :].any()
    assert (found.causes[series.places[m]] != 0).sum() == series.drivers(m).sum() * len(
        range(*series.places[m].indices(total))
    )


@pytest.mark.parametrize("orders", [(1, 3, 2), (2, 1, 1), (2, 2, 2)])
@pytest.mark.parametrize("rates", [RATES, TOGETHER, APART])
def test_messages_and_chunks_learn_the_same(orders: tuple[int, ...], rates: Rates) -> None:
    series = _series_with_lags(orders, steps=20)
    plain = learn(series, rates, epochs=2)
    for found in (
        exchanged(series, rates, epochs=2),
        learn_in_chunks(series, rates, epochs=2, chunk=7),
    ):
        assert found.causes == pytest.approx(plain.causes, abs=1e-11)
        assert found.client_loss == pytest.approx(plain.client_loss, rel=1e-10)
        assert found.server_loss == pytest.approx(plain.server_loss, rel=1e-9, abs=1e-14)


def test_what_else_is_estimated_keeps_to_them() -> None:
    series = _series_with_lags((1, 3, 2), steps=200)
    total = series.states.shape[1]
    for blocks in (
        joint(series),
        innovation_label(series),
        learn_bent(series, epochs=3).learnt.causes,
    ):
        for m, order in enumerate((1, 3, 2)):
            assert blocks[series.places[m], :total].any()
            assert not blocks[series.places[m], order * total :].any()
    assert len(readings(series)) == 5
    found = learn(series, RATES, mode="closed_form")
    assert all(
        edge.lag <= {"client 1": 1, "client 2": 3, "client 3": 2}[edge.driven]
        for edge in edges(series, found)
    )
    assert {one.client for one in effect_horizons(series, found, 0, least=0.0)} == {
        "client 2",
        "client 3",
    }
    assert np.isfinite(p_values(series, shifts=19)).sum() == 5


def test_lags_are_sent_nowhere_and_cost_no_privacy() -> None:
    """The server stores what it received.

    Each step costs two states up and one down, and the same amount of noise, for any number of
    lags.
    """
    one, many = _series_with_lags(1), _series_with_lags((1, 3, 2))
    assert traffic(one) == traffic(many)
    assert traffic(one).once == 2 * sum(len(client.transition) ** 2 for client in one.clients)
    cover = Cover(
        measurement=1.0,
        response=5.0,
        augmentation=0.25,
        gradient=1.0,
        filtered=0.5,
        augmented=0.5,
        returned=0.5,
    )
    assert np.isfinite(
        exchanged(many, Rates(client=1e-4, server=1e-5, causes=1e-6), cover=cover).causes
    ).all()


def test_a_past_that_leaves_nothing_tells_nothing() -> None:
    """With more coefficients than steps, every driver explains all of the remainder.

    The statistic would be rounding noise.
    """
    values = p_values(_series_with_lags((1, 50, 2)), shifts=19)
    assert (values[1][[0, 2]] == 1.0).all()
    assert values[2].min(initial=1.0, where=np.isfinite(values[2])) < 1.0


def test_a_number_of_lags_may_be_numpy_s() -> None:
    assert (
        _series_with_lags(best_lags(_series_with_lags(1), 3).max() + 1).orders
        == _series_with_lags(int(best_lags(_series_with_lags(1), 3).max()) + 1).orders
    )


def _two_delays(steps: int = 1500) -> tuple[Client, ...]:
    """Client b depends on client a's state of three steps before, c on that of one step before."""
    stream = np.random.default_rng(0)
    states = np.zeros((steps, 3))
    for t in range(3, steps):
        states[t] = (0.8, 0.3, 0.3) * states[t - 1] + (1.0, 0.1, 0.1) * stream.standard_normal(3)
        states[t, 1:] += 0.5 * states[[t - 3, t - 1], 0]
    seen = states + 0.001 * stream.standard_normal((steps, 3))
    return tuple(
        Client(
            name=name,
            transition=np.array([[rate]]),
            emission=np.eye(1),
            gain=0.999 * np.eye(1),
            measurements=seen[:, m : m + 1],
        )
        for m, (name, rate) in enumerate((("a", 0.8), ("b", 0.3), ("c", 0.3)))
    )


def test_the_criterion_chooses_for_each_client() -> None:
    clients = _two_delays()
    assert best_lags(series_of(clients), 4).tolist() == [0, 3, 1]
    series = series_of(clients, lags=(1, 3, 1))
    label = innovation_label(series)
    assert [label[1, 0], label[1, 3], label[1, 6], label[2, 0]] == pytest.approx(
        [0, 0, 0.5, 0.5], abs=0.02
    )
    lags = {
        (edge.driver, edge.driven): edge.lag
        for edge in edges(series, replace(learn(series, mode="closed_form"), causes=label))
    }
    assert (lags["a", "b"], lags["a", "c"]) == (3, 1)


@pytest.mark.parametrize(
    ("lags", "said"),
    [
        ((1, 2), "3 numbers, or one for all"),
        ((1, 0, 1), "the number of lags does not fit"),
        ((1, 1, 59), "the number of lags does not fit"),
    ],
)
def test_lags_that_are_none_are_rejected(lags: tuple[int, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        _series_with_lags(lags)
