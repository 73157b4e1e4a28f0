"""Polytopes defined by linear inequalities and equations, with exact nearest points and
certificates.

Letters: [...] any leading shape, n the length of a point, m inequalities, q equations.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from typing_extensions import override

from fedkg._internal.compile_exclusion import exclude_from_compile
from fedkg.errors import SetError
from fedkg.projection.closed_form_recognition import recognise_closed_form
from fedkg.projection.declared_field_shapes import KEY, FieldShape, check_shapes
from fedkg.projection.polytope_gradient import nearest_points
from fedkg.projection.polytope_row_operations import product
from fedkg.projection.polytope_solver_choice import prove_empty
from fedkg.projection.projection_set import ProjectionSet, numbers
from fedkg.projection.set_arguments import check_points, convert_numbers

_SHAPES = {
    "G": FieldShape(ends=("m", "n"), each=True),
    "h": FieldShape(ends=("m",), finite=False, each=True),
    "E": FieldShape(ends=("q", "n"), each=True),
    "f": FieldShape(ends=("q",), each=True),
}


@dataclass(frozen=True, slots=True, eq=False)
class PolytopeProjection:
    """Nearest points, with a proof that they are nearest.

    Attributes:
        point: [..., n]; the original point if the polytope is empty.
        multipliers: of the inequalities, at least 0, [..., m]; ``original - point = G^T @
            multipliers + E^T @ equations``. For an empty polytope they prove emptiness: ``G^T @
            multipliers + E^T @ equations = 0`` and ``h . multipliers + f . equations < 0``
            (Farkas).
        equations: multipliers of the equations, [..., q].
        residual: [...], largest violation of an optimality condition, relative to the numbers of
            the point and the ends; infinite if the polytope is empty.
        empty: bool [...], whether no point satisfies the polytope.
    """

    point: Tensor
    multipliers: Tensor
    equations: Tensor
    residual: Tensor
    empty: Tensor


@exclude_from_compile
def project_polytope(
    point: Tensor,
    G: Tensor,
    h: Tensor,
    E: Tensor | None = None,
    f: Tensor | None = None,
    warm: PolytopeProjection | None = None,
) -> PolytopeProjection:
    """The points of ``{v : G v <= h, E v = f}`` nearest to `point`.

    Computed in float64 for any dtype of the points. Operator splitting (for few rows that all
    points share, sweeps over the rows) guesses the active rows, block pivoting corrects the guess,
    and a dual active set method solves the few remaining points. Far points are solved a second
    time from a closer point, so that `PolytopeProjection.residual` is small relative to the nearest
    point. `PolytopeProjection.point` is differentiable in all arguments; at a kink, one of the
    derivatives is used. Points that are not finite stay unchanged.

    Args:
        point: [..., n].
        G: [m, n] or [..., m, n].
        h: [m] or [..., m]; infinite for no bound.
        E: [q, n] or [..., q, n].
        f: [q] or [..., q].
        warm: result of an earlier call with the same number of points and rows; similar multipliers
            save steps.

    Raises:
        SetError: shapes that do not fit, including those of `warm`; rows or ends that are not
            numbers.
    """
    check_points(point, "project_polytope")
    G, h = (
        convert_numbers(part, f"project_polytope: {name}", "Tensor")
        for name, part in (("G", G), ("h", h))
    )
    E, f = (
        convert_numbers(part, f"project_polytope: {name}", "Tensor | None")
        for name, part in (("E", E), ("f", f))
    )
    if (E is None) != (f is None):
        raise SetError(
            "a polytope's equations E x = f need both parts", expected="E and f, or neither"
        )
    n = point.shape[-1]
    if E is None or f is None:
        E, f = point.new_zeros(0, n), point.new_zeros(0)
    given = zip(_SHAPES, (G, h, E, f), _SHAPES.values(), strict=True)
    check_shapes("project_polytope", list(given), point)
    shape = point.shape[:-1]
    flat = point.reshape(shape.numel(), n)
    matrix = _stacked(numbers(G, point), numbers(E, point), shape)
    equal = _flat(numbers(f, point), shape)
    upper = torch.cat([_flat(numbers(h, point), shape), equal], 1)
    lower = torch.cat([torch.full_like(upper[:, : h.shape[-1]], -torch.inf), equal], 1)
    start = None if warm is None else _started(warm, len(flat), h.shape[-1], equal.shape[1])
    nearest, multiplier, empty = nearest_points(flat, matrix, lower, upper, start)
    residual = _residual(matrix, lower, upper, nearest, multiplier)
    missed = _indices((residual > _tolerance(point)) & ~empty)
    if len(missed):
        rows = matrix if matrix.ndim == 2 else matrix[missed]
        proof, proven = prove_empty(rows, lower[missed], upper[missed], nearest[missed])
        chosen, proof = missed[proven], proof[proven].to(multiplier.dtype)
        empty = empty.index_fill(0, chosen, True)
        multiplier = multiplier.index_copy(0, chosen, proof)
        nearest = nearest.index_copy(0, chosen, flat[chosen])
    residual = torch.where(empty, torch.inf, residual).to(point.dtype)
    inner, outer = torch.split(
        multiplier.reshape(*shape, multiplier.shape[-1]), [G.shape[-2], E.shape[-2]], -1
    )
    return PolytopeProjection(
        nearest.reshape(point.shape),
        inner.clamp(min=0),
        outer,
        residual.reshape(shape),
        empty.reshape(shape),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Polytope(ProjectionSet):
    """``G v <= h, E v = f``. Bounds, a single row, chains, sums and equations alone have a
    closed-form projection.

    Args:
        G: [m, n], or [..., m, n] for a polytope for each point.
        h: [m] or [..., m], infinite for no bound.
        E: likewise, or None.
        f: likewise, or None.
        tolerance: largest violation of a row by a nearest point, relative to the numbers of the
            point; None: 1e-9 in float64, else 1e-5, or the rounding error of the nearest point in
            its dtype if that is larger (bfloat16, float16).
    """

    G: Tensor = field(metadata={KEY: _SHAPES["G"]})
    h: Tensor = field(metadata={KEY: _SHAPES["h"]})
    E: Tensor | None = field(default=None, metadata={KEY: _SHAPES["E"]})
    f: Tensor | None = field(default=None, metadata={KEY: _SHAPES["f"]})
    tolerance: float | None = None

    @exclude_from_compile
    @override
    def project(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.project`.

        Raises:
            SetError: the polytope is empty for some points.
        """
        closed = recognise_closed_form(self.G, self.h, self.E, self.f)
        if closed is not None:
            return closed.project(point)
        solved = project_polytope(point, self.G, self.h, self.E, self.f)
        limit = self.tolerance or _tolerance(point)
        try:
            empty, missed = int(solved.empty.sum()), int((solved.residual > limit).sum())
        except RuntimeError:  # torch.func transforms do not convert tensors to numbers
            return solved.point
        if missed:
            raise SetError(
                "the polytope is empty"
                if empty
                else "nearest points of the polytope do not reach the tolerance",
                expected="a point that satisfies all rows",
                received=f"none for {empty} of {solved.empty.numel()} points"
                if empty
                else f"{missed} of {solved.empty.numel()} points, which miss a row by up to"
                f" {float(solved.residual.max()):.2g}; the tolerance is {limit:.2g}",
                help=(
                    "`project_polytope(...).empty` marks these points; its multipliers (Farkas) "
                    "are not 0 at rows that contradict each other"
                )
                if empty
                else "compute in float64, scale the rows, or pass a larger `tolerance`",
            )
        return solved.point

    @override
    def excess(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.excess`."""
        over = product(numbers(self.G, point), point) - numbers(self.h, point)
        if self.E is None or self.f is None:
            return over.amax(-1)
        missed = (product(numbers(self.E, point), point) - numbers(self.f, point)).abs()
        return torch.cat([over, missed], -1).amax(-1)


def _tolerance(point: Tensor) -> float:
    """Largest violation of rows by a nearest point, relative to its numbers, in the dtype of
    `point`.
    """
    rounding: float = (
        point.shape[-1] ** 0.5 * torch.finfo(point.dtype).eps
    )  # twice the largest rounding error
    return max(1e-9 if point.dtype == torch.float64 else 1e-5, rounding)


def _indices(mask: Tensor) -> Tensor:
    """Positions of True in a mask [B], int64; empty inside `torch.func` transforms, which hide
    numbers.
    """
    try:
        return mask.nonzero().squeeze(1)
    except RuntimeError:
        return torch.empty(0, dtype=torch.int64, device=mask.device)


def _started(warm: PolytopeProjection, points: int, rows: int, equations: int) -> Tensor:
    """The multipliers [B, m + q] of an earlier call with the same points, rows and equations; 0 for
    empty polytopes.

    Raises:
        SetError: the numbers of points, rows or equations differ.
    """
    given = (warm.empty.numel(), warm.multipliers.shape[-1], warm.equations.shape[-1])
    if given != (points, rows, equations):
        raise SetError(
            "the multipliers of `warm` do not fit the points and rows",
            expected=f"those of {points} points, {rows} inequalities and {equations} equations",
            received=f"those of {given[0]}, {given[1]} and {given[2]}",
        )
    start = (
        torch.cat([warm.multipliers, warm.equations], -1).detach().reshape(points, rows + equations)
    )
    return torch.where(warm.empty.reshape(-1, 1), 0, start)


def _flat(ends: Tensor, shape: torch.Size) -> Tensor:
    return ends.expand(*shape, ends.shape[-1]).reshape(shape.numel(), ends.shape[-1])


def _stacked(inequalities: Tensor, equations: Tensor, shape: torch.Size) -> Tensor:
    """The rows of both, [m + q, n] if both are shared, else [B, m + q, n]."""
    if inequalities.ndim == equations.ndim == 2:
        return torch.cat([inequalities, equations])
    parts = [part.expand(*shape, *part.shape[-2:]) for part in (inequalities, equations)]
    rows = torch.cat(parts, -2)
    return rows.reshape(shape.numel(), *rows.shape[-2:])


def _residual(
    matrix: Tensor, lower: Tensor, upper: Tensor, nearest: Tensor, multiplier: Tensor
) -> Tensor:
    """Largest violation of rows, and gap of rows with a multiplier, relative to the row's length
    and the point's numbers, [B].
    """
    with torch.no_grad():
        wide = torch.promote_types(
            nearest.dtype, torch.float32
        )  # in half precision, the computation's error would exceed the residual
        matrix, nearest, lower, upper = (
            part.detach().to(wide) for part in (matrix, nearest, lower, upper)
        )
        length = torch.linalg.vector_norm(matrix, dim=-1).clamp(min=torch.finfo(nearest.dtype).tiny)
        value = product(matrix, nearest)
        held = torch.where(multiplier > 0, upper, torch.where(multiplier < 0, lower, value))
        missed = (
            torch.maximum((value - value.clamp(lower, upper)).abs(), (value - held).abs()) / length
        )
        finite = torch.where(upper.isfinite(), upper.abs(), 0) / length
        size = 1 + torch.maximum(
            nearest.abs().amax(1), finite.amax(1) if finite.shape[1] else nearest.new_zeros(())
        )
        worst: Tensor = missed.amax(1) if missed.shape[1] else missed.new_zeros(missed.shape[0])
        return worst / size
