"""Rules on devices other than the CPU.

No values are read, and a compiled function sees the operations that the rules consist of.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from strategies import pack_of
from test_hoisting import LAYOUT, contract
from test_hoisting import bank_rows as rows_of
from test_repeated import batch, module_of
from test_window_gradients import OPERATORS, single
from test_window_gradients import batch as small_batch
from test_window_gradients import module_of as module_on
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fedkg.constraints import ConstraintModule
from fedkg.constraints.engine.penalty import HINGE
from fedkg.pack import Compare, Formula, Implies, Pack, Param, Slot, Temporal

QUIET = pytest.mark.filterwarnings(
    "ignore:.*torch.jit:DeprecationWarning", "ignore:The .grad attribute:UserWarning"
)
FORMS: list[dict[str, Any]] = [
    {},
    {"form": "squared"},
    {"semantics": "smooth"},
    {"form": "log_barrier"},
]
WAITS = (
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::masked_select",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::equal",
)
"""Operations that make the CPU wait for a device.

Also those with a memory use that depends on the values.
"""


def rest(semantics: str = "exact", form: str = "hinge") -> tuple[str, float, str, float]:
    return semantics, 0.05, form, HINGE.sharpness


def as_elsewhere(module: ConstraintModule, call: dict[str, Any]) -> Any:
    """A compiled function as it is when rules are on another device, executed here on the CPU.

    Returns penalty, robustness and verdicts.
    """
    from fedkg.constraints import torch_compile_operators  # it imports the compiler

    number = module._number

    def work(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        planes = (
            torch_compile_operators.open_verdicts([x, y], number, steps) for steps in (False, True)
        )
        robustness = (
            torch_compile_operators.open_robustness([x, y], number, steps)
            for steps in (False, True)
        )
        return (
            torch_compile_operators.open_penalty([x, y], number, *rest(**call)),
            *robustness,
            *(plane for each in planes for plane in each),
        )

    return work


@QUIET
@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "call"),
    [("strict", {}), ("clip", {"form": "squared"}), ("strict", {"semantics": "smooth"})],
)
def test_a_compiler_sees_through_rules(end: str, call: dict[str, Any]) -> None:
    torch._dynamo.reset()
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    module, seen = module_of(end), []

    def look(graph: torch.fx.GraphModule, _: Any) -> Any:
        seen.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return make_boxed_func(graph.forward)

    backend = aot_autograd(fw_compiler=look)
    work = torch.compile(as_elsewhere(module, call), backend=backend, fullgraph=True)
    for seed, unknown in enumerate((0.0, 0.05)):
        x, y = batch(seed, unknown, torch.float64)
        ours, theirs = (leaf.requires_grad_() for leaf in (y.clone(), y.clone()))
        penalty, whole, steps, *planes = work(x, ours)
        report = module(x, theirs, **call)
        torch.testing.assert_close(penalty, report.penalty)
        torch.testing.assert_close(whole, report.robustness, rtol=0.0, atol=0.0, equal_nan=True)
        torch.testing.assert_close(
            steps, report.at_steps.robustness, rtol=0.0, atol=0.0, equal_nan=True
        )
        expected = [
            getattr(part, name)
            for part in (report, report.at_steps)
            for name in ("satisfied", "violated", "applicable", "fired")
        ]
        for found, wanted in zip(planes, expected, strict=True):
            assert torch.equal(found, wanted)
        slopes = [
            torch.autograd.grad(one + two.nan_to_num(0, 0, 0).sum(), leaf)
            for one, two, leaf in (
                (penalty, whole, ours),
                (report.penalty, report.robustness, theirs),
            )
        ]
        torch.testing.assert_close(slopes[0][0], slopes[1][0])
    assert seen
    assert not any("fedkg" in str(target) for target in seen), (
        "an operator that nobody sees through"
    )


class _Watch(TorchDispatchMode):
    """Raises if a computation would wait for its device, or copy from or to the CPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, given = func._schema.name, [one for one in args if isinstance(one, Tensor)]
        devices = {one.device.type for one in given if one.dim()}
        asked = (kwargs or {}).get("device")
        if name in WAITS or (
            name in ("aten::_to_copy", "aten::copy_")
            and len(devices | ({asked.type} if asked else set())) > 1
        ):
            raise AssertionError(f"{name} waits for the device")
        if name.startswith("aten::index") and any(
            one is not None and one.dtype == torch.bool for one in _indices(args)
        ):
            raise AssertionError(f"{name} by a mask waits for the device")
        return func(*args, **(kwargs or {}))


def _indices(args: Any) -> list[Tensor | None]:
    return list(args[1]) if len(args) > 1 and isinstance(args[1], list) else []


@contextmanager
def nothing_waits() -> Iterator[None]:
    with _Watch():
        yield


def test_waiting_is_seen(elsewhere: torch.device) -> None:
    far, near = torch.ones(3, device=elsewhere), torch.ones(3)
    waiting = (
        lambda: float(far.sum()),
        lambda: far.cpu(),
        lambda: near.to(elsewhere),
        lambda: far[far > 0],
        lambda: far.nonzero(),
    )
    for work in waiting:
        with nothing_waits(), pytest.raises(AssertionError, match="waits"):
            work()


