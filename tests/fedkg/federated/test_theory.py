"""SCFA's theory against the specification's numbers (acceptance tests 7 to 11).

Also its estimators against closed forms.
"""

from __future__ import annotations

import math

import gradient_estimators
import numpy as np
import pytest
import torch

from fedkg.errors import JobError
from fedkg.federated.theory import estimators, theorems


def test_7_the_four_terms_of_the_bound() -> None:
    bound = theorems.bound(
        gap=1.0,
        rate=0.01,
        rounds=50,
        smoothness=1.0,
        local_steps=5,
        variance=1.0,
        clients=5,
        heterogeneity=1.87,
        rho=0.053,
        gradient_bound=1.42,
    )
    assert bound.optimisation == pytest.approx(4.0, abs=1e-12)
    assert bound.variance == pytest.approx(0.1, abs=1e-12)
    assert bound.drift == pytest.approx(0.0174845, abs=1e-12)
    assert bound.violation == pytest.approx(0.1407362, abs=1e-12)
    assert bound.total == pytest.approx(4.2582207, abs=1e-12)
    assert bound.step_small_enough


def test_7_the_condition_on_the_step_size() -> None:
    common = {
        "gap": 1.0,
        "rounds": 50,
        "smoothness": 2.0,
        "local_steps": 5,
        "variance": 1.0,
        "clients": 5,
    }
    assert theorems.bound(
        **common, rate=0.1, heterogeneity=1, rho=0, gradient_bound=1
    ).step_small_enough
    assert not theorems.bound(
        **common, rate=0.11, heterogeneity=1, rho=0, gradient_bound=1
    ).step_small_enough


def test_8_the_corollary() -> None:
    benefit = theorems.benefit(
        gamma=0.41, heterogeneity=1.87, gradient_bound=1.42, rho=0.053, rounds=50
    )
    assert benefit.quantity == pytest.approx(10.187, abs=5e-4)
    assert benefit.threshold == pytest.approx(0.07636, abs=5e-6)
    assert benefit.satisfied
    assert (
        theorems.benefit(
            gamma=0.41, heterogeneity=1.87, gradient_bound=1.42, rho=0.0, rounds=50
        ).quantity
        == math.inf
    )


@pytest.mark.parametrize(
    ("epsilon", "sigma"), [(0.1, 48.448), (1, 4.8448), (10, 0.48448), (100, 0.048448)]
)
def test_9_the_noise_scale(epsilon: float, sigma: float) -> None:
    assert theorems.noise_scale(epsilon) == pytest.approx(sigma, rel=1e-5)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-5), (-1.0, 1e-5), (1.0, 0.0), (1.0, 1.0)])
def test_9_impossible_budgets_are_rejected(epsilon: float, delta: float) -> None:
    with pytest.raises(JobError, match="epsilon or delta is out of range"):
        theorems.noise_scale(epsilon, delta)


def test_10_the_rate_fit_recovers_what_made_the_values() -> None:
    values = [2.14 / math.sqrt(t) + 0.38 * 0.053 for t in range(1, 51)]
    fit = theorems.rate_fit(values, rho=0.053, bootstrap=50)
    assert fit.a == pytest.approx(2.14, abs=1e-9)
    assert fit.b == pytest.approx(0.38, abs=1e-9)
    assert fit.r2 == pytest.approx(1.0, abs=1e-12)
    assert fit.r2_interval == pytest.approx((1.0, 1.0), abs=1e-9)


def test_10_without_violations_there_is_no_constant_term() -> None:
    fit = theorems.rate_fit([2.87 / math.sqrt(t) for t in range(1, 51)])
    assert (fit.a, fit.b, fit.r2_interval) == (pytest.approx(2.87, abs=1e-9), 0.0, None)


def test_10_noisy_values_have_an_interval_around_their_fit() -> None:
    noise = np.random.default_rng(0).normal(0, 0.05, 50)
    values = [
        2.14 / math.sqrt(t) + 0.02 + float(e) for t, e in zip(range(1, 51), noise, strict=True)
    ]
    fit = theorems.rate_fit(values, rho=0.053, bootstrap=200)
    assert fit.r2_interval is not None
    assert 0.8 < fit.r2_interval[0] < fit.r2 < fit.r2_interval[1] < 1
    assert fit == theorems.rate_fit(values, rho=0.053, bootstrap=200)
    with pytest.raises(JobError, match="to so few rounds"):
        theorems.rate_fit([1.0, 0.5])


