"""The compiled loop over a client's local steps, against the same steps by autograd."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from federations import largest_difference
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated import (
    ALGORITHMS,
    Algorithm,
    BinaryCrossEntropy,
    Clients,
    CrossEntropy,
    KnownSquaredError,
    Problem,
    Settings,
    SquaredError,
    fedavg,
    train,
)
from fedkg.federated.client.compiled_steps import compiled_steps_for, descended
from fedkg.federated.client.optimisers import SGD, Adam
from fedkg.federated.client.task_losses import Loss
from fedkg.federated.client_state_store import whole
from fedkg.federated.executors import stacked
from fedkg.federated.executors.protocol import Work
from fedkg.federated.problem import pool
from fedkg.models import MLP, ConvNet, Convolution, Model, Params, lenet5

SETTINGS = Settings(rounds=3, local_epochs=2, batch=6, learning_rate=0.1, seed=2)
SIZES = (7, 14, 1, 9)
DENSE = MLP(inputs=5, hidden=(7, 19), outputs=3, dropout=0.3)
SEEING = ConvNet(
    image=(2, 9, 11),
    convolutions=(
        Convolution(channels=5, kernel=3, padding=1),
        Convolution(channels=17, kernel=2, pool=2),
    ),
    hidden=(6,),
    outputs=3,
    dropout=(0.2, 0.4),
)

DEEP = ConvNet(  # the rows of windows are longer than a loop sums at once
    image=(3, 9, 8),
    convolutions=(Convolution(channels=33, kernel=3), Convolution(channels=6, kernel=3, pool=2)),
    hidden=(),
    outputs=3,
    dropout=(0.0, 0.0),
)


def problem(
    model: Model,
    sample: tuple[int, ...],
    loss: Loss | None = None,
    dtype: torch.dtype = torch.float64,
) -> Problem:
    """Clients of several sizes, one smaller than a minibatch; targets depend on the sample."""
    generator = torch.Generator().manual_seed(3)
    xs = [
        torch.randn(size, *sample, generator=generator, dtype=torch.float64).to(dtype)
        for size in SIZES
    ]
    ys = [(x.flatten(1).sum(1) > 0).long() + (x.flatten(1)[:, 0] > 0).long() for x in xs]
    if isinstance(loss, BinaryCrossEntropy):
        ys = [y.clamp(max=1).to(dtype) for y in ys]
    elif loss is not None:
        ys = [
            torch.where(
                torch.randn(len(x), 3, generator=generator) > 0,
                x.flatten(1)[:, :3],
                x.flatten(1)[:, 1:4],
            )
            for x in xs
        ]
    if isinstance(loss, KnownSquaredError):
        ys = [torch.where(y > 1.0, torch.nan, y) for y in ys]
    names = tuple(f"site_{place}" for place in range(len(xs)))
    return Problem(
        model=model,
        loss=loss or CrossEntropy(),
        clients=Clients(names=names, x=tuple(xs), y=tuple(ys)),
    )


def work_of(task: Problem, algorithm: Algorithm, settings: Settings = SETTINGS) -> Work:
    return Work(problem=task, algorithm=algorithm, settings=settings, pool=pool(task.clients))


def ends(
    task: Problem, algorithm: Algorithm, settings: Settings = SETTINGS
) -> list[tuple[Params, float]]:
    """The final models and the training's loss, by the loop and by the reference."""
    assert compiled_steps_for(work_of(task, algorithm, settings)) is not None
    found = []
    for executor in ("stacked", "sequential"):
        *_, (state, record) = train(task, algorithm, replace(settings, executor=executor))
        found.append(
            (
                state.params | {name: whole(rows) for name, rows in state.clients.items()},
                record.train_loss,
            )
        )
    return found


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize(
    ("model", "sample"),
    [
        (DENSE, (5,)),
        (replace(DENSE, activation="tanh", hidden=(), bias=False), (5,)),
        (replace(DENSE, activation="tanh"), (5,)),
        (replace(DENSE, inputs=(5, 2), hidden=(70,), dropout=0.0), (5, 2)),
        (SEEING, (2, 9, 11)),
        (replace(SEEING, activation="tanh", pooling="mean"), (2, 9, 11)),
        (replace(SEEING, dropout=(0.0, 0.0), hidden=()), (2, 9, 11)),
        (lenet5((1, 28, 28), 3), (1, 28, 28)),
        (DEEP, (3, 9, 8)),
        (replace(DEEP, activation="tanh"), (3, 9, 8)),
    ],
)
def test_the_loop_does_what_the_reference_does(
    model: Model, sample: tuple[int, ...], dtype: torch.dtype, tolerance: float
) -> None:
    (models, loss), (expected, told) = ends(problem(model, sample, dtype=dtype), fedavg())
    assert largest_difference(models, expected) < tolerance
    assert loss == pytest.approx(told, rel=10 * tolerance)


@pytest.mark.parametrize(
    "loss",
    [BinaryCrossEntropy(), BinaryCrossEntropy(pos_weight=3.0), SquaredError(), KnownSquaredError()],
)
def test_each_loss_is_the_references(loss: Loss) -> None:
    model = replace(DENSE, outputs=1 if isinstance(loss, BinaryCrossEntropy) else 3)
    (models, value), (expected, told) = ends(problem(model, (5,), loss), fedavg())
    assert largest_difference(models, expected) < 1e-12
    assert value == pytest.approx(told, rel=1e-11)


