"""Very many linear rules at one place, decided by linear programming.

Letters: M inequalities, n variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.pack.formulas import ROWS
from fedkg_compiler.analysis.single_column_bounds import RowTable, linear_form
from fedkg_compiler.formulas.formula_algebra import comparisons

TIGHT = 1e-6
"""Violations below this share of an inequality's numbers are taken for rounding."""

MOST_QUESTIONS = 60
"""Linear programs that are solved to reduce one set of contradicting rows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inequalities:
    """``sum of factor * x[variable] <= bound``, one line for each of M.

    Entries as triples (line, variable, factor).
    """

    line: NDArray[np.int64]
    variable: NDArray[np.int64]
    factor: NDArray[np.float64]
    bound: NDArray[np.float64]
    row: NDArray[np.int64]


def linear_core(table: RowTable, rows: Sequence[int]) -> list[int] | None:
    """Rows that no value inside the spans satisfies together, or None where all have a common
    solution.

    The elastic program min sum(s), A x - s <= b, s >= 0 has a positive value exactly if the system
    has no solution; the inequalities with a
    non-zero price then have none among themselves (Farkas' lemma).
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, eye_array, hstack

    given = _inequalities(table, rows)
    numbers, column = np.unique(given.variable, return_inverse=True)
    size = np.ones(given.bound.size)
    np.maximum.at(size, given.line, np.abs(given.factor))
    size = np.maximum(size, np.abs(given.bound))
    left = coo_array(
        (given.factor / size[given.line], (given.line, column)),
        shape=(given.bound.size, numbers.size),
    )
    spans = [table.variables.items[number].span for number in numbers.tolist()]
    ends = [
        (None if low == -np.inf else low, None if high == np.inf else high) for low, high in spans
    ]
    result = linprog(
        np.concatenate([np.zeros(numbers.size), np.ones(given.bound.size)]),
        A_ub=hstack([left, -eye_array(given.bound.size)], format="csr"),
        b_ub=given.bound / size,
        bounds=[*ends, *[(0, None)] * given.bound.size],
        method="highs",
    )
    if result.status != 0 or result.fun is None or result.fun <= TIGHT:
        return None
    price = -np.asarray(result.ineqlin.marginals)
    return sorted({int(row) for row in given.row[price > 1e-9]})


def shrunk_core(table: RowTable, core: list[int]) -> list[int]:
    """Reduce a set without a solution by dropping halves, quarters, ....

    Not always to the minimum.
    """
    size, questions = len(core) // 2, MOST_QUESTIONS
    while size and questions:
        for start in range(0, len(core), size):
            rest = core[:start] + core[start + size :]
            smaller = linear_core(table, rest) if rest and questions else None
            questions = max(0, questions - 1)
            if smaller is not None:
                core = smaller
                break
        else:
            size //= 2
    return core


def _inequalities(table: RowTable, rows: Sequence[int]) -> Inequalities:
    lines: list[NDArray[np.int64]] = []
    variables: list[NDArray[np.int64]] = []
    factors: list[NDArray[np.float64]] = []
    bounds: list[NDArray[np.float64]] = []
    owners: list[NDArray[np.int64]] = []
    wanted = np.asarray(rows, dtype=np.int64)
    count = 0
    for number, bank in enumerate(table.banks):
        here = wanted[table.bank[wanted] == number]
        index, readers = here - table.starts[number], table.readers[number][ROWS]
        for part in (comparisons(bank.skeleton) or ()) if here.size else ():
            form = linear_form(part, readers.params[index], here.size)
            assert form is not None
            coefficients, constant, tolerance = form
            for way in (1.0, -1.0) if part.op == "eq" else (1.0,):
                line = count + np.arange(here.size)
                bound = tolerance - way * constant
                for slot, factor in coefficients.items():
                    lines.append(line)
                    variables.append(readers.variables[index, slot])
                    factors.append(way * factor)
                    bound = bound - way * factor * readers.shifts[index, slot]
                bounds.append(bound)
                owners.append(here)
                count += here.size
    return Inequalities(
        line=np.concatenate(lines),
        variable=np.concatenate(variables),
        factor=np.concatenate(factors),
        bound=np.concatenate(bounds),
        row=np.concatenate(owners),
    )
