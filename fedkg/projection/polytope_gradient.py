"""Nearest points of polytopes as a differentiable function, by the optimality conditions at the
nearest point.

Letters: B points, n their length, m rows, V of `vmap`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from fedkg._internal.vmap_dims import move_batch_dim_first
from fedkg.errors import SetError
from fedkg.kernels.polytopes.polytope_sparsity import Shared
from fedkg.projection.polytope_row_operations import Rows, UnitRows, solve_taken_rows, unit_rows
from fedkg.projection.polytope_solver_choice import nearest_in_polytope


def nearest_points(
    point: Tensor,
    matrix: Tensor,
    lower: Tensor,
    upper: Tensor,
    start: Tensor | None = None,
    *,
    inward: float = 0.0,
    soft: bool = False,
    unit: UnitRows | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The points nearest to [B, n] with ``lower <= matrix @ v <= upper``, multipliers, and which
    polytopes are empty.

    Multipliers have the signs of `NearestPoints`. Differentiable in the points, the matrix and the
    ends.

    Args:
        point: points, [B, n].
        matrix: rows of the polytopes, [m, n] or [B, m, n].
        lower: lower ends of the rows, [B, m], or [1, m] for all points; -inf for no bound.
        upper: upper ends of the rows, [B, m], or [1, m] for all points; inf for no bound.
        start: multipliers [B, m] of nearby points.
        inward: share by which the ends move inwards, of the magnitude of the row's terms
            (`polytope_solver_choice.tighten_ends`).
        soft: minimise the sum of squared violations, with rows of length 1, if the polytope is
            empty. No polytope then counts as empty.
        unit: the normalised rows of the matrix, if available.

    Returns:
        points [B, n], multipliers [B, m], bool [B].

    Raises:
        SetError: an end that is not a number, or is unreachable; a row that is not finite, or has
            an infinite length.
    """
    found: tuple[Tensor, Tensor, Tensor] = _Nearest.apply(
        point, matrix, lower, upper, start, inward, soft, unit
    )  # type: ignore[no-untyped-call]  # untyped in torch
    return found


