"""log-sum-exp of two numbers: torch's value, fedkg's own gradient."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg.constraints.engine.pairwise_extremes import soft_extreme

NUMBERS = st.lists(
    st.sampled_from([-1e30, -3.0, -0.5, -0.0, 0.0, 1e-30, 0.02, 0.5, 3.0, 1e30]),
    min_size=1,
    max_size=6,
)
TEMPERATURES = st.sampled_from([-5.0, -0.05, 0.001, 0.05, 1.0])


@given(
    NUMBERS, NUMBERS, TEMPERATURES, st.sampled_from([torch.float32, torch.float64]), st.booleans()
)
@tries(60)
def test_the_value_is_that_of_log_sum_exp(
    left: list[float], right: list[float], temperature: float, dtype: torch.dtype, wanted: bool
) -> None:
    one, other = torch.tensor(left, dtype=dtype)[:, None], torch.tensor(right, dtype=dtype)
    expected = temperature * torch.logaddexp(
        one.double() / temperature, other.double() / temperature
    )
    found = soft_extreme(one.requires_grad_(wanted), other, temperature)
    assert found.dtype == dtype
    assert torch.allclose(
        found.double(),
        expected,
        rtol=4 * torch.finfo(dtype).eps,
        atol=4 * abs(temperature) * torch.finfo(dtype).eps,
    )


@pytest.mark.parametrize("temperature", [-0.3, 0.05, 2.0])
def test_its_gradients_are_those_of_finite_differences(temperature: float) -> None:
    dice = torch.Generator().manual_seed(0)
    left, right = (
        torch.randn(shape, generator=dice, dtype=torch.float64) for shape in ((4, 1), (4, 5))
    )
    right[2, 3] = left[2, 0]
    leaves = (left.requires_grad_(), right.requires_grad_())
    assert torch.autograd.gradcheck(
        lambda one, other: soft_extreme(one, other, temperature), leaves
    )
    assert torch.autograd.gradgradcheck(
        lambda one, other: soft_extreme(one, other, temperature), leaves
    )


def test_under_transforms_it_is_the_same() -> None:
    left, right = (torch.randn(3, 4, generator=torch.Generator().manual_seed(i)) for i in range(2))
    shares = torch.func.vmap(
        torch.func.grad(lambda one, other: soft_extreme(one, other, 0.2).sum())
    )(left, right)
    assert torch.allclose(shares, torch.sigmoid((left - right) / 0.2))
