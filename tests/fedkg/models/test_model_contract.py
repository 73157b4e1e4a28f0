"""The contract of every model, for every name that a job may use."""

from __future__ import annotations

import math

import pytest
import torch
from model_examples import EXAMPLES
from torch import Tensor

from fedkg.models import (
    MODELS,
    DifferentiatedModel,
    Model,
    Noise,
    OuterProduct,
    Params,
    PartitionedModel,
    match_parameters,
    predict,
)
from fedkg.models.random_streams import fold, root

every_model = pytest.mark.parametrize("name", sorted(EXAMPLES))


def stack(model: Model, count: int) -> Params:
    several = [model.init(seed, torch.float64) for seed in range(count)]
    return {name: torch.stack([params[name] for params in several]) for name in several[0]}


def one(params: Params, place: int) -> Params:
    return {name: value[place : place + 1] for name, value in params.items()}


def samples(*shape: int) -> Tensor:
    return torch.randn(
        *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape))
    )


def gradients(
    model: Model, params: Params, x: Tensor, noise: Noise | None, slope: Tensor
) -> Params:
    leaves = {name: value.clone().requires_grad_() for name, value in params.items()}
    found = torch.autograd.grad(
        (model.apply(leaves, x, noise) * slope).sum(), list(leaves.values()), materialize_grads=True
    )
    return dict(zip(leaves, found, strict=True))


def test_every_name_has_an_example() -> None:
    assert {name.partition(" ")[0] for name in EXAMPLES} == set(MODELS)


@every_model
def test_a_stack_gives_each_client_what_it_gets_alone(name: str) -> None:
    model, sample = EXAMPLES[name]
    params, x = stack(model, 3), samples(3, 5, *sample)
    noise = Noise(fold(root(2), torch.arange(3)), 5)
    for given in (None, noise):
        whole = model.apply(params, x, given)
        assert whole.dim() == 3
        assert whole.shape[:2] == (3, 5)
        slopes = gradients(model, params, x, given, torch.ones_like(whole))
        for place in range(3):
            mine = None if given is None else Noise(noise.keys[place : place + 1], noise.step)
            here, own = x[place : place + 1], one(params, place)
            torch.testing.assert_close(
                whole[place : place + 1], model.apply(own, here, mine), rtol=1e-12, atol=1e-12
            )
            for key, value in gradients(model, own, here, mine, torch.ones_like(whole[:1])).items():
                torch.testing.assert_close(
                    slopes[key][place : place + 1], value, rtol=1e-12, atol=1e-12
                )


@every_model
def test_a_sample_is_answered_whatever_stands_beside_it(name: str) -> None:
    model, sample = EXAMPLES[name]
    params, x = stack(model, 2), samples(2, 6, *sample)
    noise = Noise(fold(root(2), torch.arange(2)), 1)
    for given in (None, noise):
        torch.testing.assert_close(
            model.apply(params, x, given)[:, :4],
            model.apply(params, x[:, :4], given),
            rtol=1e-12,
            atol=1e-12,
        )


@every_model
def test_shared_samples_give_what_copies_of_them_give(name: str) -> None:
    model, sample = EXAMPLES[name]
    params, x = stack(model, 3), samples(4, *sample)
    apart = model.apply(params, x.expand(3, *x.shape))
    torch.testing.assert_close(model.apply(params, x), apart, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        predict(model, {key: value[1] for key, value in params.items()}, x),
        apart[1],
        rtol=1e-12,
        atol=1e-12,
    )


@every_model
def test_the_start_hangs_on_the_seed_alone(name: str) -> None:
    model, _ = EXAMPLES[name]
    first, again, other = model.init(3), model.init(3), model.init(4)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)
    double = model.init(3, torch.float64)
    assert all(torch.equal(double[key].float(), first[key]) for key in first)
    assert all(
        value.dtype == torch.float32 and bool(value.isfinite().all()) for value in first.values()
    )


