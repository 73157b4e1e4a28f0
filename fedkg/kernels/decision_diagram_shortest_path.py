"""The cheapest path of each trace through a diagram, by a compiled loop with the state of one trace
in the L1 cache.

Letters: B traces, T steps, G groups, C clients, K cells of a group, L letters, Q sets of letters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.threads import run_in_parts
from fedkg.kernels.kernel_compilation import kernel, kernel_part
from fedkg.teacher.trace_decision_diagram import Edges

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]

LEAST_TRACES = 64
"""Smallest number of traces for a separate thread."""


def cheapest_letters(
    edges: Edges,
    cells: Places,
    low: Numbers,
    high: Numbers,
    sizes: Numbers,
    values: Numbers,
    client: Places,
) -> Places:
    """The letters of each trace's cheapest path, int64 [B, T]; the first of equally cheap ones.

    Args:
        edges: the edges of the diagram.
        cells: int64 [G, L], the cell of each group in each letter.
        low: lower ends of the cells, [G, C, K].
        high: upper ends of the cells, [G, C, K].
        sizes: [G], change of a group's value at cost 1.
        values: the groups' values, [B, T, G].
        client: int64 [B], position of each trace's client.
    """
    rows, steps = values.shape[:2]
    found = np.empty((rows, steps), np.int64)
    sets = int(np.diff(edges.sets_of_step).max(initial=1))

    def work(start: int, stop: int) -> None:
        numbers = np.empty((4, max(edges.states, sets, cells.shape[1]) + 1))
        taken, chosen = (
            np.empty((steps, edges.states + 1), np.int64),
            np.empty(len(edges.of_set), np.int64),
        )
        _paths(
            edges.of_step, edges.source, edges.choice, edges.target, edges.sets_of_step,
            edges.of_set, edges.letters,
            cells, low, high, sizes, values[start:stop], client[start:stop], numbers, taken,
            chosen, found[start:stop],
        )  # fmt: skip

    run_in_parts(rows, LEAST_TRACES, work)
    return found


@kernel_part
def _priced(
    cells: Places, low: Numbers, high: Numbers, sizes: Numbers, values: Numbers, owner: int,
    of_set: Places, letters: Places,
    first: int, last: int, costs: Numbers, paid: Numbers, chosen: Places,
) -> None:  # fmt: skip
    """The cost of each letter, into `costs`, and the cheapest letter of each of the sets
    first..last - 1, into `paid` and `chosen`.
    """
    for letter in range(cells.shape[1]):
        cost = 0.0
        for one in range(cells.shape[0]):
            cell, here = cells[one, letter], values[one]
            cost += (
                max(low[one, owner, cell] - here, here - high[one, owner, cell], 0.0) / sizes[one]
            )
        costs[letter] = cost
    for place in range(first, last):
        best = letters[of_set[place]]
        for i in range(of_set[place] + 1, of_set[place + 1]):
            if costs[letters[i]] < costs[best]:
                best = letters[i]
        chosen[place], paid[place - first] = best, costs[best]


@kernel
def _paths(
    of_step: Places, source: Places, choice: Places, target: Places, sets_of_step: Places,
    of_set: Places, letters: Places,
    cells: Places, low: Numbers, high: Numbers, sizes: Numbers, values: Numbers, client: Places,
    numbers: Numbers, taken: Places, chosen: Places, found: Places,
) -> None:  # fmt: skip
    """As `cheapest_letters`; numbers [4, states, sets or letters + 1], taken [T, states + 1] and
    chosen [Q + 1] are workspace.
    """
    costs, paid = numbers[0], numbers[1]
    for row in range(values.shape[0]):
        before, after = numbers[2], numbers[3]
        before[0] = 0.0
        for step in range(values.shape[1]):
            first, last = sets_of_step[step], sets_of_step[step + 1]
            _priced(
                cells,
                low,
                high,
                sizes,
                values[row, step],
                client[row],
                of_set,
                letters,
                first,
                last,
                costs,
                paid,
                chosen,
            )
            known = -1  # the edges are sorted by target
            for edge in range(of_step[step], of_step[step + 1]):
                total, to = before[source[edge]] + paid[choice[edge] - first], target[edge]
                if to > known or total < after[to]:
                    known, after[to], taken[step, to] = to, total, edge
            before, after = after, before
        state = 0
        for back in range(values.shape[1]):
            step = values.shape[1] - 1 - back
            edge = taken[step, state]
            found[row, step] = chosen[choice[edge]]
            state = source[edge]
