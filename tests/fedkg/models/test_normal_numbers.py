from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from torch import Tensor

from fedkg.kernels.checked_memory_access import address
from fedkg.kernels.loop_language import Floats, loop
from fedkg.kernels.loop_library import Library
from fedkg.kernels.training.random_normal_kernels import logarithm
from fedkg.models.random_streams import _logarithm, above_zero, fold, normal, root

KEYS = fold(root(11), torch.arange(4))
ONES = torch.ones(4, dtype=torch.float64)


@loop
def logarithms(out: Floats, x: Floats, n: int) -> None:
    for i in range(n):
        out[i] = logarithm(x[i])


def test_fractions_are_above_zero_and_uniform() -> None:
    values = above_zero(KEYS, 50_000)
    assert values.dtype == torch.float64
    assert float(values.min()) > 0
    assert float(values.max()) <= 1
    assert float(values.mean()) == pytest.approx(0.5, abs=0.003)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_are_normal(dtype: torch.dtype) -> None:
    values = normal(KEYS, 3, 100_000, ONES.to(dtype)).double().flatten()
    n = values.numel()
    assert float(values.mean()) == pytest.approx(0, abs=4 / math.sqrt(n))
    assert float((values**2).mean()) == pytest.approx(1, abs=4 * math.sqrt(2 / n))
    assert float((values**4).mean()) == pytest.approx(3, abs=4 * math.sqrt(96 / n))
    for bound in (0.5, 1.0, 2.0, 3.0):
        share = math.erfc(bound / math.sqrt(2))
        assert float((values.abs() > bound).double().mean()) == pytest.approx(
            share, abs=4 * math.sqrt(share / n)
        )


def test_neighbours_and_streams_do_not_move_together() -> None:
    values = normal(KEYS, 3, 100_000, ONES)
    together = torch.corrcoef(torch.cat([values, normal(KEYS, 4, 100_000, ONES)]))
    assert float((together - torch.eye(8)).abs().max()) < 0.02
    half = values.shape[1] // 2
    assert abs(float((values[:, :half] * values[:, half:]).mean())) < 0.01  # both numbers of a pair


def boxed(word: int, count: int) -> Tensor:
    """Box and Muller's numbers, [4, count], by PyTorch: cosines, then sines."""
    radius, turn = above_zero(fold(KEYS, word), 2 * ((count + 1) // 2)).chunk(2, 1)
    radius, turn = (-2.0 * radius.log()).sqrt(), 2.0 * math.pi * (turn - 0.5)
    return torch.cat([radius * turn.cos(), radius * turn.sin()], 1)[:, :count]


@pytest.mark.parametrize("count", [1, 2, 3, 511, 512, 513, 4_097])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 2e-14)])
def test_numbers_are_those_of_box_and_muller(
    dtype: torch.dtype, tolerance: float, count: int
) -> None:
    found = normal(KEYS, 9, count, ONES.to(dtype))
    assert found.dtype == dtype
    assert found.shape == (4, count)
    assert float((found.double() - boxed(9, count)).abs().max()) < tolerance


def key_of(word: int) -> Tensor:
    """The key of a stream with this first word: the inverse of `mix`."""

    def unshifted(value: int, by: int) -> int:
        return value ^ (value >> by) ^ (value >> 2 * by)

    value = unshifted(word, 31) * pow(0x94D049BB133111EB, -1, 1 << 64) % (1 << 64)
    value = unshifted(value, 27) * pow(0xBF58476D1CE4E5B9, -1, 1 << 64) % (1 << 64)
    value = (unshifted(value, 30) - 0x9E3779B97F4A7C15) % (1 << 64)
    return torch.tensor([value - (1 << 64) if value >> 63 else value])


@pytest.mark.parametrize(
    "word",
    [0, 1 << 11, 5 << 11, 1 << 43, (1 << 43) - 1, 1 << 63, (1 << 64) - (1 << 12), (1 << 64) - 1],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_farthest_numbers_and_the_nearest_are_there(dtype: torch.dtype, word: int) -> None:
    """A word decides how far a pair is from 0: 53 of its bits reach to 8.57."""
    key, one = key_of(word), torch.ones(1, dtype=dtype)
    assert int(fold(key, 0)) % (1 << 64) == word
    found = float(normal(key_of(int(key) % (1 << 64)), 0, 2, one).double().norm())
    fraction = ((word >> 11) + 1) * 2.0**-53
    assert found == pytest.approx(
        math.sqrt(-2.0 * math.log(fraction)),
        rel=1e-6,
        abs=4e-4 if dtype == torch.float32 else 1e-12,
    )


def test_the_numbers_of_a_seed_stay_what_they_are() -> None:
    """A resumed run must draw the noise of an uninterrupted run, and never repeat noise."""
    assert normal(KEYS, 9, 3, ONES.float())[0].tolist() == [
        float.fromhex("-0x1.5f25eep-3"), float.fromhex("-0x1.1c69dp-2"),
        float.fromhex("0x1.3753b6p-1"),
    ]  # fmt: skip


@cache
def library(dtype: torch.dtype) -> Library:
    return Library((logarithms,), single=dtype == torch.float32)


@pytest.mark.parametrize("fraction", [2.0**-53, 3 * 2.0**-53, 1e-9, 0.5, 0.7071, 0.99999994, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logarithms_keep_their_relative_precision_to_both_ends(
    dtype: torch.dtype, fraction: float
) -> None:
    """The smallest fractions give the ends of the tails, those near 1 the smallest numbers.

    Compiled training steps and tensor operations compute it separately.
    """
    x, out = torch.tensor([fraction], dtype=dtype), torch.empty(1, dtype=dtype)
    library(dtype).logarithms(address(out), address(x), 1)
    for found in (out, _logarithm(x)):
        torch.testing.assert_close(
            found.double(), x.double().log(), rtol=4 * torch.finfo(dtype).eps, atol=0
        )


def test_numbers_depend_on_key_and_place_alone() -> None:
    several = normal(KEYS, 3, 500, ONES.float())
    assert torch.equal(normal(KEYS[2:3], 3, 500, ONES[:1].float()), several[2:3])
    assert not torch.equal(several[0], several[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_scale_is_each_clients_own(dtype: torch.dtype) -> None:
    scale = torch.tensor([0.5, 1.0, 2.0, 0.0], dtype=dtype)
    torch.testing.assert_close(
        normal(KEYS, 3, 64, scale), normal(KEYS, 3, 64, ONES.to(dtype)) * scale.unsqueeze(1)
    )