def test_11_the_violation_fit_recovers_the_model_and_sees_the_fall_beyond_it() -> None:
    rhos = [0.0, 0.05, 0.1, 0.15, 0.18, 0.25, 0.3]
    scores = [0.817 - 0.45 * rho - (0.1 if rho > 0.18 else 0.0) for rho in rhos]
    fit = theorems.violation_fit(scores, rhos)
    assert (fit.intercept, fit.slope) == (pytest.approx(0.817), pytest.approx(0.45))
    assert fit.r2 == pytest.approx(1.0)
    assert fit.residual_above == pytest.approx(-0.1)
    assert theorems.violation_fit(scores[:5], rhos[:5]).residual_above is None
    with pytest.raises(JobError, match="two different"):
        theorems.violation_fit([0.8, 0.8], [0.3, 0.4])


def test_privacy_loss_gives_the_claim_and_the_formula_side_by_side() -> None:
    loss = theorems.privacy_loss(
        smoothness=2.0, sigma=0.5, dimensions=100, hypotheses=1000, theta=0.37
    )
    assert loss.unconstrained == pytest.approx(0.05)
    assert loss.claimed_constrained == pytest.approx(0.0185)
    assert loss.printed_constrained == pytest.approx(0.05 / 0.37)


def test_signal_to_noise_uses_the_expected_length_of_the_noise() -> None:
    noise = 0.3 * torch.randn(
        20_000, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    assert theorems.signal_to_noise(1.0, sigma=0.3, clip=1.0, dimensions=7) == pytest.approx(
        1 / float(noise.norm(dim=1).mean()), rel=0.01
    )
    assert theorems.signal_to_noise(
        1.0, sigma=0.5, clip=2.0, dimensions=10_000_000
    ) == pytest.approx(1 / math.sqrt(1e7), rel=1e-6)


def test_heterogeneity_and_its_reduction() -> None:
    gradients = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 3.0]])
    assert gradient_estimators.heterogeneity(gradients) == pytest.approx((2 + 2 + 4) / 3)
    assert gradient_estimators.constrained_heterogeneity(
        gradients, torch.tensor([0.5, 0.5, 0.0])
    ) == pytest.approx(1.0)
    assert gradient_estimators.reduction(gradients, torch.tensor([0.5, 0.5, 0.0])) == pytest.approx(
        1 - 3 / 8
    )
    assert gradient_estimators.reduction(torch.ones(3, 2), torch.ones(3) / 3) == 0.0


def test_smoothness_variance_and_gradient_bound() -> None:
    points = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 2.0]])
    curvature = torch.tensor([3.0, 0.5])
    assert gradient_estimators.smoothness(points, points * curvature) == pytest.approx(3.0)
    assert gradient_estimators.smoothness(points[1:3], points[1:3]) == 0.0
    assert gradient_estimators.gradient_variance(torch.tensor([[1.0], [-1.0]])) == pytest.approx(
        1.0
    )
    norms = torch.tensor([[3.0, 4.0], [30.0, 40.0]])
    assert gradient_estimators.gradient_bound(norms, torch.tensor([True, False])) == pytest.approx(
        5.0
    )
    assert gradient_estimators.gradient_bound(norms, torch.tensor([False, False])) == 0.0


def test_the_share_of_hypotheses_with_wilsons_interval() -> None:
    share, (low, high) = estimators.hypothesis_share(torch.tensor([True] * 37 + [False] * 63))
    assert share == pytest.approx(0.37)
    assert (low, high) == (pytest.approx(0.28180, abs=1e-4), pytest.approx(0.46778, abs=1e-4))
    assert estimators.hypothesis_share(torch.ones(10, dtype=torch.bool))[1][1] == pytest.approx(1.0)


def test_divergence_is_zero_for_equal_updates_and_squared_otherwise() -> None:
    assert estimators.divergence(torch.ones(4, 3)) == 0.0
    assert estimators.divergence(torch.tensor([[3.0], [1.0]])) == pytest.approx(0.25)
    assert estimators.divergence(torch.tensor([[1.0], [-1.0]])) == math.inf
