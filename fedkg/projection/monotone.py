"""Points with monotone entries: isotonic regression for a batch at once.

Letters: N points, n the length of a point, K blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from fedkg._internal.vmap_dims import move_batch_dim_first
from fedkg.errors import SetError
from fedkg.projection.declared_field_shapes import number_field
from fedkg.projection.projection_set import ProjectionSet


class _Pooled(torch.autograd.Function):
    """The weighted means of the blocks of adjacent violators, spread over their entries; points [N,
    n], weights [N, n].
    """

    @staticmethod
    @override
    def forward(point: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Pool all runs of falling neighbours at once, repeatedly; any order of pooling gives the
        same blocks.
        """
        count, length = point.shape
        block = torch.arange(count * length, device=point.device)
        mass, moment = weight.flatten(), (weight * point).flatten()
        row = block // max(1, length)
        while True:
            mean = moment / mass
            starts = torch.ones_like(row, dtype=torch.bool)
            starts[1:] = (mean[1:] > mean[:-1]) | (row[1:] != row[:-1])
            if bool(starts.all()):
                return mean.index_select(0, block).reshape(point.shape), block
            merged = starts.cumsum(0) - 1
            size = int(merged[-1]) + 1
            mass, moment = (
                part.new_zeros(size).index_add_(0, merged, part) for part in (mass, moment)
            )
            row = row[starts]
            block = merged.index_select(0, block)

    @staticmethod
    @override
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]
    ) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[1], output[1])

    @staticmethod
    @override
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None]:
        weight, block = ctx.saved_tensors
        size = int(block[-1]) + 1 if block.numel() else 0
        total, mass = (
            gradient.new_zeros(size).index_add_(0, block, part.flatten())
            for part in (gradient, weight)
        )
        return (total / mass).index_select(0, block).reshape(gradient.shape) * weight, None

    @staticmethod
    @override
    def vmap(
        info: Any, in_dims: tuple[int | None, int | None], point: Tensor, weight: Tensor
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        point, weight = move_batch_dim_first((point, weight), in_dims, info.batch_size)
        pooled, block = _Pooled.apply(  # type: ignore[no-untyped-call]  # untyped in torch
            point.flatten(0, 1), weight.flatten(0, 1)
        )
        return (pooled.reshape(point.shape), block.reshape(info.batch_size, -1)), (0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class MonotoneCone(ProjectionSet):
    """``v_1 <= v_2 <= ...``: the nearest point is the isotonic regression.

    Args:
        weight: above 0, [n] or [..., n]: weight of each entry in the distance; None: 1 each.
        falling: the entries decrease instead.
    """

    weight: Tensor | None = field(default=None, metadata=number_field("n|1", each=True))
    falling: bool = False

    @override
    def __post_init__(self) -> None:
        if self.weight is not None and not bool((self.weight > 0).all()):
            raise SetError(
                "weights of an isotonic regression must be above 0",
                received=f"{float(self.weight.min()):g}",
            )

    @override
    def project(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.project`; nearest in the weighted distance."""
        if not point.numel():
            return point
        weight = (
            torch.ones_like(point)
            if self.weight is None
            else self.weight.to(point).expand(point.shape)
        )
        upwards = (point.flip(-1), weight.flip(-1)) if self.falling else (point, weight)
        flat = [part.reshape(-1, point.shape[-1]) for part in upwards]
        pooled, _ = _Pooled.apply(*flat)  # type: ignore[no-untyped-call]  # untyped in torch
        found: Tensor = pooled.reshape(point.shape)
        return found.flip(-1) if self.falling else found

    @override
    def distance2(self, point: Tensor) -> Tensor:
        """Half the weighted squared distance, [...]."""
        with torch.no_grad():
            nearest = self.project(point)
        square = (point - nearest) ** 2
        return (square if self.weight is None else square * self.weight).sum(-1) / 2

    @override
    def excess(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.excess`."""
        steps = point[..., :-1] - point[..., 1:]
        steps = -steps if self.falling else steps
        return steps.amax(-1) if steps.shape[-1] else point.new_zeros(point.shape[:-1])
