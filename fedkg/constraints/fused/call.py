"""Banks evaluated by their loops, as tensor functions with a gradient.

Letters: B batch, R rows, N and N' numbers per sample, C parts of the batch; n traces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedkg.constraints.engine.penalty import PenaltyForm
from fedkg.constraints.fused import machine
from fedkg.constraints.fused.batch import PART, FusedBatch
from fedkg.constraints.fused.bound import Fused, windows
from fedkg.kernels import in_parts

KINDS = {"hinge": machine.HINGE, "squared": machine.SQUARED, "log_barrier": machine.LOG_BARRIER}


class Call(NamedTuple):
    """Some rows of a bank on a batch."""

    fused: Fused
    batch: FusedBatch
    numbers: Any  # the bank's parameters, float64 [p, R]
    initial: bool
    first: int
    last: int

    def arguments(self) -> tuple[Any, ...]:
        """What all loops read of it first."""
        fused, batch, program = self.fused, self.batch, self.fused.program
        if batch.steps not in fused.windows:
            fused.windows[batch.steps] = windows(program, self.numbers, batch.steps)
        return (
            program.code, program.operands, fused.numbers, fused.windows[batch.steps], batch.lengths, fused.constants,
            batch.inputs, batch.outputs, fused.index, batch.layout(fused, initial=self.initial), batch.met, fused.conditions, batch.starts,
            batch.samples,
        )  # fmt: skip

    def split(self, work: Callable[[int, int], object]) -> None:
        """Parts of the batch, whole traces for formulas over time, on threads."""
        batch = self.batch
        size = batch.steps if batch.lined is not None else 64
        least = max(1, PART // max(1, size * (self.last - self.first)))
        in_parts(-(-batch.places // size), least, lambda a, b: work(a * size, min(b * size, batch.places)))


def robustness(call: Call, inputs: Tensor, outputs: Tensor) -> Tensor:
    """Robustness as it is reported, [R, B] by row of the batch: NaN where unknown or not applicable; differentiable once."""
    if inputs.requires_grad or outputs.requires_grad:
        found: Tensor = _Robustness.apply(inputs, outputs, call)  # type: ignore[no-untyped-call]  # torch declares `apply` without types
        return found
    return _robustness(call, nudged=False)[0]


def verdicts(call: Call) -> tuple[Tensor, Tensor]:
    """Robustness with strictness nudged [R, B], and where an implication fires, bool [R, B]; for others everywhere."""
    return _robustness(call, nudged=True)


def _robustness(call: Call, *, nudged: bool) -> tuple[Tensor, Tensor]:
    batch, rows = call.batch, call.last - call.first
    into = torch.empty(rows, batch.places, dtype=torch.from_numpy(batch.inputs).dtype)
    fires = nudged and call.fused.program.refuted >= 0
    fired = torch.zeros(rows if fires else 0, batch.places if fires else 0, dtype=torch.bool)
    what = machine.NUDGED if nudged else machine.REPORTED
    arguments, to = call.arguments(), (into.numpy(), fired.numpy())
    call.split(lambda begin, end: machine.values_of(*arguments, begin, end, call.first, call.last, what, *to))
    if batch.lined is not None:
        into, fired = batch.lined.again(into), batch.lined.again(fired) if fires else fired
    return into, fired


def least_of(call: Call) -> Tensor:
    """Of each trace the least robustness of its steps, [R, n], NaN where none is known; of rows that apply everywhere."""
    batch, rows = call.batch, call.last - call.first
    into = torch.empty(rows, batch.places // batch.steps, dtype=torch.from_numpy(batch.inputs).dtype)
    arguments, to = call.arguments(), (into.numpy(), np.zeros((0, 0), dtype=np.bool_))
    call.split(lambda begin, end: machine.values_of(*arguments, begin, end, call.first, call.last, machine.LEAST, *to))
    return into


class _Robustness(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, outputs: Tensor, call: Call) -> Tensor:
        ctx.call, ctx.shapes = call, (inputs.shape, outputs.shape)
        return _robustness(call, nudged=False)[0]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        call: Call = ctx.call
        batch, given = call.batch, gradients[0]
        if batch.lined is not None:
            given = _to_places(given, batch)
        array = np.ascontiguousarray(given.numpy())
        wanted = ctx.needs_input_grad[:2]
        slopes = [np.zeros_like(part if want else part[:0, :0]) for part, want in zip((batch.inputs, batch.outputs), wanted, strict=True)]
        none, arguments = batch.inputs[:0].ravel(), call.arguments()
        rest = call.first, call.last, machine.SLOPES, array, none, 1, batch.inputs.dtype.type(1), np.zeros(0), *slopes
        call.split(lambda begin, end: machine.pulled(*arguments, begin, end, *rest))
        found = [_to_rows(torch.from_numpy(slope), batch) if want else None for slope, want in zip(slopes, wanted, strict=True)]
        return *found, None


def _to_places(values: Tensor, batch: FusedBatch) -> Tensor:
    """What is given for rows of the batch, by place; 0 at places of padding."""
    if batch.lined is None or batch.lined.back is None:
        return values
    return values.new_zeros(values.shape[0], batch.places).index_copy(1, batch.lined.back[0], values)


def _to_rows(values: Tensor, batch: FusedBatch) -> Tensor:
    """Values by place, by row of the batch."""
    return values if batch.lined is None else batch.lined.again(values)


def applying(call: Call, weight: Tensor) -> Tensor:
    """The weight [C, n] of the samples of each of C parts of the batch to which each row applies, [R, C]; not over time."""
    batch, parts = call.batch, weight.shape[0]
    into = np.zeros((call.last, parts))
    own = np.ascontiguousarray(weight.detach().to(torch.float64).flatten().numpy())
    machine.counted(batch.met, call.fused.conditions, batch.starts, batch.samples, own, max(1, weight.shape[1]), into)
    return torch.from_numpy(into[call.first :]).to(weight.dtype)


class Purse(NamedTuple):
    """Where penalties and their slopes by the numbers are added up, by place: float64 [B], [N, B] and [N', B], or [0, 0]."""

    value: Any
    of_inputs: Any
    of_outputs: Any

    def by_row(self, batch: FusedBatch) -> tuple[Tensor, Tensor, Tensor]:
        """The same by row of the batch."""
        value, *slopes = (torch.from_numpy(part) for part in self)
        of_inputs, of_outputs = (_to_rows(slope, batch) if slope.numel() else slope for slope in slopes)
        return _to_rows(value[None], batch)[0], of_inputs, of_outputs


def purse(batch: FusedBatch, inputs: bool, outputs: bool) -> Purse:
    """An empty one; with slopes by inputs or outputs where they are wanted."""
    slopes = [np.zeros_like(part if want else part[:0, :0]) for part, want in ((batch.inputs, inputs), (batch.outputs, outputs))]
    return Purse(np.zeros(batch.places), *slopes)


def penalise(call: Call, form: PenaltyForm, weight: Tensor, share: Tensor, into: Purse) -> None:
    """Adds the penalties of a bank in an exact form.

    Args:
        weight: of the rows of the batch, [B]. share: [R, C], by what penalties in the C parts of the batch are multiplied.
    """
    batch, dtype = call.batch, torch.from_numpy(call.batch.inputs).dtype
    weights = weight.detach().to(dtype)
    if batch.lined is not None:
        weights = _to_places(weights[None], batch)[0]
    shares = np.ascontiguousarray(share.detach().to(dtype).numpy())
    size = max(1, batch.places // max(1, shares.shape[1]))
    kind, sharpness = KINDS[form.kind], batch.inputs.dtype.type(form.sharpness)
    arguments, rest = call.arguments(), (call.first, call.last, kind, shares, np.ascontiguousarray(weights.numpy()), size, sharpness, *into)
    call.split(lambda begin, end: machine.pulled(*arguments, begin, end, *rest))
