"""A run's report of SCFA's constants, against closed forms and the estimators.

Also PC-FedAvg's certificates against the specification.
"""

from __future__ import annotations

import math
from dataclasses import replace

import gradient_estimators
import numpy as np
import pytest
import torch
from federations import classes
from quadratics import quadratics, random_task, slope, solution

from fedkg.federated import Problem, RoundRecord, Settings, fedavg, initial_state, train
from fedkg.federated.algorithms.pcfedavg import pcfedavg
from fedkg.federated.executors import Work
from fedkg.federated.pcfedavg.agent_sets import sets_of
from fedkg.federated.pcfedavg.bound_comparison import promised
from fedkg.federated.pcfedavg.convergence_bounds import certificate, gap, smoothness, step_size
from fedkg.federated.problem import pool
from fedkg.federated.server.scoring import ProbeScores, ScoredRows, ScoreOptions
from fedkg.federated.theory.scfa_constants import client_gradients, sight, theta
from fedkg.models.model_protocols import Params
from fedkg.projection import Box

Q = np.stack([np.diag([1.0, 2.0]), np.diag([3.0, 2.0]), np.diag([1.0, 5.0])])
B = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])


def work_of(problem: Problem, settings: Settings) -> Work:
    return Work(problem=problem, algorithm=fedavg(), settings=settings, pool=pool(problem.clients))


def record(alpha: tuple[float, ...], problem: Problem) -> RoundRecord:
    names = problem.clients.names
    return RoundRecord(
        round=1,
        clients=names[: len(alpha)],
        samples=problem.clients.samples[: len(alpha)],
        alpha=alpha,
        train_loss=0.0,
        bytes_up=0,
        bytes_down=0,
        seconds=0.0,
    )


def test_a_sight_is_what_the_estimators_say_of_the_gradients() -> None:
    problem = quadratics(Q, B)
    settings = Settings(rounds=1, local_steps=1, batch=1)
    here, there = (
        torch.tensor([0.3, -0.7], dtype=torch.float64),
        torch.tensor([0.4, 0.1], dtype=torch.float64),
    )
    alpha = torch.tensor([0.25, 0.75, 0.0], dtype=torch.float64)
    seen = sight(
        work_of(problem, settings),
        ScoreOptions(),
        {"point": here},
        {"point": there},
        record((0.25, 0.75), problem),
    )
    gradients = torch.from_numpy(
        np.stack([q @ here.numpy() - b for q, b in zip(Q, B, strict=True)])
    )
    for found, expected in zip(client_gradients(problem, {"point": here}), gradients, strict=True):
        torch.testing.assert_close(found[1], expected)
    assert seen.heterogeneity == pytest.approx(
        gradient_estimators.heterogeneity(gradients), rel=1e-12
    )
    assert seen.constrained == pytest.approx(
        gradient_estimators.constrained_heterogeneity(gradients, alpha), rel=1e-12
    )
    assert seen.gamma == pytest.approx(gradient_estimators.reduction(gradients, alpha), rel=1e-12)
    samples = torch.tensor(problem.clients.samples, dtype=torch.float64)
    fedavg_weights = torch.where(alpha > 0, samples, 0.0) / samples[:2].sum()
    assert seen.gamma_samples == pytest.approx(
        gradient_estimators.reduction(gradients, fedavg_weights), rel=1e-12
    )
    assert seen.gamma_samples != pytest.approx(seen.gamma)
    clipped = torch.stack([one / max(1.0, float(one.norm())) for one in gradients])
    assert seen.clipped == pytest.approx(float((samples / samples.sum() @ clipped).norm()))
    assert seen.gradient2 == pytest.approx(float(gradients.mean(0).square().sum()), rel=1e-12)
    assert seen.steepest == pytest.approx(float(gradients.norm(dim=1).max()))
    after = torch.from_numpy(
        np.stack([q @ there.numpy() - b for q, b in zip(Q, B, strict=True)])
    ).mean(0)
    pair = gradient_estimators.smoothness(
        torch.stack([here, there]), torch.stack([gradients.mean(0), after])
    )
    assert seen.smoothness == pytest.approx(pair, rel=1e-12)
    assert seen.variance == 0.0
    assert seen.valid is None


def test_heterogeneity_is_around_the_gradient_of_the_objective_whatever_the_sizes() -> None:
    """By hand: gradients -1 and 3 of clients with one and three samples.

    grad F is 2, and D^2 = (9 + 1) / 2.
    """
    problem = classes((4, 12, 8), dtype=torch.float64)
    here = problem.model.init(3, torch.float64)
    seen = sight(
        work_of(problem, Settings(rounds=1, local_steps=1)),
        ScoreOptions(),
        here,
        here,
        record((0.2, 0.5, 0.3), problem),
    )
    gradients = torch.stack([gradient for _, gradient in client_gradients(problem, here)])
    share, alpha = (
        torch.tensor(values, dtype=torch.float64)
        for values in ((4 / 24, 12 / 24, 8 / 24), (0.2, 0.5, 0.3))
    )
    assert seen.heterogeneity == pytest.approx(
        gradient_estimators.heterogeneity(gradients, share), rel=1e-12
    )
    assert seen.gamma == pytest.approx(
        gradient_estimators.reduction(gradients, alpha, share), rel=1e-12
    )
    assert seen.heterogeneity > gradient_estimators.heterogeneity(gradients) * (1 + 1e-6)
    assert gradient_estimators.heterogeneity(
        torch.tensor([[-1.0], [3.0]]), torch.tensor([0.25, 0.75])
    ) == pytest.approx(5.0)


