"""Identifiability: attenuation in theory and simulation, references, significance, robustness."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from plants import clients_of, setting_s
from scipy.linalg import solve_discrete_lyapunov

from fedkg.errors import UsageError
from fedkg.granger.edge_significance import innovation_label, p_values
from fedkg.granger.identifiability import readings
from fedkg.granger.kalman import oracle, radius_of, steady_gain
from fedkg.granger.learn import Rates, at_rest, learn, losses_of
from fedkg.granger.moments import moments, series_of
from fedkg.granger.synthetic_systems import System, places_of, recorded, two_clients

F64 = NDArray[np.float64]


def stationary(transition: F64, process: F64) -> F64:
    """The covariance of the states in the long run: Sigma = A Sigma A^T + Q (the paper's (71) -
    (73) omit terms).
    """
    return np.asarray(solve_discrete_lyapunov(transition, process), dtype=np.float64)


def limit(transition: F64, covariance: F64, sizes: tuple[int, ...], m: int) -> F64:
    """What is learnt of the row of client m in the long run, [P, S], from the true system: 0 in the
    client's own columns.
    """
    own = np.zeros(len(transition), dtype=np.bool_)
    own[places_of(sizes)[m]] = True
    surprise = transition[own][:, ~own] @ covariance[~own][:, own]
    read = surprise @ np.linalg.pinv(covariance[own][:, own], hermitian=True)
    found = np.zeros((int(own.sum()), len(transition)))
    found[:, ~own] = (
        read @ covariance[own][:, ~own] @ np.linalg.pinv(covariance[~own][:, ~own], hermitian=True)
    )
    return found


def test_15_the_stationary_covariance() -> None:
    found = stationary(np.array([[0.5, 0.1], [0.3, 0.4]]), np.eye(2))
    assert found == pytest.approx(np.array([[1.39883, 0.34728], [0.34728, 1.43957]]), abs=5e-6)


@pytest.mark.parametrize(
    ("slow", "quiet", "expected"), [(0.5, 1.0, 0.0179), (0.9, 0.01, 0.1899), (0.98, 0.01, 0.2368)]
)
def test_7_the_formula_of_attenuation(slow: float, quiet: float, expected: float) -> None:
    system = two_clients(seed=0, slow=slow, quiet=quiet)
    covariance = stationary(system.transition, system.process)
    found = limit(system.transition, covariance, system.sizes, 1)[:, :2]
    assert found.mean() == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("slow", "quiet", "expected"), [(0.5, 1.0, 0.0179), (0.9, 0.01, 0.1899), (0.98, 0.01, 0.2368)]
)
def test_7_the_learning_comes_to_the_formula(slow: float, quiet: float, expected: float) -> None:
    """Noise 1e-4, filters that follow the states, eta_2 / eta_1 = 1e-6, T = 20,000.

    Compared for the true system, and for the observed covariance.
    """
    plain = two_clients(seed=0, slow=slow, quiet=quiet)
    system = System(
        transition=plain.transition, emissions=plain.emissions, process=plain.process, noise=1e-4
    )
    series = series_of(clients_of(system, steps=20_000, seed=5, process=1.0))
    found = at_rest(series, Rates(client=1.0, server=1e-6, causes=1.0)).block(series, 1, 0)
    assert found == pytest.approx(np.full((2, 2), expected), abs=5e-3)
    empirical = np.cov(recorded(system, 20_000, seed=5).states, rowvar=False)
    assert found == pytest.approx(
        limit(system.transition, empirical, system.sizes, 1)[:, :2], abs=5e-3
    )


def test_readings_say_how_much_is_lost() -> None:
    _, series = setting_s(0)
    forth = next(one for one in readings(series) if one.driven == "client 2")
    assert forth.kept > 0.4
    fast = two_clients(seed=0, slow=0.5, quiet=1.0)
    lost = next(
        one
        for one in readings(series_of(clients_of(fast, steps=4000, seed=1)))
        if one.driven == "client 2"
    )
    assert lost.kept < 0.15
    assert "too small" in lost.text()


def test_the_reference_has_no_attenuation() -> None:
    """Equal fast clients: learning finds almost nothing of A_21 = 0.25, the innovation label almost
    all.
    """
    system = two_clients(seed=0, slow=0.5, quiet=1.0)
    series = series_of(clients_of(system, steps=20_000, seed=3, process=10.0))
    reference = innovation_label(series)[2:, :2]
    assert reference.mean() == pytest.approx(0.25, abs=0.02)
    assert abs(at_rest(series, Rates()).block(series, 1, 0)).mean() < 0.05


def test_chance_and_cause_are_distinguished() -> None:
    _, series = setting_s(0, 1500)
    found = p_values(series, shifts=39)
    assert found[1, 0] == pytest.approx(1 / 40)
    assert np.isnan(np.diag(found)).all()
    alone = two_clients(seed=1, drive=0.0)
    none = np.array(
        [
            p_values(series_of(clients_of(alone, steps=600, seed=seed)), shifts=19)[1, 0]
            for seed in range(12)
        ]
    )
    assert (none <= 0.05).sum() <= 3  # 12 draws at 5 %: more than 3 has a probability below 0.003


def test_the_oracle_sees_more_than_a_client() -> None:
    system, series = setting_s(0)
    seen = recorded(system, 4000, seed=100)
    best = oracle(
        system.transition, system.emissions, system.process, system.noise, seen.measurements
    )
    assert ((best - seen.states) ** 2).mean() < ((series.states - seen.states) ** 2).mean()


def test_11_losses_rise_with_the_perturbation() -> None:
    """Parameters are frozen and the system changes.

    L_s rises over epsilon = 5, 45, 85, 125 %; with reversed causality at least 5 times.
    """
    system, series = setting_s(0)
    found = learn(series, epochs=8)

    def server_loss(transition: np.ndarray) -> float:
        changed = System(
            transition=transition,
            emissions=system.emissions,
            process=system.process,
            noise=system.noise,
        )
        other = series_of(clients_of(changed, steps=4000, seed=100))
        return sum(
            losses_of(
                moments(other, m),
                found.augmentations[m],
                found.causes[other.places[m], other.drivers(m)],
            )[1]
            for m in range(2)
        )

    def stronger(share: float) -> np.ndarray:
        changed = system.transition.copy()
        changed[2:, :2] *= 1 + share
        return changed

    train, *more = [server_loss(stronger(share)) for share in (0.0, 0.05, 0.45, 0.85, 1.25)]
    assert train < more[0] < more[1] < more[2] < more[3]
    turned = system.transition.copy()
    turned[:2, 2:], turned[2:, :2] = turned[2:, :2].copy(), 0.0
    assert server_loss(turned) >= 5 * train


def test_the_gain_settles_and_says_where_it_cannot() -> None:
    gain = steady_gain(np.array([[0.9]]), np.array([[1.0]]), np.array([[1.0]]), np.array([[0.1]]))
    assert radius_of(np.array([[0.9]]) - 0.9 * gain) < 0.2
    with pytest.raises(UsageError, match="no steady Kalman gain"):
        steady_gain(np.array([[1.1]]), np.array([[0.0]]), np.array([[1.0]]), np.array([[0.1]]))
