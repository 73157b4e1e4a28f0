"""Federations with data on another device: they train there, with the results of the CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from algorithm_contracts import made, settings_for, task
from federations import classes
from model_examples import EXAMPLES

from fedkg.federated import (
    ALGORITHMS,
    Algorithm,
    Clients,
    Problem,
    Settings,
    fedavg,
    from_tensors,
    to_tensors,
    train,
)
from fedkg.federated.privacy.protected_algorithm import Protection, protected
from fedkg.federated.state import ServerState
from fedkg.models import Noise
from fedkg.models.random_streams import fold, root

SIZES = (12, 31, 5, 20)


def moved(clients: Clients, device: torch.device) -> Clients:
    return replace(
        clients, x=tuple(x.to(device) for x in clients.x), y=tuple(y.to(device) for y in clients.y)
    )


def end(problem: Problem, algorithm: Algorithm, settings: Settings) -> ServerState:
    *_, (state, _) = train(problem, algorithm, settings)
    return state


def alike(found: ServerState, expected: ServerState, device: torch.device) -> None:
    for name, value in expected.models.items():
        assert found.models[name].device == device
        torch.testing.assert_close(found.models[name].cpu(), value, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_algorithms(elsewhere: torch.device, name: str) -> None:
    here, settings = task(), settings_for(name, executor="stacked")
    assert here.server_data is not None
    there = replace(
        here, clients=moved(here.clients, elsewhere), server_data=moved(here.server_data, elsewhere)
    )
    alike(end(there, made(name), settings), end(here, made(name), settings), elsewhere)


@pytest.mark.parametrize("unit", ["example", "client"])
def test_private_training(elsewhere: torch.device, unit: str) -> None:
    settings = Settings(
        rounds=2,
        participation=0.8,
        local_epochs=1,
        batch=8,
        learning_rate=0.1,
        seed=1,
        executor="stacked",
    )
    own = Protection(unit=unit, clip=0.5, delta=1e-2, noise=1.0)
    here, algorithm = classes(SIZES), protected(fedavg(), own, SIZES, settings)
    alike(
        end(replace(here, clients=moved(here.clients, elsewhere)), algorithm, settings),
        end(here, algorithm, settings),
        elsewhere,
    )


@pytest.mark.slow
def test_a_training_resumes_there(elsewhere: torch.device) -> None:
    settings = settings_for("scaffold", executor="stacked")
    here = task()
    there = replace(here, clients=moved(here.clients, elsewhere))
    first, *_, last = [state for state, _ in train(there, made("scaffold"), settings)]
    again = [
        state
        for state, _ in train(there, made("scaffold"), settings, from_tensors(*to_tensors(first)))
    ]
    alike(
        again[-1],
        replace(last, models={name: value.cpu() for name, value in last.models.items()}),
        elsewhere,
    )


LIBRARY = ("tabnet graph", "tabnet graph features", "module one by one")
"""Products of sparse matrices and fused cells are library functions that the fake device lacks."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EXAMPLES))
@pytest.mark.parametrize("noisy", [False, True])
def test_models(elsewhere: torch.device, name: str, noisy: bool) -> None:
    if elsewhere.type != "cuda" and name in LIBRARY:
        pytest.skip("an operation of the library that the played device lacks")
    model, sample = EXAMPLES[name]
    several = [model.init(seed, torch.float64) for seed in range(3)]
    params = {key: torch.stack([one[key] for one in several]) for key in several[0]}
    x = torch.randn(3, 5, *sample, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    keys = fold(root(2), torch.arange(3))
    expected = model.apply(params, x, Noise(keys, 5) if noisy else None)
    there = {key: value.to(elsewhere) for key, value in params.items()}
    found = model.apply(there, x.to(elsewhere), Noise(keys.to(elsewhere), 5) if noisy else None)
    assert found.device == elsewhere
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-9, atol=1e-9)
