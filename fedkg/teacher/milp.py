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

SECONDS = 60.0
"""After which the solver gives up on a trace."""
INFEASIBLE = 2
"""The status by which `scipy.optimize.milp` says that there is no solution."""


def closest(expressions: Expressions, formula: int, literals: Sequence[Literal], trace: Float, client: int = 0) -> Float:
    """The satisfying trace nearest to one trace [T, V] in L1, by HiGHS; exact up to its tolerances (about 1e-6 of the numbers).

    Raises:
        SetError: no trace satisfies the formula, or the solver gives up.
    """
    if formula == TRUE:
        return trace
    if formula == FALSE:
        raise SetError("no trace satisfies the formula")
    bounds = [float(one.bound[min(client, len(one.bound) - 1)]) for one in literals]
    near = 1 + 4 * max([float(np.abs(trace).max()), *map(abs, bounds)])
    least = min((abs(weight) for one in literals for _, weight in one.form), default=1.0)
    for reach in (near, near * trace.shape[1] / least):  # bounds on sums may push each other farther than any of them
        found = _within(expressions, formula, literals, bounds, trace, reach)
        if found is not None:
            return found
    raise SetError("no trace satisfies the formula")


def _within(
    expressions: Expressions, formula: int, literals: Sequence[Literal], bounds: Sequence[float], trace: Float, reach: float
) -> Float | None:
    """The nearest satisfying trace whose numbers lie within `reach` of 0; None where there is none."""
    nodes = expressions.below(formula)
    place = {node: i for i, node in enumerate(nodes)}
    steps, channels = trace.shape
    values = steps * channels
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
    found = _solved(rows, values, len(nodes), place[formula], reach)
    return None if found is None else found.reshape(steps, channels)


def _bound(literal: Literal, bound: float, start: int, z: int, reach: float) -> tuple[dict[int, float], float]:
    """A literal's bound, which holds where its variable is 1."""
    sign = 1.0 if literal.lower else -1.0
    slack = reach * sum(abs(weight) for _, weight in literal.form) + abs(bound)
    row = {start + channel: sign * weight for channel, weight in literal.form}
    return row | {z: -slack}, sign * bound - slack


def _solved(rows: Sequence[tuple[dict[int, float], float]], values: int, nodes: int, root: int, reach: float) -> Float | None:
    """The values [values] of the best solution; None where there is none."""
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
        options={"mip_rel_gap": 0.0, "time_limit": SECONDS},
    )
    if found.status == INFEASIBLE:
        return None
    if found.status != 0:
        raise SetError("the nearest satisfying trace was not found", received=str(found.message))
    return np.asarray(found.x[:values])
