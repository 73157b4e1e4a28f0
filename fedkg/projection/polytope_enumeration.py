"""The nearest point of a small polytope in a fixed number of tensor operations, for exported
graphs.

The nearest point of a polytope is the nearest point of the plane on which its active rows are
equations, and these rows can be chosen independent (Boyd and Vandenberghe 2004, section 5.5.3). So
the nearest feasible point among the planes of all independent sets of rows is the answer.

Letters: B points, n their length, m rows, C candidates (sets of rows with one end for each row).
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.errors import SetError
from fedkg.projection.polytope_row_operations import UnitRows
from fedkg.projection.polytope_solver_choice import tighten_ends

Array = NDArray[np.float64]

MOST_CANDIDATES = 2500
"""A larger graph takes more than half a megabyte for each point."""

INDEPENDENT = 1e-9
"""Least eigenvalue of the Gram matrix of independent rows of length 1."""


def nearest_by_enumeration(
    unit: UnitRows, directions: Array, lower: Tensor, upper: Tensor, point: Tensor, inward: float
) -> Tensor:
    """The points nearest to [B, n] with ``lower <= matrix @ v <= upper``, float64 [B, n].

    If a polytope is empty, the candidate with the least sum of squared violations.

    Args:
        unit: the rows, the same for all points.
        directions: their matrix, float64 [m, n], as an array.
        lower: lower ends of the rows, [B, m] or [1, m]; -inf for no bound.
        upper: upper ends of the rows, [B, m] or [1, m]; inf for no bound.
        point: points, [B, n].
        inward: as in `nearest_points`.

    Raises:
        SetError: the rows have more than `MOST_CANDIDATES` candidates.
    """
    point = point.to(torch.float64)
    low, high = tighten_ends(unit, lower, upper, point, inward)
    gains, taken = (torch.from_numpy(part) for part in _candidates(directions))
    rows = unit.matrix
    ends = torch.cat([low.expand(point.shape[0], -1), high.expand(point.shape[0], -1)], 1)
    bounded = ends.isfinite()
    values = point @ rows.T
    excess = torch.where(bounded, torch.cat([values, values], 1) - ends, 0)
    moves = (excess @ gains).reshape(point.shape[0], taken.shape[1], point.shape[1])
    found = point.unsqueeze(1) - moves
    reached = found @ rows.T
    violation = torch.maximum(
        (low.unsqueeze(1) - reached).clamp(min=0), (reached - high.unsqueeze(1)).clamp(min=0)
    )
    size = (
        1
        + point.abs().amax(1, keepdim=True)
        + torch.where(bounded, ends.abs(), 0).amax(1, keepdim=True)
    )
    exists = ((~bounded).to(torch.float64) @ taken) == 0
    feasible = exists & (violation.amax(2) <= inward * size / 2)
    distance = torch.where(feasible, moves.square().sum(2), torch.inf)
    missed = torch.where(exists, violation.square().sum(2), torch.inf)
    cost = torch.where(feasible.any(1, keepdim=True), distance, missed)
    best = cost.argmin(1, keepdim=True).unsqueeze(2).expand(-1, 1, point.shape[1])
    return found.gather(1, best).squeeze(1)


def _candidates(rows: Array) -> tuple[Array, Array]:
    """The moves onto the planes of all candidates.

    Returns:
        gains: float64 [2 m, C n], from the values of the rows minus their lower and upper ends to
            what a point loses on its way to the plane of each candidate.
        taken: float64 [2 m, C], 1 where a candidate takes a lower or an upper end.
    """
    count, length = rows.shape
    chosen = []
    candidates = 0
    for size in range(min(count, length) + 1):
        for own in combinations(range(count), size):
            if _are_independent(rows[list(own)]):
                chosen.append(own)
                candidates += 2**size
            if candidates > MOST_CANDIDATES:
                raise SetError(
                    f"an exported model cannot correct its answers: the rules bound {count} "
                    "sums and single outputs together, which is too many",
                    expected=f"at most {MOST_CANDIDATES:,} sets of bounds that can be reached "
                    "together",
                    help="remove `hard` from some rules on sums of outputs",
                )
    gains, taken = np.zeros((2 * count, candidates, length)), np.zeros((2 * count, candidates))
    at = 0
    for own in chosen:
        inverse = np.linalg.pinv(rows[list(own)])
        for sides in product((0, count), repeat=len(own)):
            for place, (row, side) in enumerate(zip(own, sides, strict=True)):
                gains[row + side, at] = inverse[:, place]
                taken[row + side, at] = 1
            at += 1
    return gains.reshape(2 * count, -1), taken


def _are_independent(rows: Array) -> bool:
    return not len(rows) or bool(np.linalg.eigvalsh(rows @ rows.T)[0] > INDEPENDENT)
