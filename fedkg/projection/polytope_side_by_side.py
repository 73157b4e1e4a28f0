"""The rows that hold points back, guessed and made right in compiled loops, for few rows that all points share.

All of it happens among the rows, for many points side by side: each number of theirs is an array over the points, and what is done to it is
the same for each, whichever rows it takes. What multipliers move a row's value by is a sum over the rows beside it.

Letters: B points, n their length, m rows, S points side by side, E entries of the factor (see `polytope_pattern`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkg.kernels import inner, kernel
from fedkg.parts import in_parts
from fedkg.projection.polytope_pattern import Pattern, Sums, pattern
from fedkg.projection.polytope_rows import RIDGE

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]

SWEEPS, BLOCKS = 6, 8
"""Passes over the rows for the guess; exchanges of many rows at most."""
SIDE = 64
"""Points side by side: many for each run over them, few enough for their numbers to stay in a near cache."""
LEAST = 64
"""Points that a thread of its own is worth."""


@inner
def _less(total: Numbers, sums: Sums, i: int, left: Numbers, right: Numbers) -> None:
    """``total -= sum of left * right`` over the places of the i-th sum, [S] each."""
    for p in range(sums.at[i], sums.at[i + 1], 4):
        a, b, c, d = left[sums.left[p]], left[sums.left[p + 1]], left[sums.left[p + 2]], left[sums.left[p + 3]]
        w, x, y, z = right[sums.right[p]], right[sums.right[p + 1]], right[sums.right[p + 2]], right[sums.right[p + 3]]
        for s in range(total.shape[0]):
            total[s] -= (a[s] * w[s] + b[s] * x[s]) + (c[s] * y[s] + d[s] * z[s])


@inner
def _without(total: Numbers, near: Sums, by: Numbers, i: int, multiplier: Numbers) -> None:
    """``total`` [S] less what the multipliers [m + 1, S] of the rows beside the i-th move it by."""
    for p in range(near.at[i], near.at[i + 1], 4):
        e, f, g, h = by[p], by[p + 1], by[p + 2], by[p + 3]
        a, b, c, d = multiplier[near.left[p]], multiplier[near.left[p + 1]], multiplier[near.left[p + 2]], multiplier[near.left[p + 3]]
        for s in range(total.shape[0]):
            total[s] -= (e * a[s] + f * b[s]) + (g * c[s] + h * d[s])


@inner
def _beyond(value: Numbers, lower: Numbers, upper: Numbers, result: Numbers) -> None:
    """By how much values [S] lie beyond their ends, with their sign."""
    for s in range(result.shape[0]):
        result[s] = max(value[s] - upper[s], 0.0) + min(value[s] - lower[s], 0.0)


@inner
def _swept(near: Sums, by: Numbers, level: Numbers, lower: Numbers, upper: Numbers, multiplier: Numbers, room: Numbers) -> None:
    """Multipliers nearer to the right ones: each row in turn is brought to its end, or let go (Hildreth 1957)."""
    for _ in range(SWEEPS):
        for i in range(level.shape[0]):
            for s in range(room.shape[0]):  # NumPy's assignment takes seconds to compile
                room[s] = level[i, s]
            _without(room, near, by, i, multiplier)
            _beyond(room, lower[i], upper[i], multiplier[i])


@inner
def _masked(entry: float, ones: float, one: Numbers, other: Numbers, result: Numbers) -> None:
    """An entry where both rows are taken, else `ones`; [S]."""
    for s in range(result.shape[0]):
        both = one[s] * other[s]
        result[s] = entry * both + ones * (1.0 - both)


@inner
def _scaled(entry: Numbers, pivot: Numbers, result: Numbers) -> None:
    for s in range(result.shape[0]):
        result[s] = entry[s] * pivot[s]


@inner
def _factored(plan: Pattern, entries: Numbers, taken: Numbers, whole: Numbers, factor: Numbers, inverse: Numbers) -> None:
    """The factor L [E + 1, S] among the rows taken, 1 or 0 in [m, S], with ``whole = L D``, and one over D, [m, S]."""
    row, column = plan.row, plan.column
    for e in range(entries.shape[0]):
        i, j, now = row[e], column[e], whole[e]
        on = 1.0 if i == j else 0.0
        _masked(entries[e] + on * RIDGE, on, taken[i], taken[j], now)
        _less(now, plan.pairs, e, whole, factor)
        if i == j:
            for s in range(now.shape[0]):
                inverse[j, s] = 1.0 / now[s]
        _scaled(now, inverse[j], factor[e])


@inner
def _solved(plan: Pattern, factor: Numbers, inverse: Numbers, right: Numbers) -> None:
    """``right`` [m + 1, S], its last row 0, becomes the solution of the equations with this factor."""
    m = inverse.shape[0]
    for i in range(m):
        _less(right[i], plan.before, i, factor, right)
    for k in range(m):
        i = m - 1 - k
        _scaled(right[i], inverse[i], right[i])
        _less(right[i], plan.after, i, factor, right)


@inner
def _moved(near: Sums, by: Numbers, square: Numbers, level: Numbers, multiplier: Numbers, value: Numbers) -> None:
    """The rows' values [m, S] after multipliers [m + 1, S], from those before."""
    for i in range(level.shape[0]):
        for s in range(value.shape[1]):
            value[i, s] = level[i, s] - square[i] * multiplier[i, s]
        _without(value[i], near, by, i, multiplier)


@inner
def _missed(value: Numbers, end: Numbers, taken: Numbers, result: Numbers) -> None:
    for i in range(value.shape[0]):
        for s in range(value.shape[1]):
            result[i, s] = taken[i, s] * (value[i, s] - end[i, s])


