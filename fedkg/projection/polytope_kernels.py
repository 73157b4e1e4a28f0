"""The rows that hold points back, guessed and made right one point after the other in compiled loops, for rows that all points share.

All of it happens among the rows: what multipliers move a row's value by is a sum of rows of the Gram matrix, which stays in a near cache.

Letters: B points, n their length, m rows, k rows of a point that are taken.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkg.kernels import inner, kernel
from fedkg.parts import in_parts
from fedkg.projection.polytope_rows import RIDGE

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]

SWEEPS, BLOCKS = 4, 8
"""Passes over the rows for the guess; exchanges of many rows at most."""
LEAST = 64
"""Points that a thread of its own is worth."""


@inner
def _copied(source: Numbers, result: Numbers) -> None:
    """``result[:] = source``; written out, because NumPy's takes seconds to compile."""
    for i in range(result.shape[0]):
        result[i] = source[i]


@inner
def _add(total: Numbers, factor: float, rows: Numbers, row: int) -> None:
    """``total += factor * rows[row]``."""
    for i in range(total.shape[0]):
        total[i] += factor * rows[row, i]


@inner
def _swept(gram: Numbers, lower: Numbers, upper: Numbers, multiplier: Numbers, value: Numbers) -> None:
    """Multipliers [m] nearer to the right ones: each row in turn is brought to its end, or let go (Hildreth 1957)."""
    for _ in range(SWEEPS):
        for i in range(value.shape[0]):
            free = value[i] + multiplier[i]
            step = max(free - upper[i], 0.0) + min(free - lower[i], 0.0) - multiplier[i]
            if step != 0.0:
                multiplier[i] += step
                _add(value, -step, gram, i)


@inner
def _factored(gram: Numbers, taken: Places, k: int, factor: Numbers) -> None:
    """The upper Cholesky factor [k, k] of the part of the Gram matrix of the rows taken."""
    for j in range(k):
        for i in range(j, k):
            factor[j, i] = gram[taken[j], taken[i]]
        factor[j, j] += RIDGE
    for j in range(k):
        pivot = 1.0 / np.sqrt(factor[j, j])
        for i in range(j, k):
            factor[j, i] *= pivot
        for i in range(j + 1, k):
            part = factor[j, i]
            for c in range(i, k):
                factor[i, c] -= part * factor[j, c]


@inner
def _solved(factor: Numbers, k: int, right: Numbers) -> None:
    """``right`` [k] becomes the solution of the equations with this factor."""
    for j in range(k):
        right[j] /= factor[j, j]
        for i in range(j + 1, k):
            right[i] -= right[j] * factor[j, i]
    for j in range(k - 1, -1, -1):
        total = right[j]
        for i in range(j + 1, k):
            total -= factor[j, i] * right[i]
        right[j] = total / factor[j, j]


@inner
def _exchanged(value: Numbers, lower: Numbers, upper: Numbers, goal: Numbers, side: Numbers, slack: float, length: int) -> bool:
    """Lets go the rows whose multipliers `goal` [m] have the wrong sign and takes those missed; whether there was none of either.

    Where that would be more rows than a point has entries, only the one missed the most is taken (Kim and Park 2011).
    """
    kept, new, worst, most, right = 0, 0, -1, slack, True
    for i in range(value.shape[0]):
        if side[i] != 0.0:
            wrong = lower[i] != upper[i] and side[i] * goal[i] < -slack
            right &= not wrong and abs(value[i] - (upper[i] if side[i] > 0.0 else lower[i])) <= slack
            side[i] = 0.0 if wrong else side[i]
            kept += not wrong
        else:
            over = max(value[i] - upper[i], lower[i] - value[i])
            new += over > slack
            if over > most:
                worst, most = i, over
    for i in range(value.shape[0]):
        over = max(value[i] - upper[i], lower[i] - value[i])
        if side[i] == 0.0 and over > slack and (kept + new <= length or i == worst):
            side[i] = 1.0 if value[i] > upper[i] else -1.0
    return right and worst < 0


@kernel
def _pivoted(
    gram: Numbers,
    levels: Numbers,
    lower: Numbers,
    upper: Numbers,
    slack: Numbers,
    length: int,
    goals: Numbers,
    right: Numbers,
    first: int,
    last: int,
) -> None:
    """Points from the first to before the last; `goals` [B, m], to begin with, become the right ones where `right` is 1."""
    m = gram.shape[0]
    factor, ends, found = np.empty((m, m)), np.empty(m), np.empty(m)
    taken, side, value = np.empty(m, np.int64), np.empty(m), np.empty(m)
    for b in range(first, last):
        goal, low, high = goals[b], lower[b], upper[b]
        _copied(levels[b], value)
        for i in range(m):
            if goal[i] != 0.0:
                _add(value, -goal[i], gram, i)
        _swept(gram, low, high, goal, value)
        for i in range(m):
            side[i] = 1.0 if low[i] == high[i] else np.sign(goal[i])
        right[b] = 0.0
        for _ in range(BLOCKS):
            k = 0
            for i in range(m):
                if side[i] != 0.0:
                    taken[k] = i
                    k += 1
            for j in range(k):
                row = taken[j]
                ends[j] = high[row] if side[row] > 0.0 else low[row]
                found[j] = levels[b, row] - ends[j]
            _factored(gram, taken, k, factor)
            _solved(factor, k, found)
            for i in range(m):
                goal[i] = 0.0
            for refined in range(2):  # the second time takes the ridge out again, and rounding with it
                _copied(levels[b], value)
                for j in range(k):
                    goal[taken[j]] += found[j]
                    _add(value, -goal[taken[j]], gram, taken[j])
                if refined == 0:
                    for j in range(k):
                        found[j] = value[taken[j]] - ends[j]
                    _solved(factor, k, found)
            if _exchanged(value, low, high, goal, side, slack[b, 0], length):
                right[b] = 1.0
                for i in range(m):
                    goal[i] = 0.0 if low[i] != high[i] and side[i] * goal[i] <= 0.0 else goal[i]
                break


def pivoted(
    gram: Numbers, levels: Numbers, lower: Numbers, upper: Numbers, slack: Numbers, length: int, start: Numbers
) -> tuple[Numbers, Numbers]:
    """Multipliers [B, m] of the points nearest to those of B points with row values `levels` [B, m], and 1 [B] where they are right.

    Args:
        gram: [m, m] of rows of length 1. lower, upper: [B, m]. slack: [B, 1]. length: n. start: multipliers [B, m] to begin with.
    """
    goals, right = start.copy(), np.empty(len(levels))
    in_parts(len(levels), LEAST, lambda first, last: _pivoted(gram, levels, lower, upper, slack, length, goals, right, first, last))
    return goals, right
