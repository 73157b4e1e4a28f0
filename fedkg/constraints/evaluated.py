"""The numbers of one batch under one pack, and the two ways to evaluate a bank on them.

Letters: B batch, R rows of a bank, N and N' input and output numbers read per sample, D conditions, H outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from fedkg.constraints.banks import BankTensors, largest_number
from fedkg.constraints.evaluation import Reading
from fedkg.constraints.penalty import penalties
from fedkg.pack.pack import Pack


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluated:
    """All that a report is computed from.

    Attributes:
        inputs: [N, B], outputs: [N', B], numbers in source units, NaN where unknown. met: bool [D, B].
        answers: [B, H], what the model said of the batch itself.
        sample_weight: [B], or None for 1 each.
        temperature: of smooth penalties, None for exact ones.
        inactive: rules with rows that could not be evaluated, and why.
    """

    pack: Pack
    banks: tuple[BankTensors, ...]
    inputs: Tensor
    met: Tensor
    outputs: Tensor
    answers: Tensor
    sample_weight: Tensor | None
    temperature: float | None
    inactive: Mapping[str, str]

    @property
    def batch(self) -> int:
        """B."""
        return self.inputs.shape[1]

    @cached_property
    def largest(self) -> float:
        """The largest absolute value of all numbers; NaN when one is unknown."""
        return largest_number(self.inputs, self.outputs)

    @cached_property
    def gates(self) -> Tensor:
        """1 where a condition is met, 0 where not, [D, B]."""
        return self.met.to(self.inputs.dtype)

    def reading(self, bank: BankTensors, rows: slice) -> Reading:
        """The numbers of some rows of a bank, for verdicts."""
        return bank.reading(rows, self.inputs, self.outputs, careful=not self.largest <= bank.quick)

    def applies(self, bank: BankTensors, rows: slice) -> Tensor:
        """Where some rows of a bank apply, bool [R, B]."""
        applies = bank.applies(rows, self.met)
        return self.met.new_ones((rows.stop - rows.start, self.batch)) if applies is None else applies

    def penalties(self, bank: BankTensors, rows: slice, inputs: Tensor, outputs: Tensor, *, divided: bool = True) -> Tensor:
        """The penalties of some rows of a bank, [R, B], on `inputs` and `outputs` equal to its own (leaves of a graph of their own)."""
        if not bank.touches_output:
            return inputs.new_zeros((rows.stop - rows.start, self.batch))
        reading = bank.reading(rows, inputs, outputs, careful=not self.largest <= bank.quick, offset=True)
        missing = penalties(bank.skeleton, reading, bank.gate(rows, self.gates), self.temperature, divided=divided)
        return missing.expand(rows.stop - rows.start, self.batch)
