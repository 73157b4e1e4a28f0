"""Compiled functions equal their Python execution; errors name the function and the unsupported
line.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import sample_functions as loops
from hypothesis import given
from hypothesis import strategies as st

from fedkg.kernels.checked_memory_access import address as at
from fedkg.kernels.loop_language import (
    Bools,
    Double,
    Doubles,
    Float,
    Floats,
    Ints,
    NotCompiled,
    loop,
    to_float,
)
from fedkg.kernels.loop_library import Library
from fedkg.kernels.loop_translation import translate

ENTRIES = (
    loops.branches,
    loops.repeat_loop,
    loops.searched,
    loops.computed,
    loops.read_frame,
    loops.marked,
)
PRECISIONS = {np.float32: True, np.float64: False}


@pytest.fixture(scope="module")
def libraries() -> dict[Any, Library]:
    return {dtype: Library(ENTRIES, single=single) for dtype, single in PRECISIONS.items()}


@cache
def library_of_bools() -> Library:
    return Library([of_bools], single=False)


@given(numbers=st.lists(st.integers(-9, 9), min_size=2, max_size=30))
def test_branches(libraries: dict[Any, Library], numbers: list[int]) -> None:
    x = np.array(numbers, dtype=np.int64)
    ours, theirs = np.zeros_like(x), np.zeros_like(x)
    libraries[np.float32].branches(at(x), len(x), at(ours))
    loops.branches(x, len(x), theirs)
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("n", [0, 1, 2, 5, 9])
def test_loops_in_loops(libraries: dict[Any, Library], n: int) -> None:
    ours, theirs = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    libraries[np.float64].repeat_loop(n, at(ours))
    loops.repeat_loop(n, theirs)
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_calls_and_results(libraries: dict[Any, Library], dtype: Any) -> None:
    x = np.array([-3.0, 0.7, -2.0, 1.5], dtype=dtype)
    out = np.zeros(3, dtype=np.int64)
    libraries[dtype].searched(at(x), 4, 1.0, at(out))
    assert out.tolist() == [3, 1, 6]


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_numbers_to_the_bit(libraries: dict[Any, Library], dtype: Any) -> None:
    dice = np.random.default_rng(0)
    x, y = (dice.normal(size=37).astype(dtype) for _ in range(2))
    x[5:8], y[9] = [np.nan, np.inf, 0.0], 0.0
    ours, wide = np.zeros(40, dtype=dtype), np.ones(37)
    libraries[dtype].computed(at(x), at(y), 37, at(ours), at(wide))
    with np.errstate(all="ignore"):
        expected = np.where(np.isnan(x), dtype(0.5), np.abs(x) * y - x / y + -y)
        np.testing.assert_array_equal(ours[:37], expected)
        np.testing.assert_array_equal(wide, 1 + (x * dtype(3)).astype(np.float64))
        last = (
            np.sqrt(np.abs(x[0]))
            + np.floor(x[1])
            + np.ceil(x[2])
            + np.rint(x[3])
            + np.log(2 + np.abs(x[0]))
        )
    np.testing.assert_allclose(ours[37:], [min(y[0], x[0]) + max(y[1], x[1]), last, 1.0], rtol=1e-6)


def test_compiled_code_reads_arrays_by_address(libraries: dict[Any, Library]) -> None:
    numbers, limits = np.array([1.0, 2.0, 3.0], dtype=np.float32), np.array([0.0, 5.0, 1.0])
    marks, out = np.array([True, True, False]), np.zeros(2, dtype=np.int64)
    frame = np.array([at(numbers), at(limits), at(marks), 3], dtype=np.int64)
    libraries[np.float32].read_frame(at(frame), at(out))
    assert out.tolist() == [2, 3]
    assert marks.tolist() == [True, False, True]


@given(marks=st.lists(st.booleans(), min_size=1, max_size=70))
def test_bools(libraries: dict[Any, Library], marks: list[bool]) -> None:
    x = np.array(marks)
    ours, theirs = np.zeros(len(x) + 1, dtype=bool), np.zeros(len(x) + 1, dtype=bool)
    libraries[np.float32].marked(at(x), len(x), at(ours))
    loops.marked(x, len(x), theirs)
    assert ours.tolist() == theirs.tolist()


@loop
def of_bools(x: Bools, out: Ints) -> None:
    a, b = x[0], x[1]
    out[0], out[1], out[2] = a + b, a - b, a * b
    out[3], out[4], out[5] = a < b, a >= b, min(a, b)
    out[6], out[7] = a + 1, a == 2
    if a:
        t = 5
    elif b:
        t = 6
    else:
        t = 7
    out[8] = t


@pytest.mark.parametrize("a", [False, True])
@pytest.mark.parametrize("b", [False, True])
def test_bools_are_numbers(a: bool, b: bool) -> None:
    x, ours, theirs = np.array([a, b]), np.zeros(9, dtype=np.int64), np.zeros(9, dtype=np.int64)
    library_of_bools().of_bools(at(x), at(ours))
    of_bools([a, b], theirs)  # Python numbers, because NumPy's are not accepted
    assert ours.tolist() == theirs.tolist()


@loop
def of_text(x: Floats) -> None:
    x[0] = "text"


@loop
def narrowed(x: Ints, y: Floats) -> None:
    x[0] = y[0]


@loop
def of_others(x: Ints) -> None:
    x[0] = len(x)


@loop
def stepped(x: Floats) -> None:
    x[0] = x[1::2][0]


@loop
def divided(x: Ints) -> None:
    x[0] = x[1] / x[2]


@loop
def half(x: Double) -> Float:
    return 0.5 * x


@loop
def result_narrowed(x: Doubles) -> None:
    x[0] = half(x[1])


@loop
def argument_narrowed(x: Doubles, y: Floats) -> None:
    y[0] = is_above(x[0], y[1])


@loop
def is_above(x: Float, y: Float) -> bool:
    return x > y


@loop
def float_from_outside(x: Floats, s: Float) -> None:
    x[0] = s


REFUSED = [
    of_text, narrowed, of_others, stepped, divided, result_narrowed, argument_narrowed,
    float_from_outside,
]  # fmt: skip


@pytest.mark.parametrize("function", REFUSED)
def test_unsupported_python_is_rejected(function: Callable[..., Any]) -> None:
    with pytest.raises(NotCompiled):
        translate([function], True)


@loop
def odd_statements(x: Ints, n: int) -> None:
    for i in range(3):
        x[i] += 1
    else:
        x[3] = 1
    x[4] = i
    for i in range(3):
        i += 1
        x[5] += i
    x[6] = x[0] or x[1]
    x[7] = 0 < n < x[n]
    if n > 0:
        return
    x[8] = 1


@pytest.mark.parametrize("n", [-1, 0, 1, 3])
def test_unusual_statements(n: int) -> None:
    numbers = [-1, 5, 2, 0, 0, 0, 0, 0, 0]
    ours = np.array(numbers)
    Library([odd_statements], single=True).odd_statements(at(ours), n)
    odd_statements(numbers, n)
    assert ours.tolist() == numbers


def test_the_line_is_named() -> None:
    line = of_others.__code__.co_firstlineno + 2
    with pytest.raises(NotCompiled, match=rf"of_others: line {line}: (.|\n)*len"):
        translate([of_others], True)


def test_words_mean_nothing_outside() -> None:
    with pytest.raises(TypeError, match="only compiled code can call"):
        to_float(1.0)
