"""Section 12 of SCFA's specification: a regression with one sign-flipped client of five.

These are acceptance tests 13 and 14. The distance after the last round varies with the minibatches:
in a plain NumPy simulation as in ours, about one data set in ten ends above 0.75 times FedAvg's. So
that factor must hold for the mean over the last ten rounds on every seed, and for the very last
round on most seeds.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from federations import LinearRules

from fedkg.federated import (
    Algorithm,
    Clients,
    Problem,
    Settings,
    SquaredError,
    fedavg,
    initial_state,
    scfa,
    train,
)
from fedkg.models import MLP

SIZES = (470, 330, 165, 120, 95)
BAD = 1
TRUTH = np.array([1.0, 0.5, -0.5, 0.8])
SHARE = SIZES[BAD] / sum(SIZES)


def task(seed: int) -> Problem:
    generator = np.random.default_rng(seed)
    xs = [generator.standard_normal((size, 4)) for size in SIZES]
    ys = [x @ TRUTH + 0.1 * generator.standard_normal(len(x)) for x in xs]
    ys[BAD] = -ys[BAD]
    model = MLP(inputs=4, hidden=(), outputs=1, bias=False)
    clients = Clients(
        names=tuple(f"site_{i}" for i in range(5)),
        x=tuple(torch.from_numpy(x) for x in xs),
        y=tuple(torch.from_numpy(y) for y in ys),
    )
    probe = torch.from_numpy(generator.standard_normal((200, 4)))
    return Problem(
        model=model,
        loss=SquaredError(),
        clients=clients,
        scorer=LinearRules(model=model, probe=probe),
    )


def distances(seed: int, algorithm: Algorithm) -> tuple[list[float], float]:
    """Distance to the truth after each of 50 rounds, and the mean weight of the bad client."""
    problem = task(seed)
    settings = Settings(
        rounds=50, local_steps=5, batch=64, learning_rate=0.05, seed=seed, executor="stacked"
    )
    start = initial_state(
        problem, algorithm, settings, {"layers.0.weight": torch.zeros(1, 4, dtype=torch.float64)}
    )
    found, weights = [], []
    for state, record in train(problem, algorithm, settings, start):
        found.append(float(np.linalg.norm(state.params["layers.0.weight"].numpy()[0] - TRUTH)))
        weights.append(record.alpha[BAD])
    return found, float(np.mean(weights))


@cache
def both(seed: int) -> tuple[list[float], float, list[float]]:
    ours, weight = distances(seed, scfa())
    return ours, weight, distances(seed, fedavg())[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_13_the_bad_client_loses_weight_and_harm(seed: int) -> None:
    ours, weight, theirs = both(seed)
    assert np.mean(ours[-10:]) <= 0.75 * np.mean(theirs[-10:])
    assert ours[-1] <= 0.8 * theirs[-1]
    assert weight <= 0.75 * SHARE


@pytest.mark.parametrize("seed", range(5))
def test_14_scfa_arrives_where_fedavg_does_not(seed: int) -> None:
    ours, _, theirs = both(seed)
    assert next(number for number, distance in enumerate(ours, 1) if distance < 0.6) <= 20
    assert min(theirs) >= 0.6


@pytest.mark.slow
def test_13_and_14_over_many_seeds() -> None:
    runs = [both(seed) for seed in range(20)]
    ratios = [ours[-1] / theirs[-1] for ours, _, theirs in runs]
    assert np.mean(ratios) <= 0.70
    assert np.mean([ratio <= 0.75 for ratio in ratios]) >= 0.8
    assert max(np.mean(ours[-10:]) / np.mean(theirs[-10:]) for ours, _, theirs in runs) <= 0.75
    assert max(weight for _, weight, _ in runs) <= 0.75 * SHARE
    assert all(min(ours[:20]) < 0.6 <= min(theirs) for ours, _, theirs in runs)
