"""Compiled evaluation of a formula at the first step of many traces, one trace at a time, in the L1
cache.

A formula is a short program (`fedkg.mining.formula_lowering`) for a stack of registers, with one
number per step in each register. An operation reads the register that it writes to and the one
above it.

Letters: N traces, C clients, T steps, s slots, p parameters, n operations.
"""

from __future__ import annotations

import numpy as np

from fedkg._internal.threads import run_in_parts
from fedkg.kernels.kernel_compilation import kernel, kernel_part
from fedkg.mining.formula_opcodes import (
    ABSOLUTE,
    ADD,
    BEGIN,
    DECIDED,
    END,
    FILL,
    FIRST,
    FLAG,
    FROM,
    HIGH,
    KNOWN,
    LARGEST,
    LEAST,
    LESS,
    LOW,
    MULTIPLY,
    NEGATE,
    OP,
    PARAM,
    SHARE,
    SLOT,
    STRICT,
    TO,
    UNTIL,
    WINDOW,
    Numbers,
    Operations,
)

LEAST_TRACES = 64
"""Smallest number of traces for a separate thread."""


def first_numbers(
    program: Operations,
    constants: Numbers,
    slots: Numbers,
    params: Numbers,
    result: Numbers,
    traces: Operations,
) -> None:
    """Fill ``result[traces]`` with the value of the formula at step 0.

    Args:
        program: int64 [n, 8], see `OP`.
        constants: [n].
        slots: [s, N, T].
        params: [C, p]; each client has N / C consecutive traces.
        result: [N].
        traces: int64, positions of the traces.
    """
    depth = int(program[:, TO].max()) + 3

    def work(start: int, stop: int) -> None:
        _run_program(
            program,
            constants,
            slots,
            params,
            result,
            traces[start:stop],
            np.empty((depth, 2 * slots.shape[2] + 2)),
        )

    run_in_parts(len(traces), LEAST_TRACES, work)


@kernel_part
def _lower(a: float, b: float) -> float:
    """The smaller number; NaN if one of them is NaN."""
    return a if a < b or a != a else b


@kernel_part
def _upper(a: float, b: float) -> float:
    """The larger number; NaN if one of them is NaN."""
    return a if a > b or a != a else b


@kernel_part
def _over_window(values: Numbers, work: Numbers, operation: Operations, steps: int) -> None:
    """The least or largest number of a window at each of some steps, in place, by blocks of 1, 2,
    4, ... steps.
    """
    first, last, low, high, least = (
        operation[BEGIN],
        operation[END],
        operation[LOW],
        operation[HIGH],
        operation[FLAG],
    )
    nothing = np.inf if least else -np.inf
    if first == last:
        found = nothing
        for t in range(max(first + low, 0), min(last + high, steps - 1) + 1):
            found = _lower(found, values[t]) if least else _upper(found, values[t])
        values[first] = found
        return
    length, width = last + high - first - low + 1, high - low + 1
    for j in range(length):
        t = first + low + j
        work[j] = values[t] if 0 <= t < steps else nothing
    block = 1
    while 2 * block <= width:
        if least:
            for j in range(length - block):
                work[j] = _lower(work[j], work[j + block])
        else:
            for j in range(length - block):
                work[j] = _upper(work[j], work[j + block])
        block *= 2
    for t in range(first, last + 1):
        a, b = work[t - first], work[t - first + width - block]
        values[t] = _lower(a, b) if least else _upper(a, b)


@kernel_part
def _until(left: Numbers, right: Numbers, work: Numbers, operation: Operations, steps: int) -> None:
    """Until or since at each of some steps, into `left`, from the far end of its window: there, or
    here and later.
    """
    first, last, flag = operation[BEGIN], operation[END], operation[FLAG]
    positive, closed, past = flag & 1 != 0, flag & 2 != 0, flag & 4 != 0
    nothing = -np.inf if positive else np.inf
    for t in range(first, last + 1):
        begin, end = max(t + operation[LOW], 0), min(t + operation[HIGH], steps - 1)
        found = nothing
        if begin <= end:
            for k in range(t - begin + 1 if past else end - t + 1):
                other = begin + k if past else end - k
                here, there = left[other], right[other] if begin <= other <= end else nothing
                if closed:
                    later = _upper(there, found) if positive else _lower(there, found)
                    found = _lower(here, later) if positive else _upper(here, later)
                else:
                    later = _lower(here, found) if positive else _upper(here, found)
                    found = _upper(there, later) if positive else _lower(there, later)
        work[t] = found
    for t in range(first, last + 1):
        left[t] = work[t]


@kernel_part
def _at_each_step(
    kind: int, flag: int, constant: float, values: Numbers, above: Numbers, begin: int, end: int
) -> None:
    """An elementwise operation on one or two registers, in place."""
    if kind == ADD:
        for t in range(begin, end):
            values[t] += above[t]
    elif kind == MULTIPLY:
        for t in range(begin, end):
            values[t] *= above[t]
    elif kind == LESS:
        for t in range(begin, end):
            values[t] = above[t] - values[t]
    elif kind == NEGATE:
        for t in range(begin, end):
            values[t] = -values[t]
    elif kind == ABSOLUTE:
        for t in range(begin, end):
            values[t] = abs(values[t])
    elif kind == SHARE:
        for t in range(begin, end):
            values[t] /= constant
    elif kind == STRICT:
        for t in range(begin, end):
            values[t] = values[t] if values[t] != 0.0 else constant
    elif kind == DECIDED:
        for t in range(begin, end):
            values[t] = constant if values[t] >= 0.0 else -constant
    elif kind == LEAST:
        for t in range(begin, end):
            values[t] = _lower(values[t], above[t])
    elif kind == LARGEST:
        for t in range(begin, end):
            values[t] = _upper(values[t], above[t])
    if kind == KNOWN or (flag and kind in (ADD, MULTIPLY)):
        for t in range(begin, end):
            values[t] = values[t] if values[t] - values[t] == 0.0 else np.nan


@kernel
def _run_program(
    program: Operations,
    constants: Numbers,
    slots: Numbers,
    params: Numbers,
    result: Numbers,
    traces: Operations,
    registers: Numbers,
) -> None:
    """As `first_numbers`; `registers` is workspace, [depth, 2 T + 2], with its last row for
    windows.
    """
    steps = slots.shape[2]
    each = slots.shape[1] // params.shape[0]
    work = registers[registers.shape[0] - 1]
    for trace in traces:
        for place in range(program.shape[0]):
            operation = program[place]
            kind, to = operation[OP], operation[TO]
            values, above = registers[to], registers[to + 1]
            begin, end = operation[BEGIN], operation[END] + 1
            if kind == SLOT:
                for t in range(begin, end):
                    values[t] = slots[operation[FROM], trace, t]
            elif kind in (PARAM, FILL, FIRST):
                number = constants[place]
                if kind == PARAM:
                    number = params[trace // each, operation[FROM]]
                elif kind == FIRST:
                    number = values[0]
                for t in range(begin, end):
                    values[t] = number
            elif kind == WINDOW:
                _over_window(values, work, operation, steps)
            elif kind == UNTIL:
                _until(values, above, work, operation, steps)
            else:
                _at_each_step(kind, operation[FLAG], constants[place], values, above, begin, end)
        result[trace] = registers[0, 0]
