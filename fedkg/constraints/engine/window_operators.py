"""Windows that slide over traces, and until: minima and maxima over steps, differentiable, exact or
smooth.

A value that is unknown may be anything: the interval semantics of the interpreter (An, Johnson and
Ma 2024, section 2; Donzé, Ferrère and Maler 2013, section 3). Exact operators and norms take and
give a number for it (`unknown`). Those by log-sum-exp take and give NaN; they are computed twice,
with the least and with the greatest that unknown values may be, and known where both ends agree
about the verdict.

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

from fedkg._internal.torch_compat import being_traced
from fedkg.constraints.engine import accelerator_window_operators
from fedkg.constraints.engine.device_constants import constant
from fedkg.constraints.engine.evaluation_inputs import Steps, steps_on
from fedkg.constraints.engine.generalised_mean_extrema import norm_from_sums, norm_of, weighed
from fedkg.constraints.engine.norm_until import norm_until
from fedkg.constraints.engine.pairwise_extremes import soft_extreme
from fedkg.constraints.engine.sliding import clamped, extreme, growth, until_within
from fedkg.constraints.engine.unknown_value_encoding import between

Windows = NDArray[np.float64]
"""Per row the first and last step of its window, counted from now; last -1: no end. [R, 2]."""

OnWindow = Callable[[Sequence[Tensor], tuple[int, int], Tensor | None], Tensor]
"""An operator on values [r, n, T] for one window; the last argument is the length of the traces, as
in `Steps`."""

Compute = Callable[[Sequence[Tensor], int, int, float], Tensor]
"""A forward-looking operator on values [r, n, T], for the window first..last; the last argument is
the value beyond the trace.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The encoding of verdicts as numbers.

    Attributes:
        edge: beyond every number there is: what an unknown value may be at most, and an empty
            maximum at least (negative).
        zero_is_low: whether 0 is on the side of the negative numbers, as for what is missing, or of
            the positive, as for robustness.
        temperature: of the log-sum-exp in place of minimum and maximum; None for exact.
        sound: whether minima and maxima are `norms`; these want `zero_is_low` and no temperature.
    """

    edge: float
    zero_is_low: bool = False
    temperature: float | None = None
    sound: bool = False

    def unknown(self, dtype: torch.dtype) -> float:
        """The encoding of an unknown value: a number in exact operators and norms, NaN with
        log-sum-exp.
        """
        if self.temperature is not None:
            return math.nan
        return between(dtype) if self.zero_is_low else -between(dtype)

    def beyond(
        self, window: tuple[int, int], steps: Steps, dtype: torch.dtype, *, lowest: bool
    ) -> float:
        """The value beyond the trace if a number encodes unknown values: the neutral value, or
        unknown.
        """
        if steps.clip or window[1] < 0:
            return self.edge if lowest else -self.edge
        return self.unknown(dtype)


ROBUSTNESS = Truth(edge=math.inf)


def settle(low: Tensor, high: Tensor, truth: Truth) -> Tensor:
    """The end nearest to zero of an interval that lies on one side of it, else NaN."""
    if truth.zero_is_low:
        return torch.where(high <= 0, high, torch.where(low > 0, low, math.nan))
    return torch.where(low >= 0, low, torch.where(high < 0, high, math.nan))


def picked(left: Tensor, right: Tensor, lowest: bool, truth: Truth) -> Tensor:
    """The smaller or the larger of two tensors, or its smooth form."""
    if truth.sound:
        return norm_of((left, right), truth.edge, lowest=lowest)
    if truth.temperature is None:
        return torch.minimum(left, right) if lowest else torch.maximum(left, right)
    return soft_extreme(left, right, -truth.temperature if lowest else truth.temperature)


def over_window(
    values: Tensor,
    windows: Windows,
    steps: Steps,
    truth: Truth,
    *,
    past: bool,
    lowest: bool,
    again: accelerator_window_operators.At | None = None,
) -> Tensor:
    """Minimum or maximum of values [R, B] over each step's window, [R, B].

    Unknown where an unknown step may still turn the verdict.

    Args:
        again: recomputes the shifted values, where that is cheaper than memory.
    """

    def numbers(parts: Sequence[Tensor], window: tuple[int, int], length: Tensor | None) -> Tensor:
        beyond = truth.beyond(window, steps, values.dtype, lowest=lowest)
        cut = _cut(parts[0], length, beyond)
        if truth.sound:
            return _turned(ahead, [cut], past, *window, beyond)
        return extreme(cut, *window, beyond, lowest=lowest, past=past)

    def ahead(parts: Sequence[Tensor], first: int, last: int, beyond: float) -> Tensor:
        return sliding(parts[0], first, last, beyond, lowest, truth)

    if truth.temperature is None and not truth.sound and being_traced():
        found = _reduce_windows(
            values, windows, steps, truth, past=past, lowest=lowest, again=again
        )
        if found is not None:
            return found
    on = (
        numbers
        if truth.temperature is None
        else _both_ends(ahead, steps, truth, past=past, lowest=lowest)
    )
    return _by_window([values], windows, steps, on)


def _reduce_windows(
    values: Tensor,
    windows: Windows,
    steps: Steps,
    truth: Truth,
    *,
    past: bool,
    lowest: bool,
    again: accelerator_window_operators.At | None,
) -> Tensor | None:
    """`over_window` in one loop for all rows; None where that is not worth it."""
    ends = _ends(windows, steps, truth, values, past=past, lowest=lowest)
    if ends is None or ends.width > accelerator_window_operators.LONGEST:
        return None
    laid = _cut(_laid(values, len(windows), steps), steps.length, ends.beyond)
    at = (
        None
        if len(ends.shifts) > accelerator_window_operators.WRITTEN_OUT
        else _steps_on(values, again, len(windows), steps, ends.beyond)
    )
    return accelerator_window_operators.extreme(laid, ends, lowest=lowest, at=at).reshape(
        len(windows), steps.places
    )


def _unrolled(
    sides: Sequence[Tensor],
    windows: Windows,
    steps: Steps,
    truth: Truth,
    *,
    past: bool,
    closed: bool,
    lowest: bool,
    again: Sequence[accelerator_window_operators.At | None],
) -> Tensor | None:
    """`until` in one loop; None where that is not worth it."""
    ends = _ends(windows, steps, truth, sides[1], past=past, lowest=lowest)
    if ends is None or ends.each[:, 1].max() >= accelerator_window_operators.WRITTEN_OUT:
        return None
    left, right = (
        _cut(_laid(side, len(windows), steps), steps.length, ends.beyond) for side in sides
    )
    holds, there = (
        _steps_on(*side, len(windows), steps, ends.beyond)
        for side in zip(sides, again, strict=True)
    )

    def both(by: int) -> Tensor:
        return picked(holds(by), there(by), not lowest, truth)

    right, at = (
        (picked(left, right, not lowest, truth), (holds, both))
        if closed
        else (right, (holds, there))
    )
    return accelerator_window_operators.until(left, right, ends, lowest=lowest, at=at).reshape(
        len(windows), steps.places
    )


def _ends(
    windows: Windows, steps: Steps, truth: Truth, like: Tensor, *, past: bool, lowest: bool
) -> accelerator_window_operators.Ends | None:
    """The windows on the reading's traces; None where there are none, or no steps."""
    if not windows.size or not steps.count:
        return None
    beyond = [
        truth.beyond((int(first), int(last)), steps, like.dtype, lowest=lowest)
        for first, last in windows
    ]
    return accelerator_window_operators.ends_of(
        np.column_stack([accelerator_window_operators.spans(windows, steps.count), beyond]),
        like,
        past=past,
    )


