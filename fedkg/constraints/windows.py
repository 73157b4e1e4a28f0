"""Windows that slide over traces, and until: minima and maxima over steps, differentiable, exact or smooth.

A value that is unknown (NaN) may be anything. Each operator is therefore computed twice, with the least and with the greatest that unknown
values may be, and is known where both ends agree about the verdict: the interval semantics of the interpreter (An, Johnson and Ma 2024,
section 2; Donzé, Ferrère and Maler 2013, section 3).

Letters: R rows, B places, n traces of T places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.constraints.reading import Steps

Windows = NDArray[np.float64]
"""Per row the first and last step of its window, counted from now; last -1: no end. [R, 2]."""

Compute = Callable[[Sequence[Tensor], int, int, float], Tensor]
"""One operator on values [r, n, T] without unknowns, for the window first..last; the last argument stands beyond the trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """How numbers stand for verdicts.

    Attributes:
        edge: beyond every number there is: what an unknown value may be at most, and an empty maximum at least (negative).
        zero_is_low: whether 0 is on the side of the negative numbers, as for what is missing, or of the positive, as for robustness.
        temperature: of the log-sum-exp in place of minimum and maximum; None for exact.
    """

    edge: float
    zero_is_low: bool = False
    temperature: float | None = None


ROBUSTNESS = Truth(edge=math.inf)


def settle(low: Tensor, high: Tensor, truth: Truth) -> Tensor:
    """The end nearest to zero of an interval that lies on one side of it, else NaN."""
    if truth.zero_is_low:
        return torch.where(high <= 0, high, torch.where(low > 0, low, math.nan))
    return torch.where(low >= 0, low, torch.where(high < 0, high, math.nan))


def picked(left: Tensor, right: Tensor, lowest: bool, temperature: float | None) -> Tensor:
    """The smaller or the larger of two tensors, or the log-sum-exp bound of it."""
    if temperature is None:
        return torch.minimum(left, right) if lowest else torch.maximum(left, right)
    scale = -temperature if lowest else temperature
    return scale * torch.logaddexp(left / scale, right / scale)


def over_window(values: Tensor, windows: Windows, steps: Steps, truth: Truth, *, past: bool, lowest: bool) -> Tensor:
    """Minimum or maximum of values [R, B] over each step's window, [R, B]; NaN where an unknown step may still turn the verdict."""

    def compute(parts: Sequence[Tensor], first: int, last: int, beyond: float) -> Tensor:
        return sliding(parts[0], first, last, beyond, lowest, truth.temperature)

    return _by_window([values], windows, steps, truth, compute, past=past, lowest=lowest)


def until(
    left: Tensor, right: Tensor, windows: Windows, steps: Steps, truth: Truth, *, past: bool, closed: bool, lowest: bool = False
) -> Tensor:
    """Max over t' in the window of min(right at t', min of left before t'), [R, B]; `lowest`: its dual, minima and maxima exchanged.

    With a window it is made of simpler ones: `left` up to the window's beginning, and from there both an until without end and a `right`
    within the window.
    """
    soft = truth.temperature

    def compute(parts: Sequence[Tensor], first: int, last: int, beyond: float) -> Tensor:
        before, there = parts
        found = _until_ever(before, there, closed, beyond, lowest, soft)
        if last >= 0:
            found = picked(found, sliding(there, 0, last - first, beyond, lowest, soft), not lowest, soft)
        if first == 0:
            return found
        kept = sliding(before, 0, first - 1, beyond, not lowest, soft)
        return picked(kept, sliding(found, first, first, beyond, lowest, soft), not lowest, soft)

    return _by_window([left, right], windows, steps, truth, compute, past=past, lowest=lowest)


def at_first(values: Tensor, steps: Steps) -> Tensor:
    """The value at the first step of each trace, at all of its places: [R, B]."""
    laid = _laid(values, values.shape[0], steps)
    return laid[:, :, :1].expand(laid.shape).reshape(values.shape[0], steps.places)


