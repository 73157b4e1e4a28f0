"""The points nearest to others between few rows that all of them share, in compiled loops over many points side by side.

The rows that hold a point back are guessed, and made right, among the rows alone: each number of theirs is an array over the points. What a
loop reads of a point it reads where the point stands, and what it finds it writes there: nothing else passes through memory.

Letters: B points, n their length, m rows, S points side by side, E entries of the factor (see `polytope_pattern`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.numba_kernels import kernel, kernel_part
from fedkg._internal.threads import run_in_parts
from fedkg.projection.polytope_kernel_parts import (
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
from fedkg.projection.polytope_sparsity import Shared, Weighted

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]
Flags = NDArray[np.bool_]

SWEEPS, BLOCKS = 8, 8
"""Passes over the rows for the guess; exchanges of many rows at most."""


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
    """The points at some places: their numbers x [n, S], the rows' values [m, S] and ends, and the largest number of each [S].

    The ends are moved inwards as `polytope_nearest.tightened` says; a point that is not finite has a largest number of NaN.
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
    """A row's ends at some places, from [B, m] or [1, m]."""
    for s in range(end.shape[0]):
        end[s] = given[0, row]
    if given.shape[0] > 1:
        for s in range(end.shape[0]):
            end[s] = given[places[s], row]


@kernel_part
def _tightened(low: Numbers, high: Numbers, scale: float, size: Numbers, inward: float) -> None:
    """Ends [S] of a row as it was become those of the row with length 1, moved inwards."""
    for s in range(size.shape[0]):
        least, most, step = scale * low[s], scale * high[s], inward * size[s]
        room = 0.25 * max(most - least, 0.0)
        low[s] = least + min(step + (inward * abs(least) if abs(least) < np.inf else 0.0), room)
        high[s] = most - min(step + (inward * abs(most) if abs(most) < np.inf else 0.0), room)


@kernel
def _outside(
    shared: Shared, point: Numbers, lower: Numbers, upper: Numbers, inward: float, todo: Places
) -> int:
    """How many of the points in `todo` lie outside of their ends, and are finite; they are the first there."""
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
    """By how much values [S] lie beyond their ends, with their sign."""
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
    """Multipliers nearer to the right ones: each row in turn is brought to its end, or let go (Hildreth 1957)."""
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
    """The slack [S]: a share of the largest of a point's numbers [S] and those of its ends."""
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
def _settled(
    value: Numbers,
    lower: Numbers,
    upper: Numbers,
    goal: Numbers,
    side: Numbers,
    slack: Numbers,
    right: Numbers,
) -> None:
    """1 for the points that miss no row, and no end of a row taken, and have no multiplier of wrong sign, by more than the slack."""
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
    """Lets go the rows whose multipliers `goal` of the s-th point have the wrong sign and takes those missed.

    Where that would be more rows than a point has entries, only the one missed the most is taken (Kim and Park 2011).
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
    """One exchange for each of the first `count` points in `todo`, after a guess unless `guessed`; how many are left, the first there.

    `goals` [B, m], to begin with, become the multipliers of points that are found, of those left the signs of the rows to be taken. A point
    that is `far` times larger than what is found, and so lost digits, has true in `left` [B].
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
        if exact:  # a second time, to take out the ridge, and rounding with it
            _missed(value, end, taken, found)
            solved(plan, factor, inverse, found)
            for i in range(m):
                for s in range(wide):
                    goal[i, s] += found[i, s]
            move_row_values(shared, level, goal, value)
        _settled(value, low, high, goal, side, slack, done)
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
    """The points nearest to [B, n], their multipliers [B, m], and which of them are not found or too far away, bool [B].

    Args:
        lower, upper: [B, m], or [1, m] for all points, of the rows as they were given. start: multipliers [B, m] to begin with, or zeros.
        inward: by what share the ends are moved inwards (`polytope_nearest.tightened`). share: of a point's largest number that rows may be
            missed by. far: see `_round`. exact: to the last digits, not only within what rows may be missed by.
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
