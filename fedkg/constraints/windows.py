"""Windows that slide over traces, and until: minima and maxima over steps, differentiable, exact or smooth.

A value that is unknown may be anything: the interval semantics of the interpreter (An, Johnson and Ma 2024, section 2; Donzé, Ferrère and
Maler 2013, section 3). Exact operators take and give a number for it (`unknown`). Smooth ones take and give NaN; they are computed twice,
with the least and with the greatest that unknown values may be, and known where both ends agree about the verdict.

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
from fedkg.constraints.sliding import extreme, until_within
from fedkg.constraints.unknown import between

Windows = NDArray[np.float64]
"""Per row the first and last step of its window, counted from now; last -1: no end. [R, 2]."""

OnWindow = Callable[[Sequence[Tensor], tuple[int, int], Tensor | None], Tensor]
"""An operator on values [r, n, T] for one window; the last argument is the length of the traces, as in `Steps`."""

Compute = Callable[[Sequence[Tensor], int, int, float], Tensor]
"""A smooth operator on values [r, n, T] without unknowns, for the window first..last; the last argument stands beyond the trace."""


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

    def unknown(self, dtype: torch.dtype) -> float:
        """What stands for an unknown value: a number in exact operators, NaN in smooth ones."""
        if self.temperature is not None:
            return math.nan
        return between(dtype) if self.zero_is_low else -between(dtype)

    def beyond(self, window: tuple[int, int], steps: Steps, dtype: torch.dtype, *, lowest: bool) -> float:
        """What stands beyond the trace in exact operators: nothing, or what is unknown."""
        if steps.clip or window[1] < 0:
            return self.edge if lowest else -self.edge
        return self.unknown(dtype)


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
    """Minimum or maximum of values [R, B] over each step's window, [R, B]; unknown where an unknown step may still turn the verdict."""

    def exact(parts: Sequence[Tensor], window: tuple[int, int], length: Tensor | None) -> Tensor:
        beyond = truth.beyond(window, steps, values.dtype, lowest=lowest)
        return extreme(_cut(parts[0], length, beyond), *window, beyond, lowest=lowest, past=past)

    def smooth(parts: Sequence[Tensor], first: int, last: int, beyond: float) -> Tensor:
        return sliding(parts[0], first, last, beyond, lowest, truth.temperature)

    on = exact if truth.temperature is None else _both_ends(smooth, steps, truth, past=past, lowest=lowest)
    return _by_window([values], windows, steps, on)


def at_extreme(values: Tensor, windows: Windows, steps: Steps, truth: Truth, *, past: bool, lowest: bool) -> Tensor:
    """`over_window` of what is at its extreme at each step already: [R, B] of values [R, B] that know nothing of the trace's ends.

    Where the window reaches beyond the trace a value on the good side is unknown; where it lies beyond altogether there is no value.
    """
    rows, device, dtype = windows.shape[0], values.device, values.dtype
    windows = windows[:1] if rows and bool((windows == windows[0]).all()) else windows
    first, last = (torch.from_numpy(end)[:, None, None].to(device) for end in windows.T)
    at = torch.arange(steps.count, device=device)
    ahead = at if past else (steps.count if steps.length is None else steps.length) - 1 - at  # steps from now to the trace's end
    edge, unknown = (values.new_tensor(number) for number in (truth.edge if lowest else -truth.edge, truth.unknown(dtype)))
    open_ended = torch.ones_like(last, dtype=torch.bool) if steps.clip else last < 0
    laid = _laid(values, rows, steps)
    if not bool(open_ended.all()):
        bound = torch.where((ahead < last) & ~open_ended, unknown, edge)
        laid = torch.minimum(laid, bound) if lowest else torch.maximum(laid, bound)
    if bool((first > 0).any()) or steps.length is not None:
        laid = torch.where(ahead < first, torch.where(open_ended, edge, unknown), laid)
    return laid.reshape(rows, steps.places)


