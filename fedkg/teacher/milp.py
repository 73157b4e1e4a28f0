"""The nearest satisfying trace by mixed-integer programming: for formulas beyond the diagram's reach, and to check it against.

Letters: B traces, T steps, V channels, N nodes of the formula's expression.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse

from fedkg.errors import SetError
from fedkg.teacher.expressions import FALSE, TRUE, Expressions
from fedkg.teacher.literals import Literal

Float = NDArray[np.float64]


def closest(expressions: Expressions, formula: int, literals: Sequence[Literal], trace: Float, client: int = 0) -> Float:
    """The satisfying trace nearest to one trace [T, V] in L1, by HiGHS; exact up to its tolerances (about 1e-6 of the numbers).

    Raises:
        SetError: no trace satisfies the formula, or the solver gives up.
    """
    if formula == TRUE:
        return trace
    if formula == FALSE:
        raise SetError("no trace satisfies the formula")
    nodes = expressions.below(formula)
    place = {node: i for i, node in enumerate(nodes)}
    steps, channels = trace.shape
    values = steps * channels
    bounds = [float(one.bound[min(client, len(one.bound) - 1)]) for one in literals]
    reach = 1 + 4 * max([float(np.abs(trace).max()), *map(abs, bounds)])
    rows: list[tuple[dict[int, float], float]] = []  # sum of coefficients times variables >= right side
    for cell in range(values):  # variables: values, then distances, then nodes
        rows.append(({values + cell: 1.0, cell: -1.0}, -trace.flat[cell]))
        rows.append(({values + cell: 1.0, cell: 1.0}, trace.flat[cell]))
    for node in nodes:
        z = 2 * values + place[node]
        kind, inner = expressions.node(node)
        if kind == "literal":
            step, number = inner
            rows.append(_bound(literals[number], bounds[number], step * channels, z, reach))
        elif kind == "and":
            rows += [({2 * values + place[part]: 1.0, z: -1.0}, 0.0) for part in inner]
        else:
            rows.append(({z: -1.0} | {2 * values + place[part]: 1.0 for part in inner}, 0.0))
    return _solved(rows, values, len(nodes), place[formula], reach).reshape(steps, channels)


def _bound(literal: Literal, bound: float, start: int, z: int, reach: float) -> tuple[dict[int, float], float]:
    """A literal's bound, which holds where its variable is 1."""
    sign = 1.0 if literal.lower else -1.0
    slack = reach * sum(abs(weight) for _, weight in literal.form) + abs(bound)
    row = {start + channel: sign * weight for channel, weight in literal.form}
    return row | {z: -slack}, sign * bound - slack


def _solved(rows: Sequence[tuple[dict[int, float], float]], values: int, nodes: int, root: int, reach: float) -> Float:
    """The values [values] of the best solution."""
    size = 2 * values + nodes
    entries = [(i, j, weight) for i, (row, _) in enumerate(rows) for j, weight in row.items()]
    index = np.array([(i, j) for i, j, _ in entries]).T
    matrix = sparse.csr_array((np.array([weight for _, _, weight in entries]), (index[0], index[1])), shape=(len(rows), size))
    low, high = np.zeros(size), np.ones(size)
    low[:values], high[:values], high[values : 2 * values] = -reach, reach, np.inf
    low[2 * values + root] = 1
    found = optimize.milp(
        np.concatenate([np.zeros(values), np.ones(values), np.zeros(nodes)]),
        constraints=optimize.LinearConstraint(matrix, lb=np.array([right for _, right in rows])),
        integrality=np.concatenate([np.zeros(2 * values), np.ones(nodes)]),
        bounds=optimize.Bounds(low, high),
        options={"mip_rel_gap": 0.0},
    )
    if found.x is None:
        raise SetError("no trace satisfies the formula", received=str(found.message))
    return np.asarray(found.x[:values])