class _Nearest(torch.autograd.Function):
    """See `nearest_points`."""

    @staticmethod
    @override
    def forward(
        point: Tensor,
        matrix: Tensor,
        lower: Tensor,
        upper: Tensor,
        start: Tensor | None,
        inward: float,
        soft: bool,
        unit: UnitRows | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        if lower.numel() and not bool((upper.amin() > -torch.inf) & (lower.amax() < torch.inf)):
            raise SetError(
                "the bounds of a polytope must be numbers, or infinite for no bound",
                received="NaN, a lower bound of +infinity or an upper bound of -infinity",
            )
        unit = unit_rows(matrix) if unit is None else unit
        if not bool(unit.length.isfinite().all()):
            raise SetError(
                "the rows of a polytope and their lengths must be finite numbers",
                received="NaN, infinite or too large numbers",
            )
        begin = None if start is None else start.to(torch.float64) * unit.length
        exact = point.dtype == torch.float64
        found = nearest_in_polytope(
            unit,
            lower,
            upper,
            point.to(torch.float64),
            begin,
            inward=inward,
            soft=soft,
            exact=exact,
        )
        return (
            found.point.to(point.dtype),
            (found.multiplier / unit.length).to(point.dtype),
            found.empty,
        )

    @staticmethod
    @override
    def setup_context(
        ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]
    ) -> None:
        ctx.mark_non_differentiable(output[1], output[2])
        ctx.save_for_backward(inputs[1], output[0], output[1], inputs[2] == inputs[3])
        ctx.unit = inputs[7]

    @staticmethod
    @override
    def backward(ctx: Any, slope: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        matrix, nearest_in_polytope, multiplier, equal = ctx.saved_tensors
        along, pull = _Along.apply(  # type: ignore[no-untyped-call]  # untyped in torch
            slope, matrix, (multiplier != 0) | equal, ctx.unit
        )
        rows = None
        if ctx.needs_input_grad[1]:
            if matrix.ndim == 2:
                rows = -(multiplier.mT @ along) - pull.mT @ nearest_in_polytope
            else:
                rows = -multiplier.unsqueeze(2) * along.unsqueeze(1) - pull.unsqueeze(
                    2
                ) * nearest_in_polytope.unsqueeze(1)
        on_upper = (multiplier > 0) | equal
        ends = (torch.where(side, pull, 0) for side in (~on_upper, on_upper))
        return along, rows, *(end.sum_to_size(equal.shape) for end in ends), None, None, None, None

    @staticmethod
    @override
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *inputs: Any
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        point, matrix, lower, upper = move_batch_dim_first(inputs[:4], in_dims[:4], info.batch_size)
        start = (
            None
            if inputs[4] is None
            else move_batch_dim_first(inputs[4:5], in_dims[4:5], info.batch_size)[0]
        )
        flat = point.flatten(0, 1)
        rows = (
            inputs[1] if in_dims[1] is None and inputs[1].ndim == 2 else _per_point(matrix, point)
        )
        own = (
            part if part is None else part.expand(*point.shape[:2], -1).flatten(0, 1)
            for part in (lower, upper, start)
        )
        results = _Nearest.apply(
            flat, rows, *own, *inputs[5:7], inputs[7] if rows is inputs[1] else None
        )  # type: ignore[no-untyped-call]  # untyped in torch
        return tuple(part.unflatten(0, point.shape[:2]) for part in results), (0, 0, 0)


class _Along(torch.autograd.Function):
    """The components of directions [B, n] within the active rows, bool [B, m], and the multipliers
    [B, m] of the remainder.

    The first is the derivative of the nearest point by the point, a symmetric matrix; the remainder
    is ``matrix^T @`` the second.
    """

    @staticmethod
    @override
    def forward(
        slope: Tensor, matrix: Tensor, chosen: Tensor, unit: UnitRows | None
    ) -> tuple[Tensor, Tensor]:
        wide = slope.to(torch.float64)
        unit = unit_rows(matrix) if unit is None else unit
        if unit.shared is not None:
            along, pull = _side_by_side(unit.shared, wide, chosen)
        else:
            zero = slope.new_zeros(chosen.shape, dtype=torch.float64)
            rows = Rows(unit.matrix, unit.gram, zero, zero, chosen, zero[:, :1])
            pull, _ = solve_taken_rows(rows, chosen, rows.at(wide))
            along = wide - rows.back(pull)
        return along.to(slope.dtype), (pull / unit.length).to(slope.dtype)

    @staticmethod
    @override
    def setup_context(
        ctx: Any,
        inputs: tuple[Tensor, Tensor, Tensor, UnitRows | None],
        output: tuple[Tensor, Tensor],
    ) -> None:
        ctx.save_for_backward(*inputs[1:3])
        ctx.unit = inputs[3]

    @staticmethod
    @override
    def backward(ctx: Any, along: Tensor, pull: Tensor) -> tuple[Tensor, None, None, None]:
        matrix, chosen = ctx.saved_tensors
        first, _ = _Along.apply(along, matrix, chosen, ctx.unit)  # type: ignore[no-untyped-call]
        return first, None, None, None

    @staticmethod
    @override
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *inputs: Any
    ) -> tuple[Any, tuple[int, int]]:
        slope, matrix, chosen = move_batch_dim_first(inputs[:3], in_dims[:3], info.batch_size)
        rows = (
            inputs[1] if in_dims[1] is None and inputs[1].ndim == 2 else _per_point(matrix, slope)
        )
        own = inputs[3] if rows is inputs[1] else None
        results = _Along.apply(  # type: ignore[no-untyped-call]  # untyped in torch
            slope.flatten(0, 1), rows, chosen.flatten(0, 1), own
        )
        return tuple(part.unflatten(0, slope.shape[:2]) for part in results), (0, 0)


def _side_by_side(shared: Shared, slope: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    from fedkg.kernels.polytopes.polytope_tangents import tangent_directions

    along, pull = tangent_directions(
        shared, slope.contiguous().numpy(), chosen.contiguous().numpy()
    )
    return torch.from_numpy(along), torch.from_numpy(pull)


def _per_point(matrix: Tensor, point: Tensor) -> Tensor:
    """Rows [V, m, n] or [V, B, m, n] as [V * B, m, n], for points [V, B, n]."""
    spread = matrix.unsqueeze(1) if matrix.ndim == 3 else matrix
    return spread.expand(*point.shape[:2], *matrix.shape[-2:]).flatten(0, 1)
