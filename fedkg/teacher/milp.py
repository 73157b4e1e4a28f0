"""The nearest satisfying trace by mixed-integer programming: for formulas beyond the diagram's
limit, and as its test oracle.

Letters: B traces, T steps, V channels, N nodes of the formula's expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import SetError
from fedkg.teacher.boolean_expressions import FALSE, TRUE, Expressions
from fedkg.teacher.literals import Literal

if TYPE_CHECKING:
    from scipy import sparse

Float = NDArray[np.float64]

SECONDS = 60.0
"""Time limit of the solver for a trace."""
EXACT = 1e-10
"""Tolerance of bounds when the last digits are computed, for numbers of magnitude 1."""
INFEASIBLE = 2
"""Status of `scipy.optimize.milp` for a problem without a solution."""
OUT_OF_TIME = 1
"""Its status if it reached its limit of time or iterations."""


def solve_nearest(
    expressions: Expressions,
    formula: int,
    literals: Sequence[Literal],
    trace: Float,
    client: int = 0,
    eps: float = 2.0**-52,
) -> Float:
    """The satisfying trace nearest to one trace [T, V] in L1, by HiGHS; exact up to its tolerances
    (about 1e-6, relative).

    Args:
        eps: relative rounding error of the sums when the trace is judged; the result keeps this
            distance from its bounds.

    Raises:
        SetError: no trace satisfies the formula, or the solver gives up.
    """
    if formula == TRUE:
        return trace
    if formula == FALSE:
        raise SetError(
            "no trace satisfies the formula",
            help="`fedkg check` finds rules that contradict each other",
        )
    bounds = [float(one.bound[min(client, len(one.bound) - 1)]) for one in literals]
    near = 1 + 4 * max([float(np.abs(trace).max()), *map(abs, bounds)])
    least = min((abs(weight) for one in literals for _, weight in one.form), default=1.0)
    for reach in (
        near,
        near * trace.shape[1] / least,
    ):  # bounds on sums may together push values farther than each bound alone
        found = _within(expressions, formula, literals, bounds, trace, reach)
        if found is not None:
            nearest, true = found
            sizes = [
                0.0 if one.size is None else float(one.size[min(client, len(one.size) - 1)])
                for one in literals
            ]
            kept = _polish(
                [(step, literals[n], bounds[n], sizes[n]) for step, n in true], trace, nearest, eps
            )
            return nearest if kept is None else kept
    raise SetError(
        "no trace satisfies the formula",
        help="`fedkg check` finds rules that contradict each other",
    )


def _polish(
    true: Sequence[tuple[int, Literal, float, float]], trace: Float, near: Float, eps: float
) -> Float | None:
    """The trace nearest to `trace` that satisfies the literals that are true in `near`, with a
    rounding margin; None if impossible.

    Args:
        true: step, literal, bound and size of each.
    """
    from scipy import optimize  # slow to import, and rarely needed: most formulas have a diagram

    steps, channels = trace.shape
    values = steps * channels
    unit = 1 + max(
        float(np.abs(trace).max()),
        float(np.abs(near).max()),
        *(abs(bound) for _, _, bound, _ in true),
    )
    rows: list[tuple[dict[int, float], float]] = []
    for cell in range(values):
        rows.append(({values + cell: 1.0, cell: -1.0}, -trace.flat[cell] / unit))
        rows.append(({values + cell: 1.0, cell: 1.0}, trace.flat[cell] / unit))
    for step, literal, bound, size in true:
        sign = 1.0 if literal.lower else -1.0
        added = (
            size
            + abs(bound)
            + sum(abs(weight * near[step, channel]) for channel, weight in literal.form)
        )
        weights = sum(abs(weight) for _, weight in literal.form)
        within = (8 + len(literal.form)) * eps * added / unit + 2 * EXACT * weights
        rows.append(
            (
                {step * channels + channel: sign * weight for channel, weight in literal.form},
                sign * bound / unit + within,
            )
        )
    found = optimize.linprog(
        np.concatenate([np.zeros(values), np.ones(values)]),
        A_ub=-_matrix(rows, 2 * values).toarray(),
        b_ub=-np.array([right for _, right in rows]),
        bounds=(None, None),
        options={"primal_feasibility_tolerance": EXACT, "dual_feasibility_tolerance": EXACT},
    )
    return (
        None
        if found.x is None or found.status != 0
        else found.x[:values].reshape(steps, channels) * unit
    )


def _matrix(rows: Sequence[tuple[dict[int, float], float]], size: int) -> sparse.csr_array:
    from scipy import sparse

    entries = [(i, j, weight) for i, (row, _) in enumerate(rows) for j, weight in row.items()]
    index = np.array([(i, j) for i, j, _ in entries]).T
    return sparse.csr_array(
        (np.array([weight for _, _, weight in entries]), (index[0], index[1])),
        shape=(len(rows), size),
    )


def _within(
    expressions: Expressions,
    formula: int,
    literals: Sequence[Literal],
    bounds: Sequence[float],
    trace: Float,
    reach: float,
) -> tuple[Float, list[tuple[int, int]]] | None:
    """The nearest satisfying trace with numbers within `reach` of 0, and the steps and numbers of
    its true literals.

    None if there is none.
    """
    nodes = expressions.descendants(formula)
    place = {node: i for i, node in enumerate(nodes)}
    steps, channels = trace.shape
    values = steps * channels
    rows: list[
        tuple[dict[int, float], float]
    ] = []  # sum of coefficients times variables >= right side
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
    if found is None:
        return None
    chosen = [expressions.node(node) for node in nodes if found[2 * values + place[node]] > 0.5]
    return found[:values].reshape(steps, channels), [
        inner for kind, inner in chosen if kind == "literal"
    ]


def _bound(
    literal: Literal, bound: float, start: int, z: int, reach: float
) -> tuple[dict[int, float], float]:
    """A literal's bound, active if its variable is 1."""
    sign = 1.0 if literal.lower else -1.0
    slack = reach * sum(abs(weight) for _, weight in literal.form) + abs(bound)
    row = {start + channel: sign * weight for channel, weight in literal.form}
    return row | {z: -slack}, sign * bound - slack


def _solved(
    rows: Sequence[tuple[dict[int, float], float]], values: int, nodes: int, root: int, reach: float
) -> Float | None:
    """The variables of the best solution: values, distances, nodes; None if there is none."""
    from scipy import optimize

    size = 2 * values + nodes
    low, high = np.zeros(size), np.ones(size)
    low[:values], high[:values], high[values : 2 * values] = -reach, reach, np.inf
    low[2 * values + root] = 1
    found = optimize.milp(
        np.concatenate([np.zeros(values), np.ones(values), np.zeros(nodes)]),
        constraints=optimize.LinearConstraint(
            _matrix(rows, size), lb=np.array([right for _, right in rows])
        ),
        integrality=np.concatenate([np.zeros(2 * values), np.ones(nodes)]),
        bounds=optimize.Bounds(low, high),
        options={"mip_rel_gap": 0.0, "time_limit": SECONDS},
    )
    if found.status == INFEASIBLE:
        return None
    if found.status != 0:
        raise SetError(
            f"the solver did not find the nearest satisfying trace within {SECONDS:g} s"
            if found.status == OUT_OF_TIME
            else "the solver did not find the nearest satisfying trace",
            received=str(found.message),
            help="use shorter traces, or a rule with shorter windows",
        )
    return np.asarray(found.x)
