"""Sparsity of few rows that all points share: the products that kernels need, computed once for all
points.

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
    """Sums of products: the i-th has those of the numbers at `left` and `right` from ``at[i]`` to
    ``at[i + 1] - 1``.
    """

    at: Places
    left: Places
    right: Places


class Weighted(NamedTuple):
    """Sums of the numbers at `place`, each times the one in `by`: the i-th from ``at[i]`` to ``at[i
    + 1] - 1``.
    """

    at: Places
    place: Places
    by: Numbers


class Pattern(NamedTuple):
    """The plan of ``gram = L D L^T`` for any subset of the rows; all other rows count as
    orthogonal.

    Attributes:
        order: [m], the elimination order: the row with the fewest remaining neighbours first. All
            other attributes use this order.
        row: [E], the row of each entry of the factor L; entries are in the order of columns, and in
            a column from the diagonal down.
        column: [E], the column of each entry.
        pairs: for each entry, the pairs of entries in earlier columns that are multiplied for it.
        before: for each row, its entries of L left of the diagonal, and their columns.
        after: for each column, its entries of L below the diagonal, and their rows.
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
        entries: [E] of the Gram matrix.
        square: [m], its diagonal.
        near: contribution of the multipliers of other rows to a row's value.
        scale: [m], inverse of the original lengths.
        less: for each row, minus its sum over a point.
        back: for each entry of a point, the rows that contain it.
    """

    plan: Pattern
    entries: Numbers
    square: Numbers
    near: Weighted
    scale: Numbers
    less: Weighted
    back: Weighted


def shared_rows(matrix: Numbers, gram: Numbers, length: Numbers) -> Shared:
    """Rows [m, n] of length 1 with their Gram matrix [m, m], and their original lengths [m]."""
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
    """The pattern of rows; ``bool [m, m]``, as bytes, marks the pairs that are not orthogonal."""
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
    """The sums of `count` owners, int64 [products], in ascending order."""
    return Sums(_ends(owner, count), left.astype(np.uint32), right.astype(np.uint32))


def _weighted(matrix: Numbers) -> Weighted:
    """The sums that a matrix [sums, numbers] computes from numbers."""
    owner, number = matrix.nonzero()
    return Weighted(_ends(owner, len(matrix)), number.astype(np.uint32), matrix[owner, number])


def _ends(owner: NDArray[np.int64], count: int) -> Places:
    """The ends of the parts of each owner, with a leading 0, [count + 1]."""
    return np.concatenate([[0], np.bincount(owner, minlength=count).cumsum()]).astype(np.uint32)
