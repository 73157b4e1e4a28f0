"""Banks on inputs that do not change: what reads inputs alone is evaluated once and becomes one
more number of the batch.

Every sub-formula and every term without a prediction in it is folded, at any position: guards at
the top, parts of a disjunction, terms in comparisons, the members of sets. Orders of operations
stay as they are, so that verdicts are the same to the last bit.

Letters: R rows of a bank, M members of a table, B batch, N numbers that a bank reads of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedkg.constraints.batch_evaluation import BatchEvaluation
from fedkg.constraints.binding.plan import quick_limit
from fedkg.constraints.engine.bank_tensors import BankTensors, MemberTensors
from fedkg.constraints.engine.evaluation import evaluate, evaluate_term
from fedkg.constraints.engine.evaluation_inputs import Reading
from fedkg.constraints.specialised.input_subformulas import FormulaPart, Part, Parts
from fedkg.pack.formulas import ROWS, Formula, used_slots


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
