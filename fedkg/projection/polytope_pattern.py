"""In which order the equations of some rows among themselves are solved, and which numbers meet in it: once for all points.

Letters: m rows, E entries of the factor on and below its diagonal.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.uint32]
WIDTH = 4
"""Sums are added up so many products at a time; those missing to a multiple of it are products with 0."""


class Sums(NamedTuple):
    """Sums of products: the i-th has those of the numbers at `left` and `right` from ``at[i]`` to before ``at[i + 1]``, in fours."""

    at: Places
    left: Places
    right: Places


class Pattern(NamedTuple):
    """How ``gram = L D L^T`` is found for any subset of the rows, all others taken for rows at right angles to them.

    Attributes:
        order: [m], which row stands where: that with the fewest others left beside it first. All else is meant in this order.
        row, column: [E] of the entries, column by column from the diagonal on.
        near: for each row the others not at right angles to it, on the left; m for none.
        pairs: for each entry those that are multiplied for it; E for none.
        before, after: for each row the entries of L and the rows that they stand for, in its row and in its column; E and m for none.
    """

    order: Places
    row: Places
    column: Places
    near: Sums
    pairs: Sums
    before: Sums
    after: Sums


@lru_cache(maxsize=64)
def pattern(beside: bytes, m: int) -> Pattern:
    """The pattern of rows of which ``bool [m, m]``, as bytes, says which are not at right angles to each other."""
    given = np.frombuffer(beside, np.bool_).reshape(m, m) | np.eye(m, dtype=np.bool_)
    filled, left, order, columns = given.copy(), np.ones(m, np.bool_), np.empty(m, np.int64), np.zeros((m, m), np.bool_)
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
    owner, between = (columns[:, row] & columns[:, column] & (np.arange(m)[:, None] < column)).T.nonzero()
    under = columns & ~np.eye(m, dtype=np.bool_)
    into, source = under.T.nonzero()
    start, end = under.nonzero()
    at, other = (given[order][:, order] & ~np.eye(m, dtype=np.bool_)).nonzero()
    return Pattern(
        order=order.astype(np.uint32),
        row=row.astype(np.uint32),
        column=column.astype(np.uint32),
        near=_sums(at, other, other, m, m, m),
        pairs=_sums(owner, place[row[owner], between], place[column[owner], between], count, count, count),
        before=_sums(into, place[into, source], source, m, count, m),
        after=_sums(start, place[end, start], end, m, count, m),
    )


def _sums(owner: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64], count: int, no_left: int, no_right: int) -> Sums:
    """The sums of `count` owners, int64 [products], which never fall; `no_left` and `no_right` are the places of a 0."""
    sizes = np.bincount(owner, minlength=count)
    ends = np.concatenate([[0], (-(-sizes // WIDTH) * WIDTH).cumsum()])
    places = ends[owner] + np.arange(len(owner)) - (sizes.cumsum() - sizes)[owner]
    full = np.full((2, ends[-1]), [[no_left], [no_right]])
    full[0, places], full[1, places] = left, right
    return Sums(ends.astype(np.uint32), full[0].astype(np.uint32), full[1].astype(np.uint32))
