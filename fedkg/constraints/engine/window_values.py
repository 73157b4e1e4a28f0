"""Sums, means, minima and maxima of the values at several steps, as tensors.

`fedkg.pack.numeric.window_values` defines them; numbers are combined here in the same order.

Letters: R rows, n traces, T places of each.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.constraints.engine.device_constants import constant


def _added(one: Tensor, other: Tensor) -> Tensor:
    total = one + other
    return torch.where(torch.isfinite(total), total, torch.nan)


COMBINE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": _added,
    "mean": _added,
    "min": torch.minimum,
    "max": torch.maximum,
}
"""How two numbers become one. NaN with anything is NaN."""


def over_steps(
    op: str, values: Tensor, counts: NDArray[np.int64], length: Tensor | None, *, ahead: bool
) -> Tensor:
    """The sum, mean, minimum or maximum over the `counts` [R] steps that end (`ahead`: begin) at
    each step.

    Args:
        values: [R, n, T]; NaN where unknown.
        length: int64 [R, n, 1] or [1, n, 1], how many places of each trace are steps; None: all.
    """
    if length is not None:
        places = torch.arange(values.shape[2], device=values.device)
        values = torch.where(places < length, values, torch.nan)
    values = values.flip(2) if ahead else values
    parts: list[Tensor] = []
    order: list[NDArray[np.int64]] = []
    for count in np.unique(counts).tolist():
        rows = np.flatnonzero(counts == count)
        one = values if rows.size == counts.size else values[constant(rows, values.device)]
        total = _trailing(COMBINE[op], one, count)
        parts.append(total / count if op == "mean" else total)
        order.append(rows)
    if len(parts) == 1:
        found = parts[0]
    else:  # 0 parts where a table has no members
        back = np.argsort(np.concatenate([*order, np.zeros(0, np.int64)]))
        found = torch.cat([*parts, values[:0]])[constant(back, values.device)]
    return found.flip(2) if ahead else found


def _trailing(combine: Callable[[Tensor, Tensor], Tensor], values: Tensor, count: int) -> Tensor:
    """The `count` steps up to each one, combined; NaN where the trace has fewer."""
    if count > values.shape[2]:
        return torch.full_like(values, torch.nan)
    total: Tensor | None = None
    block, size, reached = values, 1, 0
    while True:
        if count & size:
            total = block if total is None else combine(_shifted(block, reached), total)
            reached += size
        if reached == count:
            return total if total is not None else block
        block = combine(_shifted(block, size), block)
        size *= 2


def since_event(op: str, values: Tensor, holds: Tensor, fails: Tensor) -> Tensor:
    """The sum, mean, minimum or maximum from the latest step at which an event held, up to each
    step.

    Args:
        op: `sum`, `mean`, `min` or `max`.
        values: [R, n, T]; NaN where unknown.
        holds: bool [R, n, T], the steps at which the event holds.
        fails: bool [R, n, T], the steps at which it does not. The event is unknown where both are
            False.
    """
    total = _segmented(COMBINE[op], torch.where(holds | fails, values, torch.nan), holds)
    if op != "mean":
        return total
    return total / _segmented(COMBINE["sum"], torch.ones_like(values), holds)


def _segmented(
    combine: Callable[[Tensor, Tensor], Tensor], values: Tensor, start: Tensor
) -> Tensor:
    size = 1
    while size <= values.shape[2]:  # to the place before the first step, where no event was seen
        values = torch.where(start, values, combine(_shifted(values, size), values))
        start = start | _shifted(start.to(values.dtype), size).ne(0)  # NaN is not 0: True
        size *= 2
    return values


def _shifted(values: Tensor, by: int) -> Tensor:
    """The values `by` steps earlier, NaN where the trace has none."""
    if by == 0:
        return values
    by = min(by, values.shape[2])
    padding = values.new_full((*values.shape[:2], by), torch.nan)
    return torch.cat([padding, values[:, :, : values.shape[2] - by]], dim=2)