def _steps_on(
    values: Tensor,
    again: accelerator_window_operators.At | None,
    rows: int,
    steps: Steps,
    beyond: Tensor | float,
) -> accelerator_window_operators.At:
    """Values [R, B] some steps on, `beyond` where the trace is over: [R, n, T].

    `again`: evaluates them there.
    """
    length = steps.count if steps.length is None else steps.length
    now = torch.arange(steps.count, device=values.device)

    def at(by: int) -> Tensor:
        there = _laid(steps_on(values, steps, by) if again is None else again(by), rows, steps)
        if steps.length is None:  # one comparison is enough
            return (
                there
                if by == 0
                else torch.where(now < length - by if by > 0 else now >= -by, there, beyond)
            )
        return torch.where((now + by >= 0) & (now + by < length), there, beyond)

    return at


def at_extreme(
    values: Tensor,
    windows: Windows,
    steps: Steps,
    truth: Truth,
    *,
    past: bool,
    lowest: bool,
    unsure: Tensor | None = None,
) -> Tensor:
    """`over_window` of what is at its extreme at each step already: [R, B] of values [R, B] that
    know nothing of the trace's ends.

    If the window reaches beyond the trace a value on the good side is unknown; entirely beyond it
    the result is unknown.

    Args:
        unsure: bool [R, B], where some step of the window is unknown, so that a value on the good
            side is, too; None: nowhere.
    """
    rows, device, dtype = windows.shape[0], values.device, values.dtype
    windows = windows[:1] if rows and bool((windows == windows[0]).all()) else windows
    first, last = (constant(end[:, None, None], device) for end in windows.T)
    at = torch.arange(steps.count, device=device)
    ahead = (
        at if past else (steps.count if steps.length is None else steps.length) - 1 - at
    )  # steps from now to the trace's end
    edge, unknown = (
        values.new_full((), number)
        for number in (truth.edge if lowest else -truth.edge, truth.unknown(dtype))
    )
    open_ended = torch.ones_like(last, dtype=torch.bool) if steps.clip else last < 0
    laid = _laid(values, rows, steps)
    if unsure is not None:
        bound = torch.where(_laid(unsure, rows, steps), unknown, edge)
        laid = torch.minimum(laid, bound) if lowest else torch.maximum(laid, bound)
    if not steps.clip and bool((windows[:, 1] >= 0).any()):
        bound = torch.where((ahead < last) & ~open_ended, unknown, edge)
        laid = torch.minimum(laid, bound) if lowest else torch.maximum(laid, bound)
    if bool((windows[:, 0] > 0).any()) or steps.length is not None:
        laid = torch.where(ahead < first, torch.where(open_ended, edge, unknown), laid)
    return laid.reshape(rows, steps.places)


