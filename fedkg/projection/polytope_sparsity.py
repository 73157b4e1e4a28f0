"""Few rows that all points share, as loops over points side by side read them: which numbers meet, found once for all points.

Letters: n the length of a point, m rows, E entries of the factor on and below its diagonal.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Places = NDArray[np.uint32]


class Sums(NamedTuple):
    """Sums of products: the i-th has those of the numbers at `left` and `right` from ``at[i]`` to before ``at[i + 1]``."""

    at: Places
    left: Places
    right: Places


class Weighted(NamedTuple):
    """Sums of numbers at `place`, each times the one in `by`: the i-th has those from ``at[i]`` to before ``at[i + 1]``."""

    at: Places
    place: Places
    by: Numbers


class Pattern(NamedTuple):
    """How ``gram = L D L^T`` is found for any subset of the rows, all others taken for rows at right angles to them.

    Attributes:
        order: [m], which row stands where: that with the fewest others left beside it first. All else is meant in this order.
        row, column: [E] of the entries, column by column from the diagonal on.
        pairs: for each entry those that are multiplied for it.
        before, after: for each row the entries of L and the rows that they stand for, in its row and in its column.
    """

    order: Places
    row: Places
    column: Places
    pairs: Sums
    before: Sums
    after: Sums


class Shared(NamedTuple):
    """Rows of length 1 (or 0), in the order of the pattern.

    Attributes:
        entries: [E] of the Gram matrix. square: [m], its diagonal. near: what other rows' multipliers add to a row's value.
        scale: [m], one over the lengths that the rows had.
        less: for each row minus what it adds up of a point. back: for each entry of a point the rows that it stands in.
    """

    plan: Pattern
    entries: Numbers
    square: Numbers
    near: Weighted
    scale: Numbers
    less: Weighted
    back: Weighted


def shared_rows(matrix: Numbers, gram: Numbers, length: Numbers) -> Shared:
    """Rows [m, n] of length 1 with their Gram matrix [m, m], and the lengths [m] that they had."""
    plan = pattern((gram != 0).tobytes(), len(gram))
    rows, ordered = matrix[plan.order], gram[plan.order][:, plan.order]
    square = ordered.diagonal().copy()
    return Shared(
        plan=plan,
        entries=ordered[plan.row, plan.column],
        square=square,
        near=_weighted(ordered - np.diag(square)),
        scale=1 / length[plan.order],
        less=_weighted(-rows),
        back=_weighted(rows.T),
    )


@lru_cache(maxsize=64)
def pattern(beside: bytes, m: int) -> Pattern:
    """The pattern of rows of which ``bool [m, m]``, as bytes, says which are not at right angles to each other."""
    given = np.frombuffer(beside, np.bool_).reshape(m, m) | np.eye(m, dtype=np.bool_)
    filled, left, order, columns = (
        given.copy(),
        np.ones(m, np.bool_),
        np.empty(m, np.int64),
        np.zeros((m, m), np.bool_),
    )
    for j in range(m):
        order[j] = first = int(np.where(left, (filled & left).sum(1), m + 1).argmin())
        columns[j] = filled[first] & left
        left[first] = False
        filled |= columns[j][:, None] & columns[j]
    columns = columns[:, order]
    column, row = columns.nonzero()
    count = len(row)
    place = np.full((m, m), count)
    place[row, column] = np.arange(count)
    owner, between = (
        columns[:, row] & columns[:, column] & (np.arange(m)[:, None] < column)
    ).T.nonzero()
    under = columns & ~np.eye(m, dtype=np.bool_)
    into, source = under.T.nonzero()
    start, end = under.nonzero()
    return Pattern(
        order=order.astype(np.uint32),
        row=row.astype(np.uint32),
        column=column.astype(np.uint32),
        pairs=_sums(owner, count, place[row[owner], between], place[column[owner], between]),
        before=_sums(into, m, place[into, source], source),
        after=_sums(start, m, place[end, start], end),
    )


def _sums(
    owner: NDArray[np.int64], count: int, left: NDArray[np.int64], right: NDArray[np.int64]
) -> Sums:
    """The sums of `count` owners, int64 [products], which never fall."""
    return Sums(_ends(owner, count), left.astype(np.uint32), right.astype(np.uint32))


def _weighted(matrix: Numbers) -> Weighted:
    """The sums that a matrix [sums, numbers] makes of as many numbers."""
    owner, number = matrix.nonzero()
    return Weighted(_ends(owner, len(matrix)), number.astype(np.uint32), matrix[owner, number])


def _ends(owner: NDArray[np.int64], count: int) -> Places:
    """Where the parts of each owner end, and before them 0, [count + 1]."""
    return np.concatenate([[0], np.bincount(owner, minlength=count).cumsum()]).astype(np.uint32)
