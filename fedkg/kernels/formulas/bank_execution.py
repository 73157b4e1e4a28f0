"""Programs carried out for all rows of a bank on a part of a batch: values, slopes, penalties.

Each row is carried out on the samples that meet its conditions, in runs of places that stay in the
cache. Letters: B batch, R rows, N and N' numbers per sample, D conditions, k conditions per row, C
parts of the batch, S slots, G registers, W places of a run. `frame` and `batch` are as in
`loop_argument_positions`.
"""

from __future__ import annotations

from fedkg.kernels.formulas.elementwise_loops import (
    accumulated,
    copied,
    filled,
    gathered,
    multiplied,
    some,
)
from fedkg.kernels.formulas.forward import length_of, run_forward
from fedkg.kernels.formulas.gather_numbers import numbers_read
from fedkg.kernels.formulas.loop_argument_positions import (
    ASKED,
    CLIP,
    CODE,
    CONDITIONS,
    CONSTANTS,
    FROM_INPUTS,
    INDEX,
    INF,
    INITIAL,
    INPUTS,
    LENGTHS,
    MARK,
    MET,
    NAN,
    OPERATIONS,
    OUTPUTS,
    PIECE,
    PLACES,
    REFUTED,
    REGISTERS,
    RESULT,
    ROWS,
    SAMPLES,
    SLOTS,
    STARTS,
    STEP,
    STEPS,
    WIDTH,
    WINDOW_MIN,
    WINDOWS,
    ZERO,
)
from fedkg.kernels.formulas.penalty_form_loops import SLOPES, paid, worth_of
from fedkg.kernels.formulas.reverse import run_backward
from fedkg.kernels.loop_language import (
    Bools,
    Double,
    Doubles,
    Float,
    Floats,
    Ints,
    address_of,
    bools_at,
    floats_at,
    ints_at,
    loop,
    to_float,
)

REPORTED, NUDGED, LEAST, JUDGED = range(4)
"""What is asked of robustness."""


@loop
def number_samples(met: Bools, conditions: int, places: int, starts: Ints, all: Ints) -> None:
    """Of each condition (bool [D, B]) where its samples begin and how many meet it, int64 [D, 2].

    In `all` how many are listed.
    """
    total = 0
    for i in range(conditions):
        own, every, count = met[i * places :], True, places
        for j in range(places):
            every &= own[j]
        if not every:
            count = 0
            for j in range(places):
                count += own[j]
        starts[2 * i], starts[2 * i + 1] = total, count
        total += count if count < places else 0
    all[0] = total


@loop
def listed(met: Bools, conditions: int, places: int, starts: Ints, samples: Ints) -> None:
    """The samples that meet each condition, one after the other.

    Those that all samples meet are not listed.
    """
    for i in range(conditions):
        if starts[2 * i + 1] < places:
            at = starts[2 * i]
            for j in range(places):
                if met[i * places + j]:
                    samples[at] = j
                    at += 1


@loop
def selected(frame: Ints, batch: Ints, row: int, begin: int, end: int, places: Ints) -> int:
    """The samples in begin..end that meet all conditions of a row, into `places`.

    How many, -1: all.
    """
    met, starts, conditions = (
        bools_at(batch[MET]),
        ints_at(batch[STARTS]),
        ints_at(frame[CONDITIONS]),
    )
    rarest, fewest, rows = -1, batch[PLACES], frame[ROWS]
    for i in range(frame[ASKED]):
        condition = conditions[i * rows + row]
        count = starts[2 * condition + 1]
        if count < fewest:
            rarest, fewest = condition, count
    if rarest < 0:
        return -1
    samples, found = ints_at(batch[SAMPLES])[starts[2 * rarest] :], 0
    for at in range(fewest):
        j = samples[at]
        if j < begin or j >= end:
            continue
        all_met = True
        for i in range(frame[ASKED]):
            all_met &= met[conditions[i * rows + row] * batch[PLACES] + j]
        if all_met:
            places[found] = j
            found += 1
    return found


