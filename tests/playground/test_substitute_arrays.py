"""The arrays that the playground uses without NumPy give NumPy's results."""

from __future__ import annotations

import importlib.util
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

LIBRARIES = Path(__file__).parents[2] / "playground" / "libraries"
NAN, INF = float("nan"), float("inf")


def load() -> Any:
    """The substitute, under another name than NumPy's."""
    found = importlib.util.spec_from_file_location(
        "substitute_arrays", LIBRARIES / "numpy" / "__init__.py"
    )
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


SUBSTITUTE = load()
Case = Callable[[Any, Any, Any, Any, Any], Any]

# [4, 3] each; f: float with nan and infinities, g: float without, i: int, b: bool
CASES: dict[str, Case] = {
    "plus": lambda np, f, g, i, b: f + g * 2 - i,
    "divide": lambda np, f, g, i, b: (f / g, g / 0, i / 2, 1 / i),
    "floor divide": lambda np, f, g, i, b: (i // 2, i % 3, g // 1.5),
    "power": lambda np, f, g, i, b: (abs(g) ** 0.5, g**2, g**-1, np.power(g, 3.0)),
    "compare": lambda np, f, g, i, b: (f <= g, f > 0, i == 2, f != f),
    "logic": lambda np, f, g, i, b: (b & ~b, b | (g > 0), b ^ True, np.logical_not(i)),
    "least and greatest": lambda np, f, g, i, b: (np.minimum(f, g), np.maximum(f, 0)),
    "functions": lambda np, f, g, i, b: (
        np.floor(g),
        np.ceil(g),
        np.round(g),
        np.sign(g),
        np.abs(f),
        np.isnan(f),
        np.isinf(f),
        np.isfinite(f),
        np.clip(g, -1, 1),
    ),
    "domains": lambda np, f, g, i, b: (np.sqrt(g), np.log(g), np.exp(g * 400)),
    "reductions": lambda np, f, g, i, b: (
        i.sum(axis=0),
        i.sum(),
        b.sum(axis=1),
        f.max(axis=1),
        g.min(),
        b.any(axis=0),
        b.all(axis=1, keepdims=True),
        g.argmax(axis=0),
        g.argmin(),
        f.argmin(axis=0),
        g.max(axis=1, initial=2.0),
    ),
    "reduce": lambda np, f, g, i, b: (
        np.minimum.reduce([f[0], g[0]]),
        np.maximum.reduceat(g[:, 0], [0, 2]),
        np.add.reduceat(i, [0, 1, 3]),
        np.logical_and.reduce(b),
        np.add.reduce(i),
    ),
    "slices": lambda np, f, g, i, b: (
        i[1],
        i[:, 1],
        i[1:, ::-1],
        i[..., None, 0],
        i[-1, -2],
        i[None],
    ),
    "masks": lambda np, f, g, i, b: (g[b], g[b[:, 0]], g[~b.any(axis=1)], g[b[:, 1], 0]),
    "fancy": lambda np, f, g, i, b: (
        g[[0, 2]],
        g[:, [2, 0]],
        g[np.array([0, 1]), np.array([2, 2])],
        g[np.array([[0], [1]]), np.array([2, 0])],
        g[np.ix_([True, False, True, False], [0, 2])],
        g[None, 1:, [0, 1]],
    ),
    "shapes": lambda np, f, g, i, b: (
        i.T,
        i.reshape(2, -1),
        i.ravel(),
        i.transpose(1, 0),
        np.broadcast_to(i[0], (2, 3)),
        i[:, None] + i[None, 0],
    ),
    "joins": lambda np, f, g, i, b: (
        np.concatenate([g, i]),
        np.concatenate([i, i], axis=1),
        np.stack([g, f], axis=1),
        np.vstack([i[0], i[1]]),
        np.column_stack([i[:, 0], g[:, 1]]),
        np.append(i, [7]),
        np.split(np.arange(5), [1, 3]),
    ),
    "repeats": lambda np, f, g, i, b: (
        np.repeat(i[:, 0], [0, 1, 2, 1]),
        np.repeat(i, 2, axis=1),
        np.tile(i[0], 2),
        np.tile(i, (2, 1)),
    ),
    "where": lambda np, f, g, i, b: (
        np.where(b, f, 0.0),
        np.where(b, 1, i),
        np.flatnonzero(b),
        np.nonzero(b),
        np.argwhere(b),
    ),
    "orders": lambda np, f, g, i, b: (
        np.sort(f, axis=1),
        np.argsort(g[:, 0], kind="stable"),
        np.lexsort((i[:, 0], i[:, 1])),
        np.searchsorted(np.arange(5), i[:, 0], side="right"),
    ),
    "unique": lambda np, f, g, i, b: (
        np.unique(i),
        np.unique(i, return_index=True, return_inverse=True, return_counts=True),
        np.unique(i % 2, axis=0, return_inverse=True),
        np.unique(i % 2, axis=1),
        np.unique(f),
        np.isin(i, [1, 2]),
        np.setdiff1d(i, [1]),
        np.intersect1d(i, [1, 2, 9], return_indices=False),
    ),
    "sums": lambda np, f, g, i, b: (
        np.cumsum(i),
        np.cumsum(i, axis=1),
        np.diff(i[:, 0]),
        np.bincount(abs(i[:, 0]), minlength=9),
        np.bincount(abs(i[:, 0]), weights=g[:, 0]),
    ),
    "made": lambda np, f, g, i, b: (
        np.arange(4),
        np.arange(1, 2, 0.25),
        np.zeros((2, 0), dtype=np.int32),
        np.eye(3, dtype=np.bool_),
        np.full(3, np.nan),
        np.linspace(0, 1, 5),
        np.ones_like(i),
        np.array([1, 2.5]),
        np.array([]),
        np.nan_to_num(f, nan=3.0),
    ),
    "casts": lambda np, f, g, i, b: (
        g.astype(np.int64),
        i.astype(np.float64),
        b.astype(int),
        (i + 2**31).astype(np.int32),
        g.view(np.int64),
    ),
    "bytes": lambda np, f, g, i, b: (g.tobytes().hex(), i.astype(np.int32).tobytes().hex()),
}


def inputs(np: Any, seed: int) -> list[Any]:
    draw = random.Random(seed)
    pick = [NAN, INF, -INF, 0.0, 1.5, -2.25, 1e300]
    f = [[draw.choice(pick) for _ in range(3)] for _ in range(4)]
    g = [[draw.choice([0.0, 1.0, -1.0, draw.uniform(-3, 3)]) for _ in range(3)] for _ in range(4)]
    i = [[draw.randrange(-3, 5) for _ in range(3)] for _ in range(4)]
    b = [[draw.random() < 0.5 for _ in range(3)] for _ in range(4)]
    return [np.array(one) for one in (f, g, i, b)]


def plain(value: Any) -> Iterator[Any]:
    """Arrays as shape, kind of elements and values; of floats 14 digits, because the last bit of
    NumPy's powers and logarithms depends on the processor.
    """
    if isinstance(value, tuple | list):
        for one in value:
            yield from plain(one)
    elif hasattr(value, "tolist") and hasattr(value, "shape"):
        text = repr(value.tolist()).replace("-0.0", "0.0")
        text = re.sub(r"\d+\.\d+(e[+-]\d+)?", lambda one: f"{float(one[0]):.14g}", text)
        yield tuple(value.shape), value.dtype.kind, text
    else:
        yield value


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_the_result_is_numpys(name: str, seed: int) -> None:
    with numpy.errstate(all="ignore"):
        expected = [*plain(CASES[name](numpy, *inputs(numpy, seed)))]
    found = [*plain(CASES[name](SUBSTITUTE, *inputs(SUBSTITUTE, seed)))]
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if isinstance(one, tuple) and isinstance(other, tuple):
            assert one[0] == other[0], (number, found, expected)
        assert one == other, number


def changes(np: Any) -> list[Any]:
    """Arrays after assignments, also through views."""
    a = np.zeros((3, 4))
    a[1] = 5
    a[:, 2] = np.arange(3)
    a[a > 4] = np.nan
    a[2][1:] = 7.0
    a[[0, 2], [0, 3]] = [8, 9]
    a[None, 0, :1] += 1
    turned = a.T
    turned[3] = -1
    np.minimum.at(a, (np.array([0, 0]), np.array([1, 1])), np.array([-2.0, -3.0]))
    counts = np.zeros(3, dtype=np.int64)
    np.add.at(counts, [0, 0, 2], 1)
    kept = np.zeros((2, 3), dtype=np.int32)
    kept[:, np.arange(3) < np.array([[2], [3]])[0]] = 4
    b = np.ones(3, dtype=np.bool_)
    b &= np.array([True, False, True])
    np.clip(a, -1, 8, out=a)
    return [*plain([a, counts, kept, b])]


def test_assignments_reach_the_same_elements() -> None:
    assert changes(SUBSTITUTE) == changes(numpy)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda np: np.zeros(3)[3],
        lambda np: np.zeros((2, 2)) + np.zeros(3),
        lambda np: np.zeros(3).reshape(2),
        lambda np: bool(np.zeros(2)),
        lambda np: np.zeros(0).max(),
        lambda np: np.zeros(2)[np.zeros(2)],
    ],
)
def test_what_numpy_rejects_is_rejected(wrong: Callable[[Any], Any]) -> None:
    for module in (numpy, SUBSTITUTE):
        with pytest.raises((IndexError, ValueError)):
            wrong(module)
