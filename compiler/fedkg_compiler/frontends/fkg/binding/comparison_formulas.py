"""One comparison of two terms, or of a truth value, which has no margin.

Letter: R rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import CategoryIs, Compare, Slot, Term
from fedkg.pack.contract import TRUTHS
from fedkg_compiler.column_registry import Book
from fedkg_compiler.ir import RowBuilder

Operator = Literal["le", "lt", "eq", "ne"]
_OPERATORS: dict[str, tuple[Operator, bool]] = {
    "<=": ("le", False),
    "<": ("lt", False),
    ">=": ("le", True),
    ">": ("lt", True),
    "==": ("eq", False),
    "!=": ("ne", False),
}
"""The pack's comparison, and whether the sides change places."""
HOLDS: dict[str, Callable[[Any, Any], NDArray[np.bool_]]] = {
    "<=": np.less_equal,
    "<": np.less,
    ">=": np.greater_equal,
    ">": np.greater,
    "==": np.equal,
    "!=": np.not_equal,
}
"""Of numbers that are known. `Any`: numbers, or arrays of them."""
MIRRORED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "==": "==", "!=": "!="}
"""The operator when the sides change places."""


def compare(
    operator: str, left: Term, right: Term, tolerance: Term | None, rows: RowBuilder
) -> Compare:
    """``left operator right``; its scale is 1 until the pass `set_scales`."""
    op, swapped = _OPERATORS[operator]
    if swapped:
        left, right = right, left
    return Compare(
        op=op, left=left, right=right, tolerance=tolerance, scale=rows.param(np.array(1.0)).index
    )


def truth_compared(
    operator: str, term: Term, limits: NDArray[np.float64], rows: RowBuilder, book: Book
) -> CategoryIs | None:
    """``term operator limit`` as a question of yes or no, where the term is a column of truth
    values; None where it asks for a number.

    ``valve >= 0.5`` asks whether it is true. As a comparison it would have a margin of half a unit,
    which cuts off that of what it guards.
    """
    if not isinstance(term, Slot) or any(
        book.columns[column].type != "boolean" for column in rows.slots[term.index].columns.tolist()
    ):
        return None
    wanted = truth_wanted(operator, limits)
    return None if wanted is None else is_truth(term, wanted, rows)


def truth_wanted(operator: str, limits: NDArray[np.float64]) -> NDArray[np.bool_] | None:
    """Which of true (1) and false (0) alone keeps ``truth operator limit``, bool [R]; None where
    for some row both do, or neither.
    """
    of_false, of_true = (HOLDS[operator](value, limits) for value in (0.0, 1.0))
    return of_true if of_true.size and bool((of_true != of_false).all()) else None


def is_truth(slot: Slot, wanted: NDArray[np.bool_], rows: RowBuilder) -> CategoryIs:
    """Whether the column of truth values in a slot is what each row wants, bool [R]."""
    texts = tuple(TRUTHS[int(one)] for one in wanted)
    return CategoryIs(slot=slot.index, param=rows.codes(rows.slots[slot.index].columns, texts))