def test_the_start_is_the_same_on_every_machine() -> None:
    bias = MODELS["lenet5"]().init(0)["dense.0.bias"][:3]
    torch.testing.assert_close(
        bias,
        torch.tensor([0.02303866669535637, -0.02580605261027813, -0.013245058245956898]),
        rtol=0,
        atol=0,
    )
    weight = MODELS["tabnet"](inputs=4, width=3).init(0, torch.float64)["steps.2.attention.weight"][
        0
    ]
    expected = torch.tensor(
        [-0.24368089276837795, 0.07506571572034282, 0.1878727839308566], dtype=torch.float64
    )
    torch.testing.assert_close(weight, expected, rtol=1e-15, atol=0)


@every_model
def test_without_noise_answers_are_the_same_each_time_and_with_it_for_each_step(name: str) -> None:
    model, sample = EXAMPLES[name]
    params, x = stack(model, 2), samples(2, 5, *sample)
    assert torch.equal(model.apply(params, x), model.apply(params, x))
    noise, later = (Noise(fold(root(2), torch.arange(2)), step) for step in (1, 2))
    assert torch.equal(model.apply(params, x, noise), model.apply(params, x, noise))
    noisy = not torch.equal(model.apply(params, x, noise), model.apply(params, x))
    assert noisy is not torch.equal(model.apply(params, x, noise), model.apply(params, x, later))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    sorted(name for name, (model, _) in EXAMPLES.items() if isinstance(model, DifferentiatedModel)),
)
def test_the_closed_derivative_is_the_automatic_one(name: str) -> None:
    model, sample = EXAMPLES[name]
    assert isinstance(model, DifferentiatedModel)
    for clients in (1, 3):
        params, x = stack(model, clients), samples(clients, 5, *sample)
        noise = Noise(fold(root(2), torch.arange(clients)), 5)
        slope = samples(*model.apply(params, x).shape)
        expected = gradients(model, params, x, noise, slope)
        with torch.no_grad():
            out, saved = model.forward(params, x, noise)
            torch.testing.assert_close(out, model.apply(params, x, noise), rtol=1e-12, atol=1e-12)
            got = model.backward(params, saved, slope)
        assert set(got) == set(params)
        for key, value in expected.items():
            found = got[key]
            torch.testing.assert_close(
                found.dense() if isinstance(found, OuterProduct) else found,
                value,
                rtol=1e-12,
                atol=1e-12,
            )


@every_model
def test_automatic_gradients_are_those_of_finite_differences(name: str) -> None:
    model, sample = EXAMPLES[name]
    params, x = stack(model, 2), samples(2, 3, *sample)
    slope = samples(*model.apply(params, x).shape)
    found = gradients(model, params, x, None, slope)
    generator = torch.Generator().manual_seed(5)
    ahead = {
        key: torch.randn(value.shape, generator=generator, dtype=torch.float64)
        for key, value in params.items()
    }
    step = 1e-6

    def at(distance: float) -> float:
        return float(
            (
                model.apply(
                    {key: value + distance * ahead[key] for key, value in params.items()}, x
                )
                * slope
            ).sum()
        )

    expected = (at(step) - at(-step)) / (2 * step)
    assert sum(float((found[key] * ahead[key]).sum()) for key in params) == pytest.approx(
        expected, rel=1e-4, abs=1e-6
    )


@every_model
def test_body_and_head_are_all_parameters_and_share_none(name: str) -> None:
    model, _ = EXAMPLES[name]
    assert isinstance(model, PartitionedModel)
    params = model.init(0)
    assert set(model.parts) == {"body", "head"}
    body, head = (match_parameters(model.parts[part], params) for part in ("body", "head"))
    assert sorted(body + head) == sorted(params)
    assert head
    assert body or name == "softmax"


@every_model
def test_a_model_learns_in_float32(name: str) -> None:
    model, sample = EXAMPLES[name]
    params = {
        key: torch.stack([value] * 2).requires_grad_() for key, value in model.init(0).items()
    }
    x = samples(2, 6, *sample).float()
    with torch.no_grad():
        target = model.apply(params, x) + 0.5
    losses = []
    for _ in range(12):
        loss = (model.apply(params, x) - target).square().mean()
        losses.append(loss.item())
        slopes = torch.autograd.grad(loss, list(params.values()))
        with torch.no_grad():
            for value, slope in zip(params.values(), slopes, strict=True):
                value -= 0.1 * slope
    assert math.isfinite(losses[-1])
    assert losses[-1] < losses[0]
