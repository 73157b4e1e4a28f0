"""A program carried out for one row on a run of places.

Letters: n places of the run, whole traces of T steps for programs over time; G registers, R rows, Q
numbers of a row. `frame` and `batch` are as in `loop_argument_positions`.
"""

from __future__ import annotations

import math

from fedkg.constraints.fused.program import (
    BOUNDLESS,
    EDGE_HIGH,
    HAIR_DOWN,
    HAIR_UP,
    MISSING,
    NAN_TOO,
    OTHER,
    PAST,
    STRICT,
)
from fedkg.kernels.formulas.elementwise_loops import (
    add,
    add_number,
    copied,
    divide,
    divide_number,
    filled,
    least,
    margin,
    margin_above,
    margin_below,
    most,
    multiply,
    multiply_number,
    negated,
    number_divided,
    poisoned,
    replaced,
    scaled,
)
from fedkg.kernels.formulas.loop_argument_positions import (
    ABS,
    ADD,
    ADD_S,
    CATEGORY,
    CEIL,
    CLIP,
    COALESCE,
    CODE,
    CONSTANTS,
    DECIDE,
    DIV,
    DIV_S,
    ENDS_MIN,
    FAR,
    FAR_OFF,
    FILL,
    FIRST,
    FLOOR,
    GUARD,
    HAIR,
    HAIR_OFF,
    INF,
    KNOWN,
    LARGEST,
    LEAST,
    LENGTHS,
    MARGIN,
    MARGIN_S,
    MARK,
    MARK_MISSING,
    MAX,
    MIN,
    MINUS_INF,
    MOST,
    MUL,
    MUL_S,
    NAN,
    NEG,
    NUMBERS,
    OPERANDS,
    RELEASE,
    ROUND,
    ROWS,
    S_DIV,
    S_MARGIN,
    S_SUB,
    SCALED,
    SQRT,
    STEP,
    STEPS,
    SUB,
    SUB_S,
    UNTIL,
    WIDTH,
    WINDOW_MAX,
    WINDOW_MIN,
    WINDOWS,
    ZERO,
)
from fedkg.kernels.loop_language import Float, Floats, Ints, floats_at, ints_at, loop


@loop
def run_forward(
    frame: Ints,
    batch: Ints,
    at: Ints,
    operations: int,
    gate: Floats,
    buffers: Floats,
    row: int,
    n: int,
    first_trace: int,
) -> bool:
    """Run the first operations of a program for one row; return False if guards exclude all places.

    Args:
        frame: the bank, see `loop_argument_positions`.
        batch: the batch, see `loop_argument_positions`.
        at: int64 [G], the addresses of the registers; those of slots already contain their numbers.
        operations: how many operations to run.
        gate: [n], 1 where the row applies and 0 elsewhere; guards set more numbers to 0.
        buffers: scratch space of more than 4 n numbers.
        row: the row.
        n: the number of places.
        first_trace: the trace of the first place.
    """
    constants, numbers, rows = floats_at(frame[CONSTANTS]), floats_at(frame[NUMBERS]), frame[ROWS]
    for i in range(operations):
        code = ints_at(frame[CODE])[8 * i :]
        op, flags = code[0], code[6]
        d = floats_at(at[code[1]])
        mark = constants[MARK_MISSING] if flags & MISSING else constants[MARK]
        if op in (MIN, MAX):
            _picked(
                d, at, ints_at(frame[OPERANDS])[code[2] :], code[3] - code[2], n, op == MIN, flags
            )
            continue
        x, s = floats_at(at[code[2]]), numbers[code[5] * rows + row :]
        if op < MARGIN:
            _term(op, d, x, floats_at(at[code[3]]), s, n, constants)
        elif op <= SCALED:
            _margins(op, d, x, floats_at(at[code[3]]), s, n, flags, constants, mark)
        elif op in (KNOWN, CATEGORY):
            _decided(op == KNOWN, d, x, s, n, flags, constants, mark)
        elif op == GUARD:
            if not _guarded(gate, x, n, constants[ZERO]):
                return False
        elif op == DECIDE:
            far, off, unknown, missing = (
                constants[FAR],
                constants[FAR_OFF],
                constants[MARK],
                constants[MARK_MISSING],
            )
            zero = constants[ZERO]
            for j in range(n):
                t = x[j]
                d[j] = off if t >= zero else missing if t == unknown else far
        else:
            _timed(
                frame, batch, code, d, x, floats_at(at[code[3]]), mark, buffers, row, n, first_trace
            )
    return True


@loop
def _guarded(gate: Floats, x: Floats, n: int, zero: Float) -> bool:
    """The gate where a verdict holds; whether it does anywhere."""
    left = False
    for j in range(n):
        gate[j] = gate[j] if x[j] > zero else zero
    for j in range(n):
        left |= gate[j] != zero
    return left


