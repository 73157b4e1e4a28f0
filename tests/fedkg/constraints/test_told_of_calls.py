"""Messages about calls with integers, raw data, wrong weights or lists.

Also, what transforms make of projections.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import fedkg
from fedkg.constraints import ConstraintModule, ConstraintWarning
from fedkg.errors import LayoutError

PLANT = """
signal feed  in kg/h span 0 .. 100
signal share in dimensionless span 0 .. 1
output oil   in kg/h
output gas   in kg/h
output water in kg/h
"""
OUTPUTS = ["oil", "gas", "water"]
MEAN, STD = [50.0, 0.5], [5.0, 0.1]
RULES = {
    "sums": (
        "hard require oil + gas + water == feed",
        "hard require oil >= 0 kg/h",
        "require if feed > 50 kg/h then gas <= feed / 3",
    ),
    "a guarded sum": ("hard require if feed > 50 kg/h then 2 * oil - 3 * gas >= 1 kg/h",),
    "coefficients of the sample": (
        "hard require share * oil - 2 * gas <= feed / 4",
        "require water >= 2 kg/h",
    ),
    "a bound": ("require water >= feed / 10",),
}


def plant(*rules: str, mean: Any = None, std: Any = None) -> ConstraintModule:
    text = PLANT + "\n".join(
        f"rule rule_{i} {rule}" for i, rule in enumerate(rules or RULES["sums"])
    )
    return fedkg.compile(text=text).constraints(
        x=fedkg.columns(["feed", "share"], mean=mean, std=std), y=fedkg.columns(OUTPUTS)
    )


def batches(count: int, rows: int = 10) -> tuple[Tensor, Tensor]:
    dice = torch.Generator().manual_seed(count)
    x = torch.rand(count, rows, 2, generator=dice, dtype=torch.float64) * torch.tensor([100.0, 1.0])
    return x, torch.randn(count, rows, 3, generator=dice, dtype=torch.float64) * 30 + 30


@pytest.mark.parametrize("kind", [torch.int64, torch.uint8, torch.bool])
def test_whole_answers_are_not_projected_onto_whole_numbers(kind: torch.dtype) -> None:
    x, y = batches(1)
    with pytest.raises(LayoutError, match="must be floating-point numbers") as caught:
        plant().project(x[0], y[0].abs().to(kind))
    assert (caught.value.help, caught.value.received) == (
        "pass y.float()",
        f"{str(kind).removeprefix('torch.')} [10, 3]",
    )


def test_projection_looks_at_the_layout_as_a_call_does() -> None:
    z = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
    raw, y = z * torch.tensor(STD) + torch.tensor(MEAN), torch.ones(64, 3)
    for call in ("project", "__call__"):
        with pytest.raises(LayoutError, match="looks like raw numbers"):
            getattr(plant(mean=MEAN, std=STD), call)(raw, y)
        with pytest.raises(LayoutError, match="looks standardised"):
            getattr(plant(), call)(z, y)
    rules = plant(mean=MEAN, std=STD)
    rules.project(z, y)
    rules.project(raw, y)  # one matching batch is enough to accept the layout


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_projections_are_mapped_over_features_and_answers(name: str, before: bool) -> None:
    xs, ys = batches(4)
    rules, plain = plant(*RULES[name]), plant(*RULES[name])
    if before:
        rules.project(xs[0], ys[0])
    slopes = torch.func.grad(lambda x, y: rules.project(x, y).square().sum(), argnums=1)
    ways: list[tuple[Any, tuple[Any, Any], tuple[int | None, int | None]]] = [
        (lambda x, y: rules.project(x=x, y=y), (xs, ys), (0, 0)),
        (lambda x, y: rules.project(x=x, y=y), (xs[0], ys), (None, 0)),
        (lambda x, y: rules.project(x=x, y=y), (xs, ys[0]), (0, None)),
        (slopes, (xs, ys), (0, 0)),
    ]
    for way, given, dims in ways:
        found = torch.func.vmap(way, in_dims=dims)(*given)
        each = [
            tuple(part if dim is None else part[i] for part, dim in zip(given, dims, strict=True))
            for i in range(4)
        ]
        if way is slopes:
            leaves = [y.clone().requires_grad_() for _, y in each]
            expected = [
                torch.autograd.grad(plain.project(x, y).square().sum(), y)[0]
                for (x, _), y in zip(each, leaves, strict=True)
            ]
        else:
            expected = [plain.project(x, y) for x, y in each]
        torch.testing.assert_close(found, torch.stack(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:.*torch.jit:DeprecationWarning", "ignore:The .grad attribute:UserWarning"
)
def test_a_projection_is_not_traced() -> None:
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    rules, counted = plant(), CompileCounter()
    x, y = (part[0] for part in batches(1))
    compiled = torch.compile(lambda x, y: rules.project(x, y + 1) * 2, backend=counted)
    torch.testing.assert_close(compiled(x, y), rules.project(x, y + 1) * 2)
    assert counted.op_count == 2


@pytest.mark.parametrize("wrong", [float("nan"), -1.0, float("inf")])
@pytest.mark.parametrize("shape", [(4,), (4, 3)])
def test_weights_that_are_none_are_rejected(wrong: float, shape: tuple[int, ...]) -> None:
    rules, weight = plant("require oil <= feed"), torch.ones(shape)
    weight[2] = wrong
    with pytest.raises(LayoutError, match="a number that cannot be a weight") as caught:
        rules(torch.full((*shape, 2), 0.5), torch.ones(*shape, 3), sample_weight=weight)
    assert caught.value.received.startswith(f"{wrong} at ")


def test_weights_come_as_lists_and_arrays() -> None:
    rules, x, y = (
        plant("require oil <= feed"),
        torch.full((3, 2), 0.5),
        torch.tensor([[3.0, 0, 0], [1, 0, 0], [0, 0, 0]]),
    )
    wanted = rules(x, y, sample_weight=torch.tensor([1.0, 3.0, 0.0])).penalty
    assert torch.equal(rules(x, y, sample_weight=[1, 3, 0]).penalty, wanted)
    assert torch.equal(rules(x, y, sample_weight=np.array([1.0, 3.0, 0.0])).penalty, wanted)
    with pytest.raises(LayoutError, match=r"expected: shape \[3\]"):
        rules(x, y, sample_weight=[1, 3])
    with pytest.raises(LayoutError, match="not a tensor of numbers"):
        rules(x, y, sample_weight="all")


def test_weights_in_transforms_are_taken_as_they_are() -> None:
    rules, x, y = (
        plant("require oil <= feed"),
        torch.full((3, 2), 0.5),
        torch.tensor([[3.0, 0, 0], [1, 0, 0], [0, 0, 0]]),
    )
    weights = torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 2.0]])
    found = torch.func.vmap(lambda weight: rules(x, y, sample_weight=weight).penalty)(weights)
    torch.testing.assert_close(
        found, torch.stack([rules(x, y, sample_weight=weight).penalty for weight in weights])
    )


@pytest.mark.parametrize("rows", [8, 512])
def test_answers_with_a_gradient_are_warned_of_as_those_of_a_model(rows: int) -> None:
    rules, x = plant("require oil <= feed"), torch.full((rows, 2), 0.5)
    rules(x, torch.ones(rows, 3, requires_grad=True))
    rules(x, torch.ones(rows, 3, requires_grad=True))
    with pytest.warns(
        ConstraintWarning, match=f"{3 * rows:,} of the model's {3 * rows:,} answers are not finite"
    ) as caught:
        rules(x, torch.full((rows, 3), torch.nan, requires_grad=True))
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rules(x, torch.full((rows, 3), torch.nan, requires_grad=True))


@pytest.mark.parametrize("answers", [[[1.0, 2.0, 3.0]], np.ones((1, 3))])
def test_answers_that_are_no_tensor_are_made_one(answers: Any) -> None:
    rules, x = plant(), torch.ones(1, 2)
    calls: list[Any] = [rules, rules.project]
    for call in calls:
        with pytest.raises(LayoutError, match="must be one tensor") as caught:
            call(x, answers)
        assert caught.value.help == "pass a tensor: y=torch.as_tensor(y)"
        with pytest.raises(LayoutError, match="must be one tensor") as caught:
            call(x, (torch.ones(1, 3), torch.ones(1, 3)))
        right = "pass one of the tensors, y=answers[0], or all of them, y=torch.stack(answers)"
        assert caught.value.help == right
    with pytest.raises(LayoutError) as caught:
        rules(x, lambda x: [x])
    assert caught.value.help.endswith("rules(x=batch, y=lambda z: model(z)[0])")
