"""Gradients of tied values, in the loops as in the engine.

Formulas on the same level share the gradient of a tie evenly. In a window the first tied step has
all of it. In an until (since) it is the first step from now on: the right side of a step comes
before its left side, and its left side before all that follows.
"""

from __future__ import annotations

import random

import pytest
import torch
from fused_engines import agree, computed_by, slopes
from hypothesis import given
from hypothesis import strategies as st
from stl_formulas import Maker
from strategies import X, Y, bank_of, pack_of
from test_torch_windows import ending
from torch import Tensor
from tries import tries

from fedkg.constraints import ConstraintModule
from fedkg.constraints.engine.pairwise_extremes import lower, upper
from fedkg.pack import And, Compare, Formula, Not, Param, Slot, Temporal, Until

LEFT, RIGHT = (
    Compare(op="le", left=Param(index=0), right=Slot(index=i, role="output"), scale=1)
    for i in (0, 1)
)
WINDOWS = {
    "all": (0, -1),
    "from now": (0, 3),
    "later": (2, 5),
    "later, to the end": (2, -1),
    "one step": (1, 1),
}


def module_for(formula: Formula, params: list[float], end: str) -> ConstraintModule:
    module = ConstraintModule(ending(pack_of([bank_of(formula, params, [4, 5])]), end), x=X, y=Y)
    module._horizons.clear()  # a trace may be too short to decide a rule anywhere
    return module


def tied(seed: int, steps: int, unknown: float = 0.0) -> tuple[Tensor, Tensor]:
    """Answers with five distinct values, on two traces."""
    dice = torch.Generator().manual_seed(seed)
    y = torch.randint(-2, 3, (2, steps, 5), generator=dice).double() / 2
    y[torch.rand(y.shape, generator=dice) < unknown] = torch.nan
    return torch.zeros(2, steps, 4, dtype=torch.float64), y


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("op", ["until", "since"])
@given(
    seed=st.integers(0, 2**16),
    closed=st.booleans(),
    negated=st.booleans(),
    end=st.sampled_from(["clip", "strict"]),
)
@tries(6)
def test_an_until_has_the_slopes_of_the_engine(
    op: str, window: str, seed: int, closed: bool, negated: bool, end: str
) -> None:
    between = {"left": LEFT, "right": RIGHT, "closed": closed}
    formula: Formula = Until(op=op, low=2, high=3, **between)  # type: ignore[arg-type]
    module = module_for(Not(arg=formula) if negated else formula, [0.0, 1.0, *WINDOWS[window]], end)
    agree(module, *tied(seed, 14, 0.1 * (seed % 2)))


@given(seed=st.integers(0, 2**16), end=st.sampled_from(["clip", "strict"]))
@tries(20)
def test_nested_formulas_have_the_slopes_of_the_engine(seed: int, end: str) -> None:
    maker = Maker(random.Random(seed))
    text = maker.formula(3)[0]
    formula = type(text).model_validate_json(
        text.model_dump_json().replace('"role":"input"', '"role":"output"')
    )
    agree(module_for(formula, maker.params, end), *tied(seed, 20, 0.05 * (seed % 2)))


def at_first_step(
    formula: Formula, left: list[float], right: list[float], *, loops: bool, step: int = 0
) -> list[list[float]]:
    """The gradient of a formula's robustness at a step.

    It is with respect to the answers to its left and to its right.
    """
    module = module_for(formula, [0.0, 1.0, 0.0, -1.0], "clip")
    y = torch.zeros(1, len(left), 5, dtype=torch.float64)
    y[0, :, 0], y[0, :, 1] = torch.tensor(left), torch.tensor(right)
    y = y.requires_grad_()
    with computed_by(loops):
        [slope] = slopes(
            module(torch.zeros(1, len(left), 4, dtype=torch.float64), y).at_steps.robustness[
                0, step, 0
            ],
            (y,),
        )
    return slope[0, :, :2].T.tolist()


@pytest.mark.parametrize("loops", [True, False])
def test_the_first_of_equals_decides(loops: bool) -> None:
    until, since = (
        Until(op=op, low=2, high=3, left=LEFT, right=RIGHT) for op in ("until", "since")
    )  # type: ignore[arg-type]
    none = [0.0, 0.0, 0.0]
    assert at_first_step(until, [1, 1, 1], [1, 1, 1], loops=loops) == [none, [1.0, 0.0, 0.0]]
    assert at_first_step(until, [1, 1, 1], [0, 1, 1], loops=loops) == [[1.0, 0.0, 0.0], none]
    assert at_first_step(until, [2, 1, 1], [0, 1, 1], loops=loops) == [none, [0.0, 1.0, 0.0]]
    assert at_first_step(since, [1, 1, 2], [1, 1, 0], loops=loops, step=2) == [
        none,
        [0.0, 1.0, 0.0],
    ]
    ever = Temporal(op="eventually", low=2, high=3, arg=LEFT)
    always = Temporal(op="always", low=2, high=3, arg=LEFT)
    once = Temporal(op="once", low=2, high=3, arg=LEFT)
    assert at_first_step(ever, [0, 1, 1], none, loops=loops)[0] == [0.0, 1.0, 0.0]
    assert at_first_step(always, [2, 1, 1], none, loops=loops)[0] == [0.0, 1.0, 0.0]
    assert at_first_step(once, [1, 1, 0], none, loops=loops, step=2)[0] == [1.0, 0.0, 0.0]
    both = And(args=(LEFT, RIGHT))
    assert at_first_step(both, [1, 1, 1], [1, 1, 1], loops=loops) == [[0.5, 0.0, 0.0]] * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_larger_value_has_the_whole_gradient_however_small_the_difference(
    dtype: torch.dtype,
) -> None:
    """A strict comparison with equal sides is violated by the smallest number there is.

    It decides next to a comparison that is not strict.
    """
    least = torch.finfo(dtype).smallest_normal
    left, right = (
        torch.tensor(side, dtype=dtype, requires_grad=True)
        for side in ([0.0, least, 0.0, 1.0], [least, 0.0, 0.0, 1.0])
    )
    for picked, expected in ((upper, [0.0, 1.0, 0.5, 0.5]), (lower, [1.0, 0.0, 0.5, 0.5])):
        assert torch.autograd.grad(picked(left, right).sum(), left)[0].tolist() == expected
