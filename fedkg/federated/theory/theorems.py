"""SCFA's theory as instruments: the numbers of its theorems for a run, and fits of what a run
shows.

After J. Arafat, "Semantic-Constrained Federated Aggregation": theorem 1 (bound), corollary 2 (when
constraints help), theorem 3
(privacy), proposition 4 (violations). Where a printed formula does not support the claim made with
it, both are given.

Letters: T rounds, E local steps of a round, K clients, L smoothness, D heterogeneity, rho violation
rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import JobError

RHO_CRITICAL = 0.18
"""The violation rate above which the paper calls a federation critical."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The four terms of theorem 1's bound on ``min_t E |grad F|^2`` and whether its condition on
    the step size holds.
    """

    optimisation: float
    variance: float
    drift: float
    violation: float
    step_small_enough: bool

    @property
    def total(self) -> float:
        """The sum of the terms."""
        return self.optimisation + self.variance + self.drift + self.violation


def bound(
    *,
    gap: float,
    rate: float,
    rounds: int,
    smoothness: float,
    local_steps: int,
    variance: float,
    clients: int,
    heterogeneity: float,
    rho: float,
    gradient_bound: float,
) -> Bound:
    """Theorem 1: ``2 gap / (eta T) + 2 L eta E^2 sigma^2 / K + 2 L^2 eta^2 E^2 D^2 + rho L_c D``,
    valid for ``eta <= 1 / (L E)``.

    The first term follows the paper; local SGD's usual bound has E in its denominator as well.

    Args:
        gap: F(w0) - F*, the objective at the start minus the optimum.
        rate: eta, the learning rate.
        rounds: T.
        smoothness: L.
        local_steps: E.
        variance: sigma^2, the variance of minibatch gradients.
        clients: K.
        heterogeneity: D (not squared).
        rho: the worst violation rate over the rounds.
        gradient_bound: L_c, the largest gradient norm where all constraints hold.
    """
    return Bound(
        optimisation=2 * gap / (rate * rounds),
        variance=2 * smoothness * rate * local_steps**2 * variance / clients,
        drift=2 * smoothness**2 * rate**2 * local_steps**2 * heterogeneity**2,
        violation=rho * gradient_bound * heterogeneity,
        step_small_enough=rate <= 1 / (smoothness * local_steps),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Benefit:
    """Corollary 2.

    `quantity` is not a ratio of rounds, though it is read so in the paper: it was 10.2 where 22 %
    were saved.
    """

    quantity: float
    threshold: float
    satisfied: bool


def benefit(
    *, gamma: float, heterogeneity: float, gradient_bound: float, rho: float, rounds: int
) -> Benefit:
    """Corollary 2: ``gamma D / (L_c rho)`` and the condition ``rho < gamma D / (L_c sqrt(T))``."""
    scale = gamma * heterogeneity / gradient_bound
    threshold = scale / math.sqrt(rounds)
    return Benefit(
        quantity=scale / rho if rho > 0 else math.inf,
        threshold=threshold,
        satisfied=rho < threshold,
    )


def noise_scale(epsilon: float, delta: float = 1e-5) -> float:
    """sigma = sqrt(2 ln(1.25 / delta)) / epsilon of the Gaussian mechanism; the noise on each
    coordinate is sigma times the clip norm.

    Proven for epsilon below 1 and a single release only: runs must account for composition.
    """
    if not (epsilon > 0 and 0 < delta < 1):
        raise JobError(
            "epsilon or delta is out of range",
            expected="epsilon > 0 and 0 < delta < 1",
            received=f"epsilon {epsilon}, delta {delta}",
        )
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def signal_to_noise(signal: float, *, sigma: float, clip: float, dimensions: int) -> float:
    """|clipped mean gradient| over the expected length of the noise, ``sigma clip sqrt(2) Gamma((d
    + 1) / 2) / Gamma(d / 2)``.
    """
    length = math.sqrt(2) * math.exp(
        math.lgamma((dimensions + 1) / 2) - math.lgamma(dimensions / 2)
    )
    return signal / (sigma * clip * length)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyLoss:
    """Theorem 3's loss without constraints, the paper's claim for constraints, and what its printed
    formula gives for them.

    The formula divides by the size of the hypothesis space; a smaller space makes it larger, not
    smaller. The claim does not follow.
    """

    unconstrained: float
    claimed_constrained: float
    printed_constrained: float


def privacy_loss(
    *, smoothness: float, sigma: float, dimensions: int, hypotheses: float, theta: float
) -> PrivacyLoss:
    """Theorem 3: ``L sigma^2 d / H``, times theta as claimed, divided by theta as printed."""
    loss = smoothness * sigma**2 * dimensions / hypotheses
    return PrivacyLoss(
        unconstrained=loss, claimed_constrained=theta * loss, printed_constrained=loss / theta
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RateFit:
    """``f(t) = a / sqrt(t) + b rho``: a, b (0 when rho is), R^2 and its 95 % bootstrap interval, if
    asked for.
    """

    a: float
    b: float
    r2: float
    r2_interval: tuple[float, float] | None = None


def rate_fit(
    values: Sequence[float],
    *,
    rounds: Sequence[int] | None = None,
    rho: float = 0.0,
    bootstrap: int = 0,
) -> RateFit:
    """Least-squares fit of values at `rounds` (None: 1, 2, ...); without violations (rho = 0) the
    constant term is absent.

    Args:
        bootstrap: how many times the rounds are drawn anew, with replacement, for the interval of
            R^2; 0 for none.
    """
    y = np.asarray(values, np.float64)
    if len(y) < 3:
        raise JobError(
            "fedkg cannot fit a convergence rate to so few rounds",
            expected="at least 3 rounds",
            received=str(len(y)),
        )
    slow = 1 / np.sqrt(
        np.arange(1, len(y) + 1, dtype=np.float64)
        if rounds is None
        else np.asarray(rounds, np.float64)
    )
    design = np.stack([slow, np.ones_like(slow)], axis=1) if rho > 0 else slow[:, None]
    coefficients, r2 = _least_squares(design, y)
    return RateFit(
        a=float(coefficients[0]),
        b=float(coefficients[1] / rho) if rho > 0 else 0.0,
        r2=r2,
        r2_interval=_interval(design, y, bootstrap),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ViolationFit:
    """``F1 = intercept - rho slope`` up to the critical rate: intercept is F* - epsilon_opt, slope
    Delta_max.

    Attributes:
        residual_above: mean of F1 minus the line beyond the critical rate; None without such
            points.
    """

    intercept: float
    slope: float
    r2: float
    r2_interval: tuple[float, float] | None
    residual_above: float | None


def violation_fit(
    scores: Sequence[float], rhos: Sequence[float], *, bootstrap: int = 0
) -> ViolationFit:
    """Proposition 4 fitted to F1 scores at violation rates, by least squares over the rates up to
    `RHO_CRITICAL`.
    """
    y, rho = np.asarray(scores, np.float64), np.asarray(rhos, np.float64)
    inside = rho <= RHO_CRITICAL
    if len(np.unique(rho[inside])) < 2:
        raise JobError(
            "fedkg cannot fit a line: too few different violation rates",
            expected=f"two different rates of at most {RHO_CRITICAL}",
            received=", ".join(f"{one:g}" for one in rhos) or "no rates",
        )
    design = np.stack([np.ones_like(rho), -rho], axis=1)
    coefficients, r2 = _least_squares(design[inside], y[inside])
    beyond = y[~inside] - design[~inside] @ coefficients
    return ViolationFit(
        intercept=float(coefficients[0]),
        slope=float(coefficients[1]),
        r2=r2,
        r2_interval=_interval(design[inside], y[inside], bootstrap),
        residual_above=float(beyond.mean()) if len(beyond) else None,
    )


def _least_squares(design: Floats, y: Floats) -> tuple[Floats, float]:
    coefficients: Floats = np.asarray(np.linalg.lstsq(design, y, rcond=None)[0], np.float64)
    residual = float(((y - design @ coefficients) ** 2).sum())
    spread = float(((y - y.mean()) ** 2).sum())
    return coefficients, 1.0 - residual / spread if spread > 0 else float(residual == 0)


def _interval(design: Floats, y: Floats, draws: int) -> tuple[float, float] | None:
    """95 % interval of R^2 over fits to rounds drawn with replacement; draws that do not determine
    the fit are left out.
    """
    if draws < 1:
        return None
    generator = np.random.default_rng(0)
    found = []
    for _ in range(draws):
        picked = generator.integers(0, len(y), len(y))
        if np.linalg.matrix_rank(design[picked]) == design.shape[1]:
            found.append(_least_squares(design[picked], y[picked])[1])
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)
