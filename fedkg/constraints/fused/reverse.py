"""Gradients of a program on the run of places on which it has just been carried out: from its result back to its slots.

What several values decide alike they share evenly, in windows the first of them has it all, as in `engine`. Letters as in `forward`.
"""

from __future__ import annotations

from typing import Any

from fedkg.constraints.fused.forward import (
    ABS,
    ADD,
    ADD_S,
    COALESCE,
    DECIDE,
    DIV,
    DIV_S,
    ENDS_MAX,
    ENDS_MIN,
    FIRST,
    INF,
    LARGEST,
    LEAST,
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
    NEG,
    RELEASE,
    S_DIV,
    S_MARGIN,
    S_SUB,
    SCALED,
    SQRT,
    SUB,
    SUB_S,
    UNTIL,
    WINDOW_MAX,
    WINDOW_MIN,
    ZERO,
)
from fedkg.constraints.fused.loops import Array, accumulated, filled, negated
from fedkg.constraints.fused.program import EDGE_HIGH, MISSING, PAST
from fedkg.kernels import inner


@inner
def pulled_back(
    code: Array, operands: Array, numbers: Array, windows: Array, lengths: Array, constants: Array,
    work: Array, slopes: Array, spare: Array, queue: Array, slots: int, every: bool,
    row: int, n: int, steps: int, first_trace: int, clip: bool,
) -> None:  # fmt: skip
    """The slopes of all registers from that of the result.

    Args:
        slopes: [G, at least n], of the result as given, else 0. spare: [at least n]. queue: int64 [2 T].
        slots: how many of the registers are slots. every: also of what depends on no output.
    """
    zero, largest = constants[ZERO], constants[LARGEST]
    for i in range(code.shape[0] - 1, -1, -1):
        op, flags, number, a, b = code[i, 0], code[i, 6], code[i, 5], code[i, 2], code[i, 3]
        if op >= DECIDE or not (code[i, 7] or every):
            continue
        d, g = work[code[i, 1]], slopes[code[i, 1]]
        mark = constants[MARK_MISSING] if flags & MISSING else constants[MARK]
        if op in (MIN, MAX):
            _shared(d, g, work, slopes, spare, operands, a, b, n)
        elif op in (WINDOW_MIN, WINDOW_MAX):
            first, last, ends = windows[number, 0, row], windows[number, 1, row], windows[number, 2, row]
            edge = constants[INF] if flags & EDGE_HIGH else constants[MINUS_INF]
            beyond = edge if clip or ends else mark
            for k in range(n // steps):
                length = lengths[first_trace + k] if lengths.shape[0] else steps
                at = k * steps
                _unslid(g[at:], work[a][at:], slopes[a][at:], steps, length, first, last, beyond, zero, op == WINDOW_MIN, flags, queue)
        elif op in (UNTIL, RELEASE):
            edge = constants[INF] if flags & EDGE_HIGH else constants[MINUS_INF]
            beyond = edge if clip or windows[number, 2, row] else mark
            for k in range(n // steps):
                length = lengths[first_trace + k] if lengths.shape[0] else steps
                at = k * steps
                _unscanned(
                    d[at:], g[at:], work[a][at:], work[b][at:], slopes[a][at:], slopes[b][at:], length, beyond, zero, op == UNTIL, flags
                )
        elif op in (ENDS_MIN, ENDS_MAX):
            for j in range(n):
                spare[j] = g[j] if d[j] == work[a, j] else zero
            accumulated(slopes[a], spare, n)
        elif op == FIRST:
            for k in range(n // steps):
                for j in range(steps):
                    slopes[a, k * steps] += g[k * steps + j]
        else:
            for j in range(n):  # where nothing is known nothing is learnt
                t = d[j]
                g[j] = g[j] if t == t and t != mark else zero  # a NaN differs from itself
            _of_term(op, d, g, work[a], work[b], numbers[number, row], slopes, spare, a, b, n, zero, slots, largest)


@inner
def _of_term(
    op: int, d: Array, g: Array, x: Array, y: Array, s: Any, slopes: Array, spare: Array, a: int, b: int, n: int, zero: Any, slots: int,
    largest: Any,
) -> None:  # fmt: skip
    """To the registers that a term or a margin is made of."""
    of_left = spare
    if op in (MARGIN_S, SUB_S, ADD_S, ADD, SUB, MARGIN):
        of_left = g
    elif op in (S_MARGIN, S_SUB, NEG):
        negated(spare, g, n)
    elif op in (SCALED, DIV_S):
        for j in range(n):
            spare[j] = g[j] / s
    elif op == MUL_S:
        for j in range(n):
            spare[j] = g[j] * s
    elif op == MUL:
        for j in range(n):
            spare[j] = g[j] * y[j]
    elif op == DIV:
        for j in range(n):
            spare[j] = g[j] / y[j]
    elif op == S_DIV:
        for j in range(n):
            spare[j] = -g[j] * (d[j] / x[j])
    elif op in (LEAST, MOST):
        half = g.dtype.type(0.5)
        for j in range(n):
            spare[j] = g[j] if d[j] != y[j] else zero if d[j] != x[j] else g[j] * half
    elif op == COALESCE:
        for j in range(n):
            spare[j] = g[j] if x[j] == x[j] else zero
    elif op == ABS:
        for j in range(n):
            spare[j] = g[j] if x[j] > zero else -g[j] if x[j] < zero else zero
    elif op == SQRT:
        for j in range(n):
            spare[j] = g[j] / (d[j] + d[j])
    else:  # constant or in steps
        return
    _collected(slopes, a, of_left, n, slots, zero, largest)
    of_right = spare
    if op == ADD:
        of_right = g
    elif op in (SUB, MARGIN):
        negated(spare, g, n)
    elif op == MUL:
        for j in range(n):
            spare[j] = g[j] * x[j]
    elif op == DIV:
        for j in range(n):
            spare[j] = -g[j] * (d[j] / y[j])
    elif op in (LEAST, MOST, COALESCE):
        for j in range(n):
            spare[j] = g[j] - spare[j]
    else:
        return
    _collected(slopes, b, of_right, n, slots, zero, largest)


@inner
def _collected(slopes: Array, to: int, x: Array, n: int, slots: int, zero: Any, largest: Any) -> None:
    """Added to the slopes of a register; of a slot only what is a number (at the edge of a domain slopes are infinite)."""
    d = slopes[to]
    if to >= slots:
        accumulated(d, x, n)
        return
    for j in range(n):
        t = x[j]
        d[j] = d[j] + (t if abs(t) <= largest else zero)


@inner
def _shared(d: Array, g: Array, work: Array, slopes: Array, spare: Array, operands: Array, first: int, last: int, n: int) -> None:
    """To the registers that are the least or greatest, evenly."""
    one = g.dtype.type(1)
    filled(spare, one - one, n)
    for i in range(first, last):
        x = work[operands[i]]
        for j in range(n):
            spare[j] = spare[j] + (one if x[j] == d[j] else one - one)
    for j in range(n):
        spare[j] = g[j] / (spare[j] if spare[j] > one else one)
    for i in range(first, last):
        x, to = work[operands[i]], slopes[operands[i]]
        for j in range(n):
            to[j] = to[j] + (spare[j] if x[j] == d[j] else one - one)


@inner
def _unslid(
    g: Array, x: Array, to: Array, steps: int, length: int, first: int, last: int, beyond: Any, zero: Any, lowest: bool, flags: int,
    queue: Array,
) -> None:  # fmt: skip
    """To the first of the best values of each step's window; nothing where what lies beyond the trace is better.

    The candidates of a window stand in a queue whose end is the best: each value enters and leaves it once.
    """
    some = False
    for j in range(steps):
        some |= g[j] != zero
    if not some or last < first:
        return
    past = flags & PAST != 0
    head, tail = 0, 0  # the queue is queue[head:tail]
    entered = 0
    for k in range(steps):
        t = k if past else steps - 1 - k
        newest = t - first if past else t + first
        oldest = t - last if past else t + last
        # all that the window has come to hold since the last step, in the order in which windows meet them
        if k == 0 and not past:
            entered = steps + last
        while entered <= newest if past else entered > newest:
            at = entered if past else entered - 1
            entered += 1 if past else -1
            if at < 0 or at >= length:
                continue
            v = x[at]
            while tail > head:
                w = x[queue[tail - 1]]
                worse = (w > v if lowest else w < v) if past else (w >= v if lowest else w <= v)
                if not worse:
                    break
                tail -= 1
            queue[tail] = at
            tail += 1
        while tail > head and (queue[head] < oldest if past else queue[head] > oldest):
            head += 1
        if g[t] == zero or tail == head:
            continue
        best = x[queue[head]]
        reaches = oldest < 0 if past else oldest >= length
        if reaches and (beyond < best if lowest else beyond > best):
            continue
        to[queue[head]] += g[t]


@inner
def _unscanned(
    d: Array, g: Array, x: Array, y: Array, to_x: Array, to_y: Array, length: int, beyond: Any, zero: Any, until: bool, flags: int
) -> None:
    """Along the steps of `_scanned` from its end to its beginning."""
    carried = zero
    for i in range(length):
        j = length - 1 - i if flags & PAST else i
        following = j - 1 if flags & PAST else j + 1
        state = d[following] if 0 <= following < length else beyond
        u, v = x[j], y[j]
        slope = g[j] + carried
        carried = zero
        held = (u if u < state else state) if until else (u if u > state else state)
        if v >= held if until else v <= held:
            to_y[j] += slope
        elif u == held:
            to_x[j] += slope
        else:
            carried = slope
