"""A constraint module evaluates by tensor operations until compiled loops are worth loading."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest
import torch
from fused_engines import computed_by
from test_fused_calls import data, module_of
from torch import Tensor

from fedkg.constraints import compiled_loop_warmup
from fedkg.kernels.compiled_loop_policy import can_compile_loops, loops_in_round

pytestmark = pytest.mark.skipif(not can_compile_loops(), reason="needs compiled loops")

ROWS, SAMPLES = 6, 12 * 7
STARTED: list[list[str]] = []


@pytest.fixture(autouse=True)
def _auto() -> Iterator[None]:
    """The default setting in place of the tests' setting ``on``; loops are worth loading from the
    third call on.
    """
    STARTED.clear()
    with (
        patch.object(compiled_loop_warmup, "waits_for_loops", lambda: False),
        patch.object(compiled_loop_warmup, "compile_ahead", STARTED.append),
        patch.object(compiled_loop_warmup, "WORTH_CELLS", 3 * ROWS * SAMPLES),
    ):
        yield


def penalty(module: object, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    y = y.clone().requires_grad_()
    value = module(x, y).penalty  # type: ignore[operator]
    (gradient,) = torch.autograd.grad(value, y)
    return value.detach(), gradient


def uses(module: object, x: Tensor, y: Tensor) -> bool:
    """Whether a call uses loops."""
    with patch("fedkg.constraints.fused.call.run_in_parts", side_effect=Used):
        try:
            penalty(module, x, y)
        except Used:
            return True
    return False


class Used(Exception):
    """Raised by loops."""


def test_loops_serve_from_the_third_call() -> None:
    module, (x, y) = module_of("always"), data(12)
    assert [uses(module, x, y) for _ in range(5)] == [False, False, True, True, True]
    assert STARTED == [["formulas-float64"]]


def test_a_small_batch_never_uses_loops() -> None:
    module, (x, y) = module_of("always"), data(3)
    assert not any(uses(module, x, y) for _ in range(50))


def test_both_ways_agree() -> None:
    module, (x, y) = module_of("always"), data(12)
    calls = [penalty(module, x, y) for _ in range(4)]
    with computed_by(loops=False):
        expected = penalty(module_of("always"), x, y)
    for value, gradient in calls:
        torch.testing.assert_close(value, expected[0])
        torch.testing.assert_close(gradient, expected[1])
    assert torch.equal(calls[0][0], expected[0])
    assert torch.equal(calls[0][1], expected[1])


@pytest.mark.parametrize("use", [True, False])
def test_a_round_of_training_decides_for_its_modules(use: bool) -> None:
    module, (x, y) = module_of("always"), data(12)
    with loops_in_round(use):
        assert [uses(module, x, y) for _ in range(5)] == [use] * 5
    assert [uses(module, x, y) for _ in range(3)] == [False, False, True], "rounds do not count"
