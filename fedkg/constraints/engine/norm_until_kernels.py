"""`norm_until` trace by trace as compiled loops: all its passes run over one trace while that is in
the nearest cache.

Letters: N traces of T steps; L passes. All numbers are signed squares, see `norms`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.kernel_compilation import kernel
from fedkg._internal.threads import run_in_parts

Numbers = NDArray[np.floating]
Passes = NDArray[np.int64]

LEAST = 1 << 12
"""Numbers per thread; below this a further thread costs more than it saves."""


@kernel
def _joined(
    kept: Numbers,
    found: Numbers,
    kept_on: Numbers,
    found_on: Numbers,
    kept_out: Numbers,
    found_out: Numbers,
) -> None:
    """What holds over two runs of steps, the second following the first."""
    zero, one = kept.dtype.type(0), kept.dtype.type(1)
    for i in range(kept_on.shape[0]):
        k, f, k_on, f_on = kept[i], found[i], kept_on[i], found_on[i]
        weak = (k if k < zero else zero) + (f_on if f_on < zero else zero)
        both = weak if weak < zero else one / (one / abs(k) + one / abs(f_on))
        strong = (f if f > zero else zero) + (both if both > zero else zero)
        found_out[i] = strong if strong > zero else -one / (one / abs(f) + one / abs(both))
        weak = (k if k < zero else zero) + (k_on if k_on < zero else zero)
        kept_out[i] = weak if weak < zero else one / (one / abs(k) + one / abs(k_on))


@kernel
def _parted(
    kept: Numbers,
    found: Numbers,
    kept_on: Numbers,
    found_on: Numbers,
    of_kept: Numbers,
    of_found: Numbers,
    to_kept: Numbers,
    to_found: Numbers,
    to_kept_on: Numbers,
    to_found_on: Numbers,
) -> None:
    """The gradients of `_joined`: those of its results become those of its arguments."""
    zero, one = kept.dtype.type(0), kept.dtype.type(1)
    for i in range(kept_on.shape[0]):
        k, f, k_on, f_on = kept[i], found[i], kept_on[i], found_on[i]
        weak = (k if k < zero else zero) + (f_on if f_on < zero else zero)
        both = weak if weak < zero else one / (one / abs(k) + one / abs(f_on))
        strong = (f if f > zero else zero) + (both if both > zero else zero)
        whole = strong if strong > zero else -one / (one / abs(f) + one / abs(both))
        r_f, r_both = whole / f, whole / both
        r_f, r_both = (
            (r_f * r_f if r_f == r_f else zero),
            (r_both * r_both if r_both == r_both else zero),
        )
        g = of_found[i]
        to_found[i] = g * ((one if f > zero else zero) if whole > zero else r_f)
        g_both = g * ((one if both > zero else zero) if whole > zero else r_both)
        r_k, r_on = both / k, both / f_on
        r_k, r_on = (r_k * r_k if r_k == r_k else zero), (r_on * r_on if r_on == r_on else zero)
        near = g_both * ((one if k < zero else zero) if both < zero else r_k)
        to_found_on[i] = g_both * ((one if f_on < zero else zero) if both < zero else r_on)
        weak = (k if k < zero else zero) + (k_on if k_on < zero else zero)
        all_kept = weak if weak < zero else one / (one / abs(k) + one / abs(k_on))
        r_k, r_on = all_kept / k, all_kept / k_on
        r_k, r_on = (r_k * r_k if r_k == r_k else zero), (r_on * r_on if r_on == r_on else zero)
        g = of_kept[i]
        to_kept[i] = near + g * ((one if k < zero else zero) if all_kept < zero else r_k)
        to_kept_on[i] = g * ((one if k_on < zero else zero) if all_kept < zero else r_on)


@kernel
def _risen(
    left: Numbers, right: Numbers, passes: Passes, beyond: Numbers, kept: Numbers, found: Numbers
) -> None:
    """One trace [T] and its passes, kept and found [L + 1, T + last]."""
    steps, size = left.shape[0], kept.shape[1]
    kept[0, :steps], found[0, :steps] = left, right
    kept[0, steps:], found[0, steps:] = beyond[0], beyond[0]
    for p in range(passes.shape[0]):
        here, shift = (p, passes[p, 0]) if passes[p, 1] else (0, 1)
        size -= shift
        _joined(
            kept[here, :size],
            found[here, :size],
            kept[p, shift : shift + size],
            found[p, shift : shift + size],
            kept[p + 1, :size],
            found[p + 1, :size],
        )


@kernel
def _forward(
    left: Numbers,
    right: Numbers,
    passes: Passes,
    beyond: Numbers,
    first: int,
    last: int,
    out: Numbers,
) -> None:
    """`forward` of some traces."""
    count, steps = left.shape
    kept = np.empty((passes.shape[0] + 1, steps + last), left.dtype)
    found = np.empty_like(kept)
    for n in range(count):
        _risen(left[n], right[n], passes, beyond, kept, found)
        out[n] = found[passes.shape[0], first : first + steps]


@kernel
def _backward(
    left: Numbers,
    right: Numbers,
    passes: Passes,
    beyond: Numbers,
    first: int,
    last: int,
    gradient: Numbers,
    of_left: Numbers,
    of_right: Numbers,
) -> None:
    """`backward` of some traces."""
    count, steps = left.shape
    ends = passes.shape[0]
    kept = np.empty((ends + 1, steps + last), left.dtype)
    found, of_kept, of_found = np.empty_like(kept), np.empty_like(kept), np.empty_like(kept)
    parts = np.empty((4, steps + last), left.dtype)
    for n in range(count):
        _risen(left[n], right[n], passes, beyond, kept, found)
        of_kept[:], of_found[:] = 0, 0
        of_found[ends, first : first + steps] = gradient[n]
        size = steps + last
        for p in range(ends):
            size -= passes[p, 0] if passes[p, 1] else 1
        for p in range(ends - 1, -1, -1):
            here, shift = (p, passes[p, 0]) if passes[p, 1] else (0, 1)
            _parted(
                kept[here, :size],
                found[here, :size],
                kept[p, shift : shift + size],
                found[p, shift : shift + size],
                of_kept[p + 1, :size],
                of_found[p + 1, :size],
                parts[0, :size],
                parts[1, :size],
                parts[2, :size],
                parts[3, :size],
            )
            of_kept[here, :size] += parts[0, :size]
            of_found[here, :size] += parts[1, :size]
            of_kept[p, shift : shift + size] += parts[2, :size]
            of_found[p, shift : shift + size] += parts[3, :size]
            size += shift
        of_left[n], of_right[n] = of_kept[0, :steps], of_found[0, :steps]


def forward(
    left: Numbers,
    right: Numbers,
    passes: Sequence[tuple[int, bool]],
    beyond: float,
    first: int,
    last: int,
) -> Numbers:
    """The signed squares [N, T] of the until within `first` .. `last` of those [N, T] of its sides;
    `beyond` is the value after the last step.
    """
    out, schedule, after = (
        np.empty_like(right),
        _schedule(passes),
        np.array([beyond], dtype=left.dtype),
    )

    def work(start: int, stop: int) -> None:
        _forward(left[start:stop], right[start:stop], schedule, after, first, last, out[start:stop])

    run_in_parts(left.shape[0], _traces(left), work)
    return out


def backward(
    left: Numbers,
    right: Numbers,
    passes: Sequence[tuple[int, bool]],
    beyond: float,
    first: int,
    last: int,
    gradient: Numbers,
) -> tuple[Numbers, Numbers]:
    """The gradients of both sides, [N, T] each, for that of the until."""
    of_left, of_right = np.empty_like(left), np.empty_like(right)
    schedule, after = _schedule(passes), np.array([beyond], dtype=left.dtype)

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        _backward(
            left[part],
            right[part],
            schedule,
            after,
            first,
            last,
            gradient[part],
            of_left[part],
            of_right[part],
        )

    run_in_parts(left.shape[0], _traces(left), work)
    return of_left, of_right


def _schedule(passes: Sequence[tuple[int, bool]]) -> Passes:
    return np.array(passes, dtype=np.int64).reshape(-1, 2)


def _traces(values: Numbers) -> int:
    """Traces per thread; below this a further thread costs more than it saves."""
    return max(1, LEAST // max(1, int(values.shape[1])))
