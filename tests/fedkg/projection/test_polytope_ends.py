"""Ends of rows made ready in one pass are those that tensor operations give."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg.projection.polytope_ends import scaled, tightened

ENDS = torch.tensor([-torch.inf, -3.0, -0.5, 0.0, 0.5, 2.0, 1e6, torch.inf])


def drawn(shape: tuple[int, int], dice: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    return ENDS[torch.randint(len(ENDS), shape, generator=dice)].to(dtype)


@given(st.integers(0, 6), st.integers(1, 7), st.booleans(), st.sampled_from([torch.float32, torch.float64]), st.integers(0, 99))
@tries(60)
def test_ends_are_moved_inwards(points: int, rows: int, shared: bool, dtype: torch.dtype, seed: int) -> None:
    dice = torch.Generator().manual_seed(seed)
    ends = [drawn((1 if shared else points, rows), dice, dtype) for _ in range(2)]
    lower, upper = torch.minimum(*ends).clamp(max=2.0), torch.maximum(*ends).clamp(min=-3.0)
    value = torch.randn(points, rows, generator=dice).to(dtype)
    size, eps = value.abs() * 3, 4 * torch.finfo(dtype).eps
    room = (upper - lower).clamp(min=0) / 4
    steps = [torch.minimum(eps * (1 + end.nan_to_num(posinf=0, neginf=0).abs() + size), room) for end in (lower, upper)]
    low, high, over = torch.empty_like(value), torch.empty_like(value), torch.empty(points, dtype=dtype)
    tightened(*(part.numpy() for part in (value, size, lower, upper)), eps, low.numpy(), high.numpy(), over.numpy())
    assert torch.equal(low, lower + steps[0])
    assert torch.equal(high, upper - steps[1])
    assert torch.equal(over, torch.maximum(value - high, low - value).amax(1))


@given(st.integers(0, 6), st.integers(0, 7), st.booleans(), st.sampled_from([torch.float32, torch.float64]), st.integers(0, 99))
@tries(60)
def test_ends_are_those_of_rows_of_length_1(points: int, rows: int, shared: bool, dtype: torch.dtype, seed: int) -> None:
    dice = torch.Generator().manual_seed(seed)
    lower, upper = (drawn((points, rows), dice, dtype) for _ in range(2))
    length = 0.5 + torch.rand(1 if shared else points, rows, generator=dice, dtype=torch.float64)
    point = torch.randn(points, 3, generator=dice, dtype=torch.float64)
    low, high, slack = torch.empty(points, rows).double(), torch.empty(points, rows).double(), torch.empty(points, 1).double()
    equal = np.empty((points, rows), dtype=np.bool_)
    scaled(*(part.numpy() for part in (lower, upper, length, point)), 1e-3, low.numpy(), high.numpy(), equal, slack.numpy())
    expected = [end.double() / length for end in (lower, upper)]
    assert torch.equal(low, expected[0])
    assert torch.equal(high, expected[1])
    assert torch.equal(torch.from_numpy(equal), expected[0] == expected[1])
    sizes = torch.cat([point, *(end.nan_to_num(posinf=0, neginf=0) for end in expected)], 1)
    assert torch.allclose(slack, 1e-3 * (1 + sizes.abs().amax(1, keepdim=True)), rtol=1e-15)
