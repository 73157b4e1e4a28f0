"""Sums over clients do not depend on the stacks in which their updates arrive."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedkg.federated.server.weighted_mean import WeightedMean

GROUPS = torch.tensor([0, 1, 1, 0, 2, 0, 1, 0, 0])
WEIGHTS = torch.rand(9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def updates(dtype: torch.dtype) -> dict[str, Tensor]:
    """Nine clients' parameters of several shapes, including views and one that all share."""
    flat = torch.randn(9, 1700, generator=torch.Generator().manual_seed(9), dtype=dtype)
    return {
        "weight": flat[:, :1500].view(9, 30, 50),
        "bias": flat[:, 1500:],
        "scale": flat[:, 0],
        "shared": flat[:1, :7].expand(9, 7),
    }


def mean(values: dict[str, Tensor], *stacks: slice) -> dict[str, Tensor]:
    rule = WeightedMean()
    fold = rule.begin(
        {name: value.new_zeros(4, *value.shape[1:]) for name, value in values.items()}
    )
    for part in stacks:
        stack = {name: value[part] for name, value in values.items()}
        fold = rule.add(fold, stack, WEIGHTS[part], GROUPS[part])
    return dict(rule.finish(fold))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_means_by_group_have_the_same_bits_for_all_stacks(dtype: torch.dtype) -> None:
    values = updates(dtype)
    whole = mean(values, slice(0, 9))
    parts = mean(values, slice(0, 1), slice(1, 6), slice(6, 9))
    for name, value in values.items():
        assert torch.equal(whole[name], parts[name])
        for group in range(3):
            weight = torch.where(group == GROUPS, WEIGHTS, 0.0)
            total = sum(float(w) * one.double() for w, one in zip(weight, value, strict=True))
            torch.testing.assert_close(
                whole[name][group].double(),
                total / weight.sum(),
                rtol=1e-5 if dtype == torch.float32 else 1e-12,
                atol=1e-6 if dtype == torch.float32 else 1e-13,
            )
        assert not whole[name][3].any()  # a group without clients
