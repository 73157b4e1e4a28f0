"""Sums and counts over sets of members.

Letters: B table rows, M members, P their owners, k members of one owner.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.pack.numeric.three_valued_logic import Float, Verdict, finite


def member_offsets(owners: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Where the members of each owner begin, [count + 1]; `owners` is sorted."""
    return np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=count))]).astype(np.int64)


def reduce_members(
    op: Literal["sum", "mean", "min", "max", "count"],
    skip: bool,
    members: Float,
    offsets: NDArray[np.int64],
) -> Float:
    """One number for each owner: float64 [B, P] of the members' values [B, M] (NaN: unknown), added
    up in their order.

    Nobody: sum and count 0, the others unknown. `skip` leaves unknown members out; otherwise one of
    them makes the whole unknown. A `count` is of the known members and never unknown.
    """
    out = np.empty((members.shape[0], offsets.shape[0] - 1))
    for owners, positions in _by_size(offsets):
        values = members[:, positions]  # [B, owners, k]
        known = ~np.isnan(values)
        count = known.sum(axis=2).astype(np.float64)
        if op == "count":
            out[:, owners] = count
            continue
        if op in ("sum", "mean"):
            total = np.zeros(values.shape[:2])
            for i in range(values.shape[2]):
                total = np.where(known[:, :, i], finite(total + values[:, :, i]), total)
            result = finite(total / count) if op == "mean" else total
        else:
            bottom = np.inf if op == "min" else -np.inf
            pick = np.minimum if op == "min" else np.maximum
            result = finite(pick.reduce(np.where(known, values, bottom), axis=2, initial=bottom))
        out[:, owners] = result if skip else np.where(known.all(axis=2), result, np.nan)
    return out


def at_least(members: Verdict, count: Float | None, offsets: NDArray[np.int64]) -> Verdict:
    """Whether enough members hold, [B, P]: `count` [P] of them, or all (None).

    Robustness is the count-th largest of theirs.
    """
    shape = (members.low.shape[0], offsets.shape[0] - 1)
    out = Verdict(
        np.empty(shape),
        np.empty(shape),
        np.empty(shape, dtype=np.bool_),
        np.empty(shape, dtype=np.bool_),
    )
    for owners, positions in _by_size(offsets):
        size = positions.shape[1]
        wanted = (
            np.full(owners.size, size)
            if count is None
            else np.minimum(count[owners], size + 1).astype(np.int64)
        )
        out.low[:, owners] = _largest(members.low[:, positions], wanted)
        out.high[:, owners] = _largest(members.high[:, positions], wanted)
        out.holds[:, owners] = members.holds[:, positions].sum(axis=2) >= wanted
        out.fails[:, owners] = (~members.fails[:, positions]).sum(axis=2) < wanted
    return out


def _largest(values: Float, wanted: NDArray[np.int64]) -> Float:
    """The wanted-th largest of [B, owners, k]: +inf when none is wanted, -inf when more than there
    are.
    """
    falling = -np.sort(-values, axis=2)
    edge = np.full((*values.shape[:2], 1), np.inf)
    ranked = np.concatenate([edge, falling, -edge], axis=2)
    return ranked[:, np.arange(wanted.size), np.minimum(wanted, values.shape[2] + 1)]


def _by_size(offsets: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Owners with equally many members, and the positions of those: int64 [owners, k]."""
    sizes = np.diff(offsets)
    for size in np.unique(sizes).tolist():
        owners = np.flatnonzero(sizes == size)
        yield owners, offsets[owners][:, None] + np.arange(size)
