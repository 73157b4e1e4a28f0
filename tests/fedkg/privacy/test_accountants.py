"""Accountants against Opacus, against each other, and against published numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkg.errors import JobError
from fedkg.federated.theory.theorems import noise_scale
from fedkg.privacy import ACCOUNTANTS, Gaussian, Spent, epsilon_of, noise_for
from fedkg.privacy.accountants import ORDERS, _renyi

CONTRACT = [(4.0, 0.01, 10_000), (1.1, 256 / 60_000, 14_062), (5.0, 1.0, 1), (3.0, 1.0, 20)]


def training(noise: float, rate: float = 1.0, releases: int = 1) -> tuple[Gaussian, ...]:
    return (Gaussian(what="training", noise=noise, rate=rate, releases=releases),)


@pytest.mark.parametrize(("noise", "rate", "releases"), CONTRACT)
@pytest.mark.filterwarnings("ignore:Optimal order")
def test_rdp_is_that_of_opacus_or_closer(noise: float, rate: float, releases: int) -> None:
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    accountant.history = [(noise, rate, releases)]
    theirs = accountant.get_epsilon(1e-5)
    ours = epsilon_of(training(noise, rate, releases), 1e-5, "rdp")
    assert ours <= theirs + 1e-12
    assert ours == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize(("noise", "rate", "releases"), CONTRACT)
@pytest.mark.filterwarnings("ignore")  # its own domain and logarithms warn
def test_prv_is_that_of_opacus_and_below_rdp(noise: float, rate: float, releases: int) -> None:
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = [(noise, rate, releases)]
    ours = epsilon_of(training(noise, rate, releases), 1e-5, "prv")
    assert ours == pytest.approx(accountant.get_epsilon(1e-5), abs=1e-9)
    assert ours <= epsilon_of(training(noise, rate, releases), 1e-5, "rdp")


def test_abadi_2016_section_3() -> None:
    """q = 0.01, sigma = 4, 10,000 steps: the moments accountant gives epsilon 1.26 at delta 1e-5.

    The later conversions are tighter.
    """
    renyi = 10_000 * _renyi(4.0, 0.01)
    orders = np.array(ORDERS)
    moments = float((renyi + math.log(1e5) / (orders - 1)).min())
    assert moments == pytest.approx(1.26, abs=0.01)
    assert epsilon_of(training(4.0, 0.01, 10_000), 1e-5, "rdp") < moments


@pytest.mark.parametrize(
    ("noise", "epochs", "printed"), [(1.3, 15, 1.19), (1.1, 60, 3.01), (0.7, 45, 7.10)]
)
def test_the_mnist_tutorial_of_tensorflow_privacy(
    noise: float, epochs: int, printed: float
) -> None:
    """Batches of 256 out of 60,000 at delta 1e-5.

    The tutorial's table converts Renyi orders into epsilon as Mironov 2017 does.
    """
    renyi = (epochs * 60_000 // 256) * _renyi(noise, 256 / 60_000)
    orders = np.array(ORDERS)
    assert float((renyi + math.log(1e5) / (orders - 1)).min()) == pytest.approx(printed, abs=0.02)


def exact_delta(epsilon: float, noise: float) -> float:
    """delta of one Gaussian release (Balle and Wang 2018, theorem 8), with sensitivity 1."""

    def normal(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2))

    return normal(0.5 / noise - epsilon * noise) - math.exp(epsilon) * normal(
        -0.5 / noise - epsilon * noise
    )


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize(("noise", "releases"), [(6.0, 1), (20.0, 4), (80.0, 9)])
def test_no_accountant_promises_more_than_the_exact_curve(
    accountant: str, noise: float, releases: int
) -> None:
    """k releases with noise sigma are one with sigma / sqrt(k).

    At the promised epsilon, the exact delta is not larger.
    """
    promised = epsilon_of(training(noise, 1.0, releases), 1e-5, accountant)
    assert 0 < promised < math.inf
    assert exact_delta(promised, noise / math.sqrt(releases)) <= 1e-5 * (1 + 1e-9)


def test_paper_is_the_formula_of_one_release() -> None:
    assert epsilon_of(training(noise_scale(0.5)), 1e-5, "paper") == pytest.approx(0.5)
    assert epsilon_of(training(noise_scale(0.1)), 1e-5, "paper") == pytest.approx(0.1)
    assert (
        epsilon_of(training(noise_scale(10.0)), 1e-5, "paper") == math.inf
    )  # the theorem ends at 1
    assert (
        epsilon_of(training(noise_scale(10.0)), 1e-5, "rdp") > 10.0
    )  # and the papers' formula promises too much there


def test_paper_composes_release_by_release() -> None:
    each = noise_scale(0.05, 1e-5 / 8)
    assert epsilon_of(training(each, 0.1, 8), 1e-5, "paper") == pytest.approx(8 * 0.05)


@settings(max_examples=15, deadline=None)
@given(
    st.floats(0.2, 8.0), st.sampled_from([(1.0, 1), (1.0, 30)]), st.sampled_from(["rdp", "paper"])
)
def test_noise_that_is_found_keeps_the_budget_and_is_the_least(
    epsilon: float, case: tuple[float, int], accountant: str
) -> None:
    noise = noise_for(epsilon, 1e-5, lambda noise: training(noise, *case), accountant)
    assert epsilon_of(training(noise, *case), 1e-5, accountant) <= epsilon
    assert epsilon_of(training(noise * 0.999, *case), 1e-5, accountant) > epsilon


@pytest.mark.filterwarnings("ignore:Optimal order")
def test_the_noise_found_is_that_of_opacus() -> None:
    from opacus.accountants.utils import get_noise_multiplier

    theirs = get_noise_multiplier(
        target_epsilon=3.0, target_delta=1e-5, sample_rate=0.01, steps=2_000, accountant="rdp"
    )
    ours = noise_for(3.0, 1e-5, lambda noise: training(noise, 0.01, 2_000), "rdp")
    assert ours == pytest.approx(theirs, rel=0.02)


@pytest.mark.slow
def test_prv_needs_less_noise_than_rdp() -> None:
    least = {
        name: noise_for(2.0, 1e-5, lambda noise: training(noise, 0.01, 1_000), name)
        for name in ("rdp", "prv")
    }
    assert least["prv"] < least["rdp"]


def test_known_releases_are_added() -> None:
    alone = epsilon_of(training(2.0, 0.1, 50), 1e-5)
    both = epsilon_of((*training(2.0, 0.1, 50), Spent(what="mined", epsilon=0.25)), 1e-5)
    # composed with the others, and not more expensive than their sum
    assert alone < both < alone + 0.25
    partly = epsilon_of(
        (*training(2.0, 0.1, 50), Spent(what="mined", epsilon=0.25, delta=5e-6)), 1e-5
    )
    assert partly == pytest.approx(epsilon_of(training(2.0, 0.1, 50), 5e-6) + 0.25)
    classical = epsilon_of(
        (*training(900.0, 1.0, 2), Spent(what="mined", epsilon=0.25, releases=2)), 1e-5, "paper"
    )
    assert classical == pytest.approx(epsilon_of(training(900.0, 1.0, 2), 1e-5, "paper") + 0.5)
    assert epsilon_of((Spent(what="mined", epsilon=0.25),), 1e-5) == 0.25
    assert epsilon_of(
        (*training(2.0, 0.1, 50), Spent(what="other", epsilon=0.0, delta=5e-6)), 1e-5
    ) == pytest.approx(epsilon_of(training(2.0, 0.1, 50), 5e-6))
    assert epsilon_of((Spent(what="other", epsilon=0.0, delta=1e-5),), 1e-5) == math.inf


def test_nothing_costs_nothing_and_no_noise_everything() -> None:
    assert epsilon_of((), 1e-5) == 0.0
    assert epsilon_of(training(1.0, 0.5, 0), 1e-5) == 0.0
    assert epsilon_of(training(0.0), 1e-5) == math.inf


def test_more_sums_cost_more() -> None:
    spent = [epsilon_of(training(1.5, 0.1, count), 1e-5) for count in (1, 10, 100, 1000)]
    assert spent == sorted(spent)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: epsilon_of((), 1e-5, "gdp"), "`accountant` has an unknown value"),
        (lambda: epsilon_of((), 0.0), "delta must be a probability"),
        (
            lambda: Gaussian(what="x", noise=1.0, rate=0.0, releases=1),
            "invalid numbers of a Gaussian mechanism",
        ),
        (lambda: Spent(what="x", epsilon=-1.0), "invalid numbers of a privacy guarantee"),
        (lambda: noise_for(0.0, 1e-5, training), "epsilon must be above 0"),
        (
            lambda: noise_for(
                0.2, 1e-5, lambda noise: (*training(noise), Spent(what="x", epsilon=0.3))
            ),
            "no noise keeps",
        ),
    ],
)
def test_invalid_arguments_are_rejected(act: object, words: str) -> None:
    with pytest.raises(JobError, match=words):
        act()  # type: ignore[operator]
