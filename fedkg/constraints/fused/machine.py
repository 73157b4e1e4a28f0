"""Programs carried out for all rows of a bank on a part of a batch: values, slopes, penalties.

Each row is carried out on the samples that meet its conditions, in runs of places that stay in the cache. Letters: B batch, R rows, N and
N' numbers per sample, D conditions, k conditions per row, C parts of the batch, S slots.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedkg.constraints.fused.forward import FAR, INF, MARK, MARK_MISSING, NAN, STEP, ZERO, carried_out
from fedkg.constraints.fused.loops import Array, accumulated, copied, filled, gathered, least, multiply_number
from fedkg.constraints.fused.reverse import pulled_back
from fedkg.kernels import inner, kernel

REPORTED, NUDGED, LEAST = range(3)
"""What is asked of robustness."""

HINGE, SQUARED, LOG_BARRIER, SLOPES = range(4)
"""Kinds of penalties, and the gradient of robustness instead."""


@kernel
def listed(met: Array) -> Any:
    """Of each condition (bool [D, B]) where its samples begin and how many meet it, int64 [D, 2], and the samples, int64.

    Those that all samples meet are not listed.
    """
    ends = np.zeros((met.shape[0], 2), dtype=np.int64)
    at = 0
    for i in range(met.shape[0]):
        count = 0
        for j in range(met.shape[1]):
            count += met[i, j]
        ends[i, 0], ends[i, 1] = at, count
        at += count if count < met.shape[1] else 0
    samples = np.empty(at, dtype=np.int64)
    for i in range(met.shape[0]):
        at = ends[i, 0]
        for j in range(met.shape[1] if ends[i, 1] < met.shape[1] else 0):
            if met[i, j]:
                samples[at] = j
                at += 1
    return ends, samples


@inner
def selected(met: Array, conditions: Array, starts: Array, samples: Array, row: int, begin: int, end: int, places: Array) -> int:
    """The samples in begin..end that meet all conditions int64 [k, R] of a row, into `places`; how many, -1: all."""
    rarest, fewest = -1, met.shape[1]
    for i in range(conditions.shape[0]):
        count = starts[conditions[i, row], 1]
        if count < fewest:
            rarest, fewest = conditions[i, row], count
    if rarest < 0:
        return -1
    found = 0
    for at in range(starts[rarest, 0], starts[rarest, 0] + fewest):
        j = samples[at]
        if j < begin or j >= end:
            continue
        all_met = True
        for i in range(conditions.shape[0]):
            all_met &= met[conditions[i, row], j]
        if all_met:
            places[found] = j
            found += 1
    return found


@kernel
def counted(met: Array, conditions: Array, starts: Array, samples: Array, weight: Array, size: int, into: Array) -> None:
    """The weight of the samples that meet all conditions of each row, by parts of `size` samples: into float64 [R, C]."""
    places = np.empty(met.shape[1], dtype=np.int64)
    for row in range(conditions.shape[1]):
        found = selected(met, conditions, starts, samples, row, 0, met.shape[1], places)
        for i in range(met.shape[1] if found < 0 else found):
            at = i if found < 0 else places[i]
            into[row, at // size] += weight[at]


@inner
def _read(work: Array, inputs: Array, outputs: Array, index: Array, from_inputs: int, row: int, own: Array, n: int, dense: bool) -> None:
    """The slots of a row at n places into the first registers."""
    for i in range(index.shape[0]):
        source = inputs[index[i, row]] if i < from_inputs else outputs[index[i, row]]
        if dense:
            copied(work[i], source[own[0] :], n)
        else:
            gathered(work[i], source, own, n)


@kernel
def values_of(
    code: Array, operands: Array, numbers: Array, windows: Array, lengths: Array, constants: Array, inputs: Array, outputs: Array,
    index: Array, layout: Array, met: Array, conditions: Array, starts: Array, samples: Array, begin: int, end: int,
    first: int, last: int, what: int, into: Array, fired: Array,
) -> None:  # fmt: skip
    """Robustness of the rows first..last at the places begin..end.

    Args:
        index: int64 [S, R], which row of `inputs` or `outputs` each slot is.
        layout: int64: how many slots are inputs, registers, the formula's, the refutation's, places of a run, T, whether windows clip,
            whether rows apply at the first step of a trace alone, places that all rows go through before the next.
        what: `REPORTED` or `NUDGED` into [R, B], NaN where it is unknown or the row does not apply; `LEAST` into [R, traces], of the steps
            of each trace the least that is known, NaN where none is, of rows that apply everywhere.
        fired: bool [R, B], where implications fire; [0, 0]: not asked for.
    """
    from_inputs, registers, width, steps = layout[0], layout[1], layout[4], layout[5]
    work, gate = np.empty((registers, width), dtype=inputs.dtype), np.empty(width, dtype=inputs.dtype)
    buffers, places = np.empty((2, 2 * width + 1), dtype=inputs.dtype), np.empty(end - begin, dtype=np.int64)
    everywhere = np.arange(begin, end)
    unknown, nan, zero, _inf = constants[MARK], constants[NAN], constants[ZERO], constants[INF]
    step = nan if what == NUDGED else constants[STEP]
    piece = layout[8]
    for low in range(begin, end, piece):
        high = min(end, low + piece)
        for row in range(first, last):
            to = into[row - first]
            found = selected(met, conditions, starts, samples, row, low, high, places)
            dense = found < 0
            if not dense:
                filled(to[low:], nan, high - low)
            found = high - low if dense else found
            for at in range(0, found, width):
                n, own = min(width, found - at), everywhere[low - begin + at :] if dense else places[at:]
                _read(work, inputs, outputs, index, from_inputs, row, own, n, dense)
                carried_out(
                    code, operands, numbers, windows, lengths, constants, work, buffers, gate,
                    row, n, steps, own[0] // steps, layout[6] != 0,
                )  # fmt: skip
                x = work[layout[2]]
                if what == LEAST:
                    _least(to[own[0] // steps :], x, n, steps, lengths, own[0] // steps, layout[7] != 0, constants, buffers)
                    continue
                for j in range(n):
                    t = x[j]
                    x[j] = nan if t == unknown else zero if t == step else t
                if dense and not layout[7]:
                    copied(to[own[0] :], x, n)
                else:
                    for j in range(n):
                        to[own[j]] = nan if layout[7] and own[j] % steps else x[j]
                if fired.shape[0]:
                    y, fires = work[layout[3]], fired[row - first]
                    for j in range(n):
                        fires[own[j]] = y[j] < unknown


@inner
def _least(
    to: Array, x: Array, n: int, steps: int, lengths: Array, first_trace: int, initial: bool, constants: Array, buffers: Array
) -> None:
    """The least known of the numbers of each trace, as it is reported; NaN where none is known."""
    unknown, inf, nan, zero, step = constants[MARK], constants[INF], constants[NAN], constants[ZERO], constants[STEP]
    here, there = buffers[0], buffers[1]
    for j in range(n):
        here[j] = inf if x[j] == unknown else x[j]
    shortest = 1 if initial else steps
    for k in range(n // steps if lengths.shape[0] else 0):
        shortest = min(shortest, lengths[first_trace + k])
    size, m = 1, n
    while 2 * size <= shortest:  # all traces at once, by blocks of 1, 2, 4, ... steps
        m -= size
        least(there, here, here[size:], m)
        here, there = there, here
        size *= 2
    for k in range(n // steps):
        length = 1 if initial else lengths[first_trace + k] if lengths.shape[0] else steps
        best, known = inf, False
        for j in range(0, length - size + 1, size):
            best = min(best, here[k * steps + j])
        if length:
            best = min(best, here[k * steps + max(0, length - size)])
        if best == inf:  # of infinite numbers, or of none
            for j in range(length):
                known |= x[k * steps + j] != unknown
        to[k] = zero if best == step else best if best != inf or known else nan


@kernel
def pulled(
    code: Array, operands: Array, numbers: Array, windows: Array, lengths: Array, constants: Array, inputs: Array, outputs: Array,
    index: Array, layout: Array, met: Array, conditions: Array, starts: Array, samples: Array, begin: int, end: int,
    first: int, last: int, kind: int, given: Array, weight: Array, size: int, sharpness: Any,
    value: Array, of_inputs: Array, of_outputs: Array,
) -> None:  # fmt: skip
    """Slopes by the numbers of what the rows first..last say at the places begin..end, added to [N, B], [N', B] (or [0, 0]: not asked for).

    Args:
        kind: `SLOPES` of robustness, `given` [R, B] its own; or of penalties of a kind, which are added to value float64 [B]:
            `given` [R, C] is by what those of a part of the batch are multiplied, `weight` [B] what each sample counts, `size` the
            samples of a part.
    """
    from_inputs, registers, result, width, steps, clip = layout[0], layout[1], layout[2], layout[4], layout[5], layout[6] != 0
    work, slopes = np.empty((registers, width), dtype=inputs.dtype), np.empty((registers, width), dtype=inputs.dtype)
    gate, spare, cost = (np.empty(width, dtype=inputs.dtype), np.empty(width, dtype=inputs.dtype), np.empty(width, dtype=inputs.dtype))
    buffers, queue = np.empty((2, 2 * width + 1), dtype=inputs.dtype), np.empty(2 * steps, dtype=np.int64)
    places, everywhere = np.empty(end - begin, dtype=np.int64), np.arange(begin, end)
    zero, one, every = constants[ZERO], inputs.dtype.type(1), of_inputs.shape[0] > 0
    pulls = every or of_outputs.shape[0] > 0
    piece = layout[8]
    for low in range(begin, end, piece):
        high = min(end, low + piece)
        for row in range(first, last):
            g = given[row - first]
            found = selected(met, conditions, starts, samples, row, low, high, places)
            dense = found < 0
            found = high - low if dense else found
            for at in range(0, found, width):
                n, own = min(width, found - at), everywhere[low - begin + at :] if dense else places[at:]
                trace = own[0] // steps
                filled(gate, one, n)
                if layout[7]:
                    for j in range(n):
                        gate[j] = zero if own[j] % steps else one
                if kind == SLOPES and not _asked(g, gate, own, n, spare):
                    continue
                _read(work, inputs, outputs, index, from_inputs, row, own, n, dense)
                if not carried_out(
                    code, operands, numbers, windows, lengths, constants, work, buffers, gate, row, n, steps, trace, clip
                ):  # fmt: skip
                    continue
                if kind == SLOPES:
                    for j in range(n):
                        spare[j] = spare[j] if work[result, j] != constants[MARK] else zero
                else:
                    _worth(gate, weight, g, size, own, n, dense, spare)
                    copied(cost, work[result], n)
                    if not _paid(cost, spare, own, n, dense, kind, sharpness, constants, value) or not pulls:
                        continue
                for i in range(registers):
                    filled(slopes[i], zero, n)
                copied(slopes[result], spare, n)
                pulled_back(
                    code, operands, numbers, windows, lengths, constants, work, slopes, spare, queue, index.shape[0], every,
                    row, n, steps, trace, clip,
                )  # fmt: skip
                _given_back(slopes, index, from_inputs, row, own, n, dense, of_inputs, of_outputs)


@inner
def _asked(given: Array, gate: Array, places: Array, n: int, slope: Array) -> bool:
    """What is given at some places, where the row counts; whether any is not 0."""
    some = False
    for j in range(n):
        slope[j] = given[places[j]] * gate[j]
        some |= slope[j] != slope.dtype.type(0)
    return some


@inner
def _given_back(
    slopes: Array, index: Array, from_inputs: int, row: int, own: Array, n: int, dense: bool, of_inputs: Array, of_outputs: Array
) -> None:
    for i in range(index.shape[0]):
        if i < from_inputs and of_inputs.shape[0]:
            _scattered(of_inputs[index[i, row]], slopes[i], own, n, dense)
        elif i >= from_inputs and of_outputs.shape[0]:
            _scattered(of_outputs[index[i, row]], slopes[i], own, n, dense)


@inner
def _scattered(to: Array, x: Array, places: Array, n: int, dense: bool) -> None:
    if dense:
        accumulated(to[places[0] :], x, n)
    else:
        for j in range(n):
            to[places[j]] += x[j]


@inner
def _worth(gate: Array, weight: Array, share: Array, size: int, places: Array, n: int, dense: bool, into: Array) -> None:
    """By what the penalty at each of some places is multiplied."""
    if not dense:
        for j in range(n):
            into[j] = gate[j] * weight[places[j]] * share[places[j] // size]
        return
    j = 0
    while j < n:
        part = places[j] // size
        m = min(n, (part + 1) * size - places[0]) - j
        multiply_number(into[j:], weight[places[j] :], share[part], m, np.inf, share[part])
        j += m
    for j in range(n):
        into[j] = into[j] * gate[j]


@inner
def _paid(
    missing: Array, worth: Array, places: Array, n: int, dense: bool, kind: int, sharpness: Any, constants: Array, value: Array
) -> bool:
    """Adds to value the penalties (`engine.penalty.PenaltyForm`) of what is missing; `worth` becomes their slopes; whether any is not 0."""
    zero, mark, one = constants[ZERO], constants[MARK_MISSING], missing.dtype.type(1)
    far, edge = constants[FAR] / missing.dtype.type(2), one / (sharpness * sharpness)
    to = value[places[0] :]
    if kind != LOG_BARRIER:
        some = _hinged(missing, worth, n, kind == SQUARED, zero, mark, far)
    else:
        some = False
        for j in range(n):  # what is unknown or out of reach costs nothing
            m = missing[j]
            off = m == mark or m >= far or m < -one
            w, m = zero if off else worth[j], -one if off else m
            inner = m <= -edge
            missing[j] = w * (-np.log(-m if inner else edge) / sharpness + (zero if inner else sharpness * (m + edge)))
            worth[j] = w * (one / (-m * sharpness) if inner else sharpness)
            some |= worth[j] != zero
    if dense:
        for j in range(n):
            to[j] = to[j] + missing[j]
    else:
        for j in range(n):
            value[places[j]] += missing[j]
    return some


@inner
def _hinged(missing: Array, worth: Array, n: int, squared: bool, zero: Any, mark: Any, far: Any) -> bool:
    """What is missing, known and in reach, or its square, times its worth; `worth` becomes the slope."""
    some = 0
    for j in range(n):
        m = missing[j]
        m = m if m > mark else zero
        m = m if m < far else zero
        w = worth[j] if m > zero else zero
        steep = w * (m + m) if squared else w
        missing[j] = w * m * m if squared else w * m
        worth[j] = steep
        some |= steep != zero
    return some != 0
