"""Bound rows that ask of an entity's table rows what is asked of every table row as well.

With `rows are CLASS` each table row is a focus node of a shape, and so may be entities of the graph
that a key column selects rows for. Such a row is one case (as in `fedkg eval`): what is asked of it
twice in the same words counts once. Letters: R rows of a bank.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedkg.pack.bank import Bank


def covered(bank: Bank, entities: Sequence[str]) -> NDArray[np.bool_]:
    """Bool [R]: a row has keys and an entity, and the bank has it without either: for the table row
    itself.
    """
    keyed = (bank.keys >= 0).any(axis=1)
    if bank.members or not keyed.any() or keyed.all():
        return np.zeros(bank.rows, dtype=np.bool_)
    named = np.array([name != "" for name in entities], dtype=np.bool_)[bank.entity]
    asked = [
        row.tobytes()
        for row in np.column_stack([bank.rule, bank.slots, bank.views, bank.params]).astype(
            np.float64
        )
    ]
    of_rows = {said for said, whole in zip(asked, (~keyed & ~named).tolist(), strict=True) if whole}
    return keyed & named & np.array([said in of_rows for said in asked], dtype=np.bool_)
