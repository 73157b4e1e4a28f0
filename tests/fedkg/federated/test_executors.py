"""One contract for all executors: the same result as a plain loop.

It holds for all sizes, models and stacks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from federations import classes, identical, largest_difference
from torch import Tensor

from fedkg.federated import (
    BinaryCrossEntropy,
    Clients,
    Problem,
    Settings,
    SquaredError,
    fedavg,
    train,
)
from fedkg.federated.client.optimisers import SGD
from fedkg.federated.problem import pool
from fedkg.federated.randomness import ORDER, client_keys, permutations
from fedkg.federated.round_steps import Step
from fedkg.models import MLP, Params

SIZES = (12, 31, 5, 20, 1, 31, 8)


def final(
    problem: Problem,
    settings: Settings,
    executor: str,
    *,
    local: SGD | None = None,
    chunk: int | None = None,
) -> Params:
    algorithm = replace(fedavg(), local=local or SGD())
    chosen = replace(settings, executor=executor, chunk=chunk)
    *_, (state, _) = train(problem, algorithm, chosen)
    return state.params


def plain_loop(problem: Problem, settings: Settings) -> Params:
    """FedAvg in the form of a tutorial, with PyTorch's modules and optimiser.

    All clients take part in every round, without dropout.
    """
    model = problem.model
    assert isinstance(model, MLP)
    layers: list[torch.nn.Module] = []
    for fan_in, fan_out in zip(model.widths[:-1], model.widths[1:], strict=True):
        layers += [torch.nn.Linear(fan_in, fan_out), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers[:-1]).to(problem.clients.x[0].dtype)
    world = {
        f"{2 * int(name.split('.')[1])}.{name.split('.')[2]}": value
        for name, value in model.init(settings.seed, torch.float64).items()
    }
    for number in range(1, settings.rounds + 1):
        total, changes = 0, {name: torch.zeros_like(value) for name, value in world.items()}
        for client, (x, y) in enumerate(zip(problem.clients.x, problem.clients.y, strict=True)):
            key = client_keys(settings.seed, number, ORDER, torch.tensor([client]))
            order = permutations(key, torch.tensor([len(x)]), settings.local_epochs or 1)[0]
            net.load_state_dict(world)
            optimiser = torch.optim.SGD(net.parameters(), lr=settings.rate(number))
            for epoch in range(settings.local_epochs or 1):
                for rows in order[epoch].split(settings.batch):
                    optimiser.zero_grad()
                    torch.nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
                    optimiser.step()
            total += len(x)
            for name, value in net.state_dict().items():
                changes[name] += len(x) * (value - world[name])
        world = {name: value + changes[name] / total for name, value in world.items()}
    return {
        f"layers.{int(name.split('.')[0]) // 2}.{name.split('.')[1]}": value
        for name, value in world.items()
    }


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_executors_do_what_a_plain_loop_does(executor: str) -> None:
    problem = classes(SIZES)
    settings = Settings(
        rounds=4, local_epochs=2, batch=8, learning_rate=0.1, schedule="cosine", seed=3
    )
    assert (
        largest_difference(final(problem, settings, executor), plain_loop(problem, settings))
        < 1e-13
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("sizes", [SIZES, (20, 20, 20), (3,)])
def test_stacked_is_sequential(
    dtype: torch.dtype, tolerance: float, dropout: float, activation: str, sizes: tuple[int, ...]
) -> None:
    problem = classes(sizes, dtype=dtype, dropout=dropout, activation=activation)
    settings = Settings(
        rounds=3, participation=0.8, local_epochs=2, batch=10, learning_rate=0.1, seed=1
    )
    reference = final(problem, settings, "sequential")
    for chunk in (None, 1, 2):
        assert (
            largest_difference(final(problem, settings, "stacked", chunk=chunk), reference)
            < tolerance
        )


@pytest.mark.parametrize(
    "local", [SGD(momentum=0.9), SGD(weight_decay=0.1), SGD(momentum=0.5, weight_decay=0.01)]
)
def test_stacked_is_sequential_with_other_optimisers(local: SGD) -> None:
    problem = classes(SIZES)
    settings = Settings(rounds=3, local_epochs=1, batch=8, learning_rate=0.05)
    reference = final(problem, settings, "sequential", local=local)
    assert largest_difference(final(problem, settings, "stacked", local=local), reference) < 1e-12
    assert largest_difference(reference, final(problem, settings, "sequential")) > 1e-4


def test_stacked_is_sequential_with_a_number_of_steps() -> None:
    problem = classes(SIZES, dropout=0.2)
    settings = Settings(rounds=3, local_steps=7, batch=8, learning_rate=0.1)
    assert (
        largest_difference(
            final(problem, settings, "stacked"), final(problem, settings, "sequential")
        )
        < 1e-12
    )


@pytest.mark.parametrize("loss", [BinaryCrossEntropy(pos_weight=3.0), SquaredError()])
def test_stacked_is_sequential_with_other_losses(loss: BinaryCrossEntropy | SquaredError) -> None:
    base = classes(SIZES, outputs=2)
    clients = Clients(
        names=base.clients.names, x=base.clients.x, y=tuple(y.double() for y in base.clients.y)
    )
    problem = Problem(model=MLP(inputs=6, hidden=(5,), outputs=1), loss=loss, clients=clients)
    settings = Settings(rounds=3, local_epochs=2, batch=8, learning_rate=0.1)
    assert (
        largest_difference(
            final(problem, settings, "stacked"), final(problem, settings, "sequential")
        )
        < 1e-12
    )


@dataclass(frozen=True)
class Proximal:
    strength: float

    def value(self, step: Step) -> Tensor:
        return sum(
            (
                0.5 * self.strength * (value - step.start[name]).square().flatten(1).sum(1)
                for name, value in step.params.items()
            ),
            start=torch.zeros((), dtype=torch.float64),
        )


def test_stacked_is_sequential_with_a_term_in_the_objective() -> None:
    problem = classes(SIZES)
    settings = Settings(rounds=2, local_epochs=2, batch=8, learning_rate=0.1)
    ends = {}
    for executor in ("sequential", "stacked"):
        *_, (state, _) = train(
            problem, fedavg().with_terms(Proximal(2.0)), replace(settings, executor=executor)
        )
        ends[executor] = state.params
    assert largest_difference(ends["stacked"], ends["sequential"]) < 1e-12
    assert largest_difference(ends["stacked"], final(problem, settings, "stacked")) > 1e-4


def test_records_agree() -> None:
    problem = classes(SIZES)
    settings = Settings(rounds=2, participation=0.6, local_epochs=1, batch=8)
    both = [
        [record for _, record in train(problem, fedavg(), replace(settings, executor=name))]
        for name in ("sequential", "stacked")
    ]
    for one, other in zip(*both, strict=True):
        assert (one.clients, one.samples, one.alpha) == (other.clients, other.samples, other.alpha)
        assert one.train_loss == pytest.approx(other.train_loss, rel=1e-12)
        assert (one.bytes_up, one.bytes_down) == (other.bytes_up, other.bytes_down)


def test_a_run_is_repeated_to_the_bit_and_changes_with_the_seed() -> None:
    problem = classes(SIZES, dropout=0.2)
    settings = Settings(rounds=2, participation=0.5, local_epochs=1, batch=8)
    once = final(problem, settings, "stacked")
    assert identical(once, final(problem, settings, "stacked"))
    assert not identical(once, final(problem, replace(settings, seed=1), "stacked"))


def test_samples_that_pad_a_batch_are_zero_rows_and_never_a_clients() -> None:
    problem = classes((3, 10))
    broken = list(problem.clients.x)
    broken[0] = broken[0].clone()
    data = pool(replace(problem.clients, x=tuple(broken)))
    assert not bool(data.x[-1].any())
    assert data.x.shape[0] == 14
    assert data.offsets.tolist() == [0, 3]
