"""Relations between numbered nodes, as arrays.

Letters: n nodes, P pairs. The pairs of a relation are ``left * n + right``, ascending, each once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import numpy.typing as npt

Pairs = npt.NDArray[np.int64]
Nodes = npt.NDArray[np.int64]

NONE: Pairs = np.empty(0, dtype=np.int64)

LIMIT = 5_000_000
"""The most pairs that are concluded: as triples in memory they take about 4 GB."""

_most: ContextVar[int] = ContextVar("_most", default=LIMIT)


class TooManyPairs(Exception):
    """A relation would have more than `most()` pairs."""


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Inside, at most `count` pairs are concluded, and never more than `LIMIT`."""
    token = _most.set(count)
    try:
        yield
    finally:
        _most.reset(token)


def most() -> int:
    """The most pairs that are concluded here."""
    return min(LIMIT, _most.get())


def make_pairs(left: Nodes, right: Nodes, n: int) -> Pairs:
    """The relation of these pairs. left, right: [P], or of shapes that go together."""
    return _each_once(left * n + right)


def _each_once(pairs: Pairs) -> Pairs:
    """Sorted, without repetition.

    `np.unique` goes through a table of hashes first, which takes several times as long.
    """
    pairs = np.sort(pairs, axis=None)
    new = np.ones(pairs.size, dtype=np.bool_)
    np.not_equal(pairs[1:], pairs[:-1], out=new[1:])  # `np.diff` takes five times as long for few
    return pairs[new]


def ends(pairs: Pairs, n: int) -> tuple[Nodes, Nodes]:
    """The nodes on the left and on the right, [P] each."""
    left, right = np.divmod(pairs, n)
    return left, right


def turned(pairs: Pairs, n: int) -> Pairs:
    """The relation the other way round."""
    left, right = ends(pairs, n)
    return make_pairs(right, left, n)


def joined(*relations: Pairs) -> Pairs:
    """The pairs of all."""
    return _each_once(np.concatenate([NONE, *relations]))


def without(pairs: Pairs, others: Pairs) -> Pairs:
    """The pairs that are not among others."""
    return np.setdiff1d(pairs, others, assume_unique=True)


def without_self(pairs: Pairs, n: int) -> Pairs:
    """The pairs of two different nodes."""
    left, right = ends(pairs, n)
    return np.compress(left != right, pairs)


def composed(first: Pairs, second: Pairs, n: int) -> Pairs:
    """The pairs (a, c) for which (a, b) is in the first relation and (b, c) in the second.

    Raises:
        TooManyPairs: there are too many (a, b, c) to be written down.
    """
    left, middle = ends(first, n)
    begin, end = np.searchsorted(second, middle * n), np.searchsorted(second, (middle + 1) * n)
    counts = end - begin
    if (
        counts.sum() > 8 * most()
    ):  # as numbers they are small, and the same pair may come about in several ways
        raise TooManyPairs
    places = np.repeat(begin - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    return make_pairs(np.repeat(left, counts), second[places] % n, n)


def transitive_closure(pairs: Pairs, n: int) -> Pairs:
    """The transitive closure: every node with all that it leads to, itself where it is on a circle.

    Raises:
        TooManyPairs: it has more than `most()` pairs.
    """
    steps: dict[int, list[int]] = defaultdict(list)
    for left, right in zip(*(side.tolist() for side in ends(pairs, n)), strict=True):
        steps[left].append(right)
    reached: dict[int, set[int]] = {}
    count = 0
    for start, nexts in steps.items():
        found: set[int] = set()
        waiting = [*nexts]
        while waiting:
            node = waiting.pop()
            if node in found:
                continue
            found.add(node)
            if node in reached:
                found |= reached[node]
            else:
                waiting += steps.get(node, ())
        reached[start] = found
        count += len(found)
        if count > most():
            raise TooManyPairs
    return np.sort(
        np.fromiter(
            (start * n + node for start, found in reached.items() for node in found), dtype=np.int64
        )
    )


def grouped(pairs: Pairs, n: int) -> dict[int, list[int]]:
    """The right-hand nodes of each left-hand node."""
    found: dict[int, list[int]] = defaultdict(list)
    for left, right in zip(*(side.tolist() for side in ends(pairs, n)), strict=True):
        found[left].append(right)
    return dict(found)
