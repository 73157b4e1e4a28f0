"""Directions within the active rows, in compiled loops over batches of points: the derivative of
nearest points.

Letters: B points, n their length, m rows, S points of a batch (see `polytope_kernel_parts`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.threads import run_in_parts
from fedkg.kernels.kernel_compilation import kernel
from fedkg.kernels.polytopes.polytope_kernel_parts import (
    LEAST,
    chosen,
    factored,
    move_row_values,
    read,
    row_values,
    solved,
    subtract_rows,
    width,
)
from fedkg.kernels.polytopes.polytope_sparsity import Shared

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
Places = NDArray[np.int64]


@kernel
def _along(
    shared: Shared, slope: Numbers, held: Flags, todo: Places, along: Numbers, pulls: Numbers
) -> None:
    """See `tangent_directions`, for the points in `todo`."""
    plan, n, m, wide = shared.plan, slope.shape[1], held.shape[1], width(todo.shape[0])
    room, whole, x = (
        np.empty((6, m, wide)),
        np.empty((2, shared.entries.shape[0], wide)),
        np.empty((n, wide)),
    )
    level, value, taken, pull, found, inverse = room[0], room[1], room[2], room[3], room[4], room[5]
    places = np.empty(wide, np.int64)
    for first in range(0, todo.shape[0], wide):
        chosen(todo, first, todo.shape[0], places)
        read(slope, places, x)
        row_values(shared, x, level)
        for i in range(m):
            for s in range(wide):
                taken[i, s] = 1.0 if held[places[s], plan.order[i]] else 0.0
                pull[i, s] = taken[i, s] * level[i, s]
        factored(plan, shared.entries, taken, whole[0], whole[1], inverse)
        solved(plan, whole[1], inverse, pull)
        move_row_values(shared, level, pull, value)
        for i in range(m):
            for s in range(wide):
                found[i, s] = taken[i, s] * value[i, s]
        solved(
            plan, whole[1], inverse, found
        )  # refinement removes the ridge and the rounding error
        for i in range(m):
            for s in range(wide):
                pull[i, s] += found[i, s]
        subtract_rows(shared, pull, x)
        for s in range(min(wide, todo.shape[0] - first)):
            for j in range(n):
                along[places[s], j] = x[j, s]
            for i in range(m):
                pulls[places[s], plan.order[i]] = pull[i, s]


def tangent_directions(shared: Shared, slope: Numbers, held: Flags) -> tuple[Numbers, Numbers]:
    """The components of directions [B, n] within the active rows, bool [B, m], and multipliers [B,
    m] of the remainder.
    """
    along, pulls, todo = slope.copy(), np.zeros(held.shape), np.flatnonzero(held.any(1))
    run_in_parts(
        len(todo),
        LEAST,
        lambda first, last: _along(shared, slope, held, todo[first:last], along, pulls),
    )
    return along, pulls
