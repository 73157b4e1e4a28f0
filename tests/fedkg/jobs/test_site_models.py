"""The models of many sites load in chunks, with the same values as all at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fedkg.federated import (
    BinaryCrossEntropy,
    Clients,
    Problem,
    ServerState,
    Settings,
    initial_state,
)
from fedkg.federated.algorithms import local_only
from fedkg.federated.executors import Work
from fedkg.federated.problem import pool
from fedkg.jobs.site_models import DeployedModels, SiteModels
from fedkg.models import MLP, Params

SITES = 7


def made() -> tuple[Work, ServerState]:
    clients = Clients(
        names=tuple(f"s{k}" for k in range(SITES)),
        x=tuple(torch.randn(4, 2) for _ in range(SITES)),
        y=tuple(torch.zeros(4) for _ in range(SITES)),
    )
    problem = Problem(model=MLP(inputs=2, hidden=(3,)), loss=BinaryCrossEntropy(), clients=clients)
    settings = Settings(rounds=1, local_epochs=1)
    state = initial_state(problem, local_only(), settings)
    rows: dict[str, Tensor] = {}
    for name, value in state.models.items():
        rows[f"start/{name}"] = torch.randn(SITES, *value.shape[1:])
    return Work(
        problem=problem, algorithm=local_only(), settings=settings, pool=pool(clients)
    ), replace(state, clients=rows)


@pytest.mark.parametrize("part", [1, 2, 3, 7, 100])
def test_parts_are_the_whole(part: int) -> None:
    work, state = made()
    whole = work.algorithm.site_models(work, state, torch.arange(SITES))
    found = SiteModels(work, state, part)
    assert len(found) == SITES
    for site, params in enumerate(found):
        assert all(torch.equal(params[name], value[site]) for name, value in whole.items())
    assert torch.equal(found[-1]["layers.0.bias"], whole["layers.0.bias"][-1])
    assert len(found[2:5]) == 3
    with pytest.raises(IndexError):
        found[SITES]


def test_no_more_are_in_memory_than_there_is_room_for() -> None:
    work, state = made()
    asked: list[int] = []

    class Counting:
        one_model = False

        def site_models(self, work: Work, state: ServerState, clients: Tensor) -> Params:
            asked.append(len(clients))
            return local_only().site_models(work, state, clients)

    size = sum(4 * value[0].numel() for value in state.models.values())
    narrow = replace(
        work, algorithm=Counting(), settings=replace(work.settings, client_memory=3 * size)
    )  # type: ignore[arg-type]
    assert len(list(DeployedModels(work=narrow).models(state))) == SITES
    assert asked == [3, 3, 1]
