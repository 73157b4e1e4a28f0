"""Balls around a centre in the L1, L2 and maximum norms.

Letters: [...] any leading shape, n the length of a point.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.errors import SetError
from fedkg.projection.declared_field_shapes import number_field
from fedkg.projection.projection_set import ProjectionSet, numbers
from fedkg.projection.simplex_threshold import above_threshold


@dataclass(frozen=True, slots=True, eq=False)
class _Ball(ProjectionSet):
    """Points within a radius of a centre.

    Args:
        radius: at least 0, a number or [...].
        center: a number or [..., n].

    Raises:
        SetError: a negative radius.
    """

    radius: Tensor | float = field(metadata=number_field(finite=False))
    center: Tensor | float = field(default=0.0, metadata=number_field("n|1"))

    @override
    def __post_init__(self) -> None:
        if not bool((torch.as_tensor(self.radius) >= 0).all()):
            raise SetError(
                "the radius of a ball must be at least 0",
                received=f"{float(torch.as_tensor(self.radius).min()):g}",
            )


@dataclass(frozen=True, slots=True, eq=False)
class L1Ball(_Ball):
    """``sum |v - center| <= radius``; projection of Duchi et al. 2008, with Michelot's iteration
    instead of a sort.
    """

    @override
    def project(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.project`."""
        center, radius = numbers(self.center, point), numbers(self.radius, point)
        offset = point - center
        size = offset.abs()
        inside = size.sum(-1, keepdim=True) <= radius.unsqueeze(-1)
        return torch.where(
            inside, point, center + torch.sign(offset) * above_threshold(size, radius)
        )

    @override
    def excess(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.excess`."""
        return (point - numbers(self.center, point)).abs().sum(-1) - numbers(self.radius, point)


@dataclass(frozen=True, slots=True, eq=False)
class L2Ball(_Ball):
    """``|v - center| <= radius`` in the Euclidean norm."""

    @override
    def project(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.project`."""
        center, radius = numbers(self.center, point), numbers(self.radius, point)
        offset = point - center
        square = (offset**2).sum(-1)
        outside = square > radius**2
        factor = torch.where(outside, radius / torch.sqrt(torch.where(outside, square, 1)), 1)
        return torch.where(outside.unsqueeze(-1), center + factor.unsqueeze(-1) * offset, point)

    @override
    def excess(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.excess`."""
        size: Tensor = torch.linalg.vector_norm(point - numbers(self.center, point), dim=-1)
        return size - numbers(self.radius, point)


@dataclass(frozen=True, slots=True, eq=False)
class LInfBall(_Ball):
    """``|v_i - center_i| <= radius`` for every entry."""

    @override
    def project(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.project`."""
        center, radius = numbers(self.center, point), numbers(self.radius, point).unsqueeze(-1)
        return torch.clamp(point, center - radius, center + radius)

    @override
    def excess(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.excess`."""
        return (point - numbers(self.center, point)).abs().amax(-1) - numbers(self.radius, point)
