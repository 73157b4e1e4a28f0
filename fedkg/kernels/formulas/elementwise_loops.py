"""One operation each on runs of n numbers: small loops over separate arrays, which the compiler
turns into vector instructions.

`d` is written, `x`, `y` are read; `bad` is the result where its size exceeds `limit` or it is NaN.
`i`, `j` are places.
"""

from __future__ import annotations

from fedkg.kernels.loop_language import Float, Floats, Ints, loop


@loop
def add(d: Floats, x: Floats, y: Floats, n: int, limit: Float, bad: Float) -> None:
    """x + y."""
    for j in range(n):
        t = x[j] + y[j]
        d[j] = t if abs(t) <= limit else bad


@loop
def multiply(d: Floats, x: Floats, y: Floats, n: int, limit: Float, bad: Float) -> None:
    """x y."""
    for j in range(n):
        t = x[j] * y[j]
        d[j] = t if abs(t) <= limit else bad


@loop
def divide(d: Floats, x: Floats, y: Floats, n: int, limit: Float, bad: Float) -> None:
    """x / y."""
    for j in range(n):
        t = x[j] / y[j]
        d[j] = t if abs(t) <= limit else bad


@loop
def add_number(d: Floats, x: Floats, s: Float, n: int, limit: Float, bad: Float) -> None:
    """x + s."""
    for j in range(n):
        t = x[j] + s
        d[j] = t if abs(t) <= limit else bad


@loop
def multiply_number(d: Floats, x: Floats, s: Float, n: int, limit: Float, bad: Float) -> None:
    """x s."""
    for j in range(n):
        t = x[j] * s
        d[j] = t if abs(t) <= limit else bad


@loop
def divide_number(d: Floats, x: Floats, s: Float, n: int, limit: Float, bad: Float) -> None:
    """x / s."""
    for j in range(n):
        t = x[j] / s
        d[j] = t if abs(t) <= limit else bad


@loop
def number_divided(d: Floats, s: Float, x: Floats, n: int, limit: Float, bad: Float) -> None:
    """s / x."""
    for j in range(n):
        t = s / x[j]
        d[j] = t if abs(t) <= limit else bad


@loop
def margin(
    d: Floats, x: Floats, y: Floats, n: int, shift: Float, at_zero: Float, limit: Float, bad: Float
) -> None:
    """x - y + shift, and `at_zero` where that is 0."""
    zero = shift - shift
    for j in range(n):
        t = x[j] - y[j] + shift
        t = at_zero if t == zero else t
        d[j] = t if abs(t) <= limit else bad


@loop
def margin_above(
    d: Floats, x: Floats, s: Float, n: int, shift: Float, at_zero: Float, limit: Float, bad: Float
) -> None:
    """x - s + shift, and `at_zero` where that is 0."""
    zero = shift - shift
    for j in range(n):
        t = x[j] - s + shift
        t = at_zero if t == zero else t
        d[j] = t if abs(t) <= limit else bad


@loop
def margin_below(
    d: Floats, s: Float, x: Floats, n: int, shift: Float, at_zero: Float, limit: Float, bad: Float
) -> None:
    """s - x + shift, and `at_zero` where that is 0."""
    zero = shift - shift
    for j in range(n):
        t = s - x[j] + shift
        t = at_zero if t == zero else t
        d[j] = t if abs(t) <= limit else bad


@loop
def scaled(d: Floats, x: Floats, s: Float, n: int, shift: Float, limit: Float, bad: Float) -> None:
    """x / s + shift."""
    for j in range(n):
        t = x[j] / s + shift
        d[j] = t if abs(t) <= limit else bad


@loop
def negated(d: Floats, x: Floats, n: int) -> None:
    """-x."""
    for j in range(n):
        d[j] = -x[j]


@loop
def least(d: Floats, x: Floats, y: Floats, n: int) -> None:
    """The smaller; y where one is NaN."""
    for j in range(n):
        u = x[j]
        v = y[j]
        d[j] = u if u < v else v


@loop
def most(d: Floats, x: Floats, y: Floats, n: int) -> None:
    """The larger; y where one is NaN."""
    for j in range(n):
        u = x[j]
        v = y[j]
        d[j] = u if u > v else v


@loop
def poisoned(d: Floats, x: Floats, n: int) -> None:
    """d, NaN where x is."""
    for j in range(n):
        u = x[j]
        d[j] = d[j] if u == u else u  # a NaN differs from itself


@loop
def replaced(d: Floats, x: Floats, y: Floats, n: int) -> None:
    """x, or y where x is NaN."""
    for j in range(n):
        u = x[j]
        d[j] = u if u == u else y[j]  # a NaN differs from itself


@loop
def filled(d: Floats, s: Float, n: int) -> None:
    """s."""
    for j in range(n):
        d[j] = s


@loop
def copied(d: Floats, x: Floats, n: int) -> None:
    """x."""
    for j in range(n):
        d[j] = x[j]


@loop
def gathered(d: Floats, x: Floats, places: Ints, n: int) -> None:
    """x at some places."""
    for j in range(n):
        d[j] = x[places[j]]


@loop
def accumulated(d: Floats, x: Floats, n: int) -> None:
    """d + x."""
    for j in range(n):
        d[j] = d[j] + x[j]


@loop
def multiplied(d: Floats, x: Floats, y: Floats, n: int) -> None:
    """x y, whatever it is."""
    for j in range(n):
        d[j] = x[j] * y[j]


@loop
def some(x: Floats, n: int) -> bool:
    """Whether any is not 0."""
    found = False
    for j in range(n):
        found |= x[j] != 0.0
    return found


@loop
def first_of(d: Floats, g: Floats, x: Floats, y: Floats, n: int, lowest: bool) -> None:
    """What of g belongs to x as the least (greatest) of x and y: all, unless y is better."""
    if lowest:
        for j in range(n):
            t = g[j]
            d[j] = t if x[j] <= y[j] else 0.0
    else:
        for j in range(n):
            t = g[j]
            d[j] = t if x[j] >= y[j] else 0.0


@loop
def second_of(d: Floats, g: Floats, x: Floats, y: Floats, n: int, lowest: bool) -> None:
    """d and what of g belongs to y as the least (greatest) of x and y: all where y is better."""
    if lowest:
        for j in range(n):
            t = g[j]
            d[j] = d[j] + (t if y[j] < x[j] else 0.0)
    else:
        for j in range(n):
            t = g[j]
            d[j] = d[j] + (t if y[j] > x[j] else 0.0)


@loop
def both_of(
    d: Floats, g: Floats, h: Floats, x: Floats, before: Floats, after: Floats, n: int, lowest: bool
) -> None:
    """What belongs to x of g, as the first of x and what comes after, and of h, as the second of
    what comes before and x.
    """
    if lowest:
        for j in range(n):
            t, u, v = g[j], h[j], x[j]
            d[j] = (t if v <= after[j] else 0.0) + (u if v < before[j] else 0.0)
    else:
        for j in range(n):
            t, u, v = g[j], h[j], x[j]
            d[j] = (t if v >= after[j] else 0.0) + (u if v > before[j] else 0.0)
