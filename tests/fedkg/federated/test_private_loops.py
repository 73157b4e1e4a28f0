"""Clipped and noised steps in the compiled loop, against a loop over samples by autograd."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from federations import largest_difference
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from test_known_forms import SEEING, work_of
from torch import Tensor

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
    initial_state,
    train,
)
from fedkg.federated.client.compiled_steps import compiled_steps_for
from fedkg.federated.client.optimisers import SGD
from fedkg.federated.client.task_losses import Loss
from fedkg.federated.client_state_store import whole
from fedkg.federated.privacy.dp_sgd import ClippedGradient
from fedkg.models import MLP, ConvNet, Convolution, Model, Params, lenet5

SETTINGS = Settings(rounds=1, local_epochs=2, batch=3, learning_rate=0.1, seed=2)
SIZES = (7, 12, 1, 4)
DENSE = MLP(inputs=5, hidden=(7, 19), outputs=3, dropout=0.3)
LOSSES: tuple[Loss, ...] = (
    CrossEntropy(),
    BinaryCrossEntropy(pos_weight=3.0),
    SquaredError(),
    KnownSquaredError(),
)
ALGORITHMS_OF_THE_LOOP: dict[str, Algorithm] = {
    "fedavg": fedavg(),
    "fedprox": ALGORITHMS["fedprox"](mu=0.7),
    "scaffold": ALGORITHMS["scaffold"](),
    "scaffnew": ALGORITHMS["scaffnew"](),
    "ditto": ALGORITHMS["ditto"](strength=0.4),
    "decay": replace(ALGORITHMS["fedprox"](mu=0.7), local=SGD(weight_decay=0.1)),
}


def problem(
    model: Model, sample: tuple[int, ...], loss: Loss, *, seed: int = 3, bad: float | None = None
) -> Problem:
    """Clients of several sizes; every third sample contains the value `bad`."""
    generator, dtype = torch.Generator().manual_seed(seed), torch.float64
    xs = [torch.randn(size, *sample, generator=generator, dtype=dtype) for size in SIZES]
    sums = [x.flatten(1).sum(1) for x in xs]
    match loss:
        case CrossEntropy():
            ys = [(own > 0).long() + (own > 1).long() for own in sums]
        case BinaryCrossEntropy():
            ys = [(own > 0).to(dtype) for own in sums]
        case _:
            ys = [torch.stack([own, -own, own * own], 1) for own in sums]
    if isinstance(loss, KnownSquaredError):
        ys = [torch.where(y > 1.0, torch.nan, y) for y in ys]
    if bad is not None:
        for x in xs:
            x.flatten(1)[::3, -1] = bad
    names = tuple(f"site_{place}" for place in range(len(xs)))
    return Problem(model=model, loss=loss, clients=Clients(names=names, x=tuple(xs), y=tuple(ys)))


def private(algorithm: Algorithm, clip: float, noise: float = 1.0) -> Algorithm:
    """The algorithm with clipped and noised gradients, also for its second model."""
    beside = algorithm.beside
    return replace(
        algorithm,
        differentiation=ClippedGradient(clip=clip, noise=noise),
        beside=None if beside is None else private(beside, clip, noise),
    )


def ends(
    task: Problem, algorithm: Algorithm, settings: Settings = SETTINGS
) -> tuple[Params, Params]:
    """The final models, by the loop and by the reference."""
    assert compiled_steps_for(work_of(task, algorithm, settings)) is not None
    found = []
    for executor in ("stacked", "sequential"):
        *_, (state, record) = train(task, algorithm, replace(settings, executor=executor))
        assert math.isnan(record.train_loss)
        found.append(state.params | {name: whole(rows) for name, rows in state.clients.items()})
    return found[0], found[1]


@hypothesis_settings(max_examples=12, deadline=None)
@given(
    widths=st.lists(st.integers(1, 20), max_size=2),
    inputs=st.sampled_from([1, 5, 17]),
    activation=st.sampled_from(["relu", "tanh"]),
    bias=st.booleans(),
    dropout=st.sampled_from([0.0, 0.4]),
    loss=st.sampled_from(LOSSES),
    clip=st.sampled_from([1e-3, 0.3, 2.0, 1e6]),
    noise=st.sampled_from([0.0, 0.7]),
    batch=st.integers(1, 15),
    seed=st.integers(0, 99),
    bad=st.sampled_from([None, math.nan, math.inf]),
)
def test_dense_networks_take_the_references_steps(
    widths: list[int],
    inputs: int,
    activation: Any,
    bias: bool,
    dropout: float,
    loss: Loss,
    **given: Any,
) -> None:
    outputs = 1 if isinstance(loss, BinaryCrossEntropy) else 3
    model = MLP(
        inputs=inputs,
        hidden=tuple(widths),
        outputs=outputs,
        activation=activation,
        bias=bias,
        dropout=dropout,
    )
    task = problem(model, (inputs,), loss, seed=given["seed"], bad=given["bad"])
    settings = replace(SETTINGS, batch=given["batch"], local_epochs=1, seed=given["seed"])
    models, expected = ends(task, private(fedavg(), given["clip"], given["noise"]), settings)
    scale = max(1.0, given["clip"] if given["noise"] else 1.0)
    assert largest_difference(models, expected) < 1e-12 * scale


@pytest.mark.parametrize("bad", [None, math.nan, math.inf])
@pytest.mark.parametrize("clip", [0.05, 1.0])
@pytest.mark.parametrize(
    "model",
    [
        SEEING,
        replace(SEEING, activation="tanh", pooling="mean", dropout=(0.0, 0.0)),
        replace(SEEING, hidden=(), dropout=(0.0, 0.4)),
    ],
    ids=["largest", "mean", "no hidden layer"],
)
def test_convolutional_networks_take_the_references_steps(
    model: ConvNet, clip: float, bad: float | None
) -> None:
    models, expected = ends(
        problem(model, (2, 9, 11), CrossEntropy(), bad=bad),
        private(fedavg(), clip),
        replace(SETTINGS, local_epochs=1),
    )
    assert largest_difference(models, expected) < 1e-12


def test_lenet_takes_the_references_steps() -> None:
    settings = replace(SETTINGS, local_epochs=None, local_steps=1)
    models, expected = ends(
        problem(lenet5((1, 28, 28), 3), (1, 28, 28), CrossEntropy()),
        private(fedavg(), 0.3),
        settings,
    )
    assert largest_difference(models, expected) < 1e-12


@pytest.mark.parametrize("name", list(ALGORITHMS_OF_THE_LOOP))
def test_each_pull_goes_with_clipped_steps(name: str) -> None:
    settings = (
        replace(SETTINGS, local_epochs=None, local_steps=3) if name == "scaffnew" else SETTINGS
    )
    algorithm = private(ALGORITHMS_OF_THE_LOOP[name], 0.4)
    models, expected = ends(
        problem(DENSE, (5,), CrossEntropy()), algorithm, replace(settings, rounds=2)
    )
    assert largest_difference(models, expected) < 1e-12


def test_private_layers_stay_with_their_clients() -> None:
    algorithm = replace(ALGORITHMS["fedrep"](private=("layers.2.",)), local=SGD())
    models, expected = ends(
        problem(DENSE, (5,), CrossEntropy()), private(algorithm, 0.4), replace(SETTINGS, rounds=2)
    )
    assert largest_difference(models, expected) < 1e-12


def test_minibatches_may_be_empty() -> None:
    """One sample in three for a client of three.

    About every fourth minibatch has no sample, and gets noise like any other.
    """
    task = problem(DENSE, (5,), CrossEntropy())
    settings = replace(SETTINGS, batch=1, local_epochs=3)
    models, expected = ends(task, private(fedavg(), 0.4), settings)
    assert largest_difference(models, expected) < 1e-12
    quiet, _ = ends(task, private(fedavg(), 0.4, 0.0), settings)
    assert largest_difference(models, quiet) > 1e-2


@pytest.mark.parametrize(
    "model", [replace(DENSE, dropout=0.0), replace(SEEING, dropout=(0.0, 0.0))]
)
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_one_sample_moves_a_step_by_at_most_the_clip(model: MLP | ConvNet, size: float) -> None:
    """In float32, for any values; a sample with a value that is not a number counts as missing."""
    sample, clip = (5,) if isinstance(model, MLP) else (2, 9, 11), 0.01
    settings = Settings(
        rounds=1, local_steps=1, batch=max(SIZES), learning_rate=1.0, executor="stacked"
    )
    found = []
    for value in (size, math.nan):
        task = problem(model, sample, CrossEntropy())
        x = tuple(own.float() for own in task.clients.x)
        x[1][0] = value
        task = replace(task, clients=replace(task.clients, x=x))
        [(_, state)] = [
            (record, state)
            for state, record in train(
                task, private(ALGORITHMS["local_only"](), clip, 0.0), settings
            )
        ]
        found.append(torch.cat([rows[:][1].flatten().double() for rows in state.clients.values()]))
    moved = float((found[0] - found[1]).norm())
    assert 0.1 * clip / SIZES[1] < moved <= clip / SIZES[1] * (1 + 1e-4) + 1e-6


def moved(model: MLP, x: Tensor, y: Tensor, clip: float) -> float:
    """The length of one sample's clipped gradient in float32.

    It is the length of a step of rate 1 / clip, times the clip.
    """
    task = Problem(
        model=model, loss=SquaredError(), clients=Clients(names=("site",), x=(x,), y=(y,))
    )
    settings = Settings(
        rounds=1, local_steps=1, batch=1, learning_rate=1.0 / clip, executor="stacked"
    )
    algorithm = private(fedavg(), clip, 0.0)
    zeros = {name: torch.zeros_like(value) for name, value in model.init(0, torch.float32).items()}
    [(state, _)] = train(task, algorithm, settings, initial_state(task, algorithm, settings, zeros))
    return (
        float(torch.cat([value.flatten().double() for value in state.params.values()]).norm())
        * clip
    )


@pytest.mark.parametrize("bias", [True, False])
def test_a_square_too_small_for_a_number_does_not_hide_a_gradient(bias: bool) -> None:
    """The derivative with respect to the answer is -2e-23; its square is 0 in float32.

    Times an input of 1e19 it is far above the clip.
    """
    x, y = torch.full((1, 1), 1e19), torch.full((1, 1), 1e-23)
    assert moved(MLP(inputs=1, hidden=(), bias=bias), x, y, 1e-6) <= 1e-6 * (1 + 1e-5)


@pytest.mark.parametrize("value", [1.09, 1.37, 1.71, 1.93])
def test_many_squares_are_summed_without_losing_much(value: float) -> None:
    """A single float32 sum of these squares would be too small by up to 3 in 1,000."""
    x, y = torch.full((1, 100_000), value), torch.ones(1, 1)
    assert moved(MLP(inputs=100_000, hidden=()), x, y, 1.0) == pytest.approx(1.0, abs=2e-5)


@pytest.mark.parametrize(
    "model", [replace(DENSE, dropout=0.0), replace(SEEING, dropout=(0.0, 0.0))]
)
def test_samples_are_added_up_and_noised_before_they_meet_the_parameters(
    model: MLP | ConvNet,
) -> None:
    """If each were first rounded to the precision of a float32 parameter, one sample could change
    more than its clip before noise is added.
    """
    task = problem(model, (5,) if isinstance(model, MLP) else (2, 9, 11), CrossEntropy())
    names, x = ("site",), torch.cat(task.clients.x).float()
    task = replace(task, clients=Clients(names=names, x=(x,), y=(torch.cat(task.clients.y),)))
    settings = Settings(rounds=1, local_steps=1, batch=len(x), learning_rate=3e-6, seed=2)
    far = {
        name: torch.full_like(value, 1.0) for name, value in model.init(0, torch.float32).items()
    }
    found = []
    for executor in ("stacked", "sequential"):
        now = replace(settings, executor=executor)
        [(state, _)] = train(
            task,
            private(fedavg(), 1.0, 1.0),
            now,
            initial_state(task, private(fedavg(), 1.0, 1.0), now, far),
        )
        found.append({name: value.double() - 1.0 for name, value in state.params.items()})
    assert (
        largest_difference(
            found[0], {name: torch.zeros_like(value) for name, value in found[0].items()}
        )
        > 1e-8
    )
    assert largest_difference(*found) <= 1e-9


def test_noise_alone_has_its_size_and_comes_nowhere_twice() -> None:
    """If no sample counts, clients send only noise.

    It differs between layers, clients, steps and rounds.
    """
    model = ConvNet(
        image=(1, 6, 6),
        convolutions=(Convolution(channels=4, kernel=3, pool=2),),
        hidden=(30,),
        outputs=3,
    )
    task = problem(model, (1, 6, 6), CrossEntropy())
    task = replace(
        task,
        clients=replace(
            task.clients, x=tuple(torch.full_like(x, torch.nan) for x in task.clients.x)
        ),
    )
    found = []
    for steps in (1, 2):
        settings = Settings(
            rounds=2, local_steps=steps, batch=1, learning_rate=0.5, executor="stacked", seed=4
        )
        algorithm = private(ALGORITHMS["local_only"](), 0.4, 1.5)
        start = initial_state(task, algorithm, settings)
        states = [start, *(state for state, _ in train(task, algorithm, settings, start))]
        ends = [
            torch.cat([whole(rows).flatten(1) for rows in state.clients.values()], 1)
            for state in states
        ]
        found.append(
            torch.cat([after - before for before, after in pairwise(ends)]) / (0.5 * 0.4 * 1.5)
        )
    draws = torch.cat(
        [found[0], found[1] - found[0]]
    )  # of clients' first steps in both rounds, and of their second: [4 * C, P]
    count = draws.shape[1]
    torch.testing.assert_close(
        draws.std(1), torch.ones_like(draws[:, 0]), rtol=0, atol=4 / math.sqrt(2 * count)
    )
    assert len(draws.abs().mul(1e8).round().unique()) > 0.999 * draws.numel()
    assert float((torch.corrcoef(draws) - torch.eye(len(draws))).abs().max()) < 5 / math.sqrt(count)


@pytest.mark.parametrize("model", [DENSE, SEEING])
def test_a_client_gets_the_same_bits_in_every_stack(model: MLP | ConvNet) -> None:
    sample = (5,) if isinstance(model, MLP) else (2, 9, 11)
    task, found = problem(model, sample, CrossEntropy()), []
    for chunk in (None, 1, 3):
        settings = replace(SETTINGS, executor="stacked", chunk=chunk)
        *_, (state, _) = train(task, private(ALGORITHMS["local_only"](), 0.4), settings)
        found.append({name: whole(rows) for name, rows in state.clients.items()})
    assert all(torch.equal(found[0][name], one[name]) for one in found[1:] for name in found[0])
