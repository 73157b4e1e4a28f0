"""What rows and banks have in common, evaluated once: equal rows, common sub-terms, and extremes
over windows.

Sub-terms and extremes are *derived numbers* of the batch: they follow those that are read of it and
are read like them. Extremes may be taken of sub-terms. Sharing is exact: every row's numbers are to
the bit what they are without.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedkg.constraints.binding.plan import BankPlan, Plan
from fedkg.constraints.engine.bank_tensors import BankTensors, bank_tensors
from fedkg.constraints.engine.common_subterms import Values, shared_values
from fedkg.constraints.engine.equal_rows import distinct_rows
from fedkg.constraints.engine.window_hoisting import Extreme, hoist


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
