"""Rules inside compiled and transformed functions, in every precision, give the same results.

Each is called twice.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from strategies import X, Y
from test_module import between, monotone
from test_window_gradients import OPERATORS, batch, module_of, single
from torch import Tensor, nn

from fedkg.constraints import ConstraintModule

SEMANTICS = ("exact", "smooth", "sound")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.filterwarnings(
    "ignore:.*torch.jit:DeprecationWarning", "ignore:The .grad attribute:UserWarning"
)
def test_a_compiled_training_step_is_the_step(backend: str, semantics: str) -> None:
    torch._dynamo.reset()
    rules = ConstraintModule(between(), x=X, y=Y)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 5))
    x = torch.rand(6, 4)

    def step(features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        report = rules(torch.cat([features, features]), model, semantics=semantics)
        parts = report.penalty_by("rule")
        return report.penalty + 2.0 * sum(parts.values()), report.robustness, report.violated.sum()

    compiled = torch.compile(step, backend=backend)
    for own in (x, x + 0.25):
        found, expected = compiled(own), step(own)
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one, other)
        gradients = [
            torch.autograd.grad(penalty, list(model.parameters()))
            for penalty, *_ in (found, expected)
        ]
        for one, other in zip(*gradients, strict=True):
            assert torch.equal(one, other)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:.*torch.jit:DeprecationWarning", "ignore:The .grad attribute:UserWarning"
)
def test_a_compiled_module_and_a_compiled_model_are_the_module_and_the_model() -> None:
    torch._dynamo.reset()
    rules, model, x = ConstraintModule(monotone(), x=X, y=Y), nn.Linear(4, 5), torch.rand(6, 4)
    expected = rules(x, model).penalty
    assert torch.equal(torch.compile(rules, backend="eager")(x, model).penalty, expected)
    assert torch.equal(rules(x, torch.compile(model, backend="eager")).penalty, expected)


@pytest.mark.slow
def test_rules_do_not_import_the_compiler() -> None:
    code = "import sys, fedkg.constraints.module; assert 'torch._dynamo' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("name", OPERATORS)
def test_two_runs_are_equal_to_the_last_bit(name: str, semantics: str) -> None:
    skeleton, members = OPERATORS[name]
    module = module_of(single(skeleton, limit=-0.8, members=members))
    x, y = (part.float() for part in batch(2, count=3, steps=6))
    x[1, 2, 0] = torch.nan
    runs = []
    for _ in range(2):
        answers = y.clone().requires_grad_()
        report = module(x, answers, semantics=semantics)
        runs.append(
            (
                report.penalty,
                report.penalties,
                report.robustness,
                *torch.autograd.grad(report.penalty, answers),
            )
        )
    for one, other in zip(*runs, strict=True):
        assert torch.equal(one.nan_to_num(9.0), other.nan_to_num(9.0))


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", OPERATORS)
def test_half_precision_is_computed_in_single(
    name: str, dtype: torch.dtype, semantics: str
) -> None:
    skeleton, members = OPERATORS[name]
    module = module_of(single(skeleton, limit=-0.8, members=members))
    x, y = (part.to(dtype) for part in batch(2, count=3, steps=6))
    halves, singles = y.clone().requires_grad_(), y.float().requires_grad_()
    report, expected = (
        module(x, halves, semantics=semantics),
        module(x.float(), singles, semantics=semantics),
    )
    assert report.penalty.dtype == torch.float32
    assert torch.equal(report.penalties, expected.penalties)
    (gradient,), (single_gradient,) = (
        torch.autograd.grad(one.penalty, leaf)
        for one, leaf in ((report, halves), (expected, singles))
    )
    assert gradient.dtype == dtype
    assert torch.equal(gradient, single_gradient.to(dtype))


@pytest.mark.slow
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("name", OPERATORS)
def test_transforms_of_every_operator(name: str, semantics: str) -> None:
    skeleton, members = OPERATORS[name]
    module = module_of(single(skeleton, limit=-0.8, members=members))
    x, _ = batch(4, count=3, steps=4)
    x[0, 1, 0] = torch.nan
    weights = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def penalty(w: Tensor) -> Tensor:
        return module(x, lambda rows: rows.nan_to_num() @ w, semantics=semantics).penalty

    found = torch.func.vmap(torch.func.grad_and_value(penalty))(weights)
    for gradient, value, w in zip(*found, weights, strict=True):
        leaf = w.clone().requires_grad_()
        assert torch.allclose(value, expected := penalty(leaf))
        assert torch.allclose(gradient, torch.autograd.grad(expected, leaf)[0])
