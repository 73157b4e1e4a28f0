"""The numbers of one batch under one pack, and the ways to evaluate a bank on them.

Letters: B rows of the batch (for windows: all their steps, one after the other), R rows of a bank, N and N' input and output numbers read
per sample, D conditions, H outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from fedkg.constraints.banks import CHUNK, BankTensors, largest_number
from fedkg.constraints.evaluation import evaluate, evaluate_implication, reported
from fedkg.constraints.hoist import Extreme, with_extremes
from fedkg.constraints.penalty import penalties
from fedkg.constraints.reading import Reading
from fedkg.constraints.traces import Lined, Traces, line_up
from fedkg.pack.formulas import Implies
from fedkg.pack.pack import Pack


class Verdicts(NamedTuple):
    """Of some rows of a bank, each [R, B]: robustness with strictness nudged (NaN where unknown), where they apply, where they fire."""

    values: Tensor
    applies: Tensor
    fired: Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluated:
    """All that a report is computed from.

    Attributes:
        inputs: [N, B], outputs: [N', B], numbers in source units, NaN where unknown. met: bool [D, B].
        answers: [B, H], what the model said of the batch itself.
        shape: of the batch: (B,), or for windows how many and of how many steps.
        sample_weight: [B], or None for 1 each.
        temperature: of smooth penalties, None for exact ones.
        inactive: rules with rows that could not be evaluated, and why.
        traces: which rows are the steps of which trace, as far as the call tells.
        measured: `largest`, where it is known already.
        chunk: how many numbers are evaluated at once, in rows of a bank times rows of the batch.
    """

    pack: Pack
    banks: tuple[BankTensors, ...]
    inputs: Tensor
    met: Tensor
    outputs: Tensor
    answers: Tensor
    shape: tuple[int, ...]
    sample_weight: Tensor | None
    temperature: float | None
    inactive: Mapping[str, str]
    traces: Traces | None = None
    measured: float | None = None
    chunk: int = CHUNK

    @property
    def batch(self) -> int:
        """B."""
        return self.inputs.shape[1]

    @cached_property
    def largest(self) -> float:
        """The largest absolute value of all numbers; NaN when one is unknown."""
        return largest_number(self.inputs, self.outputs) if self.measured is None else self.measured

    @cached_property
    def gates(self) -> Tensor:
        """1 where a condition is met, 0 where not, [D, B]."""
        return self.met.to(self.inputs.dtype)

    def chunks(self, bank: BankTensors) -> Iterator[slice]:
        """The rows of a bank in runs that are evaluated at once."""
        return bank.chunks(self.batch, self.chunk)

    def hoisted(self, banks: Sequence[BankTensors | None], extremes: Sequence[Extreme]) -> Evaluated:
        """The same with banks that read extremes over windows in place of the steps, where that is exact.

        It is where all numbers are known and none overflows, and not for smooth penalties.
        """
        chosen = tuple(
            bank if other is None or not self.largest <= bank.quick else other for bank, other in zip(self.banks, banks, strict=True)
        )
        if self.traces is None or self.temperature is not None or chosen == self.banks:
            return self
        inputs, outputs = with_extremes(extremes, self.inputs, self.outputs, self.traces)
        return replace(self, banks=chosen, inputs=inputs, outputs=outputs, measured=self.largest)

    def everywhere(self, conditions: Tensor) -> bool:
        """Whether all of some conditions are met by every row of the batch, as far as that can be looked at."""
        try:
            return bool(self._always_met[conditions].all())
        except RuntimeError:  # torch.func transforms and tracing refuse to turn a tensor into a truth value
            return False

    @cached_property
    def _always_met(self) -> Tensor:
        return self.met.all(dim=1)

    def asleep(self, bank: BankTensors) -> bool:
        """Whether the bank needs traces and the call tells of none: then it applies nowhere."""
        return bank.temporal and self.traces is None

    def applies(self, bank: BankTensors, rows: slice) -> Tensor:
        """Where some rows of a bank apply, bool [R, B]."""
        applies, lined = self._matched(bank, rows), self._lined(bank, rows)
        if lined is not None and bank.initial:
            first = lined.first(self.met.device)
            applies = first if applies is None else applies & first
        shape = (rows.stop - rows.start, self.batch)
        return self.met.new_ones(shape) if applies is None else applies.expand(shape)

    def robustness(self, bank: BankTensors, rows: slice) -> Tensor:
        """As it is reported: without the nudge, NaN where unknown or not applicable; [R, B], differentiable."""
        shape = (rows.stop - rows.start, self.batch)
        if self.asleep(bank):
            return self.inputs.new_full(shape, torch.nan)
        lined = self._lined(bank, rows)
        values = reported(bank.formula, evaluate(bank.formula, self._reading(bank, rows, lined)))
        values = _again(values, shape[0], lined).expand(shape)
        applies = self.applies(bank, rows) if bank.initial else self._matched(bank, rows)
        return values if applies is None else torch.where(applies, values, torch.nan)

    def least(self, bank: BankTensors, rows: slice) -> Tensor:
        """Of each window the least robustness of its steps, NaN where none is known; [R, n] for n windows, differentiable."""
        laid = self.robustness(bank, rows).reshape(-1, *self.shape)
        least = torch.nan_to_num(laid, nan=math.inf, posinf=math.inf, neginf=-math.inf).amin(dim=2)
        try:
            infinite = bool(torch.isinf(least).any())
        except RuntimeError:  # torch.func transforms and tracing refuse to turn a tensor into a truth value
            infinite = True
        return torch.where(torch.isnan(laid).all(dim=2), math.nan, least) if infinite else least

    def verdicts(self, bank: BankTensors, rows: slice) -> Verdicts:
        """The verdicts of some rows of a bank; see `Verdicts`."""
        applies = self.applies(bank, rows)
        if self.asleep(bank):
            nowhere = torch.zeros_like(applies)
            return Verdicts(self.inputs.new_full(applies.shape, torch.nan), nowhere, nowhere)
        lined = self._lined(bank, rows)
        reading, fired = self._reading(bank, rows, lined), applies
        if isinstance(bank.skeleton, Implies):
            values, holds = evaluate_implication(bank.skeleton, reading)
            fired = applies & _again(holds, applies.shape[0], lined)
        else:
            values = evaluate(bank.formula, reading)
        return Verdicts(_again(values, applies.shape[0], lined).expand(applies.shape), applies, fired)

    def counted(self, bank: BankTensors, rows: slice) -> Tensor:
        """Which (row of the bank, row of the batch) pairs the mean of penalties is taken over, bool [R, B].

        Those where the bank's row applies; for formulas over time those where it is known, too: near the end of a trace nothing is.
        """
        all_known = self.traces is not None and self.traces.clip and self.largest <= bank.quick
        if not bank.temporal or all_known:
            return self.applies(bank, rows)
        with torch.no_grad():
            verdicts = self.verdicts(bank, rows)
        return verdicts.applies & ~torch.isnan(verdicts.values)

    def penalties(self, bank: BankTensors, rows: slice, inputs: Tensor, outputs: Tensor, *, divided: bool = True) -> Tensor:
        """The penalties of some rows of a bank, [R, B], on `inputs` and `outputs` equal to its own (leaves of a graph of their own)."""
        shape = (rows.stop - rows.start, self.batch)
        if not bank.touches_output or self.asleep(bank):
            return inputs.new_zeros(shape)
        careful = not self.largest <= bank.quick
        if not bank.temporal:
            reading = bank.reading(rows, inputs, outputs, careful=careful, offset=True)
            missing = penalties(bank.skeleton, reading, bank.gate(rows, self.gates), self.temperature, divided=divided)
            inside = None if self.traces is None else self.traces.rows_inside
            return (missing if inside is None else missing * inside).expand(shape)
        lined = self._lined(bank, rows)
        reading = bank.reading(rows, inputs, outputs, careful=careful, offset=True, lined=lined)
        missing = penalties(bank.formula, reading, None, self.temperature, divided=divided)
        return _again(missing, shape[0], lined).expand(shape) * self.applies(bank, rows)

    def _reading(self, bank: BankTensors, rows: slice, lined: Lined | None) -> Reading:
        return bank.reading(rows, self.inputs, self.outputs, careful=not self.largest <= bank.quick, lined=lined)

    def _matched(self, bank: BankTensors, rows: slice) -> Tensor | None:
        """Where the conditions of some rows are met and there is a step, bool [R, B] or [1, B]; None: everywhere."""
        needed = bank.conditions[:, rows]
        applies = None if needed.numel() and self.everywhere(needed) else bank.applies(rows, self.met)
        inside = None if self.traces is None else self.traces.rows_inside
        if inside is None:
            return applies
        return inside[None] if applies is None else applies & inside

    def _lined(self, bank: BankTensors, rows: slice) -> Lined | None:
        """The order in which some rows of a bank over time see the batch; None for a bank that needs none."""
        if not bank.temporal or self.traces is None:
            return None
        keyed = bank.conditions.shape[0] > 1  # besides the traces themselves
        return line_up(self.traces, bank.applies(rows, self.met) if keyed else None)


def _again(values: Tensor, rows: int, lined: Lined | None) -> Tensor:
    """Values by place, or broadcast to it, by row of the batch."""
    return values if lined is None else lined.again(values.expand(rows, lined.steps.places))
