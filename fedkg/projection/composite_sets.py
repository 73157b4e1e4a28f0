"""Sets made of other sets: products and intersections.

Letters: [...] any leading shape, n the length of a point, K sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from fedkg._internal.compile_exclusion import exclude_from_compile
from fedkg._internal.value_description import describe_value
from fedkg.errors import SetError
from fedkg.projection.intersection_polytope_construction import common_polytope
from fedkg.projection.projection_set import ProjectionSet


@dataclass(frozen=True, slots=True, eq=False)
class Product(ProjectionSet):
    """The first entries of a point are in the first set, the next in the second, and so on.

    Args:
        parts: each set with its number of entries; together n.
    """

    parts: Sequence[tuple[ProjectionSet, int]]

    @override
    def __post_init__(self) -> None:
        for part in _require_list(self.parts, "Product"):
            if (
                not isinstance(part, tuple | list)
                or len(part) != 2
                or not isinstance(part[0], ProjectionSet)
                or not isinstance(part[1], int)
            ):
                raise SetError(
                    "the parts of a product must be pairs of a set and its number of entries",
                    expected="(set, n)",
                    received=f"({', '.join(map(describe_value, part))})"
                    if isinstance(part, tuple | list)
                    else describe_value(part),
                    help="Product([(Box(0.0, 1.0), 2), (L2Ball(1.0), 3)])",
                )

    @override
    def project(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.project`."""
        return torch.cat([part.project(piece) for part, piece in self._pieces(point)], -1)

    @override
    def distance2(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.distance2`."""
        return torch.stack([part.distance2(piece) for part, piece in self._pieces(point)]).sum(0)

    @override
    def excess(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.excess`."""
        return torch.stack([part.excess(piece) for part, piece in self._pieces(point)]).amax(0)

    def _pieces(self, point: Tensor) -> list[tuple[ProjectionSet, Tensor]]:
        sizes = [size for _, size in self.parts]
        if sum(sizes) != point.shape[-1]:
            raise SetError(
                "the product's parts do not fit the points",
                expected=f"points with {sum(sizes)} entries",
                received=f"{point.shape[-1]} entries",
            )
        return list(
            zip((part for part, _ in self.parts), torch.split(point, sizes, -1), strict=True)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Intersection(ProjectionSet):
    """Points that are in every one of several sets.

    If all sets are polytopes (boxes, half-spaces, affine sets, monotone cones without weights,
    simplices), fedkg projects onto one polytope; otherwise it uses Dykstra's alternating
    projections (Boyle and Dykstra 1986).

    Args:
        parts: the sets.
        tolerance: largest change in a round, relative to the numbers of the point, at which
            Dykstra's projections stop.
        rounds: largest number of rounds over all sets.

    Raises:
        SetError: from `project`, if the last point violates a set by more than ``10 *
            sqrt(tolerance)``: the sets have no common point, or more rounds are needed.
    """

    parts: Sequence[ProjectionSet]
    tolerance: float = 1e-9
    rounds: int = 10_000

    @override
    def __post_init__(self) -> None:
        for part in _require_list(self.parts, "Intersection"):
            if not isinstance(part, ProjectionSet):
                raise SetError(
                    "the parts of an intersection must be sets",
                    expected="sets",
                    received=describe_value(part),
                    help="Intersection([Box(0.0, 1.0), L2Ball(1.0)])",
                )

    @exclude_from_compile
    @override
    def project(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.project`. Under `torch.func` transforms, all `rounds` are computed."""
        polytope = common_polytope(self.parts, point)
        if polytope is not None:
            try:
                return polytope.project(point)
            except SetError as error:
                raise SetError(
                    f"no nearest point in the intersection of the sets: {error.message}",
                    expected="sets with a common point",
                    received=error.received,
                    help="check that some point lies in all sets, and compute in float64",
                ) from error
        nearest, corrections = point, [torch.zeros_like(point) for _ in self.parts]
        eps = max(self.tolerance, 8 * torch.finfo(point.dtype).eps)
        for _ in range(self.rounds):
            moved = torch.zeros_like(point)
            for i, part in enumerate(self.parts):
                target = nearest + corrections[i]
                found = part.project(target)
                new = target - found
                moved = torch.maximum(moved, (new - corrections[i]).detach().abs())
                nearest, corrections[i] = found, new
            if _all_below(moved, eps * (1 + point.detach().abs())):
                break
        missed = self.excess(nearest.detach())
        if not _all_below(missed, 10 * eps**0.5 * torch.ones_like(missed)):
            raise SetError(
                "the alternating projections do not converge",
                expected="sets with a common point",
                received=f"the last point misses a set by {float(missed.max()):.3g}",
                help="check that some point lies in all sets, or increase `rounds`",
            )
        return nearest

    @override
    def excess(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.excess`."""
        return torch.stack([part.excess(point) for part in self.parts]).amax(0)


def _require_list(parts: object, name: str) -> Sequence[object]:
    """Return the parts of a set; raise SetError unless they are a list."""
    if isinstance(parts, list | tuple):
        return parts
    raise SetError(
        f"`{name}.parts` must be a list",
        expected="a list of sets" if name == "Intersection" else "a list of pairs",
        received=describe_value(parts),
    )


def _all_below(values: Tensor, limits: Tensor) -> bool:
    """Whether all values are below their limits; False inside a transform that hides numbers."""
    try:
        return bool((values <= limits).all())
    except RuntimeError:
        return False
