"""References: all states together, and a centralised VAR against statsmodels.

Also p-values corrected for their number, and the order of causes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plants import setting_s, uneven

from fedkg.errors import UsageError
from fedkg.granger.centralised_var import centralised
from fedkg.granger.edge_significance import (
    adjusted,
    distinct_shifts,
    innovation_label,
    joint,
    p_values,
    strengths_of,
)
from fedkg.granger.identifiability import readings
from fedkg.granger.learn import Rates, at_rest, learn
from fedkg.granger.moments import Series, series_of
from fedkg.granger.precedence import precedence
from fedkg.granger.state_extraction import Measured, client_of
from fedkg.granger.synthetic_systems import recorded, two_clients

F64 = np.ndarray


def _walk(seed: int, steps: int = 300, drive: float = 0.3) -> list[F64]:
    """Three clients of 2, 2 and 1 measurements; the first drives the second."""
    stream = np.random.default_rng(seed)
    values = stream.standard_normal((steps, 5))
    for t in range(1, steps):
        values[t] += 0.5 * values[t - 1]
        values[t, 2] += drive * values[t - 1, 0]
    return [values[:, :2], values[:, 2:4], values[:, 4:]]


def _fitted(slow: float, quiet: float, steps: int = 3000, drive: float = 0.25) -> Series:
    """Two clients with dynamics fitted to their own measurements."""
    seen = recorded(two_clients(seed=0, slow=slow, quiet=quiet, drive=drive), steps, seed=1)
    each = [
        Measured(name=name, columns=tuple("abcdefgh"), values=own)
        for name, own in zip("xy", seen.measurements, strict=True)
    ]
    return series_of([client_of(one, 2) for one in each])


@pytest.mark.parametrize("lags", [1, 2, 3])
def test_the_var_is_that_of_statsmodels(lags: int) -> None:
    from statsmodels.tsa.api import VAR

    groups = _walk(0)
    found, peer = centralised(groups, lags=lags), VAR(np.concatenate(groups, axis=1)).fit(lags)
    place = [[0, 1], [2, 3], [4]]
    for m in range(3):
        for n in range(3):
            if m != n:
                assert found[m, n] == pytest.approx(
                    peer.test_causality(place[m], place[n], kind="f").pvalue, abs=1e-9
                )
    assert np.isnan(np.diag(found)).all()


def test_one_equation_is_the_f_test_of_two_series() -> None:
    """Bivariate, one lag: the F statistic of `grangercausalitytests`.

    Its residual degrees of freedom are those of one equation.
    """
    from scipy.stats import f
    from statsmodels.tsa.stattools import grangercausalitytests

    first, second, _ = _walk(1, drive=0.12)
    pair = np.stack([second[:, 0], first[:, 0]], axis=1)
    statistic, _, free, count = grangercausalitytests(pair, [1])[1][0]["ssr_ftest"]
    found = centralised([pair[:, :1], pair[:, 1:]])[0, 1]
    assert found == pytest.approx(f.sf(statistic, count, 2 * free), abs=1e-9)


def test_the_var_says_what_it_cannot() -> None:
    groups = _walk(2, steps=40)
    with pytest.raises(UsageError, match="too few steps"):
        centralised(groups, lags=8)
    with pytest.raises(UsageError, match="repeat others"):
        centralised([groups[0], groups[0].copy()])
    held = centralised(groups, allowed=np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=bool))
    assert np.isfinite(held).sum() == 3


def test_shifted_states_and_the_var_agree_on_known_truth() -> None:
    """20 systems with one edge of six.

    If the measurements are the states, both tests find it, and agree on the others.
    """
    shifted, central = [], []
    for seed in range(20):
        groups = _walk(seed, steps=250)
        clients = [
            client_of(
                Measured(name=str(m), columns=("a", "b")[: own.shape[1]], values=own), own.shape[1]
            )
            for m, own in enumerate(groups)
        ]
        shifted.append(p_values(series_of(clients), shifts=39, seed=seed))
        central.append(centralised(groups))
    ours, theirs = np.array(shifted), np.array(central)
    assert (ours[:, 1, 0] <= 0.05).mean() >= 0.9
    assert (theirs[:, 1, 0] <= 0.05).mean() >= 0.9
    off = ~np.eye(3, dtype=bool)
    off[1, 0] = False
    assert np.corrcoef(ours[:, off].ravel(), theirs[:, off].ravel())[0, 1] > 0.9
    assert (
        ours[:, off] <= 0.05
    ).mean() < 0.12  # of 100 at 5 %: 12 or more has a probability below 0.005


def test_a_short_series_has_no_more_chances_than_shifts() -> None:
    """20 steps allow 16 shifts.

    The strongest possible edge has a p-value of 1 / 17, for any requested number of shifts.
    """
    stream = np.random.default_rng(0)
    lead = stream.standard_normal(20)
    each = [lead[:, None], np.roll(lead, 1)[:, None] + 0.01 * stream.standard_normal((20, 1))]
    series = series_of(
        [
            client_of(Measured(name=str(m), columns=("a",), values=own), 1)
            for m, own in enumerate(each)
        ]
    )
    assert distinct_shifts(20) == 16
    found = p_values(series, shifts=399)
    assert found[1, 0] == pytest.approx(1 / 17)
    assert (
        found[~np.eye(2, dtype=bool)] * 17
        == pytest.approx(np.round(found[~np.eye(2, dtype=bool)] * 17))
    ) is True
    short, least = (
        series_of([replace(one, measurements=one.measurements[:steps]) for one in series.clients])
        for steps in (4, 3)
    )
    assert p_values(short, shifts=19)[1, 0] * 3 in (
        pytest.approx(1),
        pytest.approx(2),
        pytest.approx(3),
    )
    assert (
        p_values(least, shifts=19)[1, 0] == 1.0
    )  # two steps and two coefficients: the shifted driver explains as much


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_corrected_p_values_keep_their_order_and_only_grow(values: list[float]) -> None:
    given_ = np.array(values)
    found = adjusted(given_)
    assert (found >= given_ - 1e-15).all()
    assert (found <= np.minimum(1.0, given_ * len(given_)) + 1e-15).all()
    assert (np.diff(found[np.argsort(given_, kind="stable")]) >= -1e-15).all()
    assert found.max() == pytest.approx(given_.max())


def test_corrected_p_values_are_those_of_statsmodels() -> None:
    from statsmodels.stats.multitest import multipletests

    values = np.random.default_rng(0).random(30) ** 3
    assert adjusted(values) == pytest.approx(multipletests(values, method="fdr_bh")[1], abs=1e-12)


def test_a_p_value_at_the_level_is_reported() -> None:
    """p-values of shifts are multiples of 1 / (shifts + 1), and often equal the level once
    corrected.
    """
    assert adjusted(np.array([0.025, 0.025, 0.025, 0.9, 0.9, 0.9]))[0] == 0.05
    for pairs in range(1, 400):
        assert adjusted(np.array([1 / (20 * pairs), *[1.0] * (pairs - 1)]))[0] <= 0.05


def test_dynamics_fitted_alone_swallow_a_slow_driver_and_all_together_do_not() -> None:
    series = _fitted(0.98, 0.01)
    whole, label = (
        strengths_of(series, joint(series)),
        strengths_of(series, innovation_label(series)),
    )
    assert whole[1, 0] == pytest.approx(
        0.5, abs=0.05
    )  # the norm of 0.25 everywhere, in states of unit variance
    assert label[1, 0] < 0.2 * whole[1, 0]
    assert p_values(series, shifts=39)[1, 0] == pytest.approx(1 / 40)


@pytest.mark.parametrize(("slow", "quiet"), [(0.98, 0.01), (0.9, 0.01), (0.5, 1.0)])
@pytest.mark.parametrize("fitted", [True, False])
def test_readings_foretell_what_is_learnt(slow: float, quiet: float, fitted: bool) -> None:
    """The share of the influence at the fixed point is that of the formula for the fitted system.

    They agree to a twentieth.
    """
    from plants import clients_of

    plain = two_clients(seed=0, slow=slow, quiet=quiet)
    series = (
        _fitted(slow, quiet)
        if fitted
        else series_of(clients_of(plain, steps=3000, seed=1, process=1.0))
    )
    found = at_rest(series, Rates(client=1.0, server=1e-3, causes=1.0)).block(series, 1, 0)
    block, covariance = joint(series)[2:, :2], np.cov(series.states, rowvar=False)[:2, :2]
    actual = np.trace(found @ covariance @ block.T) / np.trace(block @ covariance @ block.T)
    (said,) = [one for one in readings(series) if one.driven == series.clients[1].name]
    assert said.kept == pytest.approx(float(actual), abs=0.05)
    label = innovation_label(series)[2:, :2]
    left = np.trace(label @ covariance @ block.T) / np.trace(block @ covariance @ block.T)
    assert 1 - said.taken == pytest.approx(float(left), abs=0.05)
    assert ("own dynamics" in said.text()) is (fitted and slow > 0.5)


@pytest.mark.parametrize("lags", [1, 2])
def test_normalised_steps_on_averages_have_the_same_rest(lags: int) -> None:
    """At the fixed point a step moves nothing, for any divisor.

    From zero each step lowers the loss of the clients.
    """
    _, plain = uneven(2, steps=200)
    series = series_of(plain.clients, lags=lags)
    rates = Rates(client=0.2, server=0.02, causes=0.1, normalised=1.0)
    rest = at_rest(series, rates)
    stayed = learn(series, rates, mode="batch", epochs=3, start=rest)
    assert stayed.causes == pytest.approx(rest.causes, abs=1e-9)
    losses = learn(series, rates, mode="batch", epochs=40).client_loss
    assert (np.diff(losses, axis=0) < 0).all()


def test_what_follows_what_is_reported_in_the_units_of_the_columns() -> None:
    stream = np.random.default_rng(0)
    lead = stream.standard_normal((1200, 2))
    follow = 0.2 * stream.standard_normal((1200, 2))
    follow[1:, 1] -= 0.9 * np.diff(lead[:, 0], prepend=0.0)[:-1] / 1.0
    each = [
        Measured(name=name, columns=columns, values=own)
        for name, columns, own in (("a", ("p", "q"), lead), ("b", ("r", "s"), follow))
    ]
    series = series_of([client_of(one, 2) for one in each])
    said = precedence(series, joint(series), 1, 0, (("r", "s"), ("p", "q")), (100 * follow, lead))
    assert said is not None
    assert (said.leads, said.follows, said.within) == ("p", "s", 1)
    assert said.answer < 0
    assert said.kept == pytest.approx(0.8, abs=0.02)
    assert said.kept > 1.5 * said.chance
    rises = np.diff(lead[:, 0])[:-1] >= said.rise
    answered = np.diff(100 * follow[:, 1])[1:] <= said.answer
    assert (answered[rises].mean(), int(rises.sum())) == (pytest.approx(said.kept), said.cases)
    assert precedence(series, joint(series), 0, 1, (("p", "q"), ("r", "s")), (lead, follow)) is None


def test_setting_s_is_reported_at_the_corrected_level() -> None:
    _, series = setting_s(0, 1500)
    found = adjusted(p_values(series, shifts=79))
    assert found[1, 0] <= 0.05