@loop
def _margins(
    op: int,
    d: Floats,
    x: Floats,
    y: Floats,
    s: Floats,
    n: int,
    flags: int,
    constants: Floats,
    mark: Float,
) -> None:
    zero = constants[ZERO]
    shift = (
        constants[HAIR] if flags & HAIR_UP else constants[HAIR_OFF] if flags & HAIR_DOWN else zero
    )
    at_zero = constants[STEP] if flags & STRICT else zero
    limit = constants[INF] if flags & BOUNDLESS else constants[LARGEST]
    if op == MARGIN_S:
        margin_above(d, x, s[0], n, shift, at_zero, limit, mark)
    elif op == S_MARGIN:
        margin_below(d, s[0], x, n, shift, at_zero, limit, mark)
    elif op == MARGIN:
        margin(d, x, y, n, shift, at_zero, limit, mark)
    else:
        scaled(d, x, s[0], n, shift, limit, mark)


@loop
def _timed(
    frame: Ints,
    batch: Ints,
    code: Ints,
    d: Floats,
    x: Floats,
    y: Floats,
    mark: Float,
    buffers: Floats,
    row: int,
    n: int,
    first_trace: int,
) -> None:
    """The operations that look at other steps."""
    constants, op, flags, steps = floats_at(frame[CONSTANTS]), code[0], code[6], frame[STEPS]
    window, rows = ints_at(frame[WINDOWS])[3 * code[5] * frame[ROWS] + row :], frame[ROWS]
    is_open = batch[CLIP] != 0 or window[2 * rows] != 0
    edge = constants[INF] if flags & EDGE_HIGH else constants[MINUS_INF]
    if op in (WINDOW_MIN, WINDOW_MAX):
        empty = constants[INF] if op == WINDOW_MIN else constants[MINUS_INF]
        slid(
            frame,
            batch,
            d,
            x,
            n,
            first_trace,
            window,
            edge if is_open else mark,
            empty,
            op == WINDOW_MIN,
            flags,
            buffers,
        )
        return
    for k in range(n // steps):
        length = length_of(batch, first_trace + k, steps)
        to, own = d[k * steps :], x[k * steps :]
        if op in (UNTIL, RELEASE):
            _scanned(
                to,
                own,
                y[k * steps :],
                steps,
                length,
                edge if is_open else mark,
                op == UNTIL,
                flags,
            )
        elif op == FIRST:
            filled(to, own[0], steps)
        else:
            edge = constants[INF] if op == ENDS_MIN else constants[MINUS_INF]
            _ended(
                to,
                own,
                steps,
                length,
                window[0],
                window[rows],
                is_open,
                edge,
                mark,
                op == ENDS_MIN,
                flags,
            )


@loop
def length_of(batch: Ints, trace: int, steps: int) -> int:
    """How many of the places of a trace are steps."""
    return ints_at(batch[LENGTHS])[trace] if batch[LENGTHS] else steps


@loop
def _term(
    op: int, d: Floats, x: Floats, y: Floats, number: Floats, n: int, constants: Floats
) -> None:
    zero, largest, nan = constants[ZERO], constants[LARGEST], constants[NAN]
    s = number[0]
    if op == ADD:
        add(d, x, y, n, largest, nan)
    elif op == SUB:
        margin(d, x, y, n, zero, zero, largest, nan)
    elif op == MUL:
        multiply(d, x, y, n, largest, nan)
    elif op == DIV:
        divide(d, x, y, n, largest, nan)
    elif op == ADD_S:
        add_number(d, x, s, n, largest, nan)
    elif op == SUB_S:
        margin_above(d, x, s, n, zero, zero, largest, nan)
    elif op == S_SUB:
        margin_below(d, s, x, n, zero, zero, largest, nan)
    elif op == MUL_S:
        multiply_number(d, x, s, n, largest, nan)
    elif op == DIV_S:
        divide_number(d, x, s, n, largest, nan)
    elif op == S_DIV:
        number_divided(d, s, x, n, largest, nan)
    elif op == NEG:
        negated(d, x, n)
    elif op == FILL:
        filled(d, s, n)
    elif op == COALESCE:
        replaced(d, x, y, n)
    elif op == LEAST:
        least(d, x, y, n)
        poisoned(d, x, n)
    elif op == MOST:
        most(d, x, y, n)
        poisoned(d, x, n)
    elif op == ABS:
        for j in range(n):
            d[j] = abs(x[j])
    elif op == SQRT:
        for j in range(n):
            d[j] = math.sqrt(x[j])
    elif op == FLOOR:
        for j in range(n):
            d[j] = math.floor(x[j])
    elif op == CEIL:
        for j in range(n):
            d[j] = math.ceil(x[j])
    elif op == ROUND:
        for j in range(n):
            d[j] = round(x[j])


@loop
def _decided(
    known: bool,
    d: Floats,
    x: Floats,
    number: Floats,
    n: int,
    flags: int,
    constants: Floats,
    mark: Float,
) -> None:
    yes, no, s = constants[INF], constants[MINUS_INF], number[0]
    if flags & OTHER:
        yes, no = no, yes
    if known:
        for j in range(n):
            t = x[j]
            d[j] = yes if t == t else no  # a NaN differs from itself
    else:
        for j in range(n):
            t = x[j]
            d[j] = yes if t == s else no if t == t else mark


@loop
def _picked(
    d: Floats, at: Ints, operands: Ints, count: int, n: int, lowest: bool, flags: int
) -> None:
    """The least or the greatest of some registers; with `NAN_TOO` NaN where one is."""
    x, y = floats_at(at[operands[0]]), floats_at(at[operands[1]])
    if lowest:
        least(d, x, y, n)
        for i in range(2, count):
            least(d, d, floats_at(at[operands[i]]), n)
    else:
        most(d, x, y, n)
        for i in range(2, count):
            most(d, d, floats_at(at[operands[i]]), n)
    if flags & NAN_TOO:
        for i in range(count):
            poisoned(d, floats_at(at[operands[i]]), n)


@loop
def slid(
    frame: Ints, batch: Ints, d: Floats, x: Floats, n: int, first_trace: int, window: Ints,
    beyond: Float, empty: Float, lowest: bool, flags: int, buffers: Floats,
) -> None:  # fmt: skip
    """The least or the greatest of x over each step's window, by blocks of 1, 2, 4, ... steps.

    `beyond` is the value beyond the trace.

    All traces of the run slide at once, with room between them for values beyond the trace.
    """
    steps, first, last = frame[STEPS], window[0], window[frame[ROWS]]
    if last < first:
        filled(d, empty, n)
        return
    here, there = buffers, buffers[2 * frame[WIDTH] + 1 :]
    traces, stride, width = n // steps, steps + last, last - first + 1
    before, start = (last if flags & PAST else 0), (0 if flags & PAST else first)
    spread_out(batch, here, x, n, steps, first_trace, stride, before, beyond)
    size, m = 1, traces * stride
    while 2 * size <= width:
        m -= size
        if lowest:
            least(there, here, here[size:], m)
        else:
            most(there, here, here[size:], m)
        here, there = there, here
        size *= 2
    for k in range(traces):
        near, to = here[k * stride + start :], d[k * steps :]
        if size == width:
            copied(to, near, steps)
        elif lowest:
            least(to, near, near[width - size :], steps)
        else:
            most(to, near, near[width - size :], steps)


@loop
def spread_out(
    batch: Ints,
    d: Floats,
    x: Floats,
    n: int,
    steps: int,
    first_trace: int,
    stride: int,
    before: int,
    beyond: Float,
) -> None:
    """The steps of each trace with `beyond` before and after them, `stride` places each."""
    for k in range(n // steps):
        length, own = length_of(batch, first_trace + k, steps), d[k * stride :]
        filled(own, beyond, before)
        copied(own[before:], x[k * steps :], length)
        filled(own[before + length :], beyond, stride - before - length)


@loop
def _scanned(
    d: Floats, x: Floats, y: Floats, steps: int, length: int, beyond: Float, until: bool, flags: int
) -> None:
    """``d = max(y, min(x, the next d))`` (not `until`: its dual) backwards from the trace's end.

    In time where `PAST`.
    """
    state = beyond
    for i in range(length):
        j = i if flags & PAST else length - 1 - i
        u, v = x[j], y[j]
        if until:
            state = u if u < state else state
            state = v if v > state else state
        else:
            state = u if u > state else state
            state = v if v < state else state
        d[j] = state
    for j in range(length, steps):
        d[j] = beyond


@loop
def _ended(
    d: Floats,
    x: Floats,
    steps: int,
    length: int,
    first: int,
    last: int,
    is_open: bool,
    edge: Float,
    mark: Float,
    lowest: bool,
    flags: int,
) -> None:
    """Extremes over windows, with what is unknown beyond the trace."""
    copied(d, x, steps)
    if first == 0 and is_open and length == steps:
        return
    begin = 0 if flags & PAST else max(0, length - last)
    for j in range(begin, min(last, steps) if flags & PAST else steps):
        ahead = j if flags & PAST else length - 1 - j
        t = x[j]
        if not is_open:
            t = (t if t < mark else mark) if lowest else (t if t > mark else mark)
        if ahead < first:
            t = edge if is_open else mark
        d[j] = t
