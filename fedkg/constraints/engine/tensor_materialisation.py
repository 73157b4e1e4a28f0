"""Materialise values once in compiled code, so that loops do not recompute them on each read."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from typing_extensions import override


def materialise(values: Tensor) -> Tensor:
    """`values`, laid out in memory one after the other: for numbers that are few, and that many
    rows read.

    Compilers put what a number is made of in place of each read of it. Only what asks for a layout
    is written first.
    """
    run = _Standing.apply if values.requires_grad else _Standing.forward
    found: Tensor = run(values)
    return found


class _Standing(torch.autograd.Function):
    @staticmethod
    @override
    def forward(values: Tensor) -> Tensor:
        laid = values.contiguous()
        return laid.as_strided(laid.shape, laid.stride())

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        """Nothing is saved."""

    @staticmethod
    @override
    def vmap(info: Any, in_dims: Any, values: Tensor) -> tuple[Tensor, int]:
        """One dimension more in front."""
        return materialise(values.movedim(in_dims[0], 0)), 0

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]
