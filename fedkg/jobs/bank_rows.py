"""Some rows of a bank, as a bank of their own."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Bank


def some_rows(bank: Bank, rows: NDArray[np.int64]) -> Bank:
    """The bank with the rows at `rows` alone."""
    return replace(bank, **{f.name: getattr(bank, f.name)[rows] for f in fields(bank) if f.name != "skeleton"})


def one_row(bank: Bank, row: int) -> Bank:
    """The bank with one row alone."""
    return some_rows(bank, np.array([row]))
