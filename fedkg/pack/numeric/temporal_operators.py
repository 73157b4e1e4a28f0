"""Temporal operators over grids of traces: windows that slide, and until.

Each operator is made of minima and maxima alone. It is computed four times: for the two ends of the
robustness interval, for "holds", and for "does not fail" (of truth values the minimum is `and`, the
maximum `or`).

Letters: N traces, L steps, M columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg.pack.numeric.padded_trace_rows import Grid
from fedkg.pack.numeric.three_valued_logic import Float, Verdict, opposite

Values = NDArray[Any]
"""float64 or bool."""

Lattice = Callable[[Values, Any], Values]
"""An operator with one window, on the arguments' values, stacked [n, N, L, m] in its direction, and
the value beyond the trace.
"""


def temporal(op: str, arg: Verdict, low: Float, high: Float, grid: Grid) -> Verdict:
    """always, eventually, historically and once over windows [low, high] [M] (high -1: no end).

    Verdicts are [N * L, M].
    """
    past = op in ("historically", "once")
    if op in ("always", "historically"):
        return opposite(
            temporal("eventually" if op == "always" else "once", opposite(arg), low, high, grid)
        )

    def some(first: int, last: int) -> Lattice:
        return lambda values, beyond: _sliding(np.maximum, values[0], first, last, beyond)

    return _by_window((arg,), low, high, grid, some, past=past)


def until(
    op: str, left: Verdict, right: Verdict, low: Float, high: Float, closed: bool, grid: Grid
) -> Verdict:
    """until and since over windows [low, high] [M]; verdicts are [N * L, M].

    An until with a window is made of simpler ones (Donzé, Ferrère and Maler 2013, section 3):
    `left` up to the window's beginning, and from there both an until without end and a `right`
    within the window.
    """

    def some(first: int, last: int) -> Lattice:
        def compute(values: Values, beyond: Any) -> Values:
            before, there = values
            found = _until_ever(before, there, closed, beyond)
            if last >= 0:
                found = np.minimum(found, _sliding(np.maximum, there, 0, last - first, beyond))
            if first == 0:
                return found
            kept = _sliding(np.minimum, before, 0, first - 1, beyond)
            return np.minimum(kept, _sliding(np.maximum, found, first, first, beyond))

        return compute

    return _by_window((left, right), low, high, grid, some, past=op == "since")


def initially(arg: Verdict, grid: Grid) -> Verdict:
    """The verdict at the first step of each trace, at every step of it."""

    def first(values: Values) -> Values:
        steps = values.reshape(*grid.at.shape, -1)
        return np.broadcast_to(steps[:, :1], steps.shape).reshape(values.shape)

    return Verdict(first(arg.low), first(arg.high), first(arg.holds), first(arg.fails))


def _by_window(
    args: tuple[Verdict, ...],
    low: Float,
    high: Float,
    grid: Grid,
    make: Callable[[int, int], Lattice],
    *,
    past: bool,
) -> Verdict:
    """The operator that `make` gives for each distinct window, on the columns that have it."""
    shape = (*grid.at.shape, low.shape[0])
    inside = grid.inside[:, ::-1] if past else grid.inside
    out = Verdict(
        np.empty(shape),
        np.empty(shape),
        np.empty(shape, dtype=np.bool_),
        np.empty(shape, dtype=np.bool_),
    )
    for first, last, columns in _windows(low, high):
        lattice, unknown = make(first, last), grid.end == "strict" and last >= 0

        def apply(
            parts: list[Values],
            beyond: Any,
            lattice: Lattice = lattice,
            columns: NDArray[np.int64] = columns,
        ) -> Values:
            stacked = np.stack([part.reshape(shape)[:, :, columns] for part in parts])
            found = lattice(
                np.where(
                    inside[None, :, :, None], stacked[:, :, ::-1] if past else stacked, beyond
                ),
                beyond,
            )
            return found[:, ::-1] if past else found

        out.low[:, :, columns] = apply([arg.low for arg in args], -np.inf)
        out.high[:, :, columns] = apply([arg.high for arg in args], np.inf if unknown else -np.inf)
        out.holds[:, :, columns] = apply([arg.holds for arg in args], False)
        out.fails[:, :, columns] = ~apply([~arg.fails for arg in args], unknown)
    flat = (grid.at.size, low.shape[0])
    return Verdict(
        out.low.reshape(flat),
        out.high.reshape(flat),
        out.holds.reshape(flat),
        out.fails.reshape(flat),
    )


def _windows(low: Float, high: Float) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """The distinct windows, each with the columns that have it."""
    pairs, which = np.unique(np.stack([low, high], axis=1), axis=0, return_inverse=True)
    for i, (first, last) in enumerate(pairs.tolist()):
        yield int(first), int(last), np.flatnonzero(which.ravel() == i)


def _sliding(pick: np.ufunc, values: Values, first: int, last: int, beyond: Any) -> Values:
    """``pick`` of values[t + first .. t + last] for each t (last -1: to the end), `beyond` standing
    after the last; by doubling.
    """
    steps = values.shape[1]
    first = min(first, steps)
    last = max(first, steps - 1) if last < 0 else min(last, steps)
    padding = np.full((values.shape[0], last, values.shape[2]), beyond, dtype=values.dtype)
    blocks = np.concatenate([values, padding], axis=1)[:, first:]
    width, size = last - first + 1, 1
    while 2 * size <= width:
        blocks = pick(blocks[:, :-size], blocks[:, size:])
        size *= 2
    return np.asarray(pick(blocks[:, :steps], blocks[:, width - size : width - size + steps]))


def _until_ever(left: Values, right: Values, closed: bool, beyond: Any) -> Values:
    """Until with the window [0, end of the trace], by doubling: over 1, 2, 4, ...

    Steps it is max(found, min(kept, what comes after)).
    """
    kept, found = left.copy(), np.minimum(left, right) if closed else right.copy()
    size = 1
    while size < right.shape[1]:
        found[:, :-size] = np.maximum(
            found[:, :-size], np.minimum(kept[:, :-size], found[:, size:])
        )
        kept[:, :-size] = np.minimum(kept[:, :-size], kept[:, size:])
        size *= 2
    return np.asarray(np.maximum(found, np.minimum(kept, beyond)))
