"""The columns that the rows of a bank read: directly, and through the members of their sets.

Letters: R rows of a bank, n rows or members, s slots.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Bank

Ints = NDArray[np.int32]


def reads(bank: Bank) -> Iterator[tuple[Ints, Ints, NDArray[np.int64]]]:
    """Columns and views int32 [n, s], and the bank row int64 [n] for which they are read: the rows
    themselves, then each member table.
    """
    yield bank.slots, bank.views, np.arange(bank.rows)
    owners: list[NDArray[np.int64]] = []
    for table in bank.members:
        above = np.arange(bank.rows) if table.parent < 0 else owners[table.parent]
        owners.append(np.repeat(above, np.diff(table.offsets)))
        yield table.slots, table.views, owners[-1]


def columns_read(bank: Bank) -> Iterator[tuple[Ints, NDArray[np.int64]]]:
    """Columns int32 [n, s], -1 for none, and the bank row int64 [n] for which they are read: those
    of `reads`, and the keys of rows and members.
    """
    yield bank.keys, np.arange(bank.rows)
    for i, (columns, _, rows) in enumerate(reads(bank)):
        yield columns, rows
        at = bank.members[i - 1].table_rows if i else None
        if at is not None and at.own:
            yield at.keys, rows


def rows_that(bank: Bank, wanted: Iterator[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """bool [R]: rows where any entry of `wanted` [n, s] is true, one array for each part of
    `reads`.
    """
    out = np.zeros(bank.rows, dtype=np.bool_)
    for (_, _, rows), flags in zip(reads(bank), wanted, strict=True):
        out[rows[flags.any(axis=1)]] = True
    return out
