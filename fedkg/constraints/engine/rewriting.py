"""Skeletons with other terms in place of some, and banks that read further numbers of the batch for them.

Letters: R rows of a bank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, assert_never

import numpy as np

from fedkg.constraints.binding.plan import BankPlan
from fedkg.constraints.binding.reads import Index
from fedkg.pack.formulas import (
    And,
    AtLeast,
    CategoryIs,
    ClassIn,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    Not,
    Or,
    Temporal,
    Until,
)
from fedkg.pack.terms import (
    Call,
    Choose,
    Coalesce,
    Negate,
    Param,
    Power,
    Product,
    Quotient,
    Reduce,
    Slot,
    Sum,
    Term,
)
from fedkg.pack.walk import used_slots


class Column(NamedTuple):
    """A slot that a bank's skeleton has been given, and which number of the batch each row reads in it, int64 [R]."""

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
    match formula:
        case Compare():
            tolerance = None if formula.tolerance is None else of(formula.tolerance)
            return formula.model_copy(
                update={
                    "left": of(formula.left),
                    "right": of(formula.right),
                    "tolerance": tolerance,
                }
            )
        case ClassIn() | CategoryIs() | Known() | AtLeast():
            return formula
        case Not() | Temporal() | Initially():
            return formula.model_copy(update={"arg": with_sides(formula.arg, of)})
        case And() | Or():
            return formula.model_copy(
                update={"args": tuple(with_sides(arg, of) for arg in formula.args)}
            )
        case Implies():
            parts = {
                name: with_sides(getattr(formula, name), of)
                for name in ("antecedent", "consequent")
            }
            return formula.model_copy(update=parts)
        case Until():
            return formula.model_copy(
                update={name: with_sides(getattr(formula, name), of) for name in ("left", "right")}
            )
    assert_never(formula)


def with_children(term: Term, of: Callable[[Term], Term]) -> Term:
    """The term with other direct sub-terms in its own table, but for those of a condition."""
    match term:
        case Slot() | Param() | Reduce():
            return term
        case Sum() | Product() | Call() | Coalesce():
            return term.model_copy(update={"args": tuple(of(arg) for arg in term.args)})
        case Negate():
            return term.model_copy(update={"arg": of(term.arg)})
        case Quotient():
            return term.model_copy(
                update={"numerator": of(term.numerator), "denominator": of(term.denominator)}
            )
        case Power():
            return term.model_copy(update={"base": of(term.base)})
        case Choose():
            return term.model_copy(update={"then": of(term.then), "otherwise": of(term.otherwise)})
    assert_never(term)