def sliding(values: Tensor, first: int, last: int, beyond: float, lowest: bool, temperature: float | None) -> Tensor:
    """Minimum or maximum of values[t + first .. t + last] for each t (last -1: to the end), `beyond` standing after the last: [r, n, T].

    In about 2 log2(last - first) steps: blocks of 1, 2, 4, ... values, of which those in the binary digits of the width are taken.
    """
    steps = values.shape[-1]
    first = min(first, steps)
    last = max(first, steps - 1 if last < 0 else min(last, steps))
    blocks = torch.nn.functional.pad(values, (0, last), value=beyond)[..., first:]
    width, size, start = last - first + 1, 1, 0
    result: Tensor | None = None
    while size <= width:
        if width & size:
            piece = blocks[..., start : start + steps]
            result = piece if result is None else picked(result, piece, lowest, temperature)
            start += size
        if 2 * size <= width:
            blocks = picked(blocks[..., :-size], blocks[..., size:], lowest, temperature)
        size *= 2
    assert result is not None, "a window has at least one step"
    return result


def _until_ever(left: Tensor, right: Tensor, closed: bool, beyond: float, lowest: bool, temperature: float | None) -> Tensor:
    """Until with the window from now to the end of the trace, step by step from the end."""
    after = torch.full_like(right[..., 0], beyond)
    found: list[Tensor] = []
    for here, there in zip(reversed(left.unbind(-1)), reversed(right.unbind(-1)), strict=True):
        if closed:
            after = picked(here, picked(there, after, lowest, temperature), not lowest, temperature)
        else:
            after = picked(there, picked(here, after, not lowest, temperature), lowest, temperature)
        found.append(after)
    return torch.stack(found[::-1], dim=-1) if found else right


def _by_window(
    parts: Sequence[Tensor], windows: Windows, steps: Steps, truth: Truth, compute: Compute, *, past: bool, lowest: bool
) -> Tensor:
    """The operator on the rows of each distinct window, put together again: [R, B]."""
    rows = windows.shape[0]
    laid = [_laid(part, rows, steps) for part in parts]
    pairs, which = np.unique(windows, axis=0, return_inverse=True)
    if len(pairs) <= 1:
        window = (int(pairs[0, 0]), int(pairs[0, 1])) if len(pairs) else (0, 0)
        return _one_window(laid, window, steps.length, steps, truth, compute, past=past, lowest=lowest).reshape(rows, steps.places)
    results, order = [], np.argsort(which.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(which.ravel()))
    for (first, last), end, start in zip(pairs.tolist(), ends, [0, *ends[:-1]], strict=True):
        index = torch.from_numpy(order[start:end]).to(parts[0].device)
        length = steps.length
        if length is not None and length.shape[0] > 1:
            length = length.index_select(0, index)
        own = [part.index_select(0, index) for part in laid]
        results.append(_one_window(own, (int(first), int(last)), length, steps, truth, compute, past=past, lowest=lowest))
    back = torch.from_numpy(np.argsort(order, kind="stable")).to(parts[0].device)
    return torch.cat(results).index_select(0, back).reshape(rows, steps.places)


def _one_window(
    parts: Sequence[Tensor],
    window: tuple[int, int],
    length: Tensor | None,
    steps: Steps,
    truth: Truth,
    compute: Compute,
    *,
    past: bool,
    lowest: bool,
) -> Tensor:
    """The operator on values [r, n, T] for one window: both ends of the interval, settled."""
    open_ended = steps.clip or window[1] < 0
    nothing = truth.edge if lowest else -truth.edge
    ends: list[Tensor] = []
    for anything in (-truth.edge, truth.edge):
        beyond = nothing if open_ended else anything
        filled = [torch.where(torch.isnan(part), anything, part) for part in parts]
        if length is not None:
            inside = torch.arange(steps.count, device=length.device) < length
            filled = [torch.where(inside, part, beyond) for part in filled]
        if past:
            filled = [part.flip(-1) for part in filled]
        result = compute(filled, *window, beyond)
        ends.append(result.flip(-1) if past else result)
    return settle(ends[0], ends[1], truth)


def _laid(values: Tensor, rows: int, steps: Steps) -> Tensor:
    """Values [R, B] or broadcast to it, trace by trace: [R, n, T]."""
    return values.expand(rows, steps.places).reshape(rows, steps.places // max(1, steps.count), steps.count)
