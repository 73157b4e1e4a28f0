"""Batch normalisation in federated models, against PyTorch's own layers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from fedkg.errors import JobError
from fedkg.federated import Algorithm, Clients, CrossEntropy, Problem, ServerState, Settings, train
from fedkg.federated.algorithms import fedadam, fedavg, scaffold
from fedkg.federated.client.optimisers import Adam
from fedkg.federated.client.start_points import PrivateLayers
from fedkg.federated.privacy.protected_algorithm import Protection, protected
from fedkg.models import TorchModule

SIZES = (7, 5, 12)
"""Samples of each client: unequal, so that stacks are padded."""


def network() -> nn.Module:
    # without a first bias: it has no gradient before a normalisation, and Adam amplifies rounding
    return nn.Sequential(nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2, momentum=0.3), nn.Flatten(), nn.Linear(8, 2)
    )


def problem(build: object = network, sample: tuple[int, ...] = (3,)) -> Problem:
    draw = torch.Generator().manual_seed(0)
    x = tuple(torch.randn(size, *sample, generator=draw) + k for k, size in enumerate(SIZES))
    y = tuple(torch.randint(0, 2, (size,), generator=draw) for size in SIZES)
    model = TorchModule(build=build, sample=sample)  # type: ignore[arg-type]
    clients = Clients(names=("a", "b", "c"), x=x, y=y)
    return Problem(model=model, loss=CrossEntropy(), clients=clients)


def settings(**given: object) -> Settings:
    base = {"rounds": 2, "local_epochs": 3, "batch": 50, "learning_rate": 0.1}
    return Settings(**{**base, "executor": "stacked", **given})  # type: ignore[arg-type]


def last(task: Problem, algorithm: Algorithm, chosen: Settings) -> ServerState:
    *_, (state, _) = train(task, algorithm, chosen)
    return state


def fedavg_in_pytorch(task: Problem, rounds: int, steps: int) -> dict[str, Tensor]:
    """FedAvg as a loop over modules of PyTorch: full batches, and the mean of all tensors of the
    state, running statistics too.
    """
    assert isinstance(task.model, TorchModule)
    module = task.model.build()
    start = {name: value.clone() for name, value in task.model.init(0).items()}
    for _ in range(rounds):
        total: dict[str, Tensor] = {}
        for x, y in zip(task.clients.x, task.clients.y, strict=True):
            module.load_state_dict(start, strict=False)
            module.train()
            optimiser = torch.optim.SGD(module.parameters(), 0.1)
            for _ in range(steps):
                optimiser.zero_grad()
                torch.autograd.backward(nn.functional.cross_entropy(module(x), y))
                optimiser.step()
            state = module.state_dict()
            for name in start:
                total[name] = total.get(name, 0) + state[name].detach() * (len(x) / sum(SIZES))
        start = total
    return start


@pytest.mark.parametrize("executor", ["stacked", "sequential"])
@pytest.mark.parametrize(("build", "sample"), [(network, (3,)), (images, (1, 3, 3))])
def test_rounds_are_those_of_pytorch(executor: str, build: object, sample: tuple[int, ...]) -> None:
    task = problem(build, sample)
    state = last(task, fedavg(), settings(executor=executor))
    for name, value in fedavg_in_pytorch(task, 2, 3).items():
        torch.testing.assert_close(state.models[name][0], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("algorithm", [fedavg(), scaffold(), replace(fedavg(), local=Adam())])
def test_executors_agree_on_minibatches_with_padding(algorithm: Algorithm) -> None:
    task = problem()
    choices: list[dict[str, object]] = [
        {"executor": "stacked"},
        {"executor": "stacked", "chunk": 1},
        {"executor": "sequential"},
    ]
    if isinstance(algorithm.local, Adam):
        choices.append({"executor": "processes", "workers": 1})
    states = [last(task, algorithm, settings(batch=4, **given)) for given in choices]
    for other in states[1:]:
        for name, value in states[0].models.items():
            torch.testing.assert_close(other.models[name], value, rtol=1e-4, atol=1e-5)


def test_a_training_continues_with_the_same_bits() -> None:
    task, whole = problem(), settings(batch=4, rounds=3)
    states = [state for state, _ in train(task, fedavg(), whole)]
    *_, (again, _) = train(task, fedavg(), whole, states[0])
    assert all(torch.equal(again.models[name], value) for name, value in states[2].models.items())


def test_a_server_optimiser_leaves_statistics_at_their_mean() -> None:
    """One round: the statistics after FedAdam are those after FedAvg, the weights are not."""
    task, one = problem(), settings(rounds=1)
    plain, adaptive = (last(task, algorithm, one).models for algorithm in (fedavg(), fedadam()))
    for name, value in plain.items():
        assert torch.equal(value, adaptive[name]) == ("running" in name), name


def test_private_layers_keep_statistics_at_each_client() -> None:
    """FedBN: the layer of batch normalisation stays at the client."""
    algorithm = replace(fedavg(), start=PrivateLayers(private=("1",)))
    state = last(problem(), algorithm, settings())
    means = state.clients["start/1.running_mean"][torch.arange(3)]
    assert not torch.equal(means[0], means[1])
    assert float(means[2].mean() - means[0].mean()) != 0
    assert not state.models["1.running_mean"].any()


def test_a_minibatch_of_one_value_changes_no_statistics() -> None:
    task = problem()
    one = replace(task.clients, x=tuple(x[:1] for x in task.clients.x),
                  y=tuple(y[:1] for y in task.clients.y))  # fmt: skip
    state = last(replace(task, clients=one), fedavg(), settings())
    assert torch.equal(state.models["1.running_var"], torch.ones(1, 4))
    assert all(value.isfinite().all() for value in state.models.values())


@pytest.mark.parametrize("unit", ["example", "client"])
def test_privacy_rejects_statistics(unit: str) -> None:
    chosen = settings()
    protection = Protection(unit=unit, clip=1.0, noise=1.0, delta=1e-5)  # type: ignore[arg-type]
    algorithm = protected(fedavg(), protection, SIZES, chosen)
    with pytest.raises(JobError, match=r"privacy does not cover statistics(.|\n)*GroupNorm"):
        last(problem(), algorithm, chosen)


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (lambda: nn.BatchNorm1d(4, momentum=None), "averages all minibatches"),
        (lambda: nn.BatchNorm1d(4, track_running_stats=False), "by the other samples"),
        (lambda: nn.InstanceNorm1d(4, track_running_stats=True), "keeps running statistics"),
    ],
)
def test_other_statistics_are_rejected(layer: object, said: str) -> None:
    with pytest.raises(JobError, match=f"{said}(.|\n)*GroupNorm or LayerNorm"):
        TorchModule(
            build=lambda: nn.Sequential(nn.Linear(3, 4), layer(), nn.Linear(4, 2)),  # type: ignore[operator]
            sample=(3,),
        )