def until(
    left: Tensor,
    right: Tensor,
    windows: Windows,
    steps: Steps,
    truth: Truth,
    *,
    past: bool,
    closed: bool,
    lowest: bool = False,
    again: Sequence[accelerator_window_operators.At | None] = (None, None),
) -> Tensor:
    """Max over t' in the window of min(right at t', min of left before t'), [R, B].

    `lowest`: its dual, minima and maxima exchanged.

    Args:
        closed: of left at t', too.
        again: as in `over_window`, of both.
    """

    def numbers(parts: Sequence[Tensor], window: tuple[int, int], length: Tensor | None) -> Tensor:
        beyond = truth.beyond(window, steps, left.dtype, lowest=lowest)
        return _turned(ahead, [_cut(part, length, beyond) for part in parts], past, *window, beyond)

    def ahead(parts: Sequence[Tensor], first: int, last: int, beyond: float) -> Tensor:
        before, there = parts
        there = picked(before, there, not lowest, truth) if closed else there
        if truth.sound or truth.temperature is not None:
            return _until_within(before, there, first, last, beyond, lowest, truth)
        return until_within(before, there, first, last, beyond, lowest=lowest)

    on = (
        numbers
        if truth.temperature is None
        else _both_ends(ahead, steps, truth, past=past, lowest=lowest)
    )
    if truth.temperature is None and not truth.sound and being_traced():
        found = _unrolled(
            (left, right),
            windows,
            steps,
            truth,
            past=past,
            closed=closed,
            lowest=lowest,
            again=again,
        )
        if found is not None:
            return found
    return _by_window([left, right], windows, steps, on)


def at_first(values: Tensor, steps: Steps) -> Tensor:
    """The value at the first step of each trace, at all of its places: [R, B]."""
    laid = _laid(values, values.shape[0], steps)
    return laid[:, :, :1].expand(laid.shape).reshape(values.shape[0], steps.places)


def sliding(
    values: Tensor, first: int, last: int, beyond: float, lowest: bool, truth: Truth
) -> Tensor:
    """Minimum or maximum of values[t + first .. t + last] for each t (last -1: to the end),
    `beyond` standing after the last: [r, n, T].

    Takes about 2 log2(last - first) steps: blocks of 1, 2, 4, ... values, combined by the binary
    digits of the width.
    """
    steps = values.shape[-1]
    first, last = clamped(first, last, steps)
    blocks = torch.nn.functional.pad(values, (0, last), value=beyond)[..., first:]
    if truth.sound:
        sums = _swept(
            weighed(blocks, truth.edge, lowest=lowest), last - first + 1, steps, torch.add
        )
        return norm_from_sums(sums, truth.edge, lowest=lowest)
    return _swept(
        blocks, last - first + 1, steps, lambda left, right: picked(left, right, lowest, truth)
    )


