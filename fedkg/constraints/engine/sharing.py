"""What rows and banks have in common, evaluated once: equal rows, common sub-terms, and extremes
over windows.

Sub-terms and extremes are *derived numbers* of the batch: they follow those that are read of it and
are read like them. Extremes may be taken of sub-terms. Sharing is exact: every row's numbers are to
the bit what they are without.

Equal rows are rows of one bank that say the same of the same numbers, whichever rules they come
from.

Letters: R rows of a bank, D distinct ones; M members of their sets, P owners of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.constraints.binding.plan import BankPlan, MemberPlan, Plan
from fedkg.constraints.binding.reads import Index
from fedkg.constraints.engine.bank_tensors import BankTensors, bank_tensors
from fedkg.constraints.engine.common_subterms import Values, shared_values
from fedkg.constraints.engine.shared_window_extremes import Extreme, hoist

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sharing:
    """The banks of a plan in the form in which they are evaluated.

    Attributes:
        banks: the banks with equal rows only once, which read common sub-terms like numbers of the
            batch.
        values: these sub-terms.
        hoisted: for each bank, a version that also reads window extremes like numbers of the batch;
            None if that saves nothing.
        extremes: these window extremes.
    """

    banks: tuple[BankTensors, ...]
    values: tuple[Values, ...]
    hoisted: tuple[BankTensors | None, ...]
    extremes: tuple[Extreme, ...]

    def each(self, work: Callable[[Tensor], Tensor]) -> Sharing:
        """The same, with what `work` makes of each tensor."""
        hoisted = tuple(bank and bank.each(work) for bank in self.hoisted)
        return replace(self, banks=tuple(bank.each(work) for bank in self.banks), hoisted=hoisted)


def share(plan: Plan, banks: tuple[BankTensors, ...]) -> Sharing:
    """What the banks of a plan, given as tensors of it, have in common."""
    distinct = [distinct_rows(bank) for bank in plan.banks]
    valued, values = shared_values(plan, [bank for bank, _ in distinct])
    numbers = [len(plan.input_reads), len(plan.output_reads)]
    for one in values:
        numbers[one.output] += one.slots.shape[1]
    hoisting = hoist(valued, *numbers)

    def tensors(at: int, bank: BankPlan) -> BankTensors:
        every = distinct[at][1]
        made = bank_tensors(plan.pack.banks[at], bank)
        return made if every is None else replace(made, every=torch.from_numpy(every))

    shared = tuple(
        banks[i] if bank is plan.banks[i] else tensors(i, bank) for i, bank in enumerate(valued)
    )
    hoisted = tuple(
        None if bank is None else tensors(i, bank) for i, bank in enumerate(hoisting.banks)
    )
    return Sharing(banks=shared, values=values, hoisted=hoisted, extremes=hoisting.extremes)
