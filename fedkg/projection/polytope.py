"""Polytopes: what linear inequalities and equations leave, with exact nearest points and a certificate for each.

Letters: [...] any leading shape, n the length of a point, m inequalities, q equations.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.errors import SetError
from fedkg.projection.interface import ProjectionSet, numbers
from fedkg.projection.polytope_gradient import nearest_points
from fedkg.projection.polytope_rows import product
from fedkg.projection.recognise import recognised


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """Nearest points, and what proves them to be so.

    Attributes:
        point: [..., n]; where the polytope is empty the given point.
        multipliers: at least 0, [..., m], of the inequalities; ``given point - point = G^T @ multipliers + E^T @ equations``. Of an empty
            polytope they prove it: ``G^T @ multipliers + E^T @ equations = 0`` and ``h . multipliers + f . equations < 0`` (Farkas).
        equations: [..., q], likewise.
        residual: [...], by how much the worst optimality condition is missed, relative to the numbers of the point and the ends; infinite
            where the polytope is empty.
        empty: bool [...], whether no point satisfies the polytope.
    """

    point: Tensor
    multipliers: Tensor
    equations: Tensor
    residual: Tensor
    empty: Tensor


def project_polytope(
    point: Tensor,
    G: Tensor,  # noqa: N803  letters of G x <= h, E x = f
    h: Tensor,
    E: Tensor | None = None,  # noqa: N803  letters of G x <= h, E x = f
    f: Tensor | None = None,
    warm: Solved | None = None,
) -> Solved:
    """The points of ``{v : G v <= h, E v = f}`` nearest to `point`.

    Computed in float64 whatever the dtype of the points: operator splitting guesses the rows that hold a point back, block pivoting makes
    the guess right, a dual active set method does the few points for which it does not. Points far away are solved for once more from
    closer by, so that `Solved.residual` is small beside the nearest point's own numbers. `Solved.point` is differentiable in all
    arguments; at a kink one of the derivatives is taken.

    Args:
        point: [..., n]. G: [m, n] or [..., m, n]. h: [m] or [..., m]; infinite for no bound. E: [q, n] or [..., q, n]. f: [q] or [..., q].
        warm: of an earlier call with as many points and rows: where its multipliers are near, fewer steps are needed.

    Raises:
        SetError: shapes that do not fit.
    """
    if (E is None) != (f is None):
        raise SetError("a polytope has equations without ends, or ends without equations", expected="E and f")
    n = point.shape[-1]
    if E is None or f is None:
        E, f = point.new_zeros(0, n), point.new_zeros(0)  # noqa: N806  letters of G x <= h, E x = f
    for name, matrix, ends in (("G", G, h), ("E", E, f)):
        if matrix.shape[-1] != n or matrix.shape[-2] != ends.shape[-1]:
            raise SetError(
                f"the polytope's {name} does not fit its ends or the points",
                expected=f"rows of {n} numbers, an end for each",
                received=f"shapes {list(matrix.shape)} and {list(ends.shape)}",
            )
    shape = point.shape[:-1]
    flat = point.reshape(shape.numel(), n)
    matrix = _stacked(numbers(G, point), numbers(E, point), shape)
    equal = _flat(numbers(f, point), shape)
    upper = torch.cat([_flat(numbers(h, point), shape), equal], 1)
    lower = torch.cat([torch.full_like(upper[:, : h.shape[-1]], -torch.inf), equal], 1)
    start = None if warm is None else torch.cat([warm.multipliers, warm.equations], -1).reshape(upper.shape).detach()
    if warm is not None and start is not None:
        start = torch.where(warm.empty.reshape(-1, 1), 0, start)
    nearest, multiplier, empty = nearest_points(flat, matrix, lower, upper, start)
    residual = torch.where(empty, torch.inf, _residual(matrix, lower, upper, nearest.detach(), multiplier))
    inner, outer = torch.split(multiplier.reshape(*shape, multiplier.shape[-1]), [G.shape[-2], E.shape[-2]], -1)
    return Solved(nearest.reshape(point.shape), inner.clamp(min=0), outer, residual.reshape(shape), empty.reshape(shape))


@dataclass(frozen=True, slots=True, eq=False)
class Polytope(ProjectionSet):
    """``G v <= h, E v = f``. Bounds, a single row, chains, sums and equations alone are projected in closed form.

    Args:
        G: [m, n], or [..., m, n] for a polytope for each point. h: [m] or [..., m], infinite for no bound. E, f: likewise, or None.
        tolerance: how far, relative to the numbers of a point, its nearest point may miss a row; None: 1e-9 in float64, else 1e-5.
    """

    G: Tensor
    h: Tensor
    E: Tensor | None = None
    f: Tensor | None = None
    tolerance: float | None = None

    def project(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.project`.

        Raises:
            SetError: no point satisfies the polytope of some of the points.
        """
        closed = recognised(self.G, self.h, self.E, self.f)
        if closed is not None:
            return closed.project(point)
        solved = project_polytope(point, self.G, self.h, self.E, self.f)
        limit = self.tolerance or (1e-9 if point.dtype == torch.float64 else 1e-5)
        try:
            empty, missed = int(solved.empty.sum()), int((solved.residual > limit).sum())
        except RuntimeError:  # torch.func transforms refuse to turn a tensor into a number
            return solved.point
        if missed:
            raise SetError(
                "the polytope is empty" if empty else "nearest points of the polytope were not found to the tolerance",
                expected="a point that satisfies all rows",
                received=f"none for {empty} of {solved.empty.numel()} points" if empty else f"{missed} of {solved.empty.numel()} points",
            )
        return solved.point

    def excess(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.excess`."""
        over = product(numbers(self.G, point), point) - numbers(self.h, point)
        if self.E is None or self.f is None:
            return over.amax(-1)
        missed = (product(numbers(self.E, point), point) - numbers(self.f, point)).abs()
        return torch.cat([over, missed], -1).amax(-1)


def _flat(ends: Tensor, shape: torch.Size) -> Tensor:
    return ends.expand(*shape, ends.shape[-1]).reshape(shape.numel(), ends.shape[-1])


def _stacked(inequalities: Tensor, equations: Tensor, shape: torch.Size) -> Tensor:
    """The rows of both, [m + q, n] where both are shared, else [B, m + q, n]."""
    if inequalities.ndim == equations.ndim == 2:
        return torch.cat([inequalities, equations])
    parts = [part.expand(*shape, *part.shape[-2:]) for part in (inequalities, equations)]
    rows = torch.cat(parts, -2)
    return rows.reshape(shape.numel(), *rows.shape[-2:])


def _residual(matrix: Tensor, lower: Tensor, upper: Tensor, nearest: Tensor, multiplier: Tensor) -> Tensor:
    """By how much rows are missed, and rows with a multiplier not met, relative to the row's length and the point's numbers, [B]."""
    with torch.no_grad():
        matrix = matrix.detach()
        length = torch.linalg.vector_norm(matrix, dim=-1).clamp(min=torch.finfo(nearest.dtype).tiny)
        value = product(matrix, nearest)
        held = torch.where(multiplier > 0, upper, torch.where(multiplier < 0, lower, value))
        missed = torch.maximum((value - value.clamp(lower, upper)).abs(), (value - held).abs()) / length
        finite = torch.where(upper.isfinite(), upper.abs(), 0) / length
        size = 1 + torch.maximum(nearest.abs().amax(1), finite.amax(1) if finite.shape[1] else nearest.new_zeros(()))
        worst: Tensor = missed.amax(1) if missed.shape[1] else missed.new_zeros(missed.shape[0])
        return worst / size