@inner
def _settled(value: Numbers, lower: Numbers, upper: Numbers, goal: Numbers, side: Numbers, slack: Numbers, right: Numbers) -> None:
    """1 for the points that miss no row, and no end of a row taken, and have no multiplier of wrong sign, by more than the slack."""
    for s in range(right.shape[0]):
        right[s] = 1.0
    for i in range(value.shape[0]):
        for s in range(right.shape[0]):
            over = max(value[i, s] - upper[i, s], lower[i, s] - value[i, s])
            under = min(abs(value[i, s] - upper[i, s]), abs(value[i, s] - lower[i, s])) if side[i, s] != 0.0 else over
            wrong = -side[i, s] * goal[i, s] if lower[i, s] != upper[i, s] else over
            right[s] = right[s] if (over <= slack[s]) & (under <= slack[s]) & (wrong <= slack[s]) else 0.0


@inner
def _exchanged(value: Numbers, lower: Numbers, upper: Numbers, goal: Numbers, side: Numbers, slack: float, length: int, s: int) -> None:
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
            side[i, s] = side[i, s] if lower[i, s] == upper[i, s] or side[i, s] * goal[i, s] >= -slack else 0.0
        elif over > slack and (kept + new <= length or i == worst):
            side[i, s] = 1.0 if value[i, s] > upper[i, s] else -1.0


@kernel
def _round(
    plan: Pattern,
    entries: Numbers,
    by: Numbers,
    square: Numbers,
    levels: Numbers,
    lower: Numbers,
    upper: Numbers,
    slack: Numbers,
    length: int,
    guessed: bool,
    exact: bool,
    goals: Numbers,
    right: Numbers,
    todo: Places,
    count: int,
) -> int:
    """One exchange for each of the first `count` points in `todo`, after a guess unless `guessed`; how many are left, the first there.

    `goals` [B, m], to begin with, become the right multipliers where `right` is 1, else have the signs of the rows to be taken.
    """
    m, width = square.shape[0], min(SIDE, count)
    room = np.zeros((9, m + 1, width))
    level, low, high, value, side, taken, end = room[0, :m], room[1, :m], room[2, :m], room[3, :m], room[4, :m], room[5, :m], room[6, :m]
    goal, found = room[7], room[8]  # their last rows stay 0
    whole, factor = np.zeros((entries.shape[0] + 1, width)), np.zeros((entries.shape[0] + 1, width))
    inverse = np.empty((m, width))
    near_enough, done = np.empty(width), np.empty(width)
    left = 0
    for first in range(0, count, width):
        for s in range(width):
            b = todo[min(first + s, count - 1)]
            near_enough[s] = slack[b, 0]
            for i in range(m):
                row = plan.order[i]
                level[i, s], low[i, s], high[i, s], goal[i, s] = levels[b, row], lower[b, row], upper[b, row], goals[b, row]
        if not guessed:
            _swept(plan.near, by, level, low, high, goal, inverse[0])
        for i in range(m):
            for s in range(width):
                side[i, s] = 1.0 if low[i, s] == high[i, s] else np.sign(goal[i, s])
                taken[i, s] = abs(side[i, s])
                end[i, s] = high[i, s] if side[i, s] > 0.0 else low[i, s] if side[i, s] < 0.0 else 0.0
        _factored(plan, entries, taken, whole, factor, inverse)
        _missed(level, end, taken, goal)
        _solved(plan, factor, inverse, goal)
        _moved(plan.near, by, square, level, goal, value)
        if exact:  # a second time, to take out the ridge, and rounding with it
            _missed(value, end, taken, found)
            _solved(plan, factor, inverse, found)
            for i in range(m):
                for s in range(width):
                    goal[i, s] += found[i, s]
            _moved(plan.near, by, square, level, goal, value)
        _settled(value, low, high, goal, side, near_enough, done)
        for s in range(min(width, count - first)):
            b = todo[first + s]
            right[b] = done[s]
            if done[s] == 1.0:
                for i in range(m):
                    held = low[i, s] == high[i, s] or side[i, s] * goal[i, s] > 0.0
                    goals[b, plan.order[i]] = goal[i, s] if held else 0.0
            else:
                _exchanged(value, low, high, goal, side, near_enough[s], length, s)
                for i in range(m):
                    goals[b, plan.order[i]] = side[i, s]
                todo[left] = b
                left += 1
    return left


def pivoted(
    gram: Numbers, levels: Numbers, lower: Numbers, upper: Numbers, slack: Numbers, length: int, start: Numbers, *, exact: bool
) -> tuple[Numbers, Numbers]:
    """Multipliers [B, m] of the points nearest to those of B points with row values `levels` [B, m], and 1 [B] where they are right.

    Args:
        gram: [m, m] of rows of length 1. lower, upper: [B, m]. slack: [B, 1]. length: n. start: multipliers [B, m] to begin with.
        exact: to the last digits, not only within the slack of the rows.
    """
    m = len(gram)
    plan = pattern((gram != 0).tobytes(), m)
    ordered = np.zeros((m + 1, m + 1))
    ordered[:m, :m] = gram[plan.order][:, plan.order]
    entries, square = ordered[plan.row, plan.column], ordered.diagonal()[:m].copy()
    by = ordered[np.repeat(np.arange(m), np.diff(plan.near.at.astype(np.int64)).tolist()), plan.near.left]
    goals, right = start.copy(), np.zeros(len(levels))

    def work(first: int, last: int) -> None:
        todo, count = np.arange(first, last), last - first
        for block in range(BLOCKS):
            count = _round(plan, entries, by, square, levels, lower, upper, slack, length, block > 0, exact, goals, right, todo, count)
            if not count:
                break

    in_parts(len(levels), LEAST, work)
    return goals, right
