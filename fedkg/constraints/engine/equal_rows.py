"""Rows of one bank that say the same of the same numbers: evaluated once, whichever rules they come
from.

Letters: R rows of a bank, D distinct ones; M members of their sets, P owners of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.binding.plan import BankPlan, MemberPlan
from fedkg.constraints.binding.reads import Index

WORTH = 1.25
"""Equal rows of a bank are evaluated once from this ratio of rows to distinct rows on: spreading
the results costs a pass over them.
"""


def distinct_rows(bank: BankPlan) -> tuple[BankPlan, Index | None]:
    """The bank with its D distinct rows alone, and which of them each row is, int64 [R].

    Itself and None where little is gained.
    """
    keys = np.concatenate(
        [_contents(bank), np.sort(bank.conditions, axis=0).T, *_sets(bank.members, -1)], axis=1
    )
    if bank.rows < 2:
        return bank, None
    _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    if bank.rows < WORTH * first.shape[0]:
        return bank, None
    kept = np.sort(first)
    return _taken(bank, kept), np.searchsorted(kept, first[which.ravel()])


def _contents(table: BankPlan | MemberPlan) -> NDArray[np.int64]:
    """What each row, or member, reads and its parameters to the bit: [R, n]."""
    params = np.ascontiguousarray(table.params.T, dtype=np.float64).view(np.int64)
    return np.concatenate([table.input_index.T, table.output_index.T, params], axis=1)


def _sets(tables: Sequence[MemberPlan], parent: int) -> list[NDArray[np.int64]]:
    """For each table over a parent a number for each owner, equal where the sets are, members in
    their order: [P, 1].
    """
    found: list[NDArray[np.int64]] = []
    for at, table in enumerate(tables):
        if table.parent != parent:
            continue
        contents = np.concatenate([_contents(table), *_sets(tables, at)], axis=1)
        numbers = (
            np.unique(contents, axis=0, return_inverse=True)[1].ravel()
            if contents.shape[1]
            else np.zeros(len(contents), np.int64)
        )
        known: dict[bytes, int] = {}
        ends = table.offsets.tolist()
        sets = [
            known.setdefault(numbers[start:end].tobytes(), len(known))
            for start, end in pairwise(ends)
        ]
        found.append(np.array(sets, dtype=np.int64).reshape(-1, 1))
    return found


def _taken(bank: BankPlan, rows: Index) -> BankPlan:
    """The bank with some of its rows."""
    members: list[MemberPlan] = []
    kept: list[Index] = []
    for table in bank.members:
        owners = rows if table.parent < 0 else kept[table.parent]
        sizes = np.diff(table.offsets)[owners]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        own = np.repeat(table.offsets[owners] - offsets[:-1], sizes) + np.arange(offsets[-1])
        kept.append(own)
        members.append(
            replace(table, offsets=offsets, **{name: getattr(table, name)[:, own] for name in READ})
        )
    return replace(
        bank,
        members=tuple(members),
        **{name: getattr(bank, name)[:, rows] for name in (*READ, "conditions")},
    )


READ = ("input_index", "output_index", "params")
