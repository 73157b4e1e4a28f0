"""One comparison of two terms."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedkg.pack import Compare, Term
from fedkg_compiler.lowering.rows import Rows

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


def compare(operator: str, left: Term, right: Term, tolerance: Term | None, rows: Rows) -> Compare:
    """``left operator right``; its scale is 1 until `passes.scales` knows better."""
    op, swapped = _OPERATORS[operator]
    if swapped:
        left, right = right, left
    return Compare(op=op, left=left, right=right, tolerance=tolerance, scale=rows.param(np.array(1.0)).index)
