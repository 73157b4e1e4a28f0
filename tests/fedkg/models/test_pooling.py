"""Compiled pools of odd sizes equal PyTorch's, with their derivatives; transposes are exact."""

from __future__ import annotations

from functools import cache

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg.kernels.checked_memory_access import address
from fedkg.kernels.loop_language import Floats, loop, to_float
from fedkg.kernels.loop_library import Library
from fedkg.kernels.training.pooling import pool, unpool
from fedkg.kernels.training.transposes import transpose


@loop
def pools(
    out: Floats, made: Floats, width: int, rows: int, columns: int, side: int, mean: int, tanh: int
) -> None:
    pool(out, columns, made, width, rows, columns, side, mean, to_float(-1 if tanh > 0 else 0))


@loop
def unpools(
    slopes: Floats,
    made: Floats,
    width: int,
    by: Floats,
    rows: int,
    columns: int,
    side: int,
    mean: int,
    tanh: int,
) -> None:
    unpool(slopes, made, width, by, columns, rows, columns, side, mean, tanh)


@loop
def turns(out: Floats, out_row: int, x: Floats, x_row: int, rows: int, columns: int) -> None:
    transpose(out, out_row, x, x_row, rows, columns)


@cache
def library(dtype: torch.dtype) -> Library:
    return Library((pools, unpools, turns), single=dtype == torch.float32)


@tries(80)
@given(
    seed=st.integers(0, 999),
    size=st.tuples(st.integers(1, 4), st.integers(1, 27)),
    side=st.sampled_from([1, 2, 2, 2, 3]),
    mean=st.booleans(),
    tanh=st.booleans(),
    none=st.booleans(),
    single=st.booleans(),
)
def test_pools_are_those_of_pytorch(
    seed: int, size: tuple[int, int], side: int, mean: bool, tanh: bool, none: bool, single: bool
) -> None:
    dtype, generator = (
        torch.float32 if single else torch.float64,
        torch.Generator().manual_seed(seed),
    )
    (rows, columns), mean = size, mean and side > 1
    drawn = (
        torch.randint(-2, 3, (rows * side, columns * side + 2), generator=generator).to(dtype) / 2
    )  # many are equal
    if none:
        drawn[0, 0] = torch.nan
    made = drawn.tanh() if tanh else drawn
    by = torch.randn(rows, columns, generator=generator, dtype=dtype)
    part = made[:, : columns * side].clone().requires_grad_()
    squares = (part if tanh else part.relu())[None]
    wanted = F.avg_pool2d(squares, side) if mean else F.max_pool2d(squares, side)
    (slope,) = torch.autograd.grad(wanted, part, by[None])
    slope = slope * (1 - part.detach() ** 2) if tanh else slope
    out, slopes = torch.empty(rows, columns, dtype=dtype), torch.zeros_like(made)
    asked, compiled = (rows, columns, side, int(mean), int(tanh)), library(dtype)
    compiled.pools(address(out), address(made), made.shape[1], *asked)
    compiled.unpools(address(slopes), address(made), made.shape[1], address(by), *asked)
    torch.testing.assert_close(out, wanted[0].detach(), rtol=1e-6, atol=0, equal_nan=True)
    torch.testing.assert_close(
        slopes[:, : columns * side], slope, rtol=1e-6, atol=1e-7, equal_nan=True
    )
    assert not slopes[:, columns * side :].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (8, 8), (7, 19), (26, 10), (40, 1), (0, 5)])
def test_a_matrix_is_turned(dtype: torch.dtype, rows: int, columns: int) -> None:
    x, out = (
        torch.randn(rows, columns + 3, dtype=dtype),
        torch.zeros(columns, rows + 2, dtype=dtype),
    )
    library(dtype).turns(address(out), rows + 2, address(x), columns + 3, rows, columns)
    assert torch.equal(out[:, :rows], x[:, :columns].T)
    assert not out[:, rows:].any()
