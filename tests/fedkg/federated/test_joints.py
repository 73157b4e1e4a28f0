"""Replaceable steps of a round in combinations that no preset uses.

Tested under both executors, stopped and resumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from federations import FunctionScorer, classes, identical, largest_difference, rows
from torch import Tensor

from fedkg.federated import (
    RoundRecord,
    ServerState,
    Settings,
    fedavg,
    from_tensors,
    to_tensors,
    train,
)
from fedkg.federated.algorithms import ditto, scaffold
from fedkg.federated.client.optimisers import Adam
from fedkg.federated.client.proximal import Proximal
from fedkg.federated.client.start_points import BestModel, PrivateLayers
from fedkg.federated.executors import Work
from fedkg.federated.server.optimisers import AdaptiveStep, AddUpdate
from fedkg.federated.server.robust import TrimmedMean
from fedkg.federated.server.weighted_mean import WeightedMean
from fedkg.federated.server.weighting import ByValidity
from fedkg.models import Params

SETTINGS = Settings(rounds=4, participation=0.7, local_epochs=2, batch=8, learning_rate=0.1, seed=1)
SIZES = (14, 9, 22, 5, 17)


@dataclass(frozen=True)
class ServerMomentum:
    """FedAvgM: the server has momentum."""

    def begin(self, models: Params) -> Params:
        return {name: torch.zeros_like(value) for name, value in models.items()}

    def apply(self, models: Params, update: Params, memory: Params) -> tuple[Params, Params]:
        memory = {name: 0.5 * memory[name] + value for name, value in update.items()}
        return {name: value + memory[name] for name, value in models.items()}, memory


PRIVATE = ("layers.2.weight", "layers.2.bias")


@dataclass(frozen=True)
class Clipped:
    """Client-level differential privacy: updates are clipped, their mean is noised."""

    bound: float = 0.05

    noisy = False

    def client(self, update: Params, keys: Tensor) -> Params:
        norm = (
            torch.stack([value.flatten(1).square().sum(1) for value in update.values()])
            .sum(0)
            .sqrt()
        )
        scale = (self.bound / norm).clamp(max=1)
        return {
            name: value * scale.view(-1, *[1] * (value.dim() - 1)) for name, value in update.items()
        }

    def server(self, update: Params, key: Tensor) -> Params:
        generator = torch.Generator().manual_seed(int(key) & 0xFFFFFFFF)
        return {
            name: value + 1e-3 * torch.randn(value.shape, generator=generator, dtype=value.dtype)
            for name, value in update.items()
        }


@dataclass(frozen=True)
class HalvesTowardsZero:
    """A step after each round."""

    def apply(self, work: Work, state: ServerState, record: RoundRecord) -> ServerState:
        return replace(state, models={name: 0.5 * value for name, value in state.models.items()})


LATER = {
    "server momentum": replace(fedavg(), server=ServerMomentum()),
    "a server rate": replace(fedavg(), server=AddUpdate(rate=0.5)),
    "local Adam": replace(fedavg(), local=Adam()),
    "private head": replace(fedavg(), start=PrivateLayers(private=PRIVATE)),
    "private head, Adam": replace(fedavg(), start=PrivateLayers(private=PRIVATE), local=Adam()),
    "clipping and noise": replace(fedavg(), privacy=Clipped()),
    "after the round": replace(fedavg(), after=HalvesTowardsZero()),
    "clusters, Adam at both ends": replace(
        fedavg(), start=BestModel(models=2), server=AdaptiveStep(memory="adam"), local=Adam()
    ),
    "clusters, median": replace(
        fedavg(), start=BestModel(models=2), aggregate=TrimmedMean(trim=0.5)
    ),
    "clusters, Ditto": ditto(common=BestModel(models=2)),
    "proximal SCAFFOLD": scaffold().with_terms(Proximal(strength=1.0)),
}


@pytest.mark.parametrize("name", LATER)
def test_both_executors_agree_and_the_algorithm_is_not_fedavg(name: str) -> None:
    problem = classes(SIZES)
    *_, (one, _) = train(problem, LATER[name], replace(SETTINGS, executor="sequential"))
    *_, (other, _) = train(problem, LATER[name], replace(SETTINGS, executor="stacked", chunk=3))
    *_, (plain, _) = train(problem, fedavg(), replace(SETTINGS, executor="stacked"))
    assert largest_difference(one.models, other.models) < 1e-12
    assert largest_difference(one.params, plain.params) > 1e-4
    if one.clients:
        assert largest_difference(dict(one.clients), dict(other.clients)) < 1e-11


@pytest.mark.parametrize("name", LATER)
def test_all_that_is_remembered_survives_a_restart(name: str) -> None:
    problem, settings = classes(SIZES), replace(SETTINGS, executor="stacked")
    whole = [state for state, _ in train(problem, LATER[name], settings)]
    rest = [
        state
        for state, _ in train(problem, LATER[name], settings, from_tensors(*to_tensors(whole[1])))
    ]
    assert identical(rest[-1].models, whole[-1].models)
    assert identical(dict(rest[-1].clients), dict(whole[-1].clients))


def test_private_layers_are_never_sent() -> None:
    problem = classes(SIZES)
    *_, (state, record) = train(
        problem, LATER["private head"], replace(SETTINGS, executor="stacked")
    )
    start = problem.model.init(SETTINGS.seed, torch.float64)
    assert all(torch.equal(state.params[name], start[name]) for name in PRIVATE)
    assert not torch.equal(
        state.clients["start/layers.2.bias"][0], state.clients["start/layers.2.bias"][1]
    )
    shared = sum(value.numel() * 8 for name, value in start.items() if name not in PRIVATE)
    assert record.bytes_up == len(record.clients) * (shared + 8)


@pytest.mark.parametrize("obeyed", [False, True])
def test_the_server_sees_no_private_layers_and_a_measurement_does(obeyed: bool) -> None:
    """Weights depend on the layers that the server has.

    If the rules are only measured, the clients' whole models are measured.
    """
    problem = classes(SIZES)
    seen: list[Params] = []

    def violation(params: Params) -> Tensor:
        seen.append(params)
        return torch.zeros(len(params["layers.0.weight"]), 1, dtype=torch.float64)

    task = replace(problem, scorer=FunctionScorer(rows=rows(1), violation=violation))
    algorithm = replace(LATER["private head"], after=HalvesTowardsZero())
    algorithm = replace(algorithm, weighting=ByValidity()) if obeyed else algorithm
    state, record = next(
        train(task, algorithm, replace(SETTINGS, executor="stacked", participation=1.0))
    )
    start = problem.model.init(SETTINGS.seed, torch.float64)
    assert seen[0].keys() == start.keys()
    for name in PRIVATE:
        own = sorted(map(float, state.clients[f"start/{name}"].flatten(1).sum(1)))
        server = [float(start[name].sum())] * len(record.clients)
        assert sorted(map(float, seen[0][name].flatten(1).sum(1))) == pytest.approx(
            server if obeyed else own
        )
    assert not torch.equal(seen[0]["layers.0.weight"][0], start["layers.0.weight"])


def test_groups_are_averaged_apart_and_one_without_weight_is_left_alone() -> None:
    mean = WeightedMean()
    update = torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64)
    fold = mean.begin({"w": torch.zeros(3, 1, dtype=torch.float64)})
    fold = mean.add(
        fold,
        {"w": update},
        torch.tensor([1.0, 1.0, 2.0], dtype=torch.float64),
        torch.tensor([0, 2, 2]),
    )
    assert mean.finish(fold)["w"].flatten().tolist() == pytest.approx([1.0, 0.0, 10 / 3])