@loop
def counted(
    frame: Ints, batch: Ints, weight: Doubles, size: int, parts: int, into: Doubles, places: Ints
) -> None:
    """The weight of the samples that meet all conditions of each row, by parts of `size` samples:
    into [R, C].
    """
    for row in range(frame[ROWS]):
        found = selected(frame, batch, row, 0, batch[PLACES], places)
        if found < 0:
            for j in range(batch[PLACES]):
                into[row * parts + j // size] += weight[j]
        else:
            for i in range(found):
                j = places[i]
                into[row * parts + j // size] += weight[j]


@loop
def _read(
    frame: Ints, batch: Ints, at: Ints, work: Floats, row: int, own: Ints, n: int, dense: bool
) -> None:
    """The slots of a row at n places: their existing address, or gathered into the first
    registers.
    """
    index, rows = ints_at(frame[INDEX]), frame[ROWS]
    for i in range(frame[SLOTS]):
        numbers = floats_at(batch[INPUTS] if i < frame[FROM_INPUTS] else batch[OUTPUTS])
        source, register = (
            numbers[index[i * rows + row] * batch[PLACES] :],
            work[i * frame[WIDTH] :],
        )
        if dense:
            at[i] = address_of(source[own[0] :])
        else:
            gathered(register, source, own, n)
            at[i] = address_of(register)


@loop
def _registered(frame: Ints, work: Floats, at: Ints) -> Floats:
    """The addresses of the registers; where there is room after them."""
    for i in range(frame[REGISTERS]):
        at[i] = address_of(work[i * frame[WIDTH] :])
    return work[frame[REGISTERS] * frame[WIDTH] :]


@loop
def values_of(
    frame: Ints, batch: Ints, begin: int, end: int, first: int, last: int, what: int, into: Floats,
    fires: int, fired: Bools, work: Floats, places: Ints,
) -> None:  # fmt: skip
    """Compute the robustness of the rows first..last at the places begin..end.

    Args:
        frame: the bank, see `loop_argument_positions`.
        batch: the batch, see `loop_argument_positions`.
        begin: the first place.
        end: the place after the last one.
        first: the first row.
        last: the row after the last one.
        what: `REPORTED` or `NUDGED` writes the robustness to `into`, NaN where it is unknown or the
            row does not apply; `LEAST` writes the least known robustness of the steps of each
            trace, NaN if none is known, and needs rows that apply everywhere; `JUDGED` writes only
            to `fired`.
        into: [R, B], for `LEAST` [R, traces].
        fires: not 0: also find where implications fire. For `JUDGED`, 1 judges whole traces and 0
            judges places.
        fired: bool [R, B], if `fires` is not 0: where implications fire. For `JUDGED` bool [3, R,
            B]: where rows apply and are satisfied, where they are violated, and where they fire
            (non-implications always). With `fires` 1 [3, R, traces]: whether this is so at some
            step of the trace; a trace with a violated step is not satisfied. All False before the
            call.
        work: scratch space of (G + 5) W + 2 numbers.
        places: scratch space of 2 P + G numbers, for pieces of P places.
    """
    constants, width, steps = floats_at(frame[CONSTANTS]), frame[WIDTH], frame[STEPS]
    piece = frame[PIECE] if frame[PIECE] else end - begin
    everywhere, at, columns = places[piece:], places[2 * piece :], batch[PLACES]
    if what == LEAST or (what == JUDGED and fires != 0):
        columns = columns // steps
    gate = _registered(frame, work, at)
    buffers, initial = gate[width:], frame[INITIAL] != 0
    unknown, nan, zero = constants[MARK], constants[NAN], constants[ZERO]
    step, each = (
        nan if what == NUDGED else constants[STEP],
        initial or (what == NUDGED and fires != 0),
    )
    for low in range(
        begin, end, piece
    ):  # unless each is asked for, it is known of all places where a run of them begins
        high = min(end, low + piece)
        for i in range(0, high - low, 1 if each else width):
            everywhere[i] = low + i
        for row in range(first, last):
            to = into[(row - first) * columns :]
            found = selected(frame, batch, row, low, high, places)
            dense = found < 0
            if dense:
                found = high - low
            elif what == LEAST:
                filled(to[low // steps :], nan, (high - low) // steps)
            elif what != JUDGED:
                filled(to[low:], nan, high - low)
            for done in range(0, found, width):
                n, own = min(width, found - done), everywhere[done:] if dense else places[done:]
                _read(frame, batch, at, work, row, own, n, dense)
                trace, result = own[0] // steps, floats_at(at[frame[RESULT]])
                if what == LEAST:
                    _least(frame, batch, at, to[trace:], gate, buffers, row, n, trace)
                    continue
                run_forward(frame, batch, at, frame[OPERATIONS], gate, buffers, row, n, trace)
                if what == JUDGED:
                    flags, plane = fired[(row - first) * columns :], (last - first) * columns
                    _judged(
                        frame, batch, at, flags, plane, own, n, dense and not initial, fires != 0
                    )
                    continue
                if dense and not initial:
                    _reported(to[own[0] :], result, n, unknown, step, zero, nan)
                else:
                    _reported(result, result, n, unknown, step, zero, nan)
                    for j in range(n):
                        to[own[j]] = nan if initial and own[j] % steps != 0 else result[j]
                if fires:
                    y, where = floats_at(at[frame[REFUTED]]), fired[(row - first) * batch[PLACES] :]
                    for j in range(n):
                        where[own[j]] = y[j] < unknown


@loop
def _reported(
    d: Floats, x: Floats, n: int, unknown: Float, step: Float, zero: Float, nan: Float
) -> None:
    """x without the encodings of the unknown and of a strict comparison with margin 0."""
    for j in range(n):
        t = x[j]
        d[j] = nan if t == unknown else zero if t == step else t


@loop
def _judged(
    frame: Ints,
    batch: Ints,
    at: Ints,
    to: Bools,
    plane: int,
    own: Ints,
    n: int,
    all: bool,
    whole: bool,
) -> None:
    """Where a row is satisfied, violated and fires among n places.

    `all`: at places one after the other, whatever step they are.

    Args:
        whole: of each trace, see `values_of`; of rows that apply everywhere.
    """
    constants, always = floats_at(frame[CONSTANTS]), frame[REFUTED] < 0
    unknown, zero, every = constants[MARK], constants[ZERO], frame[STEPS] if frame[INITIAL] else 1
    x = floats_at(at[frame[RESULT]])
    y = x if always else floats_at(at[frame[REFUTED]])
    if whole:
        for k in range(n // frame[STEPS]):
            trace, begin = own[0] // frame[STEPS] + k, k * frame[STEPS]
            length = 1 if frame[INITIAL] else length_of(batch, trace, frame[STEPS])
            _judged_trace(to[trace:], plane, x[begin:], y[begin:], length, always, unknown, zero)
        return
    if not all:
        for j in range(n):
            i, t = own[j], x[j]
            if i % every == 0:
                to[i] = t >= zero and t != unknown
                to[plane + i] = t < zero and t != unknown
                to[2 * plane + i] = y[j] < unknown if not always else True
        return
    satisfied, violated, fires = to[own[0] :], to[plane + own[0] :], to[2 * plane + own[0] :]
    for j in range(n):
        t = x[j]
        satisfied[j] = t >= zero and t != unknown
    for j in range(n):
        t = x[j]
        violated[j] = t < zero and t != unknown
    for j in range(n):
        t = y[j]
        fires[j] = always or t < unknown


@loop
def _judged_trace(
    to: Bools,
    plane: int,
    x: Floats,
    y: Floats,
    length: int,
    always: bool,
    unknown: Float,
    zero: Float,
) -> None:
    satisfied, violated, fires = False, False, always and length > 0
    for j in range(length):
        t, u = x[j], y[j]
        satisfied |= t >= zero and t != unknown
        violated |= t < zero and t != unknown
        fires |= u < unknown
    to[0], to[plane], to[2 * plane] = satisfied and not violated, violated, fires


@loop
def _least(
    frame: Ints,
    batch: Ints,
    at: Ints,
    to: Floats,
    gate: Floats,
    buffers: Floats,
    row: int,
    n: int,
    first_trace: int,
) -> None:
    """The least known of the numbers of each trace, as it is reported; NaN where none is known.

    The least of all windows that begin where they are asked for and end with the trace at the
    latest is that of all steps: where all are known, such windows at a program's end need not
    slide.
    """
    last = ints_at(frame[CODE])[8 * (frame[OPERATIONS] - 1) :]
    window = ints_at(frame[WINDOWS])[3 * last[5] * frame[ROWS] + row :]
    slides = last[0] == WINDOW_MIN and window[0] == 0 and window[frame[ROWS]] >= 0
    if slides and batch[CLIP] != 0 and batch[LENGTHS] == 0 and frame[INITIAL] == 0:
        run_forward(frame, batch, at, frame[OPERATIONS] - 1, gate, buffers, row, n, first_trace)
        if _leasts(frame, batch, to, floats_at(at[last[2]]), n, first_trace):
            return
    run_forward(frame, batch, at, frame[OPERATIONS], gate, buffers, row, n, first_trace)
    _leasts(frame, batch, to, floats_at(at[frame[RESULT]]), n, first_trace)


@loop
def _leasts(frame: Ints, batch: Ints, to: Floats, x: Floats, n: int, first_trace: int) -> bool:
    """Of each trace the least known of some numbers as they are; whether all are known."""
    constants, steps = floats_at(frame[CONSTANTS]), frame[STEPS]
    unknown, inf, nan, zero, step = (
        constants[MARK],
        constants[INF],
        constants[NAN],
        constants[ZERO],
        constants[STEP],
    )
    whole = True
    for k in range(n // steps):
        length = 1 if frame[INITIAL] else length_of(batch, first_trace + k, steps)
        own, best, known, some = x[k * steps :], inf, True, False
        for j in range(length):
            t = own[j]
            known &= t != unknown
            some |= t != unknown
            best = min(best, t if t != unknown else inf)
        whole &= known
        to[k] = nan if not some else zero if best == step else best
    return whole


@loop
def pulled(
    frame: Ints, batch: Ints, begin: int, end: int, first: int, last: int, kind: int, given: Floats,
    parts: int, weight: Floats, size: int, sharpness: Double, value: Doubles, of_inputs: Floats,
    pulls_inputs: int, of_outputs: Floats, pulls_outputs: int, work: Floats, places: Ints,
) -> None:  # fmt: skip
    """Add the gradients of the rows first..last at the places begin..end, with respect to the input
    and output numbers.

    Args:
        frame: the bank, see `loop_argument_positions`.
        batch: the batch, see `loop_argument_positions`.
        begin: the first place.
        end: the place after the last one.
        first: the first row.
        last: the row after the last one.
        kind: `SLOPES` for the gradients of robustness, or a kind of penalty, which is also added to
            `value`.
        given: for `SLOPES` [R, B], the incoming gradient of each robustness. For penalties [R, C],
            the factor of each row's penalties in each part of the batch.
        parts: the number of columns of `given`, B or C.
        weight: [B], the weight of each sample; for penalties only.
        size: the number of samples in each part of the batch; for penalties only.
        sharpness: the sharpness of the penalty.
        value: [B], the sum to which the penalties are added.
        of_inputs: [N, B], the gradients with respect to the input numbers.
        pulls_inputs: 0 leaves `of_inputs` unchanged.
        of_outputs: [N', B], the gradients with respect to the output numbers.
        pulls_outputs: 0 leaves `of_outputs` unchanged.
        work: scratch space of (2 G + 3 + 2 L) W + L numbers, for L `levels` of
            `reverse.run_backward`.
        places: scratch space of 2 P + G numbers, for pieces of P places.
    """
    constants, width, steps, result = (
        floats_at(frame[CONSTANTS]),
        frame[WIDTH],
        frame[STEPS],
        frame[RESULT],
    )
    piece = frame[PIECE] if frame[PIECE] else end - begin
    everywhere, at = places[piece:], places[2 * piece :]
    slopes = _registered(frame, work, at)
    gate = slopes[frame[REGISTERS] * width :]
    spare, cost, buffers = gate[width:], gate[2 * width :], gate[3 * width :]
    zero, initial = constants[ZERO], frame[INITIAL] != 0
    for low in range(begin, end, piece):
        high = min(end, low + piece)
        for i in range(high - low):
            everywhere[i] = low + i
        for row in range(first, last):
            g, found = (
                given[(row - first) * parts :],
                selected(frame, batch, row, low, high, places),
            )
            dense = found < 0
            if dense:
                found = high - low
            for done in range(0, found, width):
                n, own = min(width, found - done), everywhere[done:] if dense else places[done:]
                trace = own[0] // steps
                filled(gate, 1.0, n)
                if initial:
                    for j in range(n):
                        gate[j] = 1.0 if own[j] % steps == 0 else zero
                if kind == SLOPES and not _asked(g, gate, own, n, dense, spare):
                    continue
                _read(frame, batch, at, work, row, own, n, dense)
                if not run_forward(
                    frame, batch, at, frame[OPERATIONS], gate, buffers, row, n, trace
                ):
                    continue
                x = floats_at(at[result])
                if kind == SLOPES:
                    for j in range(n):
                        t = spare[j]
                        spare[j] = t if x[j] != constants[MARK] else zero
                else:
                    worth_of(gate, weight, g, size, own, n, dense, spare)
                    copied(cost, x, n)
                    if not paid(
                        cost, spare, own, n, dense, kind, to_float(sharpness), constants, value
                    ):
                        continue
                    if not pulls_inputs and not pulls_outputs:
                        continue
                for i in range(frame[REGISTERS]):
                    filled(slopes[i * width :], zero, n)
                copied(slopes[result * width :], spare, n)
                run_backward(
                    frame, batch, at, slopes, spare, buffers, pulls_inputs != 0, row, n, trace
                )
                _given_back(
                    frame,
                    batch,
                    slopes,
                    row,
                    own,
                    n,
                    dense,
                    of_inputs,
                    pulls_inputs,
                    of_outputs,
                    pulls_outputs,
                )


@loop
def _asked(given: Floats, gate: Floats, places: Ints, n: int, dense: bool, slope: Floats) -> bool:
    """What is given at some places, where the row counts; whether any is not 0."""
    if dense:
        multiplied(slope, given[places[0] :], gate, n)
    else:
        gathered(slope, given, places, n)
        multiplied(slope, slope, gate, n)
    return some(slope, n)


@loop
def _given_back(
    frame: Ints, batch: Ints, slopes: Floats, row: int, own: Ints, n: int, dense: bool,
    of_inputs: Floats, pulls_inputs: int, of_outputs: Floats, pulls_outputs: int,
) -> None:  # fmt: skip
    index, places = ints_at(frame[INDEX]), batch[PLACES]
    for i in range(frame[SLOTS]):
        begins, x = index[i * frame[ROWS] + row] * places, slopes[i * frame[WIDTH] :]
        if i < frame[FROM_INPUTS]:
            if pulls_inputs:
                _scattered(of_inputs[begins:], x, own, n, dense)
        elif pulls_outputs:
            _scattered(of_outputs[begins:], x, own, n, dense)


@loop
def _scattered(to: Floats, x: Floats, places: Ints, n: int, dense: bool) -> None:
    if dense:
        accumulated(to[places[0] :], x, n)
    else:
        for j in range(n):
            to[places[j]] += x[j]


ENTRIES = (values_of, pulled, counted, number_samples, listed, numbers_read)
"""What Python calls."""
