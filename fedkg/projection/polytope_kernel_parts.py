"""What is done to points side by side, for kernels to call: their rows' values, and the equations of the rows that they take.

Each number of a point is an array over the points, and what is done to it is the same for each, whichever rows it takes.

Letters: B points, n their length, m rows, S points side by side, E entries of the factor (see `polytope_pattern`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.numba_kernels import kernel_part
from fedkg.projection.polytope_rows import RIDGE
from fedkg.projection.polytope_sparsity import Pattern, Shared, Sums, Weighted
from fedkg.projection.polytope_vector_sums import LANES, subtract_products, subtract_weighted

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]

SIDE = 64
"""Points side by side: many for each run over them, few enough for their numbers to stay in a near cache."""
LEAST = 64
"""Points that a thread of its own is worth."""


@kernel_part
def width(count: int) -> int:
    """How many places to go side by side with so many points: some even for none, since loops step by as many."""
    return max(LANES, min(SIDE, (count + LANES - 1) // LANES * LANES))


@kernel_part
def chosen(todo: Places, first: int, count: int, places: Places) -> None:
    """The points that go side by side [S]: of the first `count` in `todo` those from one on, the last over and over where none is left."""
    for s in range(places.shape[0]):
        places[s] = todo[min(first + s, count - 1)]


@kernel_part
def read(point: Numbers, places: Places, x: Numbers) -> None:
    """The numbers [n, S] of the points at some places."""
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
            own[s] = 0.0  # NumPy's assignment takes seconds to compile
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
    """The points x [n, S] less what multipliers [m, S] of the rows stand for."""
    for j in range(x.shape[0]):
        without(x[j], shared.back, j, multiplier)


@kernel_part
def without(total: Numbers, sums: Weighted, i: int, part: Numbers) -> None:
    """``total`` [S] less the i-th sum of the numbers `part` [..., S]."""
    subtract_weighted(total, sums.by, part, sums.place, sums.at[i], sums.at[i + 1])


@kernel_part
def _less(total: Numbers, sums: Sums, i: int, left: Numbers, right: Numbers) -> None:
    """``total`` [S] less the i-th sum of the products of `left` and `right`, [..., S]."""
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
    """The factor L [E, S] among the rows taken, 1 or 0 in [m, S], with ``whole = L D``, and one over D, [m, S].

    Entries on the diagonal of L, which are 1, are not written.
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
    """``right`` [m, S] becomes the solution of the equations with this factor."""
    m = inverse.shape[0]
    for i in range(m):
        _less(right[i], plan.before, i, factor, right)
    for k in range(m):
        i = m - 1 - k
        own, pivot = right[i], inverse[i]
        for s in range(own.shape[0]):
            own[s] *= pivot[s]
        _less(own, plan.after, i, factor, right)
