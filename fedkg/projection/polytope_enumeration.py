"""The nearest point of a small polytope in a fixed number of tensor operations, for exported
graphs.

The nearest point of a polytope is the nearest point of the plane on which its active rows are
equations, and these rows can be chosen independent (Boyd and Vandenberghe 2004, section 5.5.3). So
the nearest feasible point among the planes of all independent sets of rows is the answer.

Letters: B points, n their length, m rows, C candidates (sets of rows with one end for each row).
"""

from __future__ import annotations

from itertools import combinations, product

import torch
from torch import Tensor

from fedkg._internal.torch_compat import outside_of_tracing
from fedkg.errors import SetError
from fedkg.projection.polytope_active_rows import UnitRows
from fedkg.projection.polytope_nearest import tighten_ends

MOST_CANDIDATES = 2500
"""A larger graph takes more than half a megabyte for each point."""

INDEPENDENT = 1e-9
"""Least eigenvalue of the Gram matrix of independent rows of length 1."""


def nearest_by_enumeration(
    unit: UnitRows, lower: Tensor, upper: Tensor, point: Tensor, inward: float
) -> Tensor:
    """The points nearest to [B, n] with ``lower <= matrix @ v <= upper``, float64 [B, n].

    If a polytope is empty, the candidate with the least sum of squared violations.

    Args:
        unit: the rows, the same for all points.
        lower: lower ends of the rows, [B, m] or [1, m]; -inf for no bound.
        upper: upper ends of the rows, [B, m] or [1, m]; inf for no bound.
        point: points, [B, n].
        inward: as in `nearest_points`.

    Raises:
        SetError: the rows have more than `MOST_CANDIDATES` candidates.
    """
    point = point.to(torch.float64)
    low, high = tighten_ends(unit, lower, upper, point, inward)
    with outside_of_tracing():
        gains, taken = _candidates(unit.matrix)
    rows = unit.matrix
    ends = torch.cat([low.expand(len(point), -1), high.expand(len(point), -1)], 1)
    bounded = ends.isfinite()
    values = point @ rows.T
    excess = torch.where(bounded, torch.cat([values, values], 1) - ends, 0)
    moves = (excess @ gains).reshape(len(point), taken.shape[1], point.shape[1])
    found = point.unsqueeze(1) - moves
    reached = found @ rows.T
    violation = torch.maximum(
        (low.unsqueeze(1) - reached).clamp(min=0), (reached - high.unsqueeze(1)).clamp(min=0)
    )
    size = 1 + point.abs().amax(1, keepdim=True) + torch.where(bounded, ends.abs(), 0).amax(
        1, keepdim=True
    )
    exists = ((~bounded).to(torch.float64) @ taken) == 0
    feasible = exists & (violation.amax(2) <= inward * size / 2)
    distance = torch.where(feasible, moves.square().sum(2), torch.inf)
    missed = torch.where(exists, violation.square().sum(2), torch.inf)
    cost = torch.where(feasible.any(1, keepdim=True), distance, missed)
    best = cost.argmin(1, keepdim=True).unsqueeze(2).expand(-1, 1, point.shape[1])
    return found.gather(1, best).squeeze(1)


def _candidates(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The moves onto the planes of all candidates.

    Returns:
        gains: float64 [2 m, C n], from the values of the rows minus their lower and upper ends to
            what a point loses on its way to the plane of each candidate.
        taken: float64 [2 m, C], 1 where a candidate takes a lower or an upper end.
    """
    count, length = rows.shape
    chosen = [
        own
        for size in range(min(count, length) + 1)
        for own in combinations(range(count), size)
        if _are_independent(rows[list(own)])
    ]
    candidates = sum(2 ** len(own) for own in chosen)
    if candidates > MOST_CANDIDATES:
        raise SetError(
            f"{count} rows on {length} outputs are too many for an exported graph",
            expected=f"at most {MOST_CANDIDATES:,} sets of rows that may be active together",
            received=f"{candidates:,}",
            help="remove `hard` from some rules on sums of outputs",
        )
    gains = rows.new_zeros(2 * count, candidates, length)
    taken = rows.new_zeros(2 * count, candidates)
    at = 0
    for own in chosen:
        inverse = torch.linalg.pinv(rows[list(own)]) if own else None
        for sides in product((0, count), repeat=len(own)):
            for place, (row, side) in enumerate(zip(own, sides, strict=True)):
                assert inverse is not None, "a set without rows has no sides"
                gains[row + side, at] = inverse[:, place]
                taken[row + side, at] = 1
            at += 1
    return gains.reshape(2 * count, -1), taken


def _are_independent(rows: Tensor) -> bool:
    if not len(rows):
        return True
    return bool(torch.linalg.eigvalsh(rows @ rows.T)[0] > INDEPENDENT)
