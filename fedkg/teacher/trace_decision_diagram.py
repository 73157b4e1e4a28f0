"""Decision diagram of a formula in the order of time: the remaining formula after each step, for
any trace.

A state is the part of the formula that must still become true. The next state depends only on which
of its literals are true at the step. The number of states at a step determines the cost of a
nearest trace: one for bounds at every step, two for a window in which something must be reached
once, at most 2^k for a response within k steps.

Letters: T steps, L letters (choices of a cell in each group), Q sets of letters, E edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import SetError
from fedkg.teacher.boolean_expressions import FALSE, TRUE, Expressions

LIMIT = 20_000
"""Most states at one step; larger diagrams are not built."""


class BeyondDiagram(Exception):
    """A formula without a diagram, or with a diagram that is too large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """From a state (its position at a step) to one at the next step, by any of some letters."""

    source: int
    letters: tuple[int, ...]
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One step: its edges, ordered by target, and the number of states of the next step."""

    edges: tuple[Edge, ...]
    states: int


def build_layers(
    expressions: Expressions, formula: int, steps: int, letters: tuple[frozenset[int], ...]
) -> tuple[Layer, ...]:
    """The diagram of an expression; the one state after the last step is TRUE.

    Args:
        letters: for each letter, the literals that it makes true.

    Raises:
        SetError: no trace satisfies the formula.
        BeyondDiagram: there are more than `LIMIT` states at a step.
    """
    if formula == FALSE:
        raise SetError(
            "no trace satisfies the formula",
            help="`fedkg check` finds rules that contradict each other",
        )
    states, found = [formula], []
    for step in range(steps):
        edges, following = _step(expressions, states, step, letters)
        if len(following) > LIMIT:
            raise BeyondDiagram
        found.append((edges, following))
        states = following
    return _pruned(found)


def _step(
    expressions: Expressions, states: list[int], step: int, letters: tuple[frozenset[int], ...]
) -> tuple[list[tuple[int, tuple[int, ...], int]], list[int]]:
    """Edges (source, letters, target) and the states after a step."""
    following: dict[int, int] = {}
    edges: list[tuple[int, tuple[int, ...], int]] = []
    remembered: dict[frozenset[int], dict[int, int]] = {}
    for source, state in enumerate(states):
        literals = expressions.literals(state, step)
        by_truth: dict[frozenset[int], list[int]] = {}
        for number, true in enumerate(letters):
            by_truth.setdefault(true & literals, []).append(number)
        to: dict[int, list[int]] = {}
        for truth, same in by_truth.items():
            parts = (
                expressions.advance(part, step, truth, remembered.setdefault(truth, {}))
                for part in expressions.parts(state)
            )
            left = expressions.all_of(parts)
            if left != FALSE:
                to.setdefault(left, []).extend(same)
        for left, same in to.items():
            edges.append((source, tuple(sorted(same)), following.setdefault(left, len(following))))
    return edges, list(following)


def _pruned(
    found: list[tuple[list[tuple[int, tuple[int, ...], int]], list[int]]],
) -> tuple[Layer, ...]:
    """The layers without the states from which the formula cannot become true."""
    live = {number: 0 for number, state in enumerate(found[-1][1]) if state == TRUE}
    result: list[Layer] = []
    for edges, _ in reversed(found):
        kept = [edge for edge in edges if edge[2] in live]
        sources = {source: place for place, source in enumerate(sorted({edge[0] for edge in kept}))}
        ordered = sorted(
            (Edge(source=sources[s], letters=l, target=live[t]) for s, l, t in kept),
            key=lambda e: (e.target, e.source),
        )
        result.append(Layer(edges=tuple(ordered), states=len(set(live.values()))))
        live = sources
    if not live:
        raise SetError(
            "no trace satisfies the formula",
            help="`fedkg check` finds rules that contradict each other",
        )
    return tuple(reversed(result))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edges:
    """The layers of a diagram, concatenated.

    Attributes:
        of_step: int64 [T + 1], first edge of each step.
        source: int64 [E], state at the step of each edge.
        choice: int64 [E], set of letters by which each edge leads on.
        target: int64 [E], state after the step of each edge.
        sets_of_step: int64 [T + 1], first set of each step.
        of_set: int64 [Q + 1], first letter of each set.
        letters: the letters of all sets, one set after the other.
        states: the largest number of states at a step.
    """

    of_step: NDArray[np.int64]
    source: NDArray[np.int64]
    choice: NDArray[np.int64]
    target: NDArray[np.int64]
    sets_of_step: NDArray[np.int64]
    of_set: NDArray[np.int64]
    letters: NDArray[np.int64]
    states: int


def diagram_edges(layers: Sequence[Layer]) -> Edges:
    """The edges of a diagram as arrays."""
    edges: list[tuple[int, int, int]] = []
    sets: list[tuple[int, ...]] = []
    of_step, sets_of_step = [0], [0]
    for layer in layers:
        here = {
            letters: len(sets) + i
            for i, letters in enumerate(dict.fromkeys(edge.letters for edge in layer.edges))
        }
        sets.extend(here)
        edges.extend((edge.source, here[edge.letters], edge.target) for edge in layer.edges)
        of_step.append(len(edges))
        sets_of_step.append(len(sets))
    source, choice, target = np.array(edges, np.int64).reshape(-1, 3).T
    return Edges(
        of_step=np.array(of_step),
        source=np.ascontiguousarray(source),
        choice=np.ascontiguousarray(choice),
        target=np.ascontiguousarray(target),
        sets_of_step=np.array(sets_of_step),
        of_set=np.cumsum([0, *(len(one) for one in sets)]),
        letters=np.array([letter for one in sets for letter in one], np.int64),
        states=max((layer.states for layer in layers), default=1),
    )
