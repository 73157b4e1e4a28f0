"""Sums, means, minima and maxima of the values at several steps of a trace.

Numbers are combined in blocks of 1, 2, 4, ... steps, so that a window of any length takes few
operations. The tensor form combines them in the same order and so gives the same numbers.

Letters: N traces, L steps, M columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg.pack.numeric.three_valued_logic import Float, finite

Truth = NDArray[np.bool_]


def _added(one: Float, other: Float) -> Float:
    return finite(one + other)


COMBINE: dict[str, Callable[[Float, Float], Float]] = {
    "sum": _added,
    "mean": _added,
    "min": lambda one, other: np.asarray(np.minimum(one, other)),
    "max": lambda one, other: np.asarray(np.maximum(one, other)),
}
"""How two numbers become one. NaN with anything is NaN."""


def over_steps(op: str, values: Float, counts: NDArray[np.int64], *, ahead: bool) -> Float:
    """The sum, mean, minimum or maximum over the `counts` [M] steps that end (`ahead`: begin) at
    each step.

    Args:
        values: float64 [N, L, M]; NaN where unknown and beyond the trace.
    """
    values = values[:, ::-1] if ahead else values
    found = np.empty_like(values)
    for count in np.unique(counts).tolist():
        columns = counts == count
        total = _trailing(COMBINE[op], values[:, :, columns], count)
        found[:, :, columns] = total / count if op == "mean" else total
    return found[:, ::-1] if ahead else found


def _trailing(combine: Callable[[Float, Float], Float], values: Float, count: int) -> Float:
    """The `count` steps up to each one, combined; NaN where the trace has fewer."""
    if count > values.shape[1]:
        return np.full_like(values, np.nan)
    total: Float | None = None
    block, size, reached = values, 1, 0
    while True:
        if count & size:
            total = block if total is None else combine(_shifted(block, reached, np.nan), total)
            reached += size
        if reached == count:
            return total if total is not None else block
        block = combine(_shifted(block, size, np.nan), block)
        size *= 2


def since_event(op: str, values: Float, holds: Truth, fails: Truth) -> Float:
    """The sum, mean, minimum or maximum from the latest step at which an event held, up to each
    step.

    Args:
        op: ``sum``, ``mean``, ``min`` or ``max``.
        values: float64 [N, L, M]; NaN where unknown and beyond the trace.
        holds: bool [N, L, M], whether the event holds at each step.
        fails: bool [N, L, M], whether the event does not hold at each step; it is unknown where
            both are False.
    """
    total = _segmented(COMBINE[op], np.where(holds | fails, values, np.nan), holds)
    if op != "mean":
        return total
    return total / _segmented(COMBINE["sum"], np.ones_like(values), holds)


def _segmented(combine: Callable[[Float, Float], Float], values: Float, start: Truth) -> Float:
    size = 1
    while size <= values.shape[1]:  # to the place before the first step, where no event was seen
        values = np.where(start, values, combine(_shifted(values, size, np.nan), values))
        start = start | _shifted(start, size, True)
        size *= 2
    return values


def _shifted(values: NDArray[Any], by: int, beyond: Any) -> NDArray[Any]:
    """The values `by` steps earlier, `beyond` where the trace has none."""
    if by == 0:
        return values
    by = min(by, values.shape[1])
    padding = np.full((values.shape[0], by, values.shape[2]), beyond, dtype=values.dtype)
    return np.concatenate([padding, values[:, : values.shape[1] - by]], axis=1)
