"""The interface of feasible sets: projection, distance and membership.

Letters: [...] any leading shape of points, n their length.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import is_dataclass

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.projection.set_arguments import check_arguments_of, convert_fields


class ProjectionSet(ABC):
    """A closed convex set of points [..., n].

    A set is a value: tensors of numbers that broadcast against the points, so one set may have a
    radius or a bound for each point. Its numbers may be integers or lists. Points are
    floating-point tensors; anything else raises a `SetError`. Projections are Euclidean, work on
    any device and floating-point dtype, are differentiable in the points (at a kink, one of the
    derivatives is used) and support `torch.func.vmap`.
    """

    @override
    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        check_arguments_of(cls)

    def __post_init__(self) -> None:
        if is_dataclass(self):
            convert_fields(self)

    @abstractmethod
    def project(self, point: Tensor) -> Tensor:
        """The nearest point of the set, [..., n]; a point of the set is its own projection."""

    @abstractmethod
    def excess(self, point: Tensor) -> Tensor:
        """The largest violation of the set's inequalities, [...]; at most 0 inside."""

    def distance2(self, point: Tensor) -> Tensor:
        """Half the squared distance to the set, [...]; its gradient is ``point - project(point)``
        (Moreau envelope).
        """
        with torch.no_grad():
            nearest = self.project(point)
        return ((point - nearest) ** 2).sum(-1) / 2

    def contains(self, point: Tensor, tol: float = 1e-6) -> Tensor:
        """Whether each point is in the set, up to `tol` in each of its inequalities: bool [...]."""
        return self.excess(point) <= tol


def numbers(value: Tensor | float, point: Tensor) -> Tensor:
    """A set's numbers, in the dtype and on the device of a point."""
    return torch.as_tensor(value, dtype=point.dtype, device=point.device)
