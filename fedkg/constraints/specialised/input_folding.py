"""Banks on inputs that do not change: what reads inputs alone is evaluated once and becomes one
more number of the batch.

Every sub-formula and every term without a prediction in it is folded, at any position: guards at
the top, parts of a disjunction, terms in comparisons, the members of sets. Orders of operations
stay as they are, so that verdicts are the same to the last bit. First come the parts of a skeleton
that read inputs alone, and the skeleton with slots in their place.

Letters: R rows of a bank, M members of a table, B batch, N numbers that a bank reads of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedkg.constraints.batch_evaluation import BatchEvaluation
from fedkg.constraints.binding.plan import quick_limit
from fedkg.constraints.engine.bank_tensors import BankTensors, MemberTensors
from fedkg.constraints.engine.evaluation import evaluate, evaluate_term
from fedkg.constraints.engine.evaluation_inputs import Reading
from fedkg.constraints.engine.precomputed_subformula import InputFormula
from fedkg.constraints.engine.skeleton_properties import has_strict
from fedkg.pack.formulas import (
    ROWS,
    And,
    AtLeast,
    Call,
    CategoryIs,
    Choose,
    ClassIn,
    Coalesce,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    Negate,
    Not,
    Or,
    Power,
    Product,
    Quotient,
    Reduce,
    Slot,
    Sum,
    Temporal,
    Term,
    Until,
    everywhere,
    is_temporal,
    used_slots,
)


class TermPart(NamedTuple):
    """A term that becomes the value of a slot, in the slots of its member table."""

    table: int
    slot: int
    term: Term


class FormulaPart(NamedTuple):
    """A formula (negated unless `positive`) with a robustness that becomes the value of a slot.

    `temporal`: it looks at other steps.
    """

    table: int
    slot: int
    formula: Formula
    positive: bool
    temporal: bool


Part = TermPart | FormulaPart


class Parts:
    """Replaces the parts of a skeleton that read only inputs by slots, and lists them in `found`.

    Args:
        slots: by table (-1: the bank's rows), how many slot indices are in use.
        outputs: by table, the slots that read predictions.
        traced: whether the batch has traces, so that formulas over time can be evaluated.
    """

    def __init__(
        self, slots: Mapping[int, int], outputs: Mapping[int, tuple[int, ...]], *, traced: bool
    ) -> None:
        self.found: list[Part] = []
        self._next, self._outputs, self._traced = dict(slots), outputs, traced

    def of_skeleton(self, skeleton: Formula) -> Formula:
        """The skeleton without these parts.

        What its top says about where it applies stays: `initially`, and an implication.
        """
        match skeleton:
            case Initially():
                return skeleton.model_copy(update={"arg": self._formula(skeleton.arg, ROWS, True)})
            case Implies():
                return self._implies(skeleton, ROWS, True)
            case _:
                return self._formula(skeleton, ROWS, True)

    def _fixed(self, part: Formula | Term, table: int) -> bool:
        """Whether no prediction is read anywhere inside."""
        return not any(
            isinstance(one, ClassIn)
            or (isinstance(one, Slot) and one.role == "output")
            or (isinstance(one, Known) and one.slot in self._outputs[at])
            for at, one in everywhere(part, table)
        )

    def _slot(self, table: int) -> int:
        self._next[table] += 1
        return self._next[table] - 1

    def _formula(self, formula: Formula, table: int, positive: bool) -> Formula:
        temporal = is_temporal(formula)
        if self._fixed(formula, table) and (not temporal or (self._traced and table == ROWS)):
            part = FormulaPart(table, self._slot(table), formula, positive, temporal)
            self.found.append(part)
            return InputFormula(
                slot=part.slot, positive=positive, strict=has_strict(formula, positive)
            )
        match formula:
            case Compare():
                names = (
                    ("left", "right")
                    if formula.tolerance is None
                    else ("left", "right", "tolerance")
                )
                return formula.model_copy(
                    update={name: self._term(getattr(formula, name), table) for name in names}
                )
            case Not():
                return formula.model_copy(
                    update={"arg": self._formula(formula.arg, table, not positive)}
                )
            case And() | Or():
                return formula.model_copy(
                    update={
                        "args": tuple(self._formula(arg, table, positive) for arg in formula.args)
                    }
                )
            case Implies():
                return self._implies(formula, table, positive)
            case AtLeast():
                return formula.model_copy(
                    update={"arg": self._formula(formula.arg, formula.members, positive)}
                )
            case Temporal() | Initially():
                return formula.model_copy(
                    update={"arg": self._formula(formula.arg, table, positive)}
                )
            case Until():
                parts = {
                    name: self._formula(getattr(formula, name), table, positive)
                    for name in ("left", "right")
                }
                return formula.model_copy(update=parts)
            case _:
                return formula

    def _implies(self, formula: Implies, table: int, positive: bool) -> Implies:
        parts = {
            "antecedent": self._formula(formula.antecedent, table, not positive),
            "consequent": self._formula(formula.consequent, table, positive),
        }
        return formula.model_copy(update=parts)

    def _term(self, term: Term, table: int) -> Term:
        if (
            self._fixed(term, table)
            and not is_temporal(term)
            and not isinstance(term, Slot)
            and _reads(term)
        ):
            part = TermPart(table, self._slot(table), term)
            self.found.append(part)
            return Slot(index=part.slot)
        match term:
            case Sum() | Product() | Call() | Coalesce():
                return term.model_copy(
                    update={"args": tuple(self._term(arg, table) for arg in term.args)}
                )
            case Negate():
                return term.model_copy(update={"arg": self._term(term.arg, table)})
            case Quotient():
                return term.model_copy(
                    update={
                        name: self._term(getattr(term, name), table)
                        for name in ("numerator", "denominator")
                    }
                )
            case Power():
                return term.model_copy(update={"base": self._term(term.base, table)})
            case Reduce():
                return term.model_copy(update={"arg": self._term(term.arg, term.members)})
            case Choose():
                branches = {
                    name: self._term(getattr(term, name), table) for name in ("then", "otherwise")
                }
                return term.model_copy(
                    update={"condition": self._formula(term.condition, table, True), **branches}
                )
            case _:
                return term


def _reads(term: Term) -> bool:
    """Whether the term has anything of the batch in it, not the row's numbers alone."""
    return any(
        isinstance(one, Slot | CategoryIs | Known | AtLeast | Reduce) for _, one in everywhere(term)
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Folded:
    """A bank with input slots that read `numbers` [N, B], including folded parts."""

    bank: BankTensors
    numbers: Tensor

    def behind(self, offset: int) -> BankTensors:
        """The bank with shifted input positions, after others were placed before them."""
        members = tuple(
            replace(table, input_index=table.input_index + offset) for table in self.bank.members
        )
        return replace(self.bank, input_index=self.bank.input_index + offset, members=members)


def fold(bank: BankTensors, of: BatchEvaluation) -> Folded:
    """A bank with all that reads inputs alone folded, on the inputs of `of`.

    Its predictions are not looked at.
    """
    tables: dict[int, BankTensors | MemberTensors] = {ROWS: bank, **dict(enumerate(bank.members))}
    slots = {at: max((-1, *table.inputs, *table.outputs)) + 1 for at, table in tables.items()}
    parts = Parts(
        slots, {at: table.outputs for at, table in tables.items()}, traced=of.traces is not None
    )
    skeleton = parts.of_skeleton(bank.skeleton)
    plain = torch.unique(
        torch.cat([_plain(table, skeleton, at).flatten() for at, table in tables.items()])
    )
    values = _values(bank, parts.found, of)
    starts = [int(plain.shape[0])]
    for value in values:
        starts.append(starts[-1] + value.shape[0])
    wires = {
        at: _wires(table, skeleton, at, plain, parts.found, starts) for at, table in tables.items()
    }
    members = tuple(replace(table, **wires[at]) for at, table in enumerate(bank.members))
    quick = -1.0 if bank.wild else quick_limit(skeleton, bank.numbers.T)
    folded = replace(bank, skeleton=skeleton, members=members, quick=quick, **wires[ROWS])
    return Folded(bank=folded, numbers=torch.cat([of.inputs.index_select(0, plain), *values]))


def _plain(table: BankTensors | MemberTensors, skeleton: Formula, at: int) -> Tensor:
    """The numbers of the batch that a table still reads as they are: [s, R], for the slots that are
    left.
    """
    used = used_slots(skeleton, at)
    return table.input_index[[i for i, slot in enumerate(table.inputs) if slot in used]]


def _wires(
    table: BankTensors | MemberTensors,
    skeleton: Formula,
    at: int,
    plain: Tensor,
    parts: Sequence[Part],
    starts: Sequence[int],
) -> dict[str, Any]:
    """The fields of a table that say what its slots read: numbers `plain` of the batch, and folded
    parts from `starts` on.
    """
    used = used_slots(skeleton, at)
    outputs = [i for i, slot in enumerate(table.outputs) if slot in used]
    own = [
        (part.slot, start) for part, start in zip(parts, starts, strict=False) if part.table == at
    ]
    each = torch.arange(table.input_index.shape[1], device=plain.device)
    kept = torch.searchsorted(plain, _plain(table, skeleton, at).contiguous())
    return {
        "inputs": (*(slot for slot in table.inputs if slot in used), *(slot for slot, _ in own)),
        "input_index": torch.cat([kept, *(each[None] + start for _, start in own)]),
        "outputs": tuple(table.outputs[i] for i in outputs),
        "output_index": table.output_index[outputs],
    }


def _values(bank: BankTensors, parts: Sequence[Part], of: BatchEvaluation) -> list[Tensor]:
    """The value of each part for every row, or every member, of its table: [R, B] or [M, B]."""
    found: list[list[Tensor]] = [[of.inputs.new_zeros((0, of.batch))] for _ in parts]
    nothing = of.inputs.new_zeros((of.outputs.shape[0], 1))
    for rows in of.chunks(bank) if parts else ():
        reading = bank.reading(rows, of.inputs, nothing, careful=not of.largest <= bank.quick)
        for part, values in zip(parts, found, strict=True):
            if isinstance(part, FormulaPart) and part.temporal:
                values.append(of.over_time(bank, rows, part.formula, positive=part.positive))
                continue
            own, count = _of_table(bank, reading, rows.stop - rows.start, part.table)
            value = (
                evaluate(part.formula, own, positive=part.positive)
                if isinstance(part, FormulaPart)
                else evaluate_term(part.term, own)
            )
            values.append(value.expand(count, of.batch))
    return [torch.cat(values) for values in found]


def _of_table(bank: BankTensors, reading: Reading, rows: int, table: int) -> tuple[Reading, int]:
    """The reading of a table's rows or members, found on the way down from the bank's `rows` rows.

    And how many they are.
    """
    if table == ROWS:
        return reading, rows
    owners, _ = _of_table(bank, reading, rows, bank.members[table].parent)
    members = owners.members[table]
    return members.reading, int(members.owner.shape[0])
