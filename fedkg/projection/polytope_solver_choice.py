"""Nearest points in polytopes: inner points stay, and each other point uses its fastest solver.

Letters: B points, n their length, m rows.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from fedkg.kernels.polytopes.polytope_sparsity import Shared
from fedkg.projection.polytope_row_operations import Rows, UnitRows, product, unit_rows
from fedkg.projection.polytope_solver import (
    FAR,
    SLACK,
    NearestPoints,
    active_set_method,
    point_scale,
    solve,
)

PROXIMAL_STEPS = 3
"""Steps from a nearly feasible point to the least squares violations: each repeats the projection
from the last point.
"""

SOFT = 1e-6
"""The ridge for the rows of an empty polytope: the solution then minimises the sum of squared
violations, up to the ridge.
"""


def nearest_in_polytope(
    unit: UnitRows,
    lower: Tensor,
    upper: Tensor,
    point: Tensor,
    start: Tensor | None = None,
    *,
    inward: float = 0.0,
    soft: bool = False,
    exact: bool = True,
) -> NearestPoints:
    """The points nearest to float64 [B, n] between the ends [B, m], or [1, m], of the original
    rows.

    Args:
        start: multipliers [B, m] of the rows of length 1.
        inward: share by which the ends move inwards (`tighten_ends`).
        soft: see `polytope_gradient.nearest_points`.
        exact: solve to the last digits, not only within the slack of the rows.
    """
    if point.device.type == "cpu" and len(point) and unit.shared is not None:
        found, left = _side_by_side(unit.shared, lower, upper, point, start, inward, exact)
        if not len(left):
            return found
        low, high = tighten_ends(
            unit, _select(lower, left), _select(upper, left), point[left], inward
        )
    else:
        empty = torch.zeros(len(point), dtype=torch.bool, device=point.device)
        found = NearestPoints(point.clone(), point.new_zeros(len(point), lower.shape[1]), empty)
        low, high = tighten_ends(unit, lower, upper, point, inward)
        left = _outside(unit, low, high, point)
        low, high = _select(low, left), _select(high, left)
    if not len(left):
        return found
    own, rows = point[left], scale_ends(unit.select(left), low, high, point[left])
    again = solve(rows, own, None if start is None else start[left], exact=exact)
    if soft and bool(again.empty.any()):
        again = _least_violation(rows, own, again)
    for part, new in (
        (found.point, again.point),
        (found.multiplier, again.multiplier),
        (found.empty, again.empty),
    ):
        part[left] = new
    return found


def _side_by_side(
    shared: Shared,
    lower: Tensor,
    upper: Tensor,
    point: Tensor,
    start: Tensor | None,
    inward: float,
    exact: bool,
) -> tuple[NearestPoints, Tensor]:
    """Solve by compiled loops; also return the points that they leave to the other solvers."""
    from fedkg.kernels.polytopes.polytope_batch_kernel import nearest_points_batched

    x, least, most = (part.to(torch.float64).contiguous().numpy() for part in (point, lower, upper))
    begin = None if start is None else start.contiguous().numpy()
    moved, multiplier, left = nearest_points_batched(
        shared, x, least, most, begin, inward=inward, share=SLACK, far=FAR, exact=exact
    )
    empty = torch.zeros(len(point), dtype=torch.bool)
    return NearestPoints(
        torch.from_numpy(moved), torch.from_numpy(multiplier), empty
    ), torch.from_numpy(left).nonzero().squeeze(1)


def _outside(unit: UnitRows, low: Tensor, high: Tensor, point: Tensor) -> Tensor:
    """The points outside the ends of rows of length 1, int64 [b], without those that are not
    finite.
    """
    value = product(unit.matrix, point)
    over = torch.maximum(value - high, low - value)
    return ((over > 0).any(1) & point.isfinite().all(1)).nonzero().squeeze(1)


def _least_violation(rows: Rows, point: Tensor, found: NearestPoints) -> NearestPoints:
    empty = found.empty.nonzero().squeeze(1)
    own = rows.select(empty)
    multiplier, _ = active_set_method(own, point[empty], torch.zeros_like(own.lower), SOFT)
    found.multiplier[empty], found.point[empty] = multiplier, point[empty] - own.back(multiplier)
    return replace(found, empty=torch.zeros_like(found.empty))


def prove_empty(
    matrix: Tensor, lower: Tensor, upper: Tensor, near: Tensor
) -> tuple[Tensor, Tensor]:
    """Find rows ``lower <= matrix @ v <= upper`` that contradict each other by little, with a
    proof.

    Soft rows leave least squares violations. These are multipliers of a combination of rows that is
    0 and of ends that is negative (Farkas) if no point satisfies the rows.

    Args:
        matrix: rows, [m, n] or [B, m, n].
        lower: lower ends of the rows, [B, m].
        upper: upper ends of the rows, [B, m].
        near: points [B, n] that nearly satisfy the rows.

    Returns:
        multipliers [B, m] of the original rows, and bool [B], whether they prove that the polytope
        is empty.
    """
    with torch.no_grad():
        unit, point = unit_rows(matrix), near.to(torch.float64)
        low, high = tighten_ends(unit, lower, upper, point, 0.0)
        rows = scale_ends(unit, low, high, point)
        multiplier = torch.zeros_like(rows.lower)
        for _ in range(PROXIMAL_STEPS):
            multiplier, _ = active_set_method(rows, point, multiplier, SOFT)
            point = point - rows.back(multiplier)
        ends = torch.where(multiplier > 0, rows.upper, rows.lower)
        value = torch.where(multiplier != 0, multiplier * ends, 0).sum(1)
        size = torch.linalg.vector_norm(point, dim=1) + 1
        slope = torch.linalg.vector_norm(rows.back(multiplier), dim=1)
        return multiplier / unit.length, -value > 2 * slope * size


def scale_ends(unit: UnitRows, low: Tensor, high: Tensor, point: Tensor) -> Rows:
    """The rows with their ends [B, m] or [1, m] for length 1, for points float64 [B, n]."""
    low, high = (end.expand(len(point), -1) for end in (low, high))
    return Rows(
        unit.matrix, unit.gram, low, high, low == high, SLACK * point_scale(low, high, point)
    )


def tighten_ends(
    unit: UnitRows, lower: Tensor, upper: Tensor, point: Tensor, inward: float
) -> tuple[Tensor, Tensor]:
    """The ends of the rows of length 1, moved inwards by ``inward (1 + |end| + |row| |point|)`` of
    the original rows.

    They move by at most a quarter of their distance, so they never cross.
    """
    low, high = (end.detach().to(torch.float64) / unit.length for end in (lower, upper))
    if not inward:
        return low, high
    size = 1 / unit.length + product(unit.matrix.abs(), point.abs())
    room = (high - low).clamp(min=0) / 4
    steps = [
        torch.minimum(inward * (size + end.nan_to_num(posinf=0, neginf=0).abs()), room)
        for end in (low, high)
    ]
    return low + steps[0], high - steps[1]


def _select(end: Tensor, chosen: Tensor) -> Tensor:
    return end[chosen] if len(end) > 1 else end
