"""Nearest points of polytopes as a function that torch differentiates, by the optimality conditions at the nearest point.

Letters: B points, n their length, m rows, V of `vmap`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedkg.errors import SetError
from fedkg.projection.polytope_rows import Rows, Unit, held, unit_rows
from fedkg.projection.polytope_solver import SLACK, one_by_one, scale, solve

SOFT = 1e-6
"""The ridge with which the rows of an empty polytope give way: the sum of squares by which they are missed is then least, up to it."""


def normed(unit: Unit, lower: Tensor, upper: Tensor, point: Tensor) -> Rows:
    """The rows with ends [B, m] of the given, not the unit, rows, for points float64 [B, n]."""
    if point.device.type == "cpu":
        return _normed_at_once(unit, lower.detach(), upper.detach(), point.detach())
    lower, upper = (end.detach().to(torch.float64) / unit.length for end in (lower, upper))
    return Rows(unit.matrix, unit.gram, lower, upper, lower == upper, SLACK * scale(lower, upper, point))


def _normed_at_once(unit: Unit, lower: Tensor, upper: Tensor, point: Tensor) -> Rows:
    from fedkg.projection.polytope_ends import scaled

    low, high = (torch.empty(lower.shape, dtype=torch.float64) for _ in range(2))
    equal, slack = torch.empty(lower.shape, dtype=torch.bool), torch.empty((len(point), 1), dtype=torch.float64)
    length = unit.length if unit.length.ndim == 2 else unit.length[None]
    given = (part.contiguous().numpy() for part in (lower, upper, length, point))
    scaled(*given, SLACK, low.numpy(), high.numpy(), equal.numpy(), slack.numpy())
    return Rows(unit.matrix, unit.gram, low, high, equal, slack)


def nearest_points(
    point: Tensor,
    matrix: Tensor,
    lower: Tensor,
    upper: Tensor,
    start: Tensor | None = None,
    *,
    soft: bool = False,
    unit: Unit | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The points nearest to [B, n] with ``lower <= matrix @ v <= upper``, multipliers (signed as in `Found`), which polytopes are empty.

    Differentiable in the points, the matrix and the ends.

    Args:
        matrix: [m, n] or [B, m, n]. lower, upper: [B, m], infinite for no bound. start: multipliers [B, m] of points that are near.
        soft: rows of an empty polytope give way: the sum of squares by which they are missed, each of length 1, is least. None is then
            called empty.
        unit: the rows of the matrix, where it is at hand.

    Returns:
        points [B, n], multipliers [B, m], bool [B].

    Raises:
        SetError: an end that is no number, or that nothing reaches.
    """
    found: tuple[Tensor, Tensor, Tensor] = _Nearest.apply(point, matrix, lower, upper, start, soft, unit)  # type: ignore[no-untyped-call]  # torch gives it no types
    return found


