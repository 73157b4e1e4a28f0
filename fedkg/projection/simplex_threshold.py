"""The threshold above which the entries of a point have a certain sum: the core of projections onto
simplices and L1 balls.

Letters: [...] any leading shape, n the length of a point.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from fedkg._internal.vmap_dims import move_batch_dim_first
from fedkg.projection.projection_set import numbers


class _AboveThreshold(torch.autograd.Function):
    """``relu(point - t)`` with t such that the sum over the last dimension is `total`; see
    `above_threshold`.
    """

    @staticmethod
    @override
    def forward(point: Tensor, total: Tensor) -> Tensor:
        """Michelot's iteration: Newton's on a convex piecewise linear function, exact after
        finitely many steps.

        Starts at the level for all entries, or for the largest alone, whichever is higher, since
        the solution is not lower. Ends when the number of entries above the level stays the same.
        """
        level = torch.maximum((point.sum(-1) - total) / point.shape[-1], point.amax(-1) - total)
        last: Tensor | None = None
        while True:
            above = torch.relu(point - level.unsqueeze(-1))
            number = (above > 0).sum(-1)
            if last is not None and not bool((number < last).any()):
                return above
            last = number
            level = level + (above.sum(-1) - total) / number.clamp(min=1)

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.total_shape = inputs[1].shape

    @staticmethod
    @override
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        [above] = ctx.saved_tensors
        support = above > 0
        mean = torch.where(support, gradient, 0).sum(-1) / support.sum(-1).clamp(min=1)
        return torch.where(support, gradient - mean.unsqueeze(-1), 0), mean.sum_to_size(
            ctx.total_shape
        )

    @staticmethod
    @override
    def vmap(
        info: Any, in_dims: tuple[int | None, int | None], point: Tensor, total: Tensor
    ) -> tuple[Tensor, int]:
        points, totals = move_batch_dim_first((point, total), in_dims, info.batch_size)
        missing = points.ndim - 1 - totals.ndim
        spread = totals.reshape(info.batch_size, *(1,) * missing, *totals.shape[1:])
        return _AboveThreshold.apply(points, spread), 0  # type: ignore[no-untyped-call]  # torch


def above_threshold(point: Tensor, total: Tensor | float) -> Tensor:
    """``relu(point - t)`` with the t for which it sums to `total`: the projection onto ``v >= 0,
    sum v = total``.

    Args:
        point: [..., n].
        total: positive, a number or [...].
    """
    found: Tensor = _AboveThreshold.apply(  # type: ignore[no-untyped-call]  # untyped in torch
        point, numbers(total, point)
    )
    return found
