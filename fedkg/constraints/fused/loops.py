"""One operation each on runs of n numbers: small loops over separate arrays, which the compiler turns into vector instructions.

`d` is written, `x`, `y` are read; `bad` stands where the result is beyond `limit` in size or NaN. `i`, `j` are places.
"""

from __future__ import annotations

from typing import Any

from fedkg.kernels import inner

Array = Any  # of float32 or float64, as compiled


@inner
def add(d: Array, x: Array, y: Array, n: int, limit: Any, bad: Any) -> None:
    """x + y."""
    for j in range(n):
        t = x[j] + y[j]
        d[j] = t if abs(t) <= limit else bad


@inner
def multiply(d: Array, x: Array, y: Array, n: int, limit: Any, bad: Any) -> None:
    """x y."""
    for j in range(n):
        t = x[j] * y[j]
        d[j] = t if abs(t) <= limit else bad


@inner
def divide(d: Array, x: Array, y: Array, n: int, limit: Any, bad: Any) -> None:
    """x / y."""
    for j in range(n):
        t = x[j] / y[j]
        d[j] = t if abs(t) <= limit else bad


@inner
def add_number(d: Array, x: Array, s: Any, n: int, limit: Any, bad: Any) -> None:
    """x + s."""
    for j in range(n):
        t = x[j] + s
        d[j] = t if abs(t) <= limit else bad


@inner
def multiply_number(d: Array, x: Array, s: Any, n: int, limit: Any, bad: Any) -> None:
    """x s."""
    for j in range(n):
        t = x[j] * s
        d[j] = t if abs(t) <= limit else bad


@inner
def divide_number(d: Array, x: Array, s: Any, n: int, limit: Any, bad: Any) -> None:
    """x / s."""
    for j in range(n):
        t = x[j] / s
        d[j] = t if abs(t) <= limit else bad


@inner
def number_divided(d: Array, s: Any, x: Array, n: int, limit: Any, bad: Any) -> None:
    """s / x."""
    for j in range(n):
        t = s / x[j]
        d[j] = t if abs(t) <= limit else bad


@inner
def margin(d: Array, x: Array, y: Array, n: int, shift: Any, at_zero: Any, limit: Any, bad: Any) -> None:
    """x - y + shift, and `at_zero` where that is 0."""
    zero = shift - shift
    for j in range(n):
        t = x[j] - y[j] + shift
        t = at_zero if t == zero else t
        d[j] = t if abs(t) <= limit else bad


@inner
def margin_above(d: Array, x: Array, s: Any, n: int, shift: Any, at_zero: Any, limit: Any, bad: Any) -> None:
    """x - s + shift, and `at_zero` where that is 0."""
    zero = shift - shift
    for j in range(n):
        t = x[j] - s + shift
        t = at_zero if t == zero else t
        d[j] = t if abs(t) <= limit else bad


@inner
def margin_below(d: Array, s: Any, x: Array, n: int, shift: Any, at_zero: Any, limit: Any, bad: Any) -> None:
    """s - x + shift, and `at_zero` where that is 0."""
    zero = shift - shift
    for j in range(n):
        t = s - x[j] + shift
        t = at_zero if t == zero else t
        d[j] = t if abs(t) <= limit else bad


@inner
def scaled(d: Array, x: Array, s: Any, n: int, shift: Any, limit: Any, bad: Any) -> None:
    """x / s + shift."""
    for j in range(n):
        t = x[j] / s + shift
        d[j] = t if abs(t) <= limit else bad


@inner
def negated(d: Array, x: Array, n: int) -> None:
    """-x."""
    for j in range(n):
        d[j] = -x[j]


@inner
def least(d: Array, x: Array, y: Array, n: int) -> None:
    """The smaller; y where one is NaN."""
    for j in range(n):
        u = x[j]
        v = y[j]
        d[j] = u if u < v else v


@inner
def most(d: Array, x: Array, y: Array, n: int) -> None:
    """The larger; y where one is NaN."""
    for j in range(n):
        u = x[j]
        v = y[j]
        d[j] = u if u > v else v


@inner
def poisoned(d: Array, x: Array, n: int) -> None:
    """d, NaN where x is."""
    for j in range(n):
        u = x[j]
        d[j] = d[j] if u == u else u  # a NaN differs from itself


@inner
def replaced(d: Array, x: Array, y: Array, n: int) -> None:
    """x, or y where x is NaN."""
    for j in range(n):
        u = x[j]
        d[j] = u if u == u else y[j]  # a NaN differs from itself


@inner
def filled(d: Array, s: Any, n: int) -> None:
    """s."""
    for j in range(n):
        d[j] = s


@inner
def copied(d: Array, x: Array, n: int) -> None:
    """x."""
    for j in range(n):
        d[j] = x[j]


@inner
def gathered(d: Array, x: Array, places: Array, n: int) -> None:
    """x at some places."""
    for j in range(n):
        d[j] = x[places[j]]


@inner
def accumulated(d: Array, x: Array, n: int) -> None:
    """d + x."""
    for j in range(n):
        d[j] = d[j] + x[j]
