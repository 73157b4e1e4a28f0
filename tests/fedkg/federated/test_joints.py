"""The joints carry what other algorithms need: each of them here in its smallest form, under both executors, stopped and resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
import torch
from federations import FunctionScorer, classes, identical, largest_difference, rows
from torch import Tensor

from fedkg.federated import (
    ALGORITHMS,
    Algorithm,
    RoundRecord,
    ServerState,
    Settings,
    fedavg,
    from_tensors,
    initial_state,
    to_tensors,
    train,
)
from fedkg.federated.aggregate import WeightedMean
from fedkg.federated.executors import Work
from fedkg.federated.joints import Outcome, Setting, StartPoint, Step
from fedkg.federated.local import SGD
from fedkg.federated.server import AddUpdate
from fedkg.federated.start import GlobalStart
from fedkg.models import Gradient, Outer, Params

SETTINGS = Settings(rounds=4, participation=0.7, local_epochs=2, batch=8, learning_rate=0.1, seed=1)
SIZES = (14, 9, 22, 5, 17)


@dataclass(frozen=True)
class Proximal:
    """FedProx."""

    strength: float = 0.5

    def value(self, step: Step) -> Tensor:
        parts = [(value - step.start[name]).square().flatten(1).sum(1) for name, value in step.params.items()]
        return 0.5 * self.strength * torch.stack(parts).sum(0)


@dataclass(frozen=True)
class ServerMomentum:
    """FedAvgM: the server remembers."""

    def begin(self, models: Params) -> Params:
        return {name: torch.zeros_like(value) for name, value in models.items()}

    def apply(self, models: Params, update: Params, memory: Params) -> tuple[Params, Params]:
        memory = {name: 0.5 * memory[name] + value for name, value in update.items()}
        return {name: value + memory[name] for name, value in models.items()}, memory


@dataclass(frozen=True)
class ControlVariates(SGD):
    """SCAFFOLD: g - c_k + c, with c the mean of all c_k, which are remembered of each client."""

    def remembered(self, models: Params, population: int) -> Params:
        return {f"local/{name}": value.new_zeros((population, *value.shape[1:])) for name, value in models.items()}

    def begin(self, setting: Setting, variables: Params) -> Params:
        controls = {name: setting.state.clients[f"local/{name}"] for name in variables}
        return {name: value.mean(0) - value[setting.clients] for name, value in controls.items()}

    def advance(self, variables: Params, gradient: Mapping[str, Gradient], carry: Params, rate: float) -> None:
        for name, slope in gradient.items():
            dense = slope.dense() if isinstance(slope, Outer) else slope
            variables[name].sub_(dense + carry[name], alpha=rate)

    def finish(self, setting: Setting, variables: Params, carry: Params) -> Outcome:
        update = {name: value - setting.start.variables[name] for name, value in variables.items()}
        remembered = {}
        for name, value in update.items():
            scale = (1 / (setting.rate * setting.steps)).to(value.dtype).view(-1, *[1] * (value.dim() - 1))
            remembered[f"local/{name}"] = -carry[name] - scale * value
        return Outcome(update=update, remembered=remembered)


@dataclass(frozen=True)
class TwoModels:
    """IFCA: each client starts from the model that fits its data best."""

    def held(self, population: int) -> int:
        return 2

    def remembered(self, models: Params, population: int) -> Params:
        return {}

    def place(self, work: Work, state: ServerState, clients: Tensor) -> StartPoint:
        data, losses = work.problem.clients, []
        for client in clients.tolist():
            output = work.problem.model.apply(state.models, data.x[client])
            losses.append(work.problem.loss.value(output, data.y[client].expand(2, -1)).mean(1))
        groups = torch.stack(losses).argmin(1)
        return StartPoint(variables={name: value[groups] for name, value in state.models.items()}, groups=groups)


PRIVATE = ("layers.2.weight", "layers.2.bias")


@dataclass(frozen=True)
class PrivateHead:
    """FedRep: the last layer is each client's own, and stays at home."""

    def held(self, population: int) -> int:
        return 1

    def remembered(self, models: Params, population: int) -> Params:
        return {f"start/{name}": models[name].expand(population, *models[name].shape[1:]).clone() for name in PRIVATE}

    def place(self, work: Work, state: ServerState, clients: Tensor) -> StartPoint:
        point = GlobalStart().place(work, state, clients)
        own = {name: state.clients[f"start/{name}"][clients] for name in PRIVATE}
        return replace(point, variables=point.variables | own)


@dataclass(frozen=True)
class SendsShared(SGD):
    def finish(self, setting: Setting, variables: Params, carry: Params) -> Outcome:
        kept = {f"start/{name}": variables[name].clone() for name in PRIVATE}
        update = SGD().finish(setting, variables, carry).update
        return Outcome(update={name: value for name, value in update.items() if name not in PRIVATE}, remembered=kept)


@dataclass(frozen=True)
class Clipped:
    """Client-level differential privacy: updates are clipped, their mean is noised."""

    bound: float = 0.05

    def client(self, update: Params, keys: Tensor) -> Params:
        norm = torch.stack([value.flatten(1).square().sum(1) for value in update.values()]).sum(0).sqrt()
        scale = (self.bound / norm).clamp(max=1)
        return {name: value * scale.view(-1, *[1] * (value.dim() - 1)) for name, value in update.items()}

    def server(self, update: Params, key: Tensor) -> Params:
        generator = torch.Generator().manual_seed(int(key) & 0xFFFFFFFF)
        return {name: value + 1e-3 * torch.randn(value.shape, generator=generator, dtype=value.dtype) for name, value in update.items()}


