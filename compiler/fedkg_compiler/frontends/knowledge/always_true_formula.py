"""The condition that asks nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedkg.pack import Compare, Param
from fedkg_compiler.ir import Rows


def always(rows: Rows) -> tuple[Compare, Rows]:
    """``0 <= 0``: a formula that holds in every row, and the rows with its parameters."""
    first = len(rows.params)
    zero = Param(index=first)
    added = (np.zeros(rows.count), np.ones(rows.count))
    formula = Compare(op="le", left=zero, right=zero, scale=first + 1)
    return formula, replace(rows, params=(*rows.params, *added))
