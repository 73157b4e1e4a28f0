"""The compiled search for the cheapest path against trying all paths of small random diagrams."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg.kernels.decision_diagram_shortest_path import cheapest_letters
from fedkg.teacher.trace_decision_diagram import Edge, Layer, diagram_edges

LETTERS = 3


@st.composite
def diagrams(draw: st.DrawFn) -> tuple[Layer, ...]:
    """Layers in which each state is reachable and one remains after the last."""
    found, sources = [], 1
    steps = draw(st.integers(1, 4))
    for step in range(steps):
        states = 1 if step == steps - 1 else draw(st.integers(1, 3))
        edges = []
        for target in range(states):
            reached = draw(st.sets(st.integers(0, sources - 1), min_size=1))
            for source in sorted(reached):
                letters = draw(st.sets(st.integers(0, LETTERS - 1), min_size=1))
                edges.append(Edge(source=source, letters=tuple(sorted(letters)), target=target))
        found.append(Layer(edges=tuple(edges), states=states))
        sources = states
    return tuple(found)


def all_paths(layers: tuple[Layer, ...]) -> set[tuple[int, ...]]:
    """The words of letters along paths through the diagram."""
    words: dict[int, set[tuple[int, ...]]] = {0: {()}}
    for layer in layers:
        following: dict[int, set[tuple[int, ...]]] = {}
        for edge in layer.edges:
            for word, letter in product(words.get(edge.source, ()), edge.letters):
                following.setdefault(edge.target, set()).add((*word, letter))
        words = following
    return words[0]


@tries(60)
@given(layers=diagrams(), seed=st.integers(0, 1000))
def test_the_path_found_is_a_path_and_none_is_cheaper(layers: tuple[Layer, ...], seed: int) -> None:
    dice = np.random.default_rng(seed)
    rows, clients, groups, kept = 5, 2, 2, 2
    low = dice.normal(size=(groups, clients, kept))
    high = low + dice.uniform(0, 1, low.shape)
    cells = dice.integers(0, kept, (groups, LETTERS))
    sizes, values = np.array([1.0, 2.0]), dice.normal(size=(rows, len(layers), groups))
    client = dice.integers(0, clients, rows)
    found = cheapest_letters(diagram_edges(layers), cells, low, high, sizes, values, client)

    def cost(row: int, word: tuple[int, ...]) -> float:
        total = 0.0
        for step, letter in enumerate(word):
            for one in range(groups):
                cell, here = cells[one, letter], values[row, step, one]
                total += (
                    max(
                        low[one, client[row], cell] - here, here - high[one, client[row], cell], 0.0
                    )
                    / sizes[one]
                )
        return total

    words = all_paths(layers)
    for row in range(rows):
        assert tuple(found[row]) in words
        assert np.isclose(
            cost(row, tuple(found[row])), min(cost(row, word) for word in words), atol=1e-12
        )


def test_no_traces_are_none() -> None:
    layers = (Layer(edges=(Edge(source=0, letters=(0,), target=0),), states=1),)
    ends = np.zeros((1, 1, 1))
    found = cheapest_letters(
        diagram_edges(layers),
        np.zeros((1, 1), np.int64),
        ends,
        ends,
        np.ones(1),
        np.zeros((0, 1, 1)),
        np.zeros(0, np.int64),
    )
    assert found.shape == (0, 1)