@dataclass(frozen=True)
class Median:
    """A robust aggregate that must see all updates: the fold keeps them."""

    def begin(self, models: Params) -> list[Params]:
        return []

    def add(self, fold: list[Params], update: Params, weights: Tensor, groups: Tensor) -> list[Params]:
        return [*fold, update]

    def finish(self, fold: list[Params]) -> Params:
        return {name: torch.cat([part[name] for part in fold]).median(0, keepdim=True).values for name in fold[0]}


@dataclass(frozen=True)
class HalvesTowardsZero:
    """Something done after each round."""

    def apply(self, work: Work, state: ServerState, record: RoundRecord) -> ServerState:
        return replace(state, models={name: 0.5 * value for name, value in state.models.items()})


LATER = {
    "FedProx": fedavg().with_terms(Proximal()),
    "server momentum": replace(fedavg(), server=ServerMomentum()),
    "a server rate": replace(fedavg(), server=AddUpdate(rate=0.5)),
    "SCAFFOLD": replace(fedavg(), local=ControlVariates()),
    "two models": replace(fedavg(), start=TwoModels()),
    "private head": replace(fedavg(), start=PrivateHead(), local=SendsShared()),
    "clipping and noise": replace(fedavg(), privacy=Clipped()),
    "median": replace(fedavg(), aggregate=Median()),
    "after the round": replace(fedavg(), after=HalvesTowardsZero()),
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
    rest = [state for state, _ in train(problem, LATER[name], settings, from_tensors(*to_tensors(whole[1])))]
    assert identical(rest[-1].models, whole[-1].models)
    assert identical(dict(rest[-1].clients), dict(whole[-1].clients))


def test_private_layers_are_never_sent() -> None:
    problem = classes(SIZES)
    *_, (state, record) = train(problem, LATER["private head"], replace(SETTINGS, executor="stacked"))
    start = problem.model.init(SETTINGS.seed, torch.float64)
    assert all(torch.equal(state.params[name], start[name]) for name in PRIVATE)
    assert not torch.equal(state.clients["start/layers.2.bias"][0], state.clients["start/layers.2.bias"][1])
    shared = sum(value.numel() * 8 for name, value in start.items() if name not in PRIVATE)
    assert record.bytes_up == len(record.clients) * (shared + 8)


def test_the_server_scores_private_layers_by_its_own() -> None:
    problem = classes(SIZES)
    seen: list[Params] = []

    def violation(params: Params) -> Tensor:
        seen.append(params)
        return torch.zeros(len(params["layers.0.weight"]), 1, dtype=torch.float64)

    task = replace(problem, scorer=FunctionScorer(rows=rows(1), violation=violation))
    next(train(task, LATER["private head"], replace(SETTINGS, executor="stacked")))
    start = problem.model.init(SETTINGS.seed, torch.float64)
    assert seen[0].keys() == start.keys()
    assert all(torch.equal(seen[0][name][0], start[name]) for name in PRIVATE)
    assert not torch.equal(seen[0]["layers.0.weight"][0], start["layers.0.weight"])


def test_groups_are_averaged_apart_and_one_without_weight_is_left_alone() -> None:
    mean = WeightedMean()
    update = torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64)
    fold = mean.begin({"w": torch.zeros(3, 1, dtype=torch.float64)})
    fold = mean.add(fold, {"w": update}, torch.tensor([1.0, 1.0, 2.0], dtype=torch.float64), torch.tensor([0, 2, 2]))
    assert mean.finish(fold)["w"].flatten().tolist() == pytest.approx([1.0, 0.0, 10 / 3])


def test_scaffold_corrects_by_what_it_remembers() -> None:
    """With one step a client the control variate is the client's gradient at the global model."""
    problem, settings = classes((8, 8)), Settings(rounds=1, local_epochs=1, batch=8, learning_rate=0.1, executor="stacked")
    (state, _), *_ = train(problem, LATER["SCAFFOLD"], settings)
    start = initial_state(problem, fedavg(), settings).models
    leaves = {name: value.clone().requires_grad_() for name, value in start.items()}
    for client in range(2):
        x, y = problem.clients.x[client].unsqueeze(0), problem.clients.y[client].unsqueeze(0)
        loss = problem.loss.value(problem.model.apply(leaves, x), y).mean()
        for name, gradient in zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True):
            torch.testing.assert_close(state.clients[f"local/{name}"][client], gradient[0], rtol=1e-9, atol=1e-12)


@dataclass(frozen=True)
class Neutral:
    """What makes each preset FedAvg."""

    options: dict[str, object] = field(default_factory=dict)


NEUTRAL: dict[str, Neutral] = {"fedavg": Neutral(), "scfa": Neutral()}
"""Without rules, SCFA has nothing to weigh by."""


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_preset_is_fedavg_under_its_neutral_setting(name: str) -> None:
    problem, settings = classes(SIZES), replace(SETTINGS, executor="stacked")
    algorithm = ALGORITHMS[name](**NEUTRAL[name].options)
    assert isinstance(algorithm, Algorithm)
    assert algorithm.name == name
    *_, (state, _) = train(problem, algorithm, settings)
    *_, (plain, _) = train(problem, fedavg(), settings)
    assert identical(state.models, plain.models)
