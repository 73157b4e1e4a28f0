"""Kernel parts for batches of points: values of rows, and the equations of the active rows.

Each number of a point is an array over the points of a batch, and every point gets the same
operations, whatever its active rows.

Letters: B points, n their length, m rows, S points of a batch, E entries of the factor (see
`polytope_sparsity`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkg.kernels.kernel_compilation import kernel_part
from fedkg.kernels.polytopes.polytope_sparsity import Pattern, Shared, Sums, Weighted
from fedkg.kernels.polytopes.polytope_vector_sums import LANES, subtract_products, subtract_weighted
from fedkg.projection.polytope_row_operations import RIDGE

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]

SIDE = 64
"""Points of a batch: many for each loop over them, few enough to stay in the cache."""
LEAST = 64
"""Smallest number of points for a separate thread."""


@kernel_part
def width(count: int) -> int:
    """Size of a batch for this number of points; at least `LANES`, the step of the loops."""
    return max(LANES, min(SIDE, (count + LANES - 1) // LANES * LANES))


@kernel_part
def chosen(todo: Places, first: int, count: int, places: Places) -> None:
    """The points of a batch [S]: `count` points in `todo` from `first` on, padded with the last
    one.
    """
    for s in range(places.shape[0]):
        places[s] = todo[min(first + s, count - 1)]


@kernel_part
def read(point: Numbers, places: Places, x: Numbers) -> None:
    """The numbers [n, S] of the points at these positions."""
    for j in range(point.shape[1]):
        own = x[j]
        for s in range(own.shape[0]):
            own[s] = point[places[s], j]


@kernel_part
def row_values(shared: Shared, x: Numbers, level: Numbers) -> None:
    """The rows' values [m, S] at points x [n, S]."""
    for i in range(level.shape[0]):
        own = level[i]
        for s in range(own.shape[0]):
            own[s] = 0.0  # a NumPy slice assignment takes seconds to compile
        without(own, shared.less, i, x)


@kernel_part
def move_row_values(shared: Shared, level: Numbers, multiplier: Numbers, value: Numbers) -> None:
    """The rows' values [m, S] after multipliers [m, S], from those before."""
    for i in range(level.shape[0]):
        square = shared.square[i]
        for s in range(value.shape[1]):
            value[i, s] = level[i, s] - square * multiplier[i, s]
        without(value[i], shared.near, i, multiplier)


@kernel_part
def subtract_rows(shared: Shared, multiplier: Numbers, x: Numbers) -> None:
    """Subtract from points x [n, S] the combination of rows with multipliers [m, S]."""
    for j in range(x.shape[0]):
        without(x[j], shared.back, j, multiplier)


@kernel_part
def without(total: Numbers, sums: Weighted, i: int, part: Numbers) -> None:
    """``total`` [S] minus the i-th sum of the numbers `part` [..., S]."""
    subtract_weighted(total, sums.by, part, sums.place, sums.at[i], sums.at[i + 1])


@kernel_part
def _less(total: Numbers, sums: Sums, i: int, left: Numbers, right: Numbers) -> None:
    """``total`` [S] minus the i-th sum of the products of `left` and `right`, [..., S]."""
    subtract_products(total, left, sums.left, right, sums.right, sums.at[i], sums.at[i + 1])


@kernel_part
def factored(
    plan: Pattern,
    entries: Numbers,
    taken: Numbers,
    whole: Numbers,
    factor: Numbers,
    inverse: Numbers,
) -> None:
    """The factor L [E, S] of the active rows, 1 or 0 in [m, S], with ``whole = L D``, and the
    inverse of D, [m, S].

    The diagonal entries of L, which are 1, are not stored.
    """
    for e in range(entries.shape[0]):
        i, j, now, result = plan.row[e], plan.column[e], whole[e], factor[e]
        one, other, pivot = taken[i], taken[j], inverse[j]
        if i == j:
            entry = entries[e] + RIDGE
            for s in range(now.shape[0]):
                now[s] = entry * one[s] + (1.0 - one[s])
            _less(now, plan.pairs, e, whole, factor)
            for s in range(now.shape[0]):
                pivot[s] = 1.0 / now[s]
        else:
            for s in range(now.shape[0]):
                now[s] = entries[e] * (one[s] * other[s])
            _less(now, plan.pairs, e, whole, factor)
            for s in range(now.shape[0]):
                result[s] = now[s] * pivot[s]


@kernel_part
def solved(plan: Pattern, factor: Numbers, inverse: Numbers, right: Numbers) -> None:
    """Replace ``right`` [m, S] by the solution of the equations with this factor."""
    m = inverse.shape[0]
    for i in range(m):
        _less(right[i], plan.before, i, factor, right)
    for k in range(m):
        i = m - 1 - k
        own, pivot = right[i], inverse[i]
        for s in range(own.shape[0]):
            own[s] *= pivot[s]
        _less(own, plan.after, i, factor, right)
