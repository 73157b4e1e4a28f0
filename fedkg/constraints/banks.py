"""Banks as tensors, and the gather: the numbers of all rows of a bank at once.

Letters: R rows, B batch, N numbers read per sample, D conditions, k conditions per row, p parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.constraints.evaluation import Reading
from fedkg.constraints.plan import BankPlan
from fedkg.constraints.shield import shield
from fedkg.pack.bank import Bank
from fedkg.pack.formulas import Formula

CHUNK = 1 << 18
"""Numbers per row chunk, R x B: small enough for the intermediate results to stay in a cache, large enough to hide the calls."""

INDICES = ("input_index", "output_index", "conditions", "params", "weight", "rule")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BankTensors:
    """A `BankPlan` as tensors on one device.

    Attributes:
        inputs, outputs: which slots are input and which output columns.
        input_index [inputs, R], output_index [outputs, R]: rows of the input and output numbers.
        conditions: [k, R]. params: float64 [p, R, 1]. weight: float64 [R]. rule: int64 [R].
    """

    skeleton: Formula
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_index: Tensor
    output_index: Tensor
    conditions: Tensor
    params: Tensor
    weight: Tensor
    rule: Tensor
    quick: float
    wild: bool
    touches_output: bool

    @property
    def rows(self) -> int:
        """R."""
        return self.rule.shape[0]

    def to(self, device: torch.device) -> BankTensors:
        """The same bank on another device."""
        return replace(self, **{name: getattr(self, name).to(device) for name in INDICES})

    def chunks(self, batch: int) -> Iterator[slice]:
        """The rows in runs of about `CHUNK` numbers."""
        step = max(1, CHUNK // max(1, batch))
        for start in range(0, self.rows, step):
            yield slice(start, min(start + step, self.rows))

    def reading(self, rows: slice | Tensor, inputs: Tensor, outputs: Tensor, *, careful: bool, offset: bool = False) -> Reading:
        """The numbers of some rows: gathered from inputs [N, B] and outputs [N', B]."""
        slots = {slot: self._gather(inputs, index) for slot, index in zip(self.inputs, self.input_index[:, rows], strict=True)}
        slots |= {slot: self._gather(outputs, index) for slot, index in zip(self.outputs, self.output_index[:, rows], strict=True)}
        params = self.params[:, rows].to(inputs.dtype)
        return Reading(slots=slots, params=params, careful=careful, offset=offset)

    def _gather(self, numbers: Tensor, index: Tensor) -> Tensor:
        gathered = numbers.index_select(0, index)
        return shield(gathered) if self.wild else gathered

    def applies(self, rows: slice | Tensor, met: Tensor) -> Tensor | None:
        """Where the rows apply, bool [R, B], from the conditions met [D, B]; None when all do everywhere."""
        result: Tensor | None = None
        for index in self.conditions[:, rows]:
            one = met.index_select(0, index)
            result = one if result is None else result & one
        return result

    def gate(self, rows: slice, met: Tensor) -> Tensor | None:
        """`applies` in numbers, from conditions [D, B] that are 1 where met and 0 where not."""
        result: Tensor | None = None
        for index in self.conditions[:, rows]:
            one = met.index_select(0, index)
            result = one if result is None else result * one
        return result


def bank_tensors(bank: Bank, plan: BankPlan) -> BankTensors:
    """A bank and its plan as tensors on the CPU."""
    return BankTensors(
        skeleton=plan.skeleton,
        inputs=plan.inputs,
        outputs=plan.outputs,
        input_index=_tensor(plan.input_index),
        output_index=_tensor(plan.output_index),
        conditions=_tensor(plan.conditions),
        params=_tensor(plan.params)[:, :, None],
        weight=_tensor(bank.weight),
        rule=_tensor(bank.rule.astype(np.int64)),
        quick=plan.quick,
        wild=plan.wild,
        touches_output=plan.touches_output,
    )


def _tensor(array: NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(np.array(array))


def largest_number(*numbers: Tensor) -> float:
    """The largest absolute value; NaN when one is unknown, infinite inside transforms where values cannot be looked at."""
    try:
        return max((float(part.detach().abs().max()) for part in numbers if part.numel()), key=lambda v: (v != v, v), default=0.0)
    except RuntimeError:  # torch.func transforms and tracing refuse to turn a tensor into a number
        return float("inf")
