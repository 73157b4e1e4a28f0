"""Gradients of a program on the run of places on which it has just been carried out: from its
result back to its slots.

What several values decide alike they share evenly, in windows and in an until the first of them has
it all, as in `engine`. Letters as in `forward`.
"""

from __future__ import annotations

from fedkg.constraints.fused.program import EDGE_HIGH, MISSING, PAST, TO_LAST, TO_SECOND
from fedkg.kernels.formulas.elementwise_loops import (
    accumulated,
    both_of,
    filled,
    first_of,
    least,
    most,
    negated,
    second_of,
    some,
)
from fedkg.kernels.formulas.forward import length_of, spread_out
from fedkg.kernels.formulas.loop_argument_positions import (
    ABS,
    ADD,
    ADD_S,
    CLIP,
    COALESCE,
    CODE,
    CONSTANTS,
    DECIDE,
    DIV,
    DIV_S,
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
    NUMBERS,
    OPERANDS,
    OPERATIONS,
    RELEASE,
    ROWS,
    S_DIV,
    S_MARGIN,
    S_SUB,
    SCALED,
    SLOTS,
    SQRT,
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
def run_backward(
    frame: Ints,
    batch: Ints,
    at: Ints,
    slopes: Floats,
    spare: Floats,
    levels: Floats,
    every: bool,
    row: int,
    n: int,
    first_trace: int,
) -> None:
    """Compute the gradients of all registers from the gradient of the result.

    W is the number of places that a register has room for.

    Args:
        frame: the bank, see `loop_argument_positions`.
        batch: the batch, see `loop_argument_positions`.
        at: int64 [G], the addresses of the registers.
        slopes: [G, W], the gradient of each register: that of the result on entry, and 0 for the
            others.
        spare: scratch space of at least n numbers.
        levels: scratch space of L (2 W + 1) numbers. L is 2 more than the count of block lengths 1,
            2, 4, ... steps in a trace.
        every: whether to include registers that depend on no output.
        row: the row.
        n: the number of places.
        first_trace: the trace of the first place.
    """
    constants, numbers, width, steps = (
        floats_at(frame[CONSTANTS]),
        floats_at(frame[NUMBERS]),
        frame[WIDTH],
        frame[STEPS],
    )
    zero = constants[ZERO]
    for i in range(frame[OPERATIONS] - 1, -1, -1):
        code = ints_at(frame[CODE])[8 * i :]
        op, flags, a, b = code[0], code[6], code[2], code[3]
        if op >= DECIDE or not (code[7] != 0 or every):
            continue
        d, g = floats_at(at[code[1]]), slopes[code[1] * width :]
        mark = constants[MARK_MISSING] if flags & MISSING else constants[MARK]
        if op in (MIN, MAX):
            if flags & TO_SECOND:
                _to_second(d, g, at, slopes, width, spare, ints_at(frame[OPERANDS])[a:], n)
            else:
                _shared(d, g, at, slopes, width, spare, ints_at(frame[OPERANDS])[a:], b - a, n)
            continue
        x, to = floats_at(at[a]), slopes[a * width :]
        if op < MIN:
            for j in range(n):  # where nothing is known nothing is learnt
                t = d[j]
                g[j] = g[j] if t == t and t != mark else zero  # a NaN differs from itself
            s = numbers[code[5] * frame[ROWS] + row]
            _to_left(
                op,
                d,
                g,
                x,
                floats_at(at[b]),
                s,
                to,
                spare,
                n,
                zero,
                a < frame[SLOTS],
                constants[LARGEST],
            )
            _to_right(
                op,
                d,
                g,
                x,
                floats_at(at[b]),
                slopes[b * width :],
                spare,
                n,
                b < frame[SLOTS],
                constants[LARGEST],
            )
        elif op == FIRST:
            for k in range(n // steps):
                for j in range(steps):
                    to[k * steps] += g[k * steps + j]
        elif op in (WINDOW_MIN, WINDOW_MAX, UNTIL, RELEASE):
            _over_time(frame, batch, code, d, g, at, slopes, mark, levels, row, n, first_trace)
        else:
            for j in range(n):
                spare[j] = g[j] if d[j] == x[j] else zero
            accumulated(to, spare, n)


@loop
def _over_time(
    frame: Ints, batch: Ints, code: Ints, d: Floats, g: Floats, at: Ints, slopes: Floats,
    mark: Float, levels: Floats, row: int, n: int, first_trace: int,
) -> None:  # fmt: skip
    """To what a window or an until looks at, trace by trace."""
    constants, op, flags, steps, width = (
        floats_at(frame[CONSTANTS]),
        code[0],
        code[6],
        frame[STEPS],
        frame[WIDTH],
    )
    window, rows = ints_at(frame[WINDOWS])[3 * code[5] * frame[ROWS] + row :], frame[ROWS]
    edge = constants[INF] if flags & EDGE_HIGH else constants[MINUS_INF]
    beyond = edge if batch[CLIP] != 0 or window[2 * rows] != 0 else mark
    a, b = code[2], code[3]
    if op in (WINDOW_MIN, WINDOW_MAX):
        x, to = floats_at(at[a]), slopes[a * width :]
        _unslid(
            frame, batch, g, x, to, n, first_trace, window, beyond, op == WINDOW_MIN, flags, levels
        )
        return
    for k in range(n // steps):
        begin, length = k * steps, length_of(batch, first_trace + k, steps)
        x, y, to_x, to_y = (
            floats_at(at[a])[begin:],
            floats_at(at[b])[begin:],
            slopes[a * width + begin :],
            slopes[b * width + begin :],
        )
        _unscanned(
            d[begin:],
            g[begin:],
            x,
            y,
            to_x,
            to_y,
            length,
            beyond,
            constants[ZERO],
            op == UNTIL,
            flags,
        )


@loop
def _to_left(
    op: int,
    d: Floats,
    g: Floats,
    x: Floats,
    y: Floats,
    s: Float,
    to: Floats,
    spare: Floats,
    n: int,
    zero: Float,
    slot: bool,
    largest: Float,
) -> None:
    """To the first register of a term or a margin.

    What of it goes to the second stays in `spare` for some.
    """
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
        for j in range(n):
            u, v, t = x[j], y[j], g[j]
            spare[j] = t if d[j] != v else zero if d[j] != u else t * 0.5
    elif op == COALESCE:
        for j in range(n):
            spare[j] = g[j] if x[j] == x[j] else zero
    elif op == ABS:
        for j in range(n):
            t = g[j]
            spare[j] = t if x[j] > zero else -t if x[j] < zero else zero
    elif op == SQRT:
        for j in range(n):
            spare[j] = g[j] / (d[j] + d[j])
    else:  # constant or in steps
        return
    _collected(to, of_left, n, slot, largest)


@loop
def _to_right(
    op: int,
    d: Floats,
    g: Floats,
    x: Floats,
    y: Floats,
    to: Floats,
    spare: Floats,
    n: int,
    slot: bool,
    largest: Float,
) -> None:
    """To the second register of a term or a margin."""
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
    _collected(to, of_right, n, slot, largest)


@loop
def _collected(d: Floats, x: Floats, n: int, slot: bool, largest: Float) -> None:
    """Added to the slopes of a register.

    Of a slot only what is a number (at the edge of a domain slopes are infinite).
    """
    if not slot:
        accumulated(d, x, n)
        return
    for j in range(n):
        t = x[j]
        d[j] = d[j] + (t if abs(t) <= largest else largest - largest)


@loop
def _shared(
    d: Floats,
    g: Floats,
    at: Ints,
    slopes: Floats,
    width: int,
    spare: Floats,
    operands: Ints,
    count: int,
    n: int,
) -> None:
    """To the registers that are the least or greatest, evenly."""
    if count == 2:
        x, y, to_x, to_y = (
            floats_at(at[operands[0]]),
            floats_at(at[operands[1]]),
            slopes[operands[0] * width :],
            slopes[operands[1] * width :],
        )
        for j in range(n):
            u, v, t = x[j], y[j], g[j]
            t = t * 0.5 if u == v else t
            spare[j] = t if v == d[j] else 0.0
            to_x[j] = to_x[j] + (t if u == d[j] else 0.0)
        accumulated(to_y, spare, n)
        return
    filled(spare, 0.0, n)
    for i in range(count):
        x = floats_at(at[operands[i]])
        for j in range(n):
            spare[j] = spare[j] + (1.0 if x[j] == d[j] else 0.0)
    for j in range(n):
        t = spare[j]
        spare[j] = g[j] / (t if t > 1.0 else 1.0)
    for i in range(count):
        x, to = floats_at(at[operands[i]]), slopes[operands[i] * width :]
        for j in range(n):
            t = spare[j]
            to[j] = to[j] + (t if x[j] == d[j] else 0.0)


@loop
def _to_second(
    d: Floats,
    g: Floats,
    at: Ints,
    slopes: Floats,
    width: int,
    spare: Floats,
    operands: Ints,
    n: int,
) -> None:
    """To the one of two registers that is the least or greatest, of equals to the second."""
    y, to_x, to_y = (
        floats_at(at[operands[1]]),
        slopes[operands[0] * width :],
        slopes[operands[1] * width :],
    )
    for j in range(n):
        t = g[j]
        spare[j] = t if y[j] == d[j] else 0.0
        to_x[j] = to_x[j] + (0.0 if y[j] == d[j] else t)
    accumulated(to_y, spare, n)


@loop
def _unslid(
    frame: Ints, batch: Ints, g: Floats, x: Floats, to: Floats, n: int, first_trace: int,
    window: Ints, beyond: Float, lowest: bool, flags: int, levels: Floats,
) -> None:  # fmt: skip
    """To the first (`TO_LAST`: the last) of the best values of each step's window.

    Nothing where what lies beyond the trace is better.

    The blocks of `forward.slid` are kept, one level after the other; what a block is given goes to
    the half that it comes from.
    """
    steps, first, last, room = frame[STEPS], window[0], window[frame[ROWS]], 2 * frame[WIDTH] + 1
    if last < first or not some(g, n):
        return
    stride, width = steps + last, last - first + 1
    before, start = (last if flags & PAST else 0), (0 if flags & PAST else first)
    spread_out(batch, levels, x, n, steps, first_trace, stride, before, beyond)
    size, m, depth = 1, n // steps * stride, 0
    while 2 * size <= width:
        m -= size
        level = levels[depth * room :]
        if lowest:
            least(level[room:], level, level[size:], m)
        else:
            most(level[room:], level, level[size:], m)
        depth += 1
        size *= 2
    level, given, spare = (
        levels[depth * room :],
        levels[(depth + 1) * room :],
        levels[(depth + 2) * room :],
    )
    filled(given, 0.0, m)
    for k in range(n // steps):
        at, far, own = k * stride + start, k * stride + start + width - size, g[k * steps :]
        if not flags & TO_LAST or size == width:
            first_of(given[at:], own, level[at:], level[far:], steps, lowest)
            if size < width:
                second_of(given[far:], own, level[at:], level[far:], steps, lowest)
        else:
            first_of(spare, own, level[far:], level[at:], steps, lowest)
            second_of(given[at:], own, level[far:], level[at:], steps, lowest)
            accumulated(given[far:], spare, steps)
    while depth > 0:
        depth -= 1
        size = size // 2
        m += size
        if flags & TO_LAST:
            _halved_to_last(spare, given, levels[depth * room :], size, m, lowest)
        else:
            _halved(spare, given, levels[depth * room :], size, m, lowest)
        given, spare = spare, given
    for k in range(n // steps):
        accumulated(
            to[k * steps :], given[k * stride + before :], length_of(batch, first_trace + k, steps)
        )


@loop
def _halved(d: Floats, g: Floats, x: Floats, size: int, m: int, lowest: bool) -> None:
    """What m blocks are given by the m - size pairs (a block and that `size` places on) to which g
    is given.
    """
    pairs = m - size
    first_of(d, g, x, x[size:], min(size, pairs), lowest)
    for j in range(pairs, size):
        d[j] = 0.0
    if pairs > size:
        both_of(d[size:], g[size:], g, x[size:], x, x[2 * size :], pairs - size, lowest)
    begin = max(size, pairs)
    filled(d[begin:], 0.0, m - begin)
    second_of(d[begin:], g[begin - size :], x[begin - size :], x[begin:], m - begin, lowest)


@loop
def _halved_to_last(d: Floats, g: Floats, x: Floats, size: int, m: int, lowest: bool) -> None:
    """`_halved` with the second of two equal blocks in place of the first."""
    filled(d, 0.0, m)
    first_of(d[size:], g, x[size:], x, m - size, lowest)
    second_of(d, g, x[size:], x, m - size, lowest)


@loop
def _unscanned(
    d: Floats,
    g: Floats,
    x: Floats,
    y: Floats,
    to_x: Floats,
    to_y: Floats,
    length: int,
    beyond: Float,
    zero: Float,
    until: bool,
    flags: int,
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
