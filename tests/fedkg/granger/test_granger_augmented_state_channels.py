"""States as input channels of models.

How they are computed, which steps influence them, and that all sites have equally many.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkg.errors import FedkgError, UsageError
from fedkg.granger.filter_states_as_inputs import (
    LEAST,
    SPAN,
    Reads,
    Record,
    channels,
    filtered,
    states_of,
)
from fedkg.granger.kalman import estimated
from fedkg.granger.learn import Learnt, Rates, course_of, learn, products_of
from fedkg.granger.moments import Series, series_of
from fedkg.granger.state_extraction import Measured, client_of
from fedkg.jobs.causes.learning import learn_causes, reject_divergence
from fedkg.jobs.schema.causal_learning import Learning

STEPS, KNOWN = 300, 220


def _records(
    seed: int = 0, columns: tuple[int, ...] = (3, 2, 1), known: tuple[int, ...] = (KNOWN,) * 3
) -> list[Record]:
    """Three sites that each follow the one before.

    Sites have different measurements, a few of them unknown.
    """
    stream = np.random.default_rng(seed)
    made, driver = [], np.zeros(STEPS)
    for site, (width, until) in enumerate(zip(columns, known, strict=True)):
        own = np.zeros((STEPS, 2))
        for t in range(1, STEPS):
            own[t] = [0.9, 0.5] * own[t - 1] + stream.standard_normal(2) + 0.3 * driver[t - 1]
        values = own @ stream.standard_normal((2, width)) + 0.1 * stream.standard_normal(
            (STEPS, width)
        )
        values[stream.random(values.shape) < 0.05] = np.nan
        made.append(
            Record(
                name=f"site {site}",
                start=0,
                known=until,
                columns=tuple(f"s{place}" for place in range(width)),
                values=values,
            )
        )
        driver = own[:, 0]
    return made


def _augmented_states(
    records: list[Record], states: int, reads: Reads, past: int = 1, lags: int = 1
) -> tuple[dict[str, np.ndarray], Series, Learnt]:
    found = filtered(records, states, past=past)
    series = found.series(np.ones((len(found.clients),) * 2, dtype=np.bool_), lags)
    learnt = learn(series, Rates(client=0.01, server=0.001, causes=0.01, normalised=1.0), epochs=5)
    return states_of(found, series, learnt, states, reads), series, learnt


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1000),
    reads=st.sampled_from(["states", "server", "both"]),
    past=st.integers(1, 3),
    lags=st.integers(1, 2),
    at=st.integers(KNOWN, STEPS - 1),
)
def test_later_steps_have_no_say(seed: int, reads: Reads, past: int, lags: int, at: int) -> None:
    """Measurements from some step on, known or not, do not affect earlier states."""
    records = _records(seed)
    stream, changed = np.random.default_rng(seed + 1), []
    for record in records:
        values = record.values.copy()
        values[at:] = np.where(
            stream.random(values[at:].shape) < 0.3,
            np.nan,
            100 * stream.standard_normal(values[at:].shape),
        )
        changed.append(replace(record, values=values))
    one, other = (_augmented_states(some, 1, reads, past, lags)[0] for some in (records, changed))
    for name in one:
        assert np.array_equal(one[name][:at], other[name][:at])
        assert not np.array_equal(one[name][at:], other[name][at:])


def test_every_site_has_as_many_channels() -> None:
    """Sites of three, two and one measurement.

    Missing channels of a site are unknown; everything else is within the declared span.
    """
    made, series, _ = _augmented_states(_records(), 2, "both")
    assert [len(client.transition) for client in series.clients] == [2, 2, 1]
    assert channels(2, "both") == (
        *("granger_state_1", "granger_state_2", "granger_next_1", "granger_next_2"),
        *("granger_server_1", "granger_server_2"),
    )
    for name, own in made.items():
        assert own.shape == (STEPS, 6)
        missing = np.isnan(own).all(0)
        assert missing.tolist() == ([False, True] * 3 if name == "site 2" else [False] * 6)
        assert np.abs(own[:, ~missing]).max() <= SPAN


def test_channels_are_those_of_the_paper() -> None:
    """h_a = h_c + theta y, A h_a, and A h_c + sum A_mn h_n.

    Where nothing was measured, the filter's values are used.
    """
    records = _records()
    found = filtered(records, 1)
    series = found.series(np.ones((3, 3), dtype=np.bool_), 1)
    learnt = learn(series, epochs=3)
    made = states_of(found, series, learnt, 1, "both")
    whole = np.concatenate(found.states, axis=1)
    for m, (client, own) in enumerate(zip(found.clients, found.states, strict=True)):
        augmented = own + client.measurements @ learnt.augmentations[m].T
        ahead = own @ client.transition.T + whole @ learnt.causes[m : m + 1].T
        expected = np.concatenate([augmented, augmented @ client.transition.T, ahead], axis=1)
        assert made[client.name] == pytest.approx(np.clip(expected, -SPAN, SPAN), abs=1e-12)
        alone = states_of(found, series, None, 1, "states")[client.name]
        assert alone[:, :1] == pytest.approx(np.clip(own, -SPAN, SPAN), abs=1e-12)


def test_what_is_unknown_corrects_nothing() -> None:
    """With the filter's expectations in place of the gaps, a filter without gaps gives the same
    states.
    """
    found = filtered(_records(), 1)
    for record, client, states in zip(found.records, found.clients, found.states, strict=True):
        assert estimated(client) == pytest.approx(states, abs=1e-9)
        gone = np.asarray(np.isnan(record.values).all(1))
        after = np.flatnonzero(gone[1:]) + 1
        assert states[after] == pytest.approx(states[after - 1] @ client.transition.T, abs=1e-9)


def test_what_one_site_is_tested_by_is_not_seen_where_another_learns() -> None:
    """Site 0 is tested from step 220 on, the others learn up to step 260.

    They do not see its states until then.
    """
    records = _records(known=(220, 260, 260))
    changed = [
        replace(
            records[0], values=np.where(np.arange(STEPS)[:, None] >= 220, 7.0, records[0].values)
        ),
        *records[1:],
    ]
    one, other = (_augmented_states(some, 1, "server")[0] for some in (records, changed))
    for name in ("site 1", "site 2"):
        assert np.array_equal(one[name][:260], other[name][:260])
    assert not np.array_equal(one["site 1"][260:], other["site 1"][260:])


def test_sites_that_begin_and_end_when_they_like() -> None:
    records = _records()
    moved = [
        records[0],
        replace(records[1], start=40, values=records[1].values[40:250]),
        records[2],
    ]
    made, series, _ = _augmented_states(moved, 1, "both")
    assert len(made["site 1"]) == 210
    assert len(series.states) == KNOWN - 40
    assert np.isfinite(np.concatenate(list(made.values()))).all()


def test_earlier_values_are_measurements_too() -> None:
    """One signal has one direction; with its last four values as measurements it has rotating
    states.
    """
    records = _records(columns=(1, 1, 1))
    with pytest.raises(UsageError, match=r"at most 1 state a site.*\n.*received: 3\n.*`past`"):
        filtered(records, 3)
    found = filtered(records, 3, past=4)
    assert {client.emission.shape for client in found.clients} == {(4, 3)}


def test_unusable_records_are_rejected() -> None:
    records = _records()
    far = replace(records[1], start=STEPS, known=STEPS + KNOWN)
    with pytest.raises(
        UsageError, match=f"too few common training steps.*\n.*expected: {LEAST} steps or more"
    ):
        filtered([records[0], far], 1)
    still = [replace(record, values=np.ones_like(record.values)) for record in records[1:]]
    with pytest.raises(UsageError, match="two or more sites with changing measurements"):
        filtered([records[0], *still], 1)
    found = filtered([*records[:2], still[1]], 1)
    assert found.notes == (
        "site 2: measure nothing that changes, have no states and are not learnt from",
    )
    with pytest.raises(UsageError, match="the number of lags"):
        found.series(np.ones((2, 2), dtype=np.bool_), KNOWN - 1)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_state_points_where_its_largest_measurement_counts_upwards(sign: float) -> None:
    stream = np.random.default_rng(0)
    slow = np.cumsum(stream.standard_normal(200))
    values = sign * np.stack([3 * slow, -slow + stream.standard_normal(200)], axis=1)
    client = client_of(Measured(name="a", columns=("p", "q"), values=values), 2)
    largest = client.emission[np.abs(client.emission).argmax(0), np.arange(2)]
    assert (largest > 0).all()


def test_learning_stops_where_it_rests_and_says_so() -> None:
    series = series_of(
        [
            client_of(
                Measured(name=r.name, columns=("s",), values=np.nan_to_num(r.values[:, :1])), 1
            )
            for r in _records()
        ]
    )
    rates = Rates(client=0.01, server=0.001, causes=0.01, normalised=1.0)
    settled = learn(series, rates, epochs=500, tolerance=1e-2)
    assert len(settled.server_loss) < 500
    assert settled.moved <= 1e-2
    assert course_of(settled, "sequential", 1e-2).startswith(
        f"the learning settled: epoch {len(settled.server_loss)} changed"
    )
    short = learn(series, rates, epochs=2, tolerance=1e-2)
    assert "has not settled: epoch 2 still changed" in course_of(short, "sequential", 1e-2)
    assert (
        course_of(learn(series, rates, mode="closed_form"), "closed_form", 1e-2)
        == "the learning is at its point of rest"
    )
    assert len(learn(series, rates, epochs=500, enough=1e9).server_loss) == 2


def test_products_that_are_at_hand_change_nothing() -> None:
    found = filtered(_records(), 1)
    series = found.series(np.ones((3, 3), dtype=np.bool_), 2)
    rates = Rates(client=0.01, server=0.001, causes=0.01, normalised=1.0)
    plain, known = (
        learn(series, rates, epochs=3),
        learn(series, rates, epochs=3, products=products_of(series)),
    )
    assert np.array_equal(plain.causes, known.causes)
    assert np.array_equal(plain.client_loss, known.client_loss)


def test_losses_that_have_grown_are_rejected() -> None:
    found = filtered(_records(), 1)
    series = found.series(np.ones((3, 3), dtype=np.bool_), 1)
    learnt, said = learn_causes(Learning(epochs=5), series)
    assert "has not settled" in said
    wild = replace(learnt, causes=1e3 * np.ones_like(learnt.causes))
    with pytest.raises(
        FedkgError,
        match=(
            r"the learning diverges slowly: the losses of site 0 are .* times their initial value"
        ),
    ):
        reject_divergence(Learning(), series, wild)
    worse = replace(learnt, causes=np.ones_like(learnt.causes))
    with pytest.raises(
        FedkgError, match="diverges slowly: the learned causes of site 0 predict its outputs worse"
    ):
        reject_divergence(Learning(), series, worse)


def _alike(clients: int = 10, steps: int = 300) -> Series:
    """Clients that measure the same three slow signals and some noise.

    All drivers are correlated with each other.
    """
    stream = np.random.default_rng(0)
    course = np.zeros((steps, 3))
    for t in range(1, steps):
        course[t] = [0.95, 0.8, 0.5] * course[t - 1] + stream.standard_normal(3)
    each = [
        course @ stream.standard_normal((3, 3)) + 0.1 * stream.standard_normal((steps, 3))
        for _ in range(clients)
    ]
    return series_of(
        [
            client_of(Measured(name=f"s{m}", columns=("a", "b", "c"), values=own), 2)
            for m, own in enumerate(each)
        ]
    )


def test_drivers_that_go_with_each_other_run_away_by_divisors_of_their_own_and_settle_by_one() -> (
    None
):
    """The mean of h_n h_p^T / (1 + |h_n|^2) has a negative eigenvalue, so any rate diverges along
    it.

    With one common divisor it has none.
    """
    series = _alike()
    rates = Rates(client=0.01, server=0.001, causes=0.1, normalised=1.0)
    drivers = series.states[:-1, series.drivers(7)]
    own = 1.0 / (1.0 + np.repeat((drivers.reshape(len(drivers), -1, 2) ** 2).sum(2), 2, axis=1))
    whole = 1.0 / (1.0 + (drivers**2).sum(1, keepdims=True))
    assert np.linalg.eigvals((own * drivers).T @ drivers).real.min() < -0.05
    assert np.linalg.eigvals((whole * drivers).T @ drivers).real.min() > 0.01
    away = learn(series, rates, epochs=300)
    assert away.strength(series).max() > 100
    with pytest.raises(FedkgError, match="the learning diverges slowly"):
        reject_divergence(Learning(causes=0.1), series, away)
    settled = learn(series, replace(rates, together=True), epochs=500, tolerance=1e-3)
    assert len(settled.server_loss) < 500
    assert settled.strength(series).max() < 0.5
    learnt, said = learn_causes(Learning(causes=0.1), series)
    assert np.array_equal(learnt.causes, settled.causes)
    assert "the learning settled" in said
