"""The learning: acceptance tests of the specification, the fast loops against the messages.

Also the fixed point.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plants import setting_s, uneven

from fedkg.errors import FedkgError, UsageError
from fedkg.granger.kalman import Client
from fedkg.granger.learn import Learnt, Rates, at_rest, learn, losses_of, stability
from fedkg.granger.learning_fixed_point import curvature, recursion, resting
from fedkg.granger.moments import Series, moments, series_of
from fedkg.granger.protocol import ClientSide, exchanged, traffic


def _one_step(series: Series, rates: Rates, start: Learnt | None = None) -> Learnt:
    return learn(series, rates, epochs=1, start=start)


def test_1_the_scalar_step_by_hand() -> None:
    """A = 0.5, C = 1, h_m = 0.2, h_n = 1, y = 1, 0.8, theta = 0.1, A_mn = 0.3, rates 0.1."""
    known = {"transition": np.array([[0.5]]), "emission": np.array([[1.0]])}
    first = Client(
        name="m", gain=np.array([[0.2]]), measurements=np.array([[1.0], [0.8], [0.0]]), **known
    )
    second = Client(
        name="n", gain=np.array([[1.0]]), measurements=np.array([[1.0], [0.0], [0.0]]), **known
    )
    series = series_of([first, second])
    assert series.states[0] == pytest.approx([0.2, 1.0])
    two = Series(
        clients=tuple(_cut(client) for client in series.clients),
        states=series.states[:2].copy(),
        allowed=series.allowed,
    )
    start = Learnt(
        causes=np.array([[0.0, 0.3], [0.0, 0.0]]),
        augmentations=(np.array([[0.1]]), np.array([[0.0]])),
        client_loss=np.zeros(1),
        server_loss=np.zeros(1),
    )
    found = learn(two, Rates(client=0.1, server=0.1, causes=0.1), epochs=1, start=start)
    assert found.causes[0, 1] == pytest.approx(0.25, abs=1e-12)
    assert found.augmentations[0][0, 0] == pytest.approx(0.19, abs=1e-12)
    assert found.client_loss[0, 0] == pytest.approx(0.4225, abs=1e-12)
    known_losses = losses_of(moments(two, 0), np.array([[0.1]]), np.array([[0.3]]))
    assert known_losses == pytest.approx((0.4225, 0.0625), abs=1e-12)


def _cut(client: Client) -> Client:
    """The client with its first two measurements."""
    own = {name: getattr(client, name) for name in ("name", "transition", "emission", "gain")}
    return Client(**own, measurements=np.ascontiguousarray(client.measurements[:2]))


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("seed", [0, 1])
def test_2_a_step_is_the_recursion_of_that_one_sample(seed: int, ridge: float) -> None:
    _, series = uneven(seed, steps=3)
    stream = np.random.default_rng(seed)
    thetas = tuple(0.1 * stream.standard_normal(client.gain.shape) for client in series.clients)
    rates = Rates(client=0.03, server=0.02, causes=0.05, ridge=ridge)
    for m, place in enumerate(series.places):
        two = Series(
            clients=tuple(_cut(client) for client in series.clients),
            states=series.states[:2].copy(),
            allowed=series.allowed,
        )
        drivers = two.drivers(m)
        row = 0.1 * stream.standard_normal((place.stop - place.start, int(drivers.sum())))
        causes = np.zeros((6, 6))
        causes[place, drivers] = row
        found = learn(
            two,
            rates,
            epochs=1,
            start=Learnt(
                causes=causes,
                augmentations=thetas,
                client_loss=np.zeros(1),
                server_loss=np.zeros(1),
            ),
        )
        expected = recursion(
            moments(two, m),
            client=rates.client,
            server=rates.server,
            causes=rates.causes,
            ridge=ridge,
        )
        before = np.concatenate([row.ravel(order="F"), thetas[m].ravel(order="F")])
        after = np.concatenate(
            [found.causes[place, drivers].ravel(order="F"), found.augmentations[m].ravel(order="F")]
        )
        assert after == pytest.approx(expected.matrix @ before + expected.push, abs=1e-12)


def test_3_gradients_are_central_differences() -> None:
    _, series = uneven(3)
    stream = np.random.default_rng(3)
    known = moments(series, 0)
    theta, row = (
        0.2 * stream.standard_normal(known.surprise.shape),
        0.2 * stream.standard_normal((2, 4)),
    )
    rates = Rates(
        client=0.04, server=0.03, causes=0.03
    )  # gamma = eta_2: plain descent of eta_1 L_a + eta_2 L_s
    causes = np.zeros((6, 6))
    causes[series.places[0], series.drivers(0)] = row
    zeros = tuple(np.zeros(client.gain.shape) for client in series.clients[1:])
    found = learn(
        series,
        rates,
        mode="batch",
        epochs=1,
        start=Learnt(
            causes=causes,
            augmentations=(theta, *zeros),
            client_loss=np.zeros(1),
            server_loss=np.zeros(1),
        ),
    )

    def phi(theta: np.ndarray, row: np.ndarray) -> float:
        own, server = losses_of(known, theta, row)
        return rates.client * own + rates.server * server

    for moved, value, is_theta in (
        (found.augmentations[0] - theta, theta, True),
        (found.causes[series.places[0], series.drivers(0)] - row, row, False),
    ):
        for place in np.ndindex(value.shape):
            step = np.zeros_like(value)
            step[place] = 1e-5
            up = phi(theta + step, row) if is_theta else phi(theta, row + step)
            down = phi(theta - step, row) if is_theta else phi(theta, row - step)
            assert moved[place] == pytest.approx(-(up - down) / 2e-5, abs=1e-8)


def test_4_batch_comes_to_the_point_of_rest() -> None:
    _, series = uneven(4, steps=200)
    rates = Rates(client=0.02, server=0.02, causes=0.05, ridge=0.3)
    found = learn(series, rates, mode="batch", epochs=5_000, tolerance=1e-11)
    rest = at_rest(series, rates)
    assert found.causes == pytest.approx(rest.causes, abs=1e-6)
    for m, place in enumerate(series.places):
        known = moments(series, m)
        both = recursion(
            known, client=rates.client, server=rates.server, causes=rates.causes, ridge=rates.ridge
        )
        delta = np.concatenate(
            [
                rest.causes[place, series.drivers(m)].ravel(order="F"),
                rest.augmentations[m].ravel(order="F"),
            ]
        )
        assert both.matrix @ delta + both.push == pytest.approx(delta, abs=1e-9)


def test_the_point_of_rest_by_conjugate_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    _, series = uneven(5, steps=200)
    known = moments(series, 2)
    dense = resting(known, 0.02, 0.02, 0.1)
    monkeypatch.setattr("fedkg.granger.learning_fixed_point.DENSE", 0)
    for own, other in zip(resting(known, 0.02, 0.02, 0.1), dense, strict=True):
        assert own == pytest.approx(other, abs=1e-8)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_5_and_6_setting_s(seed: int) -> None:
    _, series = setting_s(seed)
    found = learn(series, epochs=8)
    forth, back = found.block(series, 1, 0), found.block(series, 0, 1)
    assert np.linalg.norm(forth - 0.25) <= 0.06
    assert np.linalg.norm(back) <= 0.05
    assert forth.min() >= 0.2
    assert forth.max() <= 0.3
    strength = found.strength(series)
    assert strength[1, 0] / strength[0, 1] >= 5


def test_6_swapped_clients_swap_the_result() -> None:
    _, series = setting_s(0)
    swapped = series_of(series.clients[::-1])
    found, other = learn(series, epochs=2), learn(swapped, epochs=2)
    assert other.block(swapped, 0, 1) == pytest.approx(found.block(series, 1, 0), abs=1e-12)
    assert other.block(swapped, 1, 0) == pytest.approx(found.block(series, 0, 1), abs=1e-12)


def test_8_one_sample_never_contracts_and_a_ridge_does() -> None:
    _, series = uneven(6, steps=3)
    two = Series(
        clients=tuple(_cut(client) for client in series.clients),
        states=series.states[:2].copy(),
        allowed=series.allowed,
    )
    own = {"client": 1e-3, "server": 1e-4, "causes": 1e-3}
    for m in range(3):
        assert recursion(moments(two, m), **own).radius == pytest.approx(1.0, abs=1e-9)
        assert recursion(moments(two, m), **own, ridge=0.1).radius < 1
    _, known = setting_s(0)
    for m in range(2):
        averaged = recursion(moments(known, m), client=5e-4, server=5e-5, causes=1e-4)
        assert averaged.radius < 1
        least, most = curvature(moments(known, m), client=5e-4, server=5e-5)
        assert 0 < least < most


def test_9_without_augmentation_nothing_is_learnt() -> None:
    _, series = setting_s(0, 500)
    rates = Rates(client=1e-300, server=0.0, causes=1e-3)
    for found in (exchanged(series, rates), learn(series, rates, epochs=1)):
        assert np.abs(found.causes).max() < 1e-12
        assert found.server_loss[0] < 1e-12


def test_10_too_large_steps_name_client_and_usable_rate() -> None:
    _, series = setting_s(0)
    large = Rates(client=1e-2, server=1e-3)
    assert stability(series, large, 0) > 2
    with pytest.raises(FedkgError, match=r"client 1: the learning diverges") as told:
        learn(series, large)
    usable = float(str(told.value).split("rates of at most ")[1].split(" and")[0])
    assert stability(series, Rates(client=usable, server=usable / 10), 0) < 2
    assert np.isfinite(learn(series, Rates(client=usable, server=usable / 10)).causes).all()


def test_steps_on_averages_that_are_too_large_are_reported_before_numbers_overflow() -> None:
    _, series = setting_s(0)
    with pytest.raises(FedkgError, match=r"diverges on averages"):
        learn(series, Rates(client=1.0), mode="batch", epochs=2)


def test_the_server_is_named_where_its_rate_is_too_large() -> None:
    _, series = setting_s(0)
    with pytest.raises(FedkgError, match=r"with `causes` 5") as told:
        learn(series, Rates(client=0.01, server=0.001, causes=5.0, normalised=1.0))
    assert "`causes` of at most 0.5" in str(told.value)
    assert "normalised steps" not in str(told.value)


def test_normalised_steps_stand_large_rates() -> None:
    _, series = setting_s(1)
    found = learn(series, Rates(client=0.02, server=0.002, causes=0.02, normalised=1.0), epochs=8)
    assert np.linalg.norm(found.block(series, 1, 0) - 0.25) < 0.15
    strength = found.strength(series)
    assert strength[1, 0] > 3 * strength[0, 1]


@settings(deadline=None, max_examples=15)
@given(
    st.integers(0, 1000), st.sampled_from([0.0, 0.05]), st.sampled_from([None, 0.5]), st.booleans()
)
def test_the_loops_are_the_messages(
    seed: int, ridge: float, normalised: float | None, together: bool
) -> None:
    _, series = uneven(seed, steps=25)
    rates = Rates(
        client=1e-3, server=2e-3, causes=3e-3, ridge=ridge, normalised=normalised, together=together
    )
    fast, plain = learn(series, rates, epochs=2), exchanged(series, rates, epochs=2)
    assert fast.causes == pytest.approx(plain.causes, abs=1e-11)
    for own, other in zip(fast.augmentations, plain.augmentations, strict=True):
        assert own == pytest.approx(other, abs=1e-11)
    assert fast.client_loss == pytest.approx(plain.client_loss, rel=1e-9)
    assert fast.server_loss == pytest.approx(plain.server_loss, rel=1e-9, abs=1e-12)


def test_a_prior_rules_edges_out() -> None:
    _, series = setting_s(0, 800)
    allowed = np.array([[True, True], [False, True]])  # client 1 may not drive client 2
    held = series_of(series.clients, allowed)
    for mode in ("sequential", "batch", "closed_form"):
        found = learn(held, mode=mode, epochs=2)  # type: ignore[arg-type]
        assert (found.block(held, 1, 0) == 0).all()
    assert np.abs(learn(held, mode="closed_form").block(held, 0, 1)).max() > 0


def test_14_traffic() -> None:
    _, series = setting_s(0, 500)
    sent = traffic(series)
    assert (sent.up, sent.down) == (8, 4)
    assert sent.saved == 8 * (16 - 8)


def test_14_no_array_as_wide_as_the_measurements_leaves_a_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a client sends in a step: two arrays of P numbers, and its loss for the record.

    It receives one array of P.
    """
    _, series = setting_s(0, 500)
    out: list[tuple[int, ...]] = []
    back: list[tuple[int, ...]] = []

    class Listened(ClientSide):
        def send(self, t: int) -> tuple[np.ndarray, np.ndarray]:
            sent = super().send(t)
            out.extend(one.shape for one in sent)
            return sent

        def receive(self, t: int, gradient: np.ndarray) -> float:
            back.append(gradient.shape)
            loss = super().receive(t, gradient)
            assert isinstance(loss, float)
            return loss

    monkeypatch.setattr("fedkg.granger.protocol.ClientSide", Listened)
    exchanged(series, Rates())
    steps = len(series.states) - 1
    assert out == [(2,)] * 4 * steps  # two clients, two arrays each: 8 numbers per step
    assert back == [(2,)] * 2 * steps  # 4 numbers


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"measurements": np.ones((5, 3))}, "do not fit"),
        ({"gain": 9 * np.ones((1, 2))}, "is not stable"),
        ({"transition": np.array([[np.nan]])}, "not numbers"),
    ],
)
def test_clients_that_do_not_fit_are_rejected(change: dict[str, np.ndarray], said: str) -> None:
    good = {
        "transition": np.array([[0.5]]),
        "emission": np.array([[1.0], [1.0]]),
        "gain": np.array([[0.3, 0.3]]),
        "measurements": np.ones((5, 2)),
    }
    with pytest.raises(UsageError, match=said):
        Client(name="a", **(good | change))


@pytest.mark.parametrize("divisor", [0.0, -1.0, float("nan")])
def test_what_normalised_steps_are_divided_by_is_above_zero(divisor: float) -> None:
    with pytest.raises(UsageError, match=r"above 0.*\n.*normalised="):
        Rates(normalised=divisor)


@pytest.mark.parametrize(
    ("steps", "help"),
    [((2, 2), "use recordings with at least 3 steps"), ((4, 3), "cut the recordings")],
)
def test_recordings_must_have_the_same_three_steps_or_more(
    steps: tuple[int, int], help: str
) -> None:
    clients = [
        replace(client, measurements=client.measurements[:count])
        for client, count in zip(setting_s(0)[1].clients, steps, strict=True)
    ]
    with pytest.raises(UsageError, match="same number of steps, at least 3") as caught:
        series_of(clients)
    assert help in caught.value.help
