"""A program carried out for one row on a run of places.

Letters: n places of the run, whole traces of T steps for programs over time; G registers, Q numbers of a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedkg.constraints.fused.loops import (
    Array,
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
from fedkg.constraints.fused.program import BOUNDLESS, EDGE_HIGH, HAIR_DOWN, HAIR_UP, MISSING, NAN_TOO, OTHER, PAST, STRICT, Op
from fedkg.kernels import inner

ZERO, HAIR, HAIR_OFF, STEP, MARK, MARK_MISSING, INF, MINUS_INF, NAN, FAR, FAR_OFF, LARGEST = range(12)
"""Positions of the constants (`constants`)."""

ADD, SUB, MUL, DIV, LEAST, MOST = (int(op) for op in (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.LEAST, Op.MOST))
ADD_S, SUB_S, S_SUB, MUL_S = int(Op.ADD_S), int(Op.SUB_S), int(Op.S_SUB), int(Op.MUL_S)
DIV_S, S_DIV, NEG, ABS, SQRT = int(Op.DIV_S), int(Op.S_DIV), int(Op.NEG), int(Op.ABS), int(Op.SQRT)
FLOOR, CEIL, ROUND, FILL, COALESCE = int(Op.FLOOR), int(Op.CEIL), int(Op.ROUND), int(Op.FILL), int(Op.COALESCE)
MARGIN, MARGIN_S, S_MARGIN, SCALED = int(Op.MARGIN), int(Op.MARGIN_S), int(Op.S_MARGIN), int(Op.SCALED)
KNOWN, CATEGORY, MIN, MAX = int(Op.KNOWN), int(Op.CATEGORY), int(Op.MIN), int(Op.MAX)
WINDOW_MIN, WINDOW_MAX, UNTIL, RELEASE = int(Op.WINDOW_MIN), int(Op.WINDOW_MAX), int(Op.UNTIL), int(Op.RELEASE)
FIRST, ENDS_MIN, ENDS_MAX, DECIDE, GUARD = int(Op.FIRST), int(Op.ENDS_MIN), int(Op.ENDS_MAX), int(Op.DECIDE), int(Op.GUARD)
"""As numbers, which is what compiled loops know."""


@inner
def carried_out(
    code: Array, operands: Array, numbers: Array, windows: Array, lengths: Array, constants: Array,
    work: Array, buffers: Array, gate: Array, row: int, n: int, steps: int, first_trace: int, clip: bool,
) -> bool:  # fmt: skip
    """All operations of a row; whether a guard leaves something to do.

    Args:
        code, operands: of the program. numbers: [Q, R] and windows: int64 [W, 3, R] (first, last, whether it ends with the trace).
        lengths: int64 [traces], how many of the T places of each trace are steps; empty: all.
        work: [G, at least n], whose first registers are filled. buffers: [2, more than 2 n]. gate: [n], where the row
            counts; guards take away.
        first_trace: which trace the run begins with.
    """
    zero, nan, largest = constants[ZERO], constants[NAN], constants[LARGEST]
    for i in range(code.shape[0]):
        op, flags, number = code[i, 0], code[i, 6], code[i, 5]
        d, x = work[code[i, 1]], work[code[i, 2]]
        mark = constants[MARK_MISSING] if flags & MISSING else constants[MARK]
        if MARGIN <= op <= SCALED:
            shift = constants[HAIR] if flags & HAIR_UP else constants[HAIR_OFF] if flags & HAIR_DOWN else zero
            at_zero = constants[STEP] if flags & STRICT else zero
            limit = constants[INF] if flags & BOUNDLESS else largest
            if op == MARGIN_S:
                margin_above(d, x, numbers[number, row], n, shift, at_zero, limit, mark)
            elif op == S_MARGIN:
                margin_below(d, numbers[number, row], x, n, shift, at_zero, limit, mark)
            elif op == MARGIN:
                margin(d, x, work[code[i, 3]], n, shift, at_zero, limit, mark)
            else:
                scaled(d, x, numbers[number, row], n, shift, limit, mark)
        elif op in (MIN, MAX):
            _picked(d, work, operands, code[i, 2], code[i, 3], n, op == MIN, flags)
        elif op in (WINDOW_MIN, WINDOW_MAX):
            first, last, ends = windows[number, 0, row], windows[number, 1, row], windows[number, 2, row]
            edge = constants[INF] if flags & EDGE_HIGH else constants[MINUS_INF]
            empty = constants[INF] if op == WINDOW_MIN else constants[MINUS_INF]
            beyond = edge if clip or ends else mark
            slid(d, x, n, steps, lengths, first_trace, first, last, beyond, empty, op == WINDOW_MIN, flags, buffers)
        elif op in (UNTIL, RELEASE):
            edge = constants[INF] if flags & EDGE_HIGH else constants[MINUS_INF]
            beyond = edge if clip or windows[number, 2, row] else mark
            for k in range(n // steps):
                length = lengths[first_trace + k] if lengths.shape[0] else steps
                y = work[code[i, 3]]
                _scanned(d[k * steps :], x[k * steps :], y[k * steps :], steps, length, beyond, op == UNTIL, flags)
        elif op in (ENDS_MIN, ENDS_MAX):
            first, last, ends = windows[number, 0, row], windows[number, 1, row], windows[number, 2, row]
            edge = constants[INF] if op == ENDS_MIN else constants[MINUS_INF]
            is_open = clip or ends != 0
            for k in range(n // steps):
                length = lengths[first_trace + k] if lengths.shape[0] else steps
                _ended(d[k * steps :], x[k * steps :], steps, length, first, last, is_open, edge, mark, op == ENDS_MIN, flags)
        elif op == FIRST:
            for k in range(n // steps):
                filled(d[k * steps :], x[k * steps], steps)
        elif op == GUARD:
            left = False
            for j in range(n):
                gate[j] = gate[j] if x[j] > zero else zero
            for j in range(n):
                left |= gate[j] != zero
            if not left:
                return False
        elif op == DECIDE:
            far, off, unknown = constants[FAR], constants[FAR_OFF], constants[MARK]
            for j in range(n):
                t = x[j]
                d[j] = off if t >= zero else constants[MARK_MISSING] if t == unknown else far
        elif op in (KNOWN, CATEGORY):
            _decided(op == KNOWN, d, x, numbers[number, row], n, flags, constants, mark)
        else:
            _term(op, d, x, work[code[i, 3]], numbers[number, row], n, zero, largest, nan)
    return True


@inner
def _term(op: int, d: Array, x: Array, y: Array, s: Any, n: int, zero: Any, largest: Any, nan: Any) -> None:
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
            d[j] = np.sqrt(x[j])
    elif op == FLOOR:
        for j in range(n):
            d[j] = np.floor(x[j])
    elif op == CEIL:
        for j in range(n):
            d[j] = np.ceil(x[j])
    elif op == ROUND:
        for j in range(n):
            d[j] = np.rint(x[j])


@inner
def _decided(known: bool, d: Array, x: Array, s: Any, n: int, flags: int, constants: Array, mark: Any) -> None:
    yes, no = constants[INF], constants[MINUS_INF]
    if flags & OTHER:
        yes, no = no, yes
    for j in range(n):
        t = x[j]
        if known:
            d[j] = yes if t == t else no  # a NaN differs from itself
        else:
            d[j] = yes if t == s else no if t == t else mark


@inner
def _picked(d: Array, work: Array, operands: Array, first: int, last: int, n: int, lowest: bool, flags: int) -> None:
    """The least or the greatest of some registers; with `NAN_TOO` NaN where one is."""
    x, y = work[operands[first]], work[operands[first + 1]]
    if lowest:
        least(d, x, y, n)
        for i in range(first + 2, last):
            least(d, d, work[operands[i]], n)
    else:
        most(d, x, y, n)
        for i in range(first + 2, last):
            most(d, d, work[operands[i]], n)
    if flags & NAN_TOO:
        for i in range(first, last):
            poisoned(d, work[operands[i]], n)


@inner
def slid(
    d: Array, x: Array, n: int, steps: int, lengths: Array, first_trace: int, first: int, last: int, beyond: Any, empty: Any,
    lowest: bool, flags: int, buffers: Array,
) -> None:  # fmt: skip
    """The least or the greatest of x over each step's window, by blocks of 1, 2, 4, ... steps; `beyond` stands beyond the trace.

    All traces of the run slide at once, with room between them for what stands beyond.
    """
    if last < first:
        filled(d, empty, n)
        return
    here, there = buffers[0], buffers[1]
    traces, stride, width = n // steps, steps + last, last - first + 1
    before, start = (last, 0) if flags & PAST else (0, first)
    filled(here, beyond, traces * stride)
    for k in range(traces):
        length = lengths[first_trace + k] if lengths.shape[0] else steps
        copied(here[k * stride + before :], x[k * steps :], length)
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


@inner
def _scanned(d: Array, x: Array, y: Array, steps: int, length: int, beyond: Any, until: bool, flags: int) -> None:
    """``d = max(y, min(x, the next d))`` (not `until`: its dual) backwards from the trace's end; in time where `PAST`."""
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


@inner
def _ended(
    d: Array, x: Array, steps: int, length: int, first: int, last: int, is_open: bool, edge: Any, mark: Any, lowest: bool, flags: int
) -> None:
    """Extremes over windows, with what is unknown beyond the trace."""
    copied(d, x, steps)
    if first == 0 and is_open and length == steps:
        return
    for j in range(min(last, steps)) if flags & PAST else range(max(0, length - last), steps):
        ahead = j if flags & PAST else length - 1 - j
        t = x[j]
        if not is_open:
            t = (t if t < mark else mark) if lowest else (t if t > mark else mark)
        if ahead < first:
            t = edge if is_open else mark
        d[j] = t