def until(
    left: Tensor, right: Tensor, windows: Windows, steps: Steps, truth: Truth, *, past: bool, closed: bool, lowest: bool = False
) -> Tensor:
    """Max over t' in the window of min(right at t', min of left before t'), [R, B]; `lowest`: its dual, minima and maxima exchanged.

    `closed`: of left at t', too.
    """
    soft = truth.temperature

    def exact(parts: Sequence[Tensor], window: tuple[int, int], length: Tensor | None) -> Tensor:
        beyond = truth.beyond(window, steps, left.dtype, lowest=lowest)
        before, there = (_cut(part, length, beyond) for part in parts)
        before, there = (before.flip(-1), there.flip(-1)) if past else (before, there)
        there = picked(before, there, not lowest, None) if closed else there
        found = until_within(before, there, *window, beyond, lowest=lowest)
        return found.flip(-1) if past else found

    def smooth(parts: Sequence[Tensor], first: int, last: int, beyond: float) -> Tensor:
        before, there = parts
        found = _until_ever(before, there, closed, beyond, lowest, soft)
        if last >= 0:
            found = picked(found, sliding(there, 0, last - first, beyond, lowest, soft), not lowest, soft)
        if first == 0:
            return found
        kept = sliding(before, 0, first - 1, beyond, not lowest, soft)
        return picked(kept, sliding(found, first, first, beyond, lowest, soft), not lowest, soft)

    on = exact if soft is None else _both_ends(smooth, steps, truth, past=past, lowest=lowest)
    return _by_window([left, right], windows, steps, on)


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


def _by_window(parts: Sequence[Tensor], windows: Windows, steps: Steps, on: OnWindow) -> Tensor:
    """The operator on the rows of each distinct window, put together again: [R, B]."""
    rows = windows.shape[0]
    laid = [_laid(part, rows, steps) for part in parts]
    if rows == 0 or bool((windows == windows[0]).all()):
        window = (int(windows[0, 0]), int(windows[0, 1])) if rows else (0, 0)
        return on(laid, window, steps.length).reshape(rows, steps.places)
    pairs, which = np.unique(windows, axis=0, return_inverse=True)
    results, order = [], np.argsort(which.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(which.ravel()))
    for (first, last), end, start in zip(pairs.tolist(), ends, [0, *ends[:-1]], strict=True):
        index = torch.from_numpy(order[start:end]).to(parts[0].device)
        length = steps.length
        if length is not None and length.shape[0] > 1:
            length = length.index_select(0, index)
        results.append(on([part.index_select(0, index) for part in laid], (int(first), int(last)), length))
    back = torch.from_numpy(np.argsort(order, kind="stable")).to(parts[0].device)
    return torch.cat(results).index_select(0, back).reshape(rows, steps.places)


def _both_ends(compute: Compute, steps: Steps, truth: Truth, *, past: bool, lowest: bool) -> OnWindow:
    """A smooth operator with both ends of the interval, settled."""
    nothing = truth.edge if lowest else -truth.edge

    def on(parts: Sequence[Tensor], window: tuple[int, int], length: Tensor | None) -> Tensor:
        ends: list[Tensor] = []
        for anything in (-truth.edge, truth.edge):
            beyond = nothing if steps.clip or window[1] < 0 else anything
            filled = [_cut(torch.where(torch.isnan(part), anything, part), length, beyond) for part in parts]
            result = compute([part.flip(-1) for part in filled] if past else filled, *window, beyond)
            ends.append(result.flip(-1) if past else result)
        return settle(ends[0], ends[1], truth)

    return on


def _cut(values: Tensor, length: Tensor | None, beyond: float) -> Tensor:
    """Values [r, n, T] with `beyond` where a trace is over."""
    if length is None:
        return values
    return torch.where(torch.arange(values.shape[-1], device=length.device) < length, values, beyond)


def _laid(values: Tensor, rows: int, steps: Steps) -> Tensor:
    """Values [R, B] or broadcast to it, trace by trace: [R, n, T]."""
    return values.expand(rows, steps.places).reshape(rows, steps.places // max(1, steps.count), steps.count)
