"""Functions written in LLVM, called by compiled ones: tiles and primitives of the model loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from fedkg.kernels.checked_memory_access import address
from fedkg.kernels.loop_language import Floats, Ints, loop
from fedkg.kernels.loop_library import Library
from fedkg.kernels.training import llvm_primitives
from fedkg.kernels.training.llvm_primitives import exponential, fused, greater, number, sixteen
from fedkg.kernels.training.matrix_products import multiply, shifted
from fedkg.models.random_streams import fold, keep_mask


@loop
def exponentials(out: Floats, x: Floats, n: int) -> None:
    for i in range(n):
        out[i] = exponential(x[i])


@loop
def greatest(out: Floats, x: Floats, y: Floats, n: int) -> None:
    for i in range(n):
        out[i] = greater(x[i], y[i])


@loop
def fused_once(out: Floats, x: Floats, y: Floats, z: Floats) -> None:
    out[0] = fused(x[0], y[0], z[0])


@loop
def numbers(out: Ints, key: int, n: int) -> None:
    for i in range(n):
        out[i] = sixteen(number(key, i // 4), i % 4)


ENTRIES = (exponentials, greatest, fused_once, numbers, multiply, shifted)
TYPES = (torch.float32, torch.float64)


@pytest.fixture(scope="module")
def libraries() -> dict[torch.dtype, Library]:
    return {dtype: Library(ENTRIES, single=dtype == torch.float32) for dtype in TYPES}


def drawn(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64
    ).to(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_exponentials_are_within_a_few_units_and_keep_what_is_no_number(
    dtype: torch.dtype, libraries: dict[torch.dtype, Library]
) -> None:
    x = torch.cat(
        [torch.linspace(-80, 80, 4001, dtype=torch.float64), torch.tensor([math.nan, 0.0])]
    ).to(dtype)
    out = torch.empty_like(x)
    libraries[dtype].exponentials(address(out), address(x), len(x))
    torch.testing.assert_close(
        out, x.double().exp().to(dtype), rtol=4 * torch.finfo(dtype).eps, atol=0, equal_nan=True
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_the_greater_of_two_is_no_number_where_one_is_none(
    dtype: torch.dtype, libraries: dict[torch.dtype, Library]
) -> None:
    x, y = (
        torch.tensor([1.0, -2.0, math.nan, 0.0], dtype=dtype),
        torch.tensor([0.5, 3.0, 1.0, math.nan], dtype=dtype),
    )
    out = torch.empty_like(x)
    libraries[dtype].greatest(address(out), address(x), address(y), 4)
    assert out[:2].tolist() == [1.0, 3.0]
    assert bool(out[2:].isnan().all())


@pytest.mark.parametrize("dtype", TYPES)
def test_fused_products_are_rounded_once(
    dtype: torch.dtype, libraries: dict[torch.dtype, Library]
) -> None:
    x = torch.tensor([1.0 + torch.finfo(dtype).eps], dtype=dtype)
    out, minus = torch.empty_like(x), -(x * x)
    libraries[dtype].fused_once(address(out), address(x), address(x), address(minus))
    assert float(out) == torch.finfo(dtype).eps ** 2


def test_counted_numbers_are_those_of_dropout(libraries: dict[torch.dtype, Library]) -> None:
    key, out = fold(torch.tensor(5), 3), torch.empty(23, dtype=torch.int64)
    libraries[torch.float32].numbers(address(out), int(key), len(out))
    assert torch.equal(out >= round(0.3 * (1 << 16)) - (1 << 15), keep_mask(key, 23, 0.3))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("rows", "columns", "depth"), [(1, 1, 1), (5, 16, 3), (9, 37, 7), (13, 8, 641), (4, 40, 0)]
)
def test_products_out_of_tiles(
    rows: int, columns: int, depth: int, dtype: torch.dtype, libraries: dict[torch.dtype, Library]
) -> None:
    left, right, begin = (
        drawn(rows, depth, dtype=dtype),
        drawn(depth, columns, dtype=dtype),
        drawn(rows, columns, dtype=dtype),
    )
    out, turned = torch.full((rows, columns + 3), 7.0, dtype=dtype), left.t().contiguous()
    places = (address(begin), columns, address(turned), 1, rows, address(right), columns)
    libraries[dtype].multiply(address(out), columns + 3, *places, rows, columns, depth)
    tolerance = 4 * torch.finfo(dtype).eps * max(1, depth)
    torch.testing.assert_close(
        out[:, :columns], begin + left @ right, rtol=tolerance, atol=tolerance
    )
    assert bool((out[:, columns:] == 7.0).all())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("rows", "columns", "depth"), [(1, 1, 1), (12, 21, 9), (7, 70, 330)])
def test_products_with_rows_at_told_distances(
    rows: int, columns: int, depth: int, dtype: torch.dtype, libraries: dict[torch.dtype, Library]
) -> None:
    left, line = drawn(rows, depth, dtype=dtype), drawn(columns + 50, dtype=dtype)
    distances = torch.randint(0, 50, (depth,), generator=torch.Generator().manual_seed(0))
    out = torch.empty(rows, columns, dtype=dtype)
    wide = llvm_primitives.VECTOR // out.element_size()
    begin = drawn(rows, wide, dtype=dtype)
    given = (address(left), depth, address(line), address(distances))
    libraries[dtype].shifted(
        address(out), columns, address(begin), wide, *given, rows, columns, depth
    )
    right = line[distances.unsqueeze(1) + torch.arange(columns)]
    tolerance = 4 * torch.finfo(dtype).eps * depth
    begun = begin.repeat(1, columns // wide + 1)[:, :columns]
    torch.testing.assert_close(out, begun + left @ right, rtol=tolerance, atol=tolerance)


def test_they_mean_nothing_outside() -> None:
    with pytest.raises(TypeError, match="only compiled code can call"):
        llvm_primitives.fused(1.0, 2.0, 3.0)
