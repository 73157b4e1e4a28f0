"""Minimum and maximum of two tensors, and what log-sum-exp makes of them, with a cheap gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from typing_extensions import override


class _Extreme(torch.autograd.Function):
    """The maximum (`sign` 1) or minimum (-1); a tie shares the gradient evenly.

    The same as `torch.maximum`, but its backward pass selects by masks: on a CPU that costs ten
    times as much as the arithmetic here.
    """

    generate_vmap_rule = True

    @staticmethod
    @override
    def forward(left: Tensor, right: Tensor, sign: float) -> Tensor:
        return torch.maximum(left, right) if sign > 0 else torch.minimum(left, right)

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        """The difference says who gets the gradient."""
        ctx.save_for_backward(*inputs[:2])
        ctx.sign = inputs[2]

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Any) -> Any:
        left, right = ctx.saved_tensors
        share = (left - right).nan_to_num(0.0).sign() * (
            0.5 * ctx.sign
        ) + 0.5  # NaN: alike and infinite
        part = gradients[0] * share
        return part, gradients[0] - part, None


def upper(left: Tensor, right: Tensor) -> Tensor:
    """The larger of two tensors, element by element.

    Neither holds NaN where a gradient is wanted.
    """
    return _extreme(left, right, 1.0)


def lower(left: Tensor, right: Tensor) -> Tensor:
    """The smaller of two tensors, element by element.

    Neither holds NaN where a gradient is wanted.
    """
    return _extreme(left, right, -1.0)


def _extreme(left: Tensor, right: Tensor, sign: float) -> Tensor:
    if left.shape == right.shape and (left.requires_grad or right.requires_grad):
        # torch declares `apply` without types
        chosen: Tensor = _Extreme.apply(left, right, sign)  # type: ignore[no-untyped-call]
        return chosen
    return torch.maximum(left, right) if sign > 0 else torch.minimum(left, right)


class _SoftExtreme(torch.autograd.Function):
    """`soft_extreme`: its gradient is shared by one sigmoid of the difference."""

    generate_vmap_rule = True

    @staticmethod
    @override
    def forward(left: Tensor, right: Tensor, temperature: float) -> Tensor:
        return _soft_extreme(left, right, temperature)

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        """The difference says who gets which share of the gradient."""
        ctx.save_for_backward(*inputs[:2])
        ctx.temperature = inputs[2]

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Any) -> Any:
        left, right = ctx.saved_tensors
        part = gradients[0] * torch.sigmoid((left - right) / ctx.temperature)
        return part, gradients[0] - part, None


def soft_extreme(left: Tensor, right: Tensor, temperature: float) -> Tensor:
    """``t log(exp(left / t) + exp(right / t))``, a bound of the maximum, or with a temperature t
    below 0 of the minimum.

    It needs a fraction of the passes over memory that `torch.logaddexp` takes. Neither tensor holds
    infinite numbers.
    """
    if left.requires_grad or right.requires_grad:
        # torch declares it without types
        left, right = torch.broadcast_tensors(left, right)  # type: ignore[no-untyped-call]
        # torch declares `apply` without types
        soft: Tensor = _SoftExtreme.apply(left, right, temperature)  # type: ignore[no-untyped-call]
        return soft
    return _soft_extreme(left, right, temperature)


def _soft_extreme(left: Tensor, right: Tensor, temperature: float) -> Tensor:
    extreme = torch.maximum(left, right) if temperature > 0 else torch.minimum(left, right)
    spread = (left - right).abs_().mul_(-1.0 / abs(temperature)).exp_().add_(1.0).log_()
    return extreme.add_(spread, alpha=temperature)
