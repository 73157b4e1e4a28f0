"""Relations as arrays, against sets of pairs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedkg_compiler.graph.reasoning.facts import (
    Pairs,
    composed,
    make_pairs,
    split,
    transitive_closure,
    without_self,
)

N = 7
relations = st.sets(st.tuples(st.integers(0, N - 1), st.integers(0, N - 1)), max_size=14)


def array(pairs: set[tuple[int, int]]) -> Pairs:
    table = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    return make_pairs(table[:, 0], table[:, 1])


def plain(pairs: Pairs) -> set[tuple[int, int]]:
    left, right = split(pairs)
    found = list(zip(left.tolist(), right.tolist(), strict=True))
    assert found == sorted(set(found))
    return set(found)


def step(one: set[tuple[int, int]], other: set[tuple[int, int]]) -> set[tuple[int, int]]:
    return {(a, d) for a, b in one for c, d in other if b == c}


@given(relations, relations)
def test_relations_are_composed(one: set[tuple[int, int]], other: set[tuple[int, int]]) -> None:
    assert plain(array(one)) == one
    assert plain(composed(array(one), array(other))) == step(one, other)
    assert plain(without_self(array(one))) == {(a, b) for a, b in one if a != b}


@given(relations)
def test_what_is_reached_is_the_least_transitive_relation(pairs: set[tuple[int, int]]) -> None:
    closed = set(pairs)
    while not step(closed, pairs) <= closed:
        closed |= step(closed, pairs)
    assert plain(transitive_closure(array(pairs))) == closed
