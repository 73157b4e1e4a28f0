"""Nearest points between few rows that all points share, in compiled loops over batches of points.

The loops guess the active rows and correct the guess, using row values only: each number of a row
is an array over the points of a batch. They read each point from its place in the input and write
the result to its place in the output, without copies in memory.

Letters: B points, n their length, m rows, S points of a batch, E entries of the factor (see
`polytope_sparsity`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.threads import run_in_parts
from fedkg.kernels.kernel_compilation import kernel, kernel_part
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
    without,
)
from fedkg.kernels.polytopes.polytope_sparsity import Shared, Weighted

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]
Flags = NDArray[np.bool_]

SWEEPS, BLOCKS = 8, 8
"""Sweeps over the rows for the guess; most exchanges of many rows."""


@kernel_part
def _read(
    shared: Shared,
    point: Numbers,
    lower: Numbers,
    upper: Numbers,
    inward: float,
    places: Places,
    x: Numbers,
    level: Numbers,
    low: Numbers,
    high: Numbers,
    large: Numbers,
) -> None:
    """The points at these positions: their numbers x [n, S], the rows' values [m, S] and ends, and
    the largest number of each [S].

    The ends move inwards as in `polytope_solver_choice.tighten_ends`; the largest number of a point
    that is not finite is NaN.
    """
    less = shared.less
    read(point, places, x)
    for s in range(large.shape[0]):
        large[s] = 0.0
    for j in range(point.shape[1]):
        own = x[j]
        for s in range(large.shape[0]):
            size = abs(own[s])
            large[s] = (size if size > large[s] else large[s]) + own[s] * 0.0
    for i in range(level.shape[0]):
        size, scale = level[i], shared.scale[i]
        _ends(lower, shared.plan.order[i], places, low[i])
        _ends(upper, shared.plan.order[i], places, high[i])
        for s in range(large.shape[0]):
            size[s] = scale
        for p in range(less.at[i], less.at[i + 1] if inward > 0.0 else less.at[i]):
            by, part = less.by[p], x[less.place[p]]
            for s in range(large.shape[0]):
                size[s] += abs(by * part[s])
        _tightened(low[i], high[i], scale, size, inward)
    row_values(shared, x, level)


@kernel_part
def _ends(given: Numbers, row: int, places: Places, end: Numbers) -> None:
    """A row's ends at these positions, from [B, m] or [1, m]."""
    for s in range(end.shape[0]):
        end[s] = given[0, row]
    if given.shape[0] > 1:
        for s in range(end.shape[0]):
            end[s] = given[places[s], row]


@kernel_part
def _tightened(low: Numbers, high: Numbers, scale: float, size: Numbers, inward: float) -> None:
    """Convert the ends [S] of an original row to those of the row with length 1, moved inwards."""
    for s in range(size.shape[0]):
        least, most, step = scale * low[s], scale * high[s], inward * size[s]
        room = 0.25 * max(most - least, 0.0)
        low[s] = least + min(step + (inward * abs(least) if abs(least) < np.inf else 0.0), room)
        high[s] = most - min(step + (inward * abs(most) if abs(most) < np.inf else 0.0), room)


@kernel
def _outside(
    shared: Shared, point: Numbers, lower: Numbers, upper: Numbers, inward: float, todo: Places
) -> int:
    """The number of finite points in `todo` outside their ends; they are moved to the front."""
    n, m, wide = point.shape[1], lower.shape[1], width(todo.shape[0])
    x, room, out = np.empty((n, wide)), np.empty((3, m, wide)), np.empty(wide)
    level, low, high, large, places = (
        room[0],
        room[1],
        room[2],
        np.empty(wide),
        np.empty(wide, np.int64),
    )
    found = 0
    for first in range(0, todo.shape[0], wide):
        chosen(todo, first, todo.shape[0], places)
        for s in range(wide):
            out[s] = 0.0
        _read(shared, point, lower, upper, inward, places, x, level, low, high, large)
        for i in range(m):
            for s in range(wide):
                out[s] = 1.0 if (level[i, s] > high[i, s]) | (level[i, s] < low[i, s]) else out[s]
        for s in range(min(wide, todo.shape[0] - first)):
            if out[s] == 1.0 and large[s] < np.inf:
                todo[found] = places[s]
                found += 1
    return found


@kernel_part
def _beyond(value: Numbers, lower: Numbers, upper: Numbers, result: Numbers) -> None:
    """The signed violation of their ends by values [S]."""
    for s in range(result.shape[0]):
        result[s] = max(value[s] - upper[s], 0.0) + min(value[s] - lower[s], 0.0)


