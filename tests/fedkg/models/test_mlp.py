from __future__ import annotations

import pytest
import torch

from fedkg.errors import JobError
from fedkg.models import MLP, DifferentiatedModel, Noise, OuterProduct, Params, predict
from fedkg.models.random_streams import fold, root


def stack(model: MLP, count: int) -> Params:
    several = [model.init(seed, torch.float64) for seed in range(count)]
    return {name: torch.stack([params[name] for params in several]) for name in several[0]}


def test_parameters_start_where_a_linear_layer_does_and_depend_on_the_seed_alone() -> None:
    model = MLP(inputs=50, hidden=(40,), outputs=3)
    params = model.init(4)
    assert {name: tuple(value.shape) for name, value in params.items()} == {
        "layers.0.weight": (40, 50),
        "layers.0.bias": (40,),
        "layers.1.weight": (3, 40),
        "layers.1.bias": (3,),
    }
    bound = 50**-0.5
    assert float(params["layers.0.weight"].abs().max()) <= bound
    assert float(params["layers.0.weight"].std()) == pytest.approx(bound / 3**0.5, rel=0.05)
    assert torch.equal(
        params["layers.0.weight"],
        MLP(inputs=50, hidden=(40,), outputs=3).init(4)["layers.0.weight"],
    )
    assert not torch.equal(params["layers.0.weight"], model.init(5)["layers.0.weight"])
    assert torch.equal(
        model.init(4, torch.float64)["layers.0.bias"].float(), params["layers.0.bias"]
    )


def test_outputs_are_those_of_pytorch_modules() -> None:
    model = MLP(inputs=5, hidden=(8, 6), outputs=3)
    params = model.init(1, torch.float64)
    module = torch.nn.Sequential(
        torch.nn.Linear(5, 8),
        torch.nn.ReLU(),
        torch.nn.Linear(8, 6),
        torch.nn.ReLU(),
        torch.nn.Linear(6, 3),
    ).double()
    module.load_state_dict(
        {
            f"{2 * i}.{part}": params[f"layers.{i}.{part}"]
            for i in range(3)
            for part in ("weight", "bias")
        }
    )
    x = torch.randn(11, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        predict(model, params, x), module(x).detach(), rtol=1e-13, atol=1e-13
    )


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("count", [1, 3])
def test_rows_shared_by_all_models_give_what_copies_of_them_give(count: int, bias: bool) -> None:
    model = MLP(inputs=4, hidden=(6,), outputs=2, bias=bias)
    params, x = (
        stack(model, count),
        torch.randn(9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)),
    )
    torch.testing.assert_close(
        model.apply(params, x), model.apply(params, x.expand(count, 9, 4)), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize(("hidden", "bias"), [((), True), ((7,), False), ((7, 5), True)])
@pytest.mark.parametrize("count", [1, 4])
def test_the_closed_derivative_is_the_automatic_one(
    activation: str, dropout: float, hidden: tuple[int, ...], bias: bool, count: int
) -> None:
    model = MLP(
        inputs=4, hidden=hidden, outputs=3, dropout=dropout, activation=activation, bias=bias
    )
    assert isinstance(model, DifferentiatedModel)
    generator = torch.Generator().manual_seed(1)
    params = {name: value.requires_grad_() for name, value in stack(model, count).items()}
    x = torch.randn(count, 9, 4, dtype=torch.float64, generator=generator)
    slope = torch.randn(count, 9, 3, dtype=torch.float64, generator=generator)
    noise = Noise(fold(root(2), torch.arange(count)), 5)
    expected = torch.autograd.grad(
        (model.apply(params, x, noise) * slope).sum(), list(params.values())
    )
    with torch.no_grad():
        _, saved = model.forward(params, x, noise)
        got = model.backward(params, saved, slope)
    for (name, _), value in zip(params.items(), expected, strict=True):
        gradient = got[name]
        dense = gradient.dense() if isinstance(gradient, OuterProduct) else gradient
        torch.testing.assert_close(dense, value, rtol=1e-12, atol=1e-12)


def test_dropout_is_for_training_only() -> None:
    model = MLP(inputs=4, hidden=(64,), outputs=1, dropout=0.5)
    params, x = stack(model, 2), torch.ones(2, 3, 4, dtype=torch.float64)
    noise = Noise(fold(root(0), torch.arange(2)), 0)
    assert torch.equal(model.apply(params, x), model.apply(params, x))
    assert not torch.equal(model.apply(params, x, noise), model.apply(params, x))
    assert torch.equal(model.apply(params, x, noise), model.apply(params, x, noise))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"inputs": 0}, "a size below 1"),
        ({"inputs": 3, "hidden": (4, 0)}, "a size below 1"),
        ({"inputs": 3, "dropout": 1.0}, "dropout"),
        ({"inputs": 3, "dropout": -0.1}, "dropout"),
        ({"inputs": 3, "activation": "swish"}, "relu or tanh"),
    ],
)
def test_impossible_models_are_rejected(options: dict[str, object], said: str) -> None:
    with pytest.raises(JobError, match=said):
        MLP(**options)
