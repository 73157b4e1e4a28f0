"""Functions that the tests compile: each part of the language once."""

from __future__ import annotations

import math

from fedkg.kernels.loop_language import (
    Bools,
    Double,
    Doubles,
    Float,
    Floats,
    Ints,
    address_of,
    bools_at,
    doubles_at,
    floats_at,
    ints_at,
    loop,
    to_float,
)

LIMIT = 3
HALF = 0.5


@loop
def branches(x: Ints, n: int, out: Ints) -> None:
    for i in range(n):
        v = x[i]
        if v in (1, LIMIT):
            out[i] = 10
        elif v < 0 or (v > 7 and x[v - 8] > 2):
            out[i] = 20
        elif not v:
            out[i] = -v - 1
        else:
            out[i] = (v if v % 2 else v // 2) * 100


@loop
def repeat_loop(n: int, out: Ints) -> None:
    total, i = 0, 0
    while i < n:
        i += 1
        if i == 2:
            continue
        if i > 6:
            break
        for j in range(i, -1, -2):
            total += 10 * j
        for _ in range(0, 5, 3):
            total += 1
    out[0], out[1] = total, i


@loop
def first_above(x: Floats, n: int, limit: Float) -> int:
    for i in range(n):
        if x[i] > limit:
            return i
    return -1


@loop
def is_between(x: Float, low: Float, high: Float) -> bool:
    return low <= x < high


@loop
def searched(x: Floats, n: int, limit: Double, out: Ints) -> None:
    out[0] = first_above(x, n, to_float(limit))
    out[1] = first_above(x[2:], n - 2, 0.0)
    inside = False
    for i in range(n):
        inside |= is_between(x[i], -1.0, HALF)
    out[2] = 5 if inside else 6


@loop
def computed(x: Floats, y: Floats, n: int, out: Floats, wide: Doubles) -> None:
    for i in range(n):
        u, v = x[i], y[i]
        out[i] = abs(u) * v - u / v + -v if u == u else HALF
        wide[i] += u * 3.0
    here, there = x, y
    here, there = there, here
    out[n] = min(here[0], there[0]) + max(here[1], there[1])
    out[n + 1] = (
        math.sqrt(abs(x[0]))
        + math.floor(x[1])
        + math.ceil(x[2])
        + round(x[3])
        + math.log(2.0 + abs(x[0]))
    )
    out[n + 2] = 1.0 if math.inf > x[0] else math.nan


@loop
def read_frame(frame: Ints, out: Ints) -> None:
    """Arrays at addresses."""
    numbers, marks = floats_at(frame[0]), bools_at(frame[2])
    count = 0
    for i in range(frame[3]):
        count += marks[i]
        marks[i] = numbers[i] > doubles_at(frame[1])[i]
    out[0] = count
    out[1] = ints_at(address_of(frame[3:]))[0]


@loop
def marked(x: Bools, n: int, out: Bools) -> None:
    every = True
    for i in range(n):
        every &= x[i]
        out[i] = x[i] and not (x[0] and i > 2)
    out[n] = every
