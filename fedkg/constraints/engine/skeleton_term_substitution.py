"""Skeletons with other terms in place of some, and banks that read further numbers of the batch for
them.

Letters: R rows of a bank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedkg.constraints.binding.plan import BankPlan
from fedkg.constraints.binding.reads import Index
from fedkg.pack.formulas import (
    Formula,
    FormulaPart,
    Slot,
    Term,
    member_table,
    used_slots,
    with_parts,
)


class Column(NamedTuple):
    """A slot that a bank's skeleton has been given, and which number of the batch each row reads in
    it, int64 [R].
    """

    slot: Slot
    rows: Index


def rewired(bank: BankPlan, skeleton: Formula, columns: Sequence[Column]) -> BankPlan:
    """The bank with a rewritten skeleton, reading what that reads."""
    used = used_slots(skeleton)
    wires: dict[bool, tuple[tuple[int, ...], Index]] = {}
    for output, slots, index in (
        (False, bank.inputs, bank.input_index),
        (True, bank.outputs, bank.output_index),
    ):
        kept = [i for i, slot in enumerate(slots) if slot in used]
        more = [column for column in columns if (column.slot.role == "output") == output]
        rows = [*(index[i] for i in kept), *(column.rows for column in more)]
        places = (*(slots[i] for i in kept), *(column.slot.index for column in more))
        wires[output] = places, np.array(rows, dtype=np.int64).reshape(-1, bank.rows)
    (inputs, input_index), (outputs, output_index) = wires[False], wires[True]
    return replace(
        bank,
        skeleton=skeleton,
        inputs=inputs,
        input_index=input_index,
        outputs=outputs,
        output_index=output_index,
    )


def next_slot(bank: BankPlan) -> int:
    """The first index that no slot of a bank has."""
    return max((-1, *bank.inputs, *bank.outputs)) + 1


def with_sides(formula: Formula, of: Callable[[Term], Term]) -> Formula:
    """The formula with other terms on the sides of the comparisons in its own table."""
    if member_table(formula) is not None:
        return formula

    def inside(part: Formula | Term) -> Formula | Term:
        return with_sides(part, of) if isinstance(part, FormulaPart) else of(part)

    return with_parts(formula, inside)


def with_children(term: Term, of: Callable[[Term], Term]) -> Term:
    """The term with other direct sub-terms in its own table, but for those of a condition."""
    if member_table(term) is not None:
        return term
    return with_parts(term, lambda part: part if isinstance(part, FormulaPart) else of(part))
