"""Square roots are correctly rounded for all numbers and have the gradient of `torch.sqrt`."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg.constraints.engine.exact_square_root import root


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [1, 7, 17, 100_000])
def test_roots_are_those_of_ieee_754(dtype: torch.dtype, count: int) -> None:
    dice = np.random.default_rng(count)
    values = torch.from_numpy(
        dice.uniform(1, 10, count) * 10.0 ** dice.integers(-30, 30, count)
    ).to(dtype)
    assert np.array_equal(root(values).numpy(), np.sqrt(values.numpy()))


@given(st.floats(min_value=0.0, max_value=1e76))
@tries(50)
def test_roots_of_squares_are_exact(value: float) -> None:
    number = float(np.float32(math.sqrt(value)))
    assert (
        root(torch.tensor([number * number], dtype=torch.float64)).item() == number
        or number * number < 1e-290
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_has_no_root_and_the_ends(dtype: torch.dtype) -> None:
    values = torch.tensor(
        [0.0, -0.0, math.inf, -1.0, math.nan, -math.inf, torch.finfo(dtype).max], dtype=dtype
    )
    assert np.array_equal(root(values).numpy(), torch.sqrt(values).numpy(), equal_nan=True)


def test_the_gradient_is_that_of_the_library() -> None:
    values = torch.tensor([2.0, 3.0, 1e-3, 7e9], dtype=torch.float64, requires_grad=True)
    (ours,) = torch.autograd.grad(root(values).sum(), values)
    (theirs,) = torch.autograd.grad(torch.sqrt(values).sum(), values)
    assert torch.equal(ours, theirs)
    assert torch.autograd.gradgradcheck(root, (values.detach()[:3].requires_grad_(),))
    several = torch.rand(3, 4, dtype=torch.float64) + 0.1
    assert torch.equal(torch.func.vmap(root)(several), root(several))
