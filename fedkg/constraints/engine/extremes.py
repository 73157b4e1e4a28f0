"""Minimum and maximum of two tensors with a cheap gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

STEEP = 1e30
"""What a difference is multiplied by to tell its sign: products and clamps are far cheaper than selections on a CPU."""


class _Extreme(torch.autograd.Function):
    """The maximum (`sign` 1) or minimum (-1); a tie shares the gradient evenly.

    The same as `torch.maximum`, whose backward pass selects by masks: on a CPU that costs ten times as much as the arithmetic here.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(left: Tensor, right: Tensor, sign: float) -> Tensor:
        return torch.maximum(left, right) if sign > 0 else torch.minimum(left, right)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        """The difference says who gets the gradient."""
        ctx.save_for_backward(*inputs[:2])
        ctx.sign = inputs[2]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        left, right = ctx.saved_tensors
        share = ((left - right) * (0.5 * STEEP * ctx.sign)).nan_to_num(0.0).clamp(-0.5, 0.5) + 0.5  # NaN: alike and infinite
        part = gradients[0] * share
        return part, gradients[0] - part, None


def upper(left: Tensor, right: Tensor) -> Tensor:
    """The larger of two tensors, element by element; neither holds NaN where a gradient is wanted."""
    return _extreme(left, right, 1.0)


def lower(left: Tensor, right: Tensor) -> Tensor:
    """The smaller of two tensors, element by element; neither holds NaN where a gradient is wanted."""
    return _extreme(left, right, -1.0)


def _extreme(left: Tensor, right: Tensor, sign: float) -> Tensor:
    if left.shape == right.shape and (left.requires_grad or right.requires_grad):
        chosen: Tensor = _Extreme.apply(left, right, sign)  # type: ignore[no-untyped-call]  # torch declares `apply` without types
        return chosen
    return torch.maximum(left, right) if sign > 0 else torch.minimum(left, right)
