"""Rules in the graph of a compiled function give the results of an ordinary call."""

from __future__ import annotations

import copy
import shutil

import pytest
import torch
from strategies import X, Y
from test_module import between
from test_repeated import batch, module_of
from torch import Tensor, nn

from fedkg.constraints import ConstraintModule
from fedkg.errors import LayoutError

QUIET = pytest.mark.filterwarnings(
    "ignore:.*torch.jit:DeprecationWarning", "ignore:The .grad attribute:UserWarning"
)
FORMS = [{}, {"form": "squared"}, {"semantics": "sound"}]


def compiled(work: object, backend: str = "aot_eager") -> object:
    torch._dynamo.reset()
    return torch.compile(work, backend=backend, fullgraph=True)  # type: ignore[call-overload]


@QUIET
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_whole_training_step_is_one_graph(backend: str) -> None:
    rules, model = module_of(), nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 5))

    def step(x: Tensor, call: dict[str, str]) -> tuple[Tensor, ...]:
        report = rules(x, model(x), **call)
        steps = report.at_steps
        verdicts = (
            report.satisfied,
            report.violated,
            report.unknown,
            report.applicable,
            report.fired,
            steps.violated,
            steps.unknown,
        )
        return 2.0 * report.penalty, report.robustness, steps.robustness, report.outputs, *verdicts

    inside = compiled(step, backend)
    for seed, call in enumerate(FORMS):
        x, _ = batch(seed, 0.05)
        ours, theirs = inside(x, call), step(x, call)  # type: ignore[operator]
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=0.0, atol=0.0, equal_nan=True)
        slopes = [
            torch.autograd.grad(
                found[0] + found[1].nan_to_num(0, 0, 0).sum(),
                list(model.parameters()),
                retain_graph=True,
            )
            for found in (ours, theirs)
        ]
        for one, other in zip(*slopes, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)
    with torch.no_grad():
        assert torch.equal(inside(x, {})[0], step(x, {})[0])  # type: ignore[operator]


@QUIET
@pytest.mark.slow
def test_what_has_no_operator_ends_the_graph() -> None:
    rules = ConstraintModule(between(), x=X, y=Y)
    x, y = torch.rand(12, 4), torch.rand(12, 5)

    (name,) = list(rules(x, y).penalty_by("rule"))[:1]

    def work(y: Tensor) -> Tensor:
        report = rules(x, y)
        found: Tensor = report.penalties.sum() + report.penalty_by("rule")[name] + report.penalty
        return found

    torch._dynamo.reset()
    assert torch.equal(torch.compile(work, backend="eager")(y), work(y))
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(work)(y)  # type: ignore[operator]


@QUIET
@pytest.mark.slow
def test_many_models_copies_and_mistakes_inside_of_a_graph() -> None:
    rules, (x, y) = module_of(), batch(0)
    other = copy.deepcopy(rules)
    many = torch.stack([y, 2 * y])

    def penalties(many: Tensor) -> Tensor:
        found: Tensor = torch.func.vmap(lambda own: rules(x, own).penalty)(many)
        return found

    torch.testing.assert_close(
        compiled(penalties)(many),
        torch.stack([rules(x, own).penalty for own in many]),
        rtol=1e-6,
        atol=0.0,
    )  # type: ignore[operator]
    penalty = compiled(lambda own: other(x, own).penalty)(y)  # type: ignore[operator]
    assert torch.equal(penalty, other(x, y).penalty)
    with pytest.raises(LayoutError, match="does not fit the batch and the names"):
        compiled(lambda own: other(x, own).penalty)(y[..., :4])  # type: ignore[operator]


@QUIET
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_the_usual_backend_takes_rules_too() -> None:
    rules, (x, y) = module_of(), batch(0)

    def step(y: Tensor) -> Tensor:
        found: Tensor = 2.0 * rules(x, torch.tanh(y)).penalty
        return found

    ours, theirs = (y.clone().requires_grad_() for _ in range(2))
    one, other = compiled(step, "inductor")(ours), step(theirs)  # type: ignore[operator]
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        torch.autograd.grad(one, ours), torch.autograd.grad(other, theirs), rtol=1e-4, atol=1e-6
    )