def test_a_round_without_weight_has_no_constrained_heterogeneity() -> None:
    problem = quadratics(Q, B)
    point = {"point": torch.zeros(2, dtype=torch.float64)}
    seen = sight(
        work_of(problem, Settings(rounds=1, local_steps=1)),
        ScoreOptions(),
        point,
        point,
        record((0.0, 0.0), problem),
    )
    assert math.isnan(seen.constrained)
    assert math.isnan(seen.gamma)
    assert math.isnan(seen.smoothness)


class HalfSpace:
    """One rule: the first parameter is not negative."""

    rows = ScoredRows(
        names=("r",),
        families=("other",),
        weight=torch.ones(1, dtype=torch.float64),
        hard=torch.tensor([True]),
    )

    def score(self, params: Params) -> ProbeScores:
        return ProbeScores(violation=(params["point"][:, :1] < 0).float())


def test_theta_is_the_share_of_the_valid_side() -> None:
    """A Gaussian one deviation inside a half-space: 84.1 % of it."""
    first = {"point": torch.zeros(4, dtype=torch.float64)}
    last = {"point": torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)}
    found = theta(HalfSpace(), ScoreOptions(), last, first, draws=4000, radius=2.0, seed=0)
    assert found.interval[0] < 0.8413 < found.interval[1]
    assert found.share == pytest.approx(0.8413, abs=0.02)
    assert (
        theta(HalfSpace(), ScoreOptions(), last, first, draws=10, radius=None, seed=0).radius == 1.0
    )


@pytest.mark.slow
def test_the_certificates_of_a_run_hold_and_near_those_of_the_solution() -> None:
    """The specification's section 8 (H = 1, averaged iterates).

    The run's estimate of the solution is off by a few per cent.
    """
    q, b, low, high = random_task()
    count, strengths = 400, np.full(5, 0.5)
    rho = math.sqrt(count)
    step = step_size(smoothness(1.0, rho, strengths.tolist(), 5), 1)
    sets = sets_of(
        [
            Box(torch.from_numpy(one), torch.from_numpy(two))
            for one, two in zip(low, high, strict=True)
        ]
    )
    problem, algorithm = quadratics(q, b), pcfedavg(sets=sets, strength=0.5)
    settings = Settings(
        rounds=count, local_steps=1, batch=1, learning_rate=step, executor="stacked"
    )
    begun = initial_state(problem, algorithm, settings)
    *_, (state, _) = train(problem, algorithm, settings)
    work = Work(problem=problem, algorithm=algorithm, settings=settings, pool=pool(problem.clients))
    seen = promised(work, begun, state)
    assert seen is not None
    assert seen.penalty == pytest.approx(rho)
    assert seen.infeasibility <= seen.bound
    assert seen.lower < 0 < seen.upper
    best = solution(q, b, strengths, low, high)
    exact = certificate(
        gap(float(((begun.models["point"].numpy() - best) ** 2).sum()), step, count),
        float(np.linalg.norm(slope(q, b, strengths, best))),
        rho,
        5,
    )
    assert seen.bound == pytest.approx(exact.infeasibility, rel=0.1)
    assert seen.upper == pytest.approx(exact.upper, rel=0.1)
    assert promised(work_of(problem, settings), begun, state) is None


@pytest.mark.parametrize(
    ("changes", "growing"),
    [({"local_steps": 2}, False), ({"batch": 7}, False), ({}, True)],
    ids=["steps", "minibatches", "growing"],
)
def test_nothing_is_certified_of_what_no_theorem_speaks_of(
    changes: dict[str, int], growing: bool
) -> None:
    sizes = (8, 5)
    sets = sets_of([Box(torch.tensor(-1.0).double(), torch.tensor(1.0).double())] * 2)
    problem, algorithm = (
        classes(sizes, dtype=torch.float64),
        pcfedavg(sets=sets, penalty=1.0, growing=growing),
    )
    whole = Settings(rounds=2, local_steps=1, batch=8, learning_rate=0.01, executor="stacked")
    settings = replace(whole, **changes)  # type: ignore[arg-type]
    begun = initial_state(problem, algorithm, settings)
    *_, (state, _) = train(problem, algorithm, settings)
    work = Work(problem=problem, algorithm=algorithm, settings=settings, pool=pool(problem.clients))
    seen = promised(work, begun, state)
    assert seen is not None
    assert all(math.isnan(number) for number in (seen.upper, seen.bound, seen.lower))
    known = promised(replace(work, settings=whole), begun, state)
    assert growing or not math.isnan(known.bound)  # type: ignore[union-attr]


def test_a_round_records_how_much_its_updates_differ() -> None:
    problem = quadratics(Q, B)
    settings = Settings(
        rounds=1, local_steps=1, batch=1, learning_rate=0.1, measure_divergence=True
    )
    fresh = initial_state(problem, fedavg(), settings)
    start = fresh.params["point"].double().numpy()
    [(_, record)] = train(problem, fedavg(), settings, fresh)
    updates = np.stack([-0.1 * (q @ start - b) for q, b in zip(Q, B, strict=True)])
    mean = updates.mean(0)
    expected = ((updates - mean) ** 2).sum(1).mean() / (mean**2).sum()
    assert record.divergence == pytest.approx(float(expected), rel=1e-5)
    [(_, plain)] = train(problem, fedavg(), replace(settings, measure_divergence=False), fresh)
    assert plain.divergence is None
