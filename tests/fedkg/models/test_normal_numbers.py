from __future__ import annotations

import math

import pytest
import torch

from fedkg.models.noise import above_zero, fold, normal, root

KEYS = fold(root(11), torch.arange(4))
ONES = torch.ones(4, dtype=torch.float64)


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
        assert float((values.abs() > bound).double().mean()) == pytest.approx(share, abs=4 * math.sqrt(share / n))


def test_neighbours_and_streams_do_not_move_together() -> None:
    values = normal(KEYS, 3, 100_000, ONES)
    together = torch.corrcoef(torch.cat([values, normal(KEYS, 4, 100_000, ONES)]))
    assert float((together - torch.eye(8)).abs().max()) < 0.02
    half = values.shape[1] // 2
    assert abs(float((values[:, :half] * values[:, half:]).mean())) < 0.01  # the two of a pair


def test_the_loop_in_float32_gives_the_numbers_of_float64() -> None:
    wide, narrow = normal(KEYS, 9, 4_097, ONES), normal(KEYS, 9, 4_097, ONES.float())
    assert narrow.dtype == torch.float32
    assert float((wide - narrow).abs().max()) < 2e-5


def test_numbers_depend_on_key_and_place_alone() -> None:
    several = normal(KEYS, 3, 500, ONES.float())
    assert torch.equal(normal(KEYS[2:3], 3, 500, ONES[:1].float()), several[2:3])
    assert not torch.equal(several[0], several[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_scale_is_each_clients_own(dtype: torch.dtype) -> None:
    scale = torch.tensor([0.5, 1.0, 2.0, 0.0], dtype=dtype)
    torch.testing.assert_close(normal(KEYS, 3, 64, scale), normal(KEYS, 3, 64, ONES.to(dtype)) * scale.unsqueeze(1))