@kernel_part
def _swept(
    near: Weighted,
    level: Numbers,
    lower: Numbers,
    upper: Numbers,
    multiplier: Numbers,
    room: Numbers,
) -> None:
    """Improve multipliers: move each row in turn to its end, or deactivate it (Hildreth 1957)."""
    for _ in range(SWEEPS):
        for i in range(level.shape[0]):
            for s in range(room.shape[0]):
                room[s] = level[i, s]
            without(room, near, i, multiplier)
            _beyond(room, lower[i], upper[i], multiplier[i])


@kernel_part
def _missed(value: Numbers, end: Numbers, taken: Numbers, result: Numbers) -> None:
    for i in range(value.shape[0]):
        for s in range(value.shape[1]):
            result[i, s] = taken[i, s] * (value[i, s] - end[i, s])


@kernel_part
def _largest(large: Numbers, lower: Numbers, upper: Numbers, share: float, slack: Numbers) -> None:
    """The slack [S]: a share of the largest of a point's numbers [S] and its ends."""
    for s in range(slack.shape[0]):
        slack[s] = large[s]
    for i in range(lower.shape[0]):
        for s in range(slack.shape[0]):
            least, most = abs(lower[i, s]), abs(upper[i, s])
            slack[s] = max(
                slack[s], max(least if least < np.inf else 0.0, most if most < np.inf else 0.0)
            )
    for s in range(slack.shape[0]):
        slack[s] = share * (1.0 + slack[s])


@kernel_part
def _is_solved(
    value: Numbers,
    lower: Numbers,
    upper: Numbers,
    goal: Numbers,
    side: Numbers,
    slack: Numbers,
    right: Numbers,
) -> None:
    """1 for points without a violated row, a gap at an active row, or a multiplier of wrong sign,
    beyond the slack.
    """
    for s in range(right.shape[0]):
        right[s] = 1.0
    for i in range(value.shape[0]):
        for s in range(right.shape[0]):
            over = max(value[i, s] - upper[i, s], lower[i, s] - value[i, s])
            under = (
                min(abs(value[i, s] - upper[i, s]), abs(value[i, s] - lower[i, s]))
                if side[i, s] != 0.0
                else over
            )
            wrong = -side[i, s] * goal[i, s] if lower[i, s] != upper[i, s] else over
            right[s] = (
                right[s] if (over <= slack[s]) & (under <= slack[s]) & (wrong <= slack[s]) else 0.0
            )


@kernel_part
def _exchanged(
    value: Numbers,
    lower: Numbers,
    upper: Numbers,
    goal: Numbers,
    side: Numbers,
    slack: float,
    length: int,
    s: int,
) -> None:
    """Deactivate the rows of the s-th point with multipliers `goal` of wrong sign, and activate the
    violated ones.

    If that would activate more rows than a point has entries, activate only the one with the
    largest violation (Kim and Park 2011).
    """
    kept, new, worst, most = 0, 0, -1, slack
    for i in range(value.shape[0]):
        over = max(value[i, s] - upper[i, s], lower[i, s] - value[i, s])
        if side[i, s] != 0.0:
            kept += lower[i, s] == upper[i, s] or side[i, s] * goal[i, s] >= -slack
        else:
            new += over > slack
            if over > most:
                worst, most = i, over
    for i in range(value.shape[0]):
        over = max(value[i, s] - upper[i, s], lower[i, s] - value[i, s])
        if side[i, s] != 0.0:
            side[i, s] = (
                side[i, s]
                if lower[i, s] == upper[i, s] or side[i, s] * goal[i, s] >= -slack
                else 0.0
            )
        elif over > slack and (kept + new <= length or i == worst):
            side[i, s] = 1.0 if value[i, s] > upper[i, s] else -1.0


