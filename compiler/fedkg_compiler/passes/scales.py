"""Gives every comparison the scale by which its margin is divided in penalties.

Letter: R rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Compare, Formula, Param, Term
from fedkg.pack.walk import ROWS, everywhere
from fedkg_compiler.column_registry import Book
from fedkg_compiler.ir import Rows
from fedkg_compiler.passes.intervals import Declared, interval


def set_scales(formula: Formula, rows: Rows, book: Book) -> None:
    """Fill in the scale parameters of a formula's comparisons, those of its members included."""
    for table, atom in everywhere(formula):
        if isinstance(atom, Compare):
            readers = rows if table == ROWS else rows.members[table].rows
            readers.params[atom.scale] = comparison_scale(atom.left, atom.right, readers, book)


def comparison_scale(left: Term, right: Term, rows: Rows, book: Book) -> NDArray[np.float64]:
    """By what a comparison's margin is divided in penalties: float64 [R], positive.

    The width of what its moving sides can range over (their declared spans), else the size of its
    fixed side, else 1.
    """
    width, threshold = np.zeros(rows.count), np.zeros(rows.count)
    for side in (left, right):
        low, high = interval(side, Declared(rows, book))
        if isinstance(side, Param):
            threshold = np.maximum(threshold, np.abs(low))
        else:
            width = width + (high - low)
    usable = np.isfinite(width) & (width > 0)
    known = np.isfinite(threshold) & (threshold > 0)
    return np.where(usable, width, np.where(known, threshold, 1.0))