def _swept(
    blocks: Tensor, width: int, steps: int, joined: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Blocks [..., T + width - 1] joined over each window of a width, no value twice: [..., T]."""
    size, start = 1, 0
    result: Tensor | None = None
    while size <= width:
        if width & size:
            piece = blocks[..., start : start + steps]
            result = piece if result is None else joined(result, piece)
            start += size
        if 2 * size <= width:
            blocks = joined(blocks[..., :-size], blocks[..., size:])
        size *= 2
    assert result is not None, "a window has at least one step"
    return result


def _until_within(
    left: Tensor, right: Tensor, first: int, last: int, beyond: float, lowest: bool, truth: Truth
) -> Tensor:
    """`until_within` with the minima and maxima of `truth`, by the same doubling."""
    steps = right.shape[-1]
    begin, end = clamped(first, last, steps)
    if truth.sound:
        found = norm_until(left, right, begin, end, beyond, truth.edge, lowest=lowest)
        return (
            found
            if begin == 0
            else picked(
                sliding(left, 0, begin - 1, beyond, not lowest, truth), found, not lowest, truth
            )
        )
    base = kept, found = [
        torch.nn.functional.pad(side, (0, end), value=beyond) for side in (left, right)
    ]
    for width, doubles in growth(end - begin + 1):
        (here, there), shift = ((kept, found), width) if doubles else (base, 1)
        rest = kept.shape[-1] - shift
        here, there = here[..., :rest], there[..., :rest]
        found = picked(there, picked(here, found[..., shift:], not lowest, truth), lowest, truth)
        kept = picked(here, kept[..., shift:], not lowest, truth)
    found = found[..., begin : begin + steps]
    return (
        found
        if begin == 0
        else picked(
            sliding(left, 0, begin - 1, beyond, not lowest, truth), found, not lowest, truth
        )
    )


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
        index = constant(order[start:end], parts[0].device)
        length = steps.length
        if length is not None and length.shape[0] > 1:
            length = length.index_select(0, index)
        results.append(
            on([part.index_select(0, index) for part in laid], (int(first), int(last)), length)
        )
    back = constant(np.argsort(order, kind="stable"), parts[0].device)
    return torch.cat(results).index_select(0, back).reshape(rows, steps.places)


def _both_ends(
    compute: Compute, steps: Steps, truth: Truth, *, past: bool, lowest: bool
) -> OnWindow:
    """An operator by log-sum-exp with both ends of the interval, settled."""
    nothing = truth.edge if lowest else -truth.edge

    def on(parts: Sequence[Tensor], window: tuple[int, int], length: Tensor | None) -> Tensor:
        ends: list[Tensor] = []
        for anything in (-truth.edge, truth.edge):
            beyond = nothing if steps.clip or window[1] < 0 else anything
            filled = [
                _cut(torch.where(torch.isnan(part), anything, part), length, beyond)
                for part in parts
            ]
            ends.append(_turned(compute, filled, past, *window, beyond))
        return settle(ends[0], ends[1], truth)

    return on


def _turned(
    compute: Compute, parts: Sequence[Tensor], past: bool, first: int, last: int, beyond: float
) -> Tensor:
    """An operator that looks ahead, looking back where `past`."""
    return (
        compute([part.flip(-1) for part in parts], first, last, beyond).flip(-1)
        if past
        else compute(parts, first, last, beyond)
    )


def _cut(values: Tensor, length: Tensor | None, beyond: Tensor | float) -> Tensor:
    """Values [r, n, T] with `beyond` where a trace is over."""
    if length is None:
        return values
    return torch.where(
        torch.arange(values.shape[-1], device=length.device) < length, values, beyond
    )


def _laid(values: Tensor, rows: int, steps: Steps) -> Tensor:
    """Values [R, B] or broadcast to it, trace by trace: [R, n, T]."""
    return values.expand(rows, steps.places).reshape(
        rows, steps.places // max(1, steps.count), steps.count
    )
