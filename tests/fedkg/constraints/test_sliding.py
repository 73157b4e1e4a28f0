"""Windows and until on tensors follow their definition, bit for bit.

Gradients are correct once, twice and inside transforms; unknown values are represented as numbers.
"""

from __future__ import annotations

import math
import random

import pytest
import torch
from torch import Tensor

from fedkg.constraints.engine.sliding import extreme, until_within
from fedkg.constraints.engine.unknown_value_encoding import between, marked, strict_step, unmarked

F64 = torch.float64


def window(values: Tensor, t: int, first: int, last: int, beyond: float) -> list[float]:
    """The values of a window, step by step."""
    steps = len(values)
    end = steps - 1 if last < 0 else t + last
    return [float(values[s]) if 0 <= s < steps else beyond for s in range(t + first, end + 1)]


def by_definition(
    left: Tensor, right: Tensor, first: int, last: int, beyond: float, lowest: bool
) -> list[float]:
    """Until at every step, by definition."""
    some, every = (min, max) if lowest else (max, min)
    found = []
    for t in range(len(right)):
        there = window(right, t, first, last, beyond)
        until = [
            every([value, *window(left, t, 0, first + i - 1, beyond)[: first + i]])
            for i, value in enumerate(there)
        ]
        found.append(some([beyond, *until]) if last < 0 else some(until))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_windows_and_until_are_those_of_the_definition(seed: int) -> None:
    dice = random.Random(seed)
    steps, first, lowest = dice.randint(1, 12), dice.randint(0, 4), dice.random() < 0.5
    last = dice.choice([-1, first + dice.randint(0, 9)])
    nothing = math.inf if lowest else -math.inf
    beyond = nothing if last < 0 else dice.choice([nothing, -between(F64)])
    left, right = torch.randn(2, 3, steps, dtype=F64, generator=torch.Generator().manual_seed(seed))
    pick = min if lowest else max
    expected = [
        [pick([beyond, *window(row, t, first, last, beyond)]) for t in range(steps)]
        for row in right
    ]
    if beyond == nothing:
        assert extreme(right, first, last, beyond, lowest=lowest).tolist() == expected
        past = extreme(right.flip(-1), first, last, beyond, lowest=lowest, past=True).flip(-1)
        assert past.tolist() == expected
    found = until_within(left, right, first, last, beyond, lowest=lowest)
    assert found.tolist() == [
        by_definition(one, two, first, last, beyond, lowest)
        for one, two in zip(left, right, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("lowest", [False, True])
@pytest.mark.parametrize("bounds", [(0, 0), (0, 4), (2, 5), (1, -1), (9, 12)])
def test_gradients_are_finite_differences_also_inside_transforms(
    bounds: tuple[int, int], lowest: bool
) -> None:
    left, right = torch.randn(
        2, 3, 8, dtype=F64, generator=torch.Generator().manual_seed(1)
    ).requires_grad_()

    def both(one: Tensor, two: Tensor) -> Tensor:
        return extreme(one, *bounds, 7.0, lowest=lowest) * until_within(
            one, two, *bounds, -7.0, lowest=lowest
        )

    assert torch.autograd.gradcheck(both, (left, right))
    assert torch.autograd.gradgradcheck(both, (left, right))
    (expected,) = torch.autograd.grad(both(left, right).sum(), left)
    found = torch.func.vmap(torch.func.grad(lambda one, two: both(one, two).sum()))(
        left.detach(), right.detach()
    )
    assert torch.allclose(found, expected)
    shared = torch.func.vmap(lambda one: both(one, right[0].detach()))(left.detach())
    assert torch.equal(shared, both(left, right[:1].expand(3, 8)).detach())


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_the_unknown_lies_between_violated_and_satisfied(dtype: torch.dtype, flushed: bool) -> None:
    if flushed and not torch.set_flush_denormal(True):
        pytest.skip("this processor keeps subnormal numbers")
    try:
        mark = -between(dtype)
        given = torch.tensor([-1.0, -strict_step(dtype), math.nan, 0.0, 2.0], dtype=dtype)
        chain = marked(given, mark)
        assert torch.equal(torch.sort(chain.flip(0)).values, chain)
        assert torch.equal(unmarked(chain, mark).nan_to_num(9.0), given.nan_to_num(9.0))
        assert unmarked(torch.minimum(chain, chain.flip(0)), mark).isnan().tolist() == [
            False,
            False,
            True,
            False,
            False,
        ]
    finally:
        torch.set_flush_denormal(False)