@pytest.mark.parametrize("model", [DENSE, SEEING])
@pytest.mark.parametrize(
    "algorithm",
    [
        ALGORITHMS["fedprox"](mu=0.7),
        ALGORITHMS["scaffold"](),
        ALGORITHMS["scaffnew"](),
        ALGORITHMS["ditto"](strength=0.4),
        replace(fedavg(), local=SGD(weight_decay=0.1)),
        replace(ALGORITHMS["fedprox"](mu=0.7), local=SGD(weight_decay=0.1)),
        replace(ALGORITHMS["fedrep"](private=("layers.2.",)), local=SGD()),
    ],
    ids=["fedprox", "scaffold", "scaffnew", "ditto", "decay", "both", "private"],
)
def test_each_pull_is_the_references(algorithm: Algorithm, model: Model) -> None:
    if algorithm.name == "fedrep":
        head = "layers.2." if isinstance(model, MLP) else "dense.1."
        algorithm = replace(ALGORITHMS["fedrep"](private=(head,)), local=SGD())
    sample = (5,) if isinstance(model, MLP) else (2, 9, 11)
    settings = (
        replace(SETTINGS, local_epochs=None, local_steps=3)
        if algorithm.name == "scaffnew"
        else SETTINGS
    )
    (models, loss), (expected, told) = ends(problem(model, sample), algorithm, settings)
    assert largest_difference(models, expected) < 1e-12
    assert loss == pytest.approx(told, rel=1e-11)


def test_a_client_gets_the_same_bits_in_every_stack_and_on_every_number_of_threads() -> None:
    task, found = problem(SEEING, (2, 9, 11), dtype=torch.float32), []
    before = torch.get_num_threads()
    try:
        for chunk, threads in ((None, 1), (1, 1), (3, 2), (None, 2)):
            torch.set_num_threads(threads)
            settings = replace(SETTINGS, rounds=1, executor="stacked", chunk=chunk)
            *_, (state, _) = train(task, ALGORITHMS["local_only"](), settings)
            found.append({name: whole(rows) for name, rows in state.clients.items()})
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(found[0][name], one[name]) for one in found[1:] for name in found[0])


def test_other_parts_are_left_to_the_steps_one_by_one() -> None:
    task = problem(DENSE, (5,))
    assert compiled_steps_for(work_of(task, replace(fedavg(), local=Adam()))) is None
    assert compiled_steps_for(work_of(task, replace(fedavg(), local=SGD(momentum=0.5)))) is None
    assert (
        compiled_steps_for(work_of(task, fedavg(), replace(SETTINGS, precision="bfloat16"))) is None
    )
    assert compiled_steps_for(work_of(replace(task, loss=SquaredError()), fedavg())) is None


def test_what_is_derived_from_a_known_part_is_no_known_part() -> None:
    class Halved(CrossEntropy):
        def value(self, output: Tensor, y: Tensor) -> Tensor:
            return super().value(output, y) / 2

    class Still(SGD):
        def advance(self, *given: Any) -> None: ...

    task = problem(DENSE, (5,))
    assert compiled_steps_for(work_of(replace(task, loss=Halved()), fedavg())) is None
    assert compiled_steps_for(work_of(task, replace(fedavg(), local=Still()))) is None


def test_a_class_that_the_model_has_no_score_for_is_rejected() -> None:
    task = problem(replace(DENSE, outputs=2), (5,))
    with pytest.raises(JobError, match="not a class of the model"):
        list(train(task, fedavg(), replace(SETTINGS, executor="stacked")))


def test_values_that_are_no_numbers_stay_none() -> None:
    task = problem(SEEING, (2, 9, 11))
    broken = tuple(
        x.index_fill(0, torch.tensor([0]), torch.nan) if place == 1 else x
        for place, x in enumerate(task.clients.x)
    )
    task = replace(task, clients=replace(task.clients, x=broken))
    *_, (_, record) = train(task, fedavg(), replace(SETTINGS, rounds=1, executor="stacked"))
    assert set(record.excluded) == {"site_1"}


@pytest.mark.parametrize(
    "place", [0, 40, 80]
)  # under a window, and in the last row and column, which no pool reads
@pytest.mark.parametrize("value", [torch.inf, torch.nan])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_client_is_noticed_where_what_is_no_number_meets_derivatives_of_0(
    activation: Literal["relu", "tanh"], value: float, place: int
) -> None:
    model = replace(
        DEEP,
        image=(3, 9, 9),
        convolutions=(Convolution(channels=6, kernel=3, pool=2),),
        activation=activation,
    )
    task = problem(model, (3, 9, 9))
    x = task.clients.x[1].flatten(1).clone()
    x[0, place] = value
    broken = (task.clients.x[0], x.view(-1, 3, 9, 9), *task.clients.x[2:])
    task = replace(task, clients=replace(task.clients, x=broken))
    for executor in ("stacked", "sequential"):
        *_, (_, record) = train(task, fedavg(), replace(SETTINGS, rounds=1, executor=executor))
        assert set(record.excluded) == {"site_1"}


def test_the_loop_receives_tensors_on_the_device_of_the_parameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop reads addresses, so a default device set meanwhile does not matter."""
    task = problem(DENSE, (5,))
    (expected, _), _ = ends(task, fedavg())

    def descend_beside_meta(*given: Any) -> Tensor:
        with torch.device("meta"):
            return descended(*given)

    monkeypatch.setattr(stacked, "descended", descend_beside_meta)
    (models, _), _ = ends(task, fedavg())
    assert all(torch.equal(models[name], value) for name, value in expected.items())
