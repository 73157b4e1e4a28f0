"""The second-order cone.

Letters: [...] any leading shape, n the length of a point.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.errors import SetError
from fedkg.projection.declared_field_shapes import number_field
from fedkg.projection.projection_set import ProjectionSet


@dataclass(frozen=True, slots=True, eq=False)
class SecondOrderCone(ProjectionSet):
    """``|(v_1 .. v_{n-1})| <= slope * v_n``, with the last entry as the axis.

    Args:
        slope: above 0: 1 for the cone of 45 degrees.

    Raises:
        SetError: a slope that is not above 0, or not finite.
    """

    slope: float = field(default=1.0, metadata=number_field())

    @override
    def __post_init__(self) -> None:
        if not self.slope > 0:
            raise SetError(
                "the slope of a second-order cone must be above 0", received=f"{self.slope:g}"
            )

    @override
    def project(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.project`.

        A point inside stays, one in the polar cone moves to the apex, any other to the nearest ray.
        """
        side, axis = point[..., :-1], point[..., -1]
        square = (side**2).sum(-1)
        norm = torch.sqrt(torch.where(square > 0, square, 1)) * (square > 0)
        inside, apex = norm <= self.slope * axis, self.slope * norm <= -axis
        height = (axis + self.slope * norm) / (1 + self.slope**2)
        factor = self.slope * height / torch.where(norm > 0, norm, 1)
        ray = torch.cat([side * factor.unsqueeze(-1), height.unsqueeze(-1)], -1)
        return torch.where(inside.unsqueeze(-1), point, torch.where(apex.unsqueeze(-1), 0, ray))

    @override
    def excess(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.excess`."""
        side: Tensor = torch.linalg.vector_norm(point[..., :-1], dim=-1)
        return side - self.slope * point[..., -1]