def step(module: ConstraintModule, x: Tensor, y: Tensor, **call: Any) -> tuple[Tensor, ...]:
    """Penalty, its gradient, and the report."""
    answers = y.detach().requires_grad_()
    report = module(x, answers, **call)
    (slope,) = torch.autograd.grad(report.penalty, answers)
    return (
        report.penalty.detach(),
        slope,
        report.robustness.detach(),
        report.satisfied,
        report.violated,
        report.fired,
    )


@pytest.mark.parametrize("call", [*FORMS, {"semantics": "sound"}])
def test_no_call_waits_for_its_device(elsewhere: torch.device, call: dict[str, Any]) -> None:
    module, (x, y) = module_of(), batch(1, 0.05)
    expected = step(module, x, y, **call)
    module, x, y = module.to(elsewhere), x.to(elsewhere), y.to(elsewhere)
    step(module, x, y, **call)  # the first batches determine whether layouts are plausible
    with nothing_waits():
        found = step(module, x, y, **call)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.gpu
def test_a_cuda_graph_holds_rules() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    module, (x, y) = module_of().to("cuda"), (part.to("cuda") for part in batch(1, 0.05))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(module, x, y)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step(module, x, y)
    y.copy_(batch(2)[1])
    graph.replay()
    for one, other in zip(found, step(module, x, y), strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)


A, B, SCALE = Param(index=3), Param(index=4), 0
SIGNAL, OUT = Slot(index=0), Slot(index=1, role="output")


def limit(left: object, right: object) -> Compare:
    return Compare.model_validate({"op": "le", "left": left, "right": right, "scale": SCALE})


def window(op: str, arg: Formula) -> Temporal:
    return Temporal.model_validate({"op": op, "low": 1, "high": 2, "arg": arg})


@pytest.mark.parametrize("end", ["strict", "clip"])
@pytest.mark.parametrize("op", ["always", "eventually", "historically", "once"])
def test_windows_are_read_once_where_numbers_are_unknown(
    elsewhere: torch.device, op: str, end: Any
) -> None:
    dice = np.random.default_rng(3)
    params = np.array(
        [
            [2.0, low, low + 2.0, a, -a]
            for low, a in zip([0, 0, 1, 0] * 4, dice.integers(-2, 3, 16) / 2.0, strict=True)
        ]
    )
    shapes = (
        window(op, limit(OUT, A)),
        Implies(antecedent=window("once", limit(SIGNAL, A)), consequent=window(op, limit(B, OUT))),
    )
    pack: Pack = pack_of([rows_of(shape, params, dice) for shape in shapes], contract=contract(end))
    module = ConstraintModule(pack, **LAYOUT)
    assert module.sharing.extremes
    x, y = (torch.from_numpy(dice.integers(-3, 4, (6, 9, 3)) / 2.0) for _ in range(2))
    x[0, 3], y[1, 2], y[2], y[3, :, 0], y[4, -1] = (
        torch.nan,
        torch.nan,
        torch.nan,
        torch.inf,
        torch.nan,
    )
    there = ConstraintModule(pack, **LAYOUT).to(elsewhere)
    for form in ("hinge", "squared"):
        for found, wanted in zip(
            step(there, x.to(elsewhere), y.to(elsewhere), form=form),
            step(module, x, y, form=form),
            strict=True,
        ):
            torch.testing.assert_close(found.cpu(), wanted, equal_nan=True)


@pytest.mark.parametrize("semantics", ["exact", "smooth", "sound"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_elsewhere(
    elsewhere: torch.device, dtype: torch.dtype, semantics: str
) -> None:
    module, (x, y) = module_of(), (part.to(dtype) for part in batch(2))
    expected = step(module, x, y, semantics=semantics)
    found = step(module.to(elsewhere), x.to(elsewhere), y.to(elsewhere), semantics=semantics)
    assert found[0].dtype == torch.float32
    assert found[1].dtype == dtype
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-2, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", ["always", "until"])
def test_transforms_elsewhere(elsewhere: torch.device, name: str) -> None:
    skeleton, members = OPERATORS[name]
    module, (x, _) = (
        module_on(single(skeleton, limit=-0.8, members=members)),
        small_batch(4, count=3, steps=4),
    )
    weights = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def both(rules: ConstraintModule, features: Tensor, models: Tensor) -> tuple[Tensor, Tensor]:
        def penalty(w: Tensor) -> Tensor:
            return rules(features, lambda rows: rows @ w).penalty

        gradient, value = torch.func.vmap(torch.func.grad_and_value(penalty))(models)
        return gradient, value

    expected = both(module, x, weights)
    for one, other in zip(
        both(module.to(elsewhere), x.to(elsewhere), weights.to(elsewhere)), expected, strict=True
    ):
        torch.testing.assert_close(one.cpu(), other)