@kernel
def _round(
    shared: Shared,
    point: Numbers,
    lower: Numbers,
    upper: Numbers,
    inward: float,
    share: float,
    far: float,
    guessed: bool,
    exact: bool,
    nearest: Numbers,
    goals: Numbers,
    todo: Places,
    count: int,
    left: Flags,
) -> int:
    """One exchange for each of the first `count` points in `todo`, after a guess unless `guessed`;
    return the number of unsolved points, at the front.

    `goals` [B, m] are initial multipliers and become the multipliers of solved points, and the
    signs of the rows to activate for unsolved ones. `left` [B] is true for a point that is `far`
    times larger than its nearest point, which loses digits.
    """
    plan, n, m, wide = shared.plan, point.shape[1], lower.shape[1], width(count)
    room, whole = np.empty((10, m, wide)), np.empty((2, shared.entries.shape[0], wide))
    level, low, high, value, side, taken, end = (
        room[0],
        room[1],
        room[2],
        room[3],
        room[4],
        room[5],
        room[6],
    )
    goal, found, inverse, factor = room[7], room[8], room[9], whole[1]
    x, places = np.empty((n, wide)), np.empty(wide, np.int64)
    large, slack, done = np.empty(wide), np.empty(wide), np.empty(wide)
    unfound = 0
    for first in range(0, count, wide):
        chosen(todo, first, count, places)
        _read(shared, point, lower, upper, inward, places, x, level, low, high, large)
        _largest(large, low, high, share, slack)
        for i in range(m):
            for s in range(wide):
                goal[i, s] = goals[places[s], plan.order[i]]
        if not guessed:
            _swept(shared.near, level, low, high, goal, inverse[0])
        for i in range(m):
            for s in range(wide):
                side[i, s] = 1.0 if low[i, s] == high[i, s] else np.sign(goal[i, s])
                taken[i, s] = abs(side[i, s])
                end[i, s] = (
                    high[i, s] if side[i, s] > 0.0 else low[i, s] if side[i, s] < 0.0 else 0.0
                )
        factored(plan, shared.entries, taken, whole[0], factor, inverse)
        _missed(level, end, taken, goal)
        solved(plan, factor, inverse, goal)
        move_row_values(shared, level, goal, value)
        if exact:  # the second pass removes the ridge and the rounding error
            _missed(value, end, taken, found)
            solved(plan, factor, inverse, found)
            for i in range(m):
                for s in range(wide):
                    goal[i, s] += found[i, s]
            move_row_values(shared, level, goal, value)
        _is_solved(value, low, high, goal, side, slack, done)
        for s in range(min(wide, count - first)):
            if done[s] == 0.0:
                _exchanged(value, low, high, goal, side, slack[s], n, s)
                for i in range(m):
                    goals[places[s], plan.order[i]] = side[i, s]
                todo[unfound] = places[s]
                unfound += 1
        for i in range(m):
            for s in range(wide):
                goal[i, s] = (
                    goal[i, s]
                    if (low[i, s] == high[i, s]) | (side[i, s] * goal[i, s] > 0.0)
                    else 0.0
                )
        subtract_rows(shared, goal, x)
        for s in range(min(wide, count - first)):
            if done[s] == 1.0:
                for i in range(m):
                    goals[places[s], plan.order[i]] = goal[i, s]
                least = 0.0
                for j in range(n):
                    nearest[places[s], j] = x[j, s]
                    least = max(least, abs(x[j, s]))
                left[places[s]] = large[s] > far * (1.0 + least)
    return unfound


def nearest_points_batched(
    shared: Shared,
    point: Numbers,
    lower: Numbers,
    upper: Numbers,
    start: Numbers | None,
    *,
    inward: float,
    share: float,
    far: float,
    exact: bool,
) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    """The points nearest to [B, n], their multipliers [B, m], and the unsolved or too distant ones,
    bool [B].

    Args:
        shared: the rows, scaled to length 1.
        point: points, [B, n].
        lower: lower ends of the original rows, [B, m], or [1, m] for all points.
        upper: upper ends of the original rows, [B, m], or [1, m] for all points.
        start: initial multipliers [B, m], or zeros.
        inward: share by which the ends move inwards (`polytope_solver_choice.tighten_ends`).
        share: tolerated violation of rows, as a share of a point's largest number.
        far: see `_round`.
        exact: solve to the last digits, not only within the tolerated violation.
    """
    nearest, goals, left = (
        point.copy(),
        np.zeros((len(point), lower.shape[1])),
        np.zeros(len(point), np.bool_),
    )

    def work(first: int, last: int) -> None:
        todo = np.arange(first, last)
        count = _outside(shared, point, lower, upper, inward, todo)
        if start is not None:
            goals[todo[:count]] = start[todo[:count]]
        for block in range(BLOCKS):
            if not count:
                return
            args = (inward, share, far, block > 0, exact, nearest, goals, todo, count, left)
            count = _round(shared, point, lower, upper, *args)
        left[todo[:count]] = True

    run_in_parts(len(point), LEAST, work)
    return nearest, goals, left