class _Nearest(torch.autograd.Function):
    """See `nearest_points`."""

    @staticmethod
    def forward(
        point: Tensor, matrix: Tensor, lower: Tensor, upper: Tensor, start: Tensor | None, soft: bool, unit: Unit | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        wide = point.to(torch.float64)
        unit = unit_rows(matrix) if unit is None else unit
        rows, length = normed(unit, lower, upper, wide), unit.length
        if rows.lower.numel() and not bool((rows.upper.amin() > -torch.inf) & (rows.lower.amax() < torch.inf)):
            raise SetError("a polytope's ends are numbers, or infinite for no bound", received="NaN, or an end that nothing reaches")
        found = solve(rows, wide, None if start is None else start.to(torch.float64) * length, exact=point.dtype == torch.float64)
        nearest, multiplier, empty = found.point, found.multiplier, found.empty
        if soft and bool(empty.any()):
            own = rows.of(empty.nonzero().squeeze(1))
            multiplier[empty], _ = one_by_one(own, wide[empty], torch.zeros_like(multiplier[empty]), SOFT)
            nearest[empty] = wide[empty] - own.back(multiplier[empty])
            empty = torch.zeros_like(empty)
        return nearest.to(point.dtype, copy=True), (multiplier / length).to(point.dtype), empty

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1], output[2])
        ctx.save_for_backward(inputs[1], output[0], output[1], inputs[2] == inputs[3])

    @staticmethod
    def backward(ctx: Any, slope: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        matrix, nearest, multiplier, equal = ctx.saved_tensors
        along, pull = _Along.apply(slope, matrix, (multiplier != 0) | equal)  # type: ignore[no-untyped-call]  # torch gives it no types
        rows = None
        if ctx.needs_input_grad[1]:
            if matrix.ndim == 2:
                rows = -(multiplier.mT @ along) - pull.mT @ nearest
            else:
                rows = -multiplier.unsqueeze(2) * along.unsqueeze(1) - pull.unsqueeze(2) * nearest.unsqueeze(1)
        on_upper = (multiplier > 0) | equal
        return along, rows, torch.where(on_upper, 0, pull), torch.where(on_upper, pull, 0), None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        size = info.batch_size
        point, matrix, lower, upper, start = (_front(part, dim, size) for part, dim in zip(inputs[:5], in_dims[:5], strict=True))
        assert point is not None
        flat = point.flatten(0, 1)
        rows = inputs[1] if in_dims[1] is None and inputs[1].ndim == 2 else _per_point(matrix, point)
        parts = (part if part is None else part.flatten(0, 1) for part in (lower, upper, start))
        results = _Nearest.apply(flat, rows, *parts, inputs[5], inputs[6] if rows is inputs[1] else None)  # type: ignore[no-untyped-call]  # torch gives it no types
        return tuple(part.unflatten(0, point.shape[:2]) for part in results), (0, 0, 0)


class _Along(torch.autograd.Function):
    """For directions [B, n] their parts within the rows taken, bool [B, m], and the multipliers [B, m] of the rest.

    The first is the derivative of the nearest point in the point, which is its own transpose; the rest is ``matrix^T @`` the second.
    """

    @staticmethod
    def forward(slope: Tensor, matrix: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        if not chosen.any():
            return slope.clone(), slope.new_zeros(chosen.shape)
        zero = slope.new_zeros(chosen.shape, dtype=torch.float64)
        wide = slope.to(torch.float64)
        unit = unit_rows(matrix)
        rows = normed(unit, zero, zero, wide)
        pull, _ = held(rows, chosen, rows.at(wide))
        return (wide - rows.back(pull)).to(slope.dtype), (pull / unit.length).to(slope.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, along: Tensor, pull: Tensor) -> tuple[Tensor, None, None]:
        matrix, chosen = ctx.saved_tensors
        first, _ = _Along.apply(along, matrix, chosen)  # type: ignore[no-untyped-call]  # torch gives it no types
        return first, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], slope: Tensor, matrix: Tensor, chosen: Tensor) -> tuple[Any, tuple[int, int]]:
        given = (slope, matrix, chosen)
        front = [_front(part, dim, info.batch_size) for part, dim in zip(given, in_dims, strict=True)]
        assert front[0] is not None
        assert front[2] is not None
        rows = matrix if in_dims[1] is None and matrix.ndim == 2 else _per_point(front[1], front[0])
        results = _Along.apply(front[0].flatten(0, 1), rows, front[2].flatten(0, 1))  # type: ignore[no-untyped-call]  # torch gives it no types
        return tuple(part.unflatten(0, front[0].shape[:2]) for part in results), (0, 0)


def _front(part: Tensor | None, dim: int | None, size: int) -> Tensor | None:
    if part is None:
        return None
    return part.expand(size, *part.shape) if dim is None else part.movedim(dim, 0)


def _per_point(matrix: Tensor | None, point: Tensor) -> Tensor:
    """Rows [V, m, n] or [V, B, m, n] as [V * B, m, n]."""
    assert matrix is not None
    spread = matrix.unsqueeze(1) if matrix.ndim == 3 else matrix
    return spread.expand(*point.shape[:2], *matrix.shape[-2:]).flatten(0, 1)
