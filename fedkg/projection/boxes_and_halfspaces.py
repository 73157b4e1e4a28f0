"""Boxes, half-spaces and affine sets: projections in one step.

Letters: n the length of a point, m equations.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.errors import SetError
from fedkg.projection.declared_field_shapes import number_field
from fedkg.projection.projection_set import ProjectionSet, numbers


@dataclass(frozen=True, slots=True, eq=False)
class Box(ProjectionSet):
    """``low <= v <= high``, entry by entry.

    Args:
        low: lower bounds, a number or a tensor that broadcasts to the points; -inf for no bound.
        high: upper bounds, a number or a tensor that broadcasts to the points; inf for no bound.

    Raises:
        SetError: a lower bound above its upper bound.
    """

    low: Tensor | float = field(default=-torch.inf, metadata=number_field("n|1", finite=False))
    high: Tensor | float = field(default=torch.inf, metadata=number_field("n|1", finite=False))

    @override
    def __post_init__(self) -> None:
        low, high = torch.as_tensor(self.low), torch.as_tensor(self.high)
        if bool((low > high).any()):
            low, high = torch.broadcast_tensors(low, high)  # type: ignore[no-untyped-call]  # torch's
            place = tuple((low > high).nonzero()[0].tolist())
            entry = f" at entry {', '.join(map(str, place))}" if place else ""
            raise SetError(
                "no point lies in the box: a lower bound is above its upper bound",
                expected="low <= high in each entry",
                received=f"low {float(low[place]):g} and high {float(high[place]):g}{entry}",
            )

    @override
    def project(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.project`."""
        return torch.clamp(point, numbers(self.low, point), numbers(self.high, point))

    @override
    def excess(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.excess`."""
        return torch.maximum(
            numbers(self.low, point) - point, point - numbers(self.high, point)
        ).amax(-1)


@dataclass(frozen=True, slots=True, eq=False)
class HalfSpace(ProjectionSet):
    """``normal . v <= bound``.

    Args:
        normal: [n] or [..., n], not 0.
        bound: a number or [...].
    """

    normal: Tensor = field(metadata=number_field("n"))
    bound: Tensor | float = field(metadata=number_field(finite=False))

    @override
    def __post_init__(self) -> None:
        if bool((self.normal == 0).all(-1).any()):
            raise SetError(
                "a half-space needs a direction: all its coefficients are 0",
                expected="coefficients that are not all 0",
            )

    @override
    def project(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.project`."""
        normal = numbers(self.normal, point)
        step = torch.relu(self.excess(point)) / (normal**2).sum(-1)
        return point - step.unsqueeze(-1) * normal

    @override
    def excess(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.excess`."""
        return (point * numbers(self.normal, point)).sum(-1) - numbers(self.bound, point)


@dataclass(frozen=True, slots=True, eq=False)
class Affine(ProjectionSet):
    """``matrix @ v == bound``.

    Args:
        matrix: [m, n], or [..., m, n] for one set for each point; of any rank.
        bound: [m] or [..., m].

    Raises:
        SetError: the equations contradict each other.
    """

    matrix: Tensor = field(metadata=number_field("m n"))
    bound: Tensor = field(metadata=number_field("m"))
    _inverse: Tensor = field(init=False, repr=False)

    @override
    def __post_init__(self) -> None:
        with torch.no_grad():
            matrix, bound = (
                self.matrix.to(torch.float64),
                self.bound.to(torch.float64).unsqueeze(-1),
            )
            eps = torch.finfo(self.matrix.dtype).eps
            object.__setattr__(
                self, "_inverse", torch.linalg.pinv(matrix, rtol=eps * max(matrix.shape[-2:]))
            )
            point = self._inverse @ bound
            missed = (matrix @ point - bound).abs()
            room = eps**0.5 * (1 + bound.abs() + matrix.abs() @ point.abs())  # per equation
            if bool((missed > room).any()):
                raise SetError(
                    "the equations contradict each other",
                    received=f"the best point violates them by {float(missed.max()):.3g}",
                    help="leave out one of the equations, or correct its right side",
                )

    @override
    def project(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.project`."""
        fixed = not self.matrix.requires_grad
        inverse: Tensor = (
            numbers(self._inverse, point)
            if fixed
            else torch.linalg.pinv(numbers(self.matrix, point))
        )
        return point - (inverse @ self._missed(point).unsqueeze(-1)).squeeze(-1)

    @override
    def excess(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.excess`."""
        return self._missed(point).abs().amax(-1)

    def _missed(self, point: Tensor) -> Tensor:
        return (numbers(self.matrix, point) @ point.unsqueeze(-1)).squeeze(-1) - numbers(
            self.bound, point
        )
