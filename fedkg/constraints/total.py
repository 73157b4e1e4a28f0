"""The penalty of a batch as one number, in memory that does not grow with the number of constraints.

Letters: B batch, R rows of a bank, N and N' input and output numbers read per sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fedkg.constraints.banks import BankTensors
from fedkg.constraints.evaluated import Evaluated
from fedkg.constraints.penalty import late_scale


class _WithGradient(torch.autograd.Function):
    """A number whose gradient is known already."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, inputs: Tensor, outputs: Tensor, of_inputs: Tensor | None, of_outputs: Tensor | None) -> Tensor:
        ctx.save_for_backward(of_inputs, of_outputs)
        return value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        of_inputs, of_outputs = ctx.saved_tensors
        scaled = [None if known is None else gradient * known for known in (of_inputs, of_outputs)]
        return None, *scaled, None, None


def total_penalty(of: Evaluated) -> Tensor:
    """The sum over rules of their weight times the weighted mean of their penalties over all (constraint, sample) pairs that apply.

    The gradient is taken chunk by chunk together with the value, so that no intermediate result outlives its chunk; it can be
    differentiated once. Inside `torch.func` transforms, where that is not possible, the usual graph is built.
    """
    shares = _shares(of)
    differentiable = torch.is_grad_enabled() and (of.inputs.requires_grad or of.outputs.requires_grad)
    try:
        inputs, outputs = (part.detach().requires_grad_(differentiable and part.requires_grad) for part in (of.inputs, of.outputs))
    except RuntimeError:  # torch.func transforms refuse requires_grad_
        return sum((_chunk(of, *piece, of.inputs, of.outputs) for piece in _pieces(of, shares)), of.inputs.new_zeros(()))
    value = of.inputs.new_zeros(())
    gradients: list[Tensor | None] = [torch.zeros_like(part) if part.requires_grad else None for part in (inputs, outputs)]
    leaves = [part for part in (inputs, outputs) if part.requires_grad]
    pending: list[Tensor] = []
    size = 0
    for bank, rows, share in _pieces(of, shares):
        part = _chunk(of, bank, rows, share, inputs, outputs)
        value = value + part.detach()
        if part.requires_grad:
            pending.append(part)
            size += (rows.stop - rows.start) * of.batch
        if size >= of.chunk:
            _collect(pending, leaves, gradients)
            pending, size = [], 0
    _collect(pending, leaves, gradients)
    if not differentiable:
        return value
    known: Tensor = _WithGradient.apply(value, of.inputs, of.outputs, *gradients)  # type: ignore[no-untyped-call]  # torch declares `apply` without types
    return known


def _collect(pending: Sequence[Tensor], leaves: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> None:
    """Add the gradients of some parts and let go of their graphs."""
    if pending:
        found = torch.autograd.grad(torch.stack(list(pending)).sum(), leaves, allow_unused=True)
        for gradient, more in zip((known for known in gradients if known is not None), found, strict=True):
            if more is not None:
                gradient += more


def _pieces(of: Evaluated, shares: Sequence[Tensor | None]) -> list[tuple[BankTensors, slice, Tensor]]:
    return [
        (bank, rows, share[rows]) for bank, share in zip(of.banks, shares, strict=True) if share is not None for rows in of.chunks(bank)
    ]


def _chunk(of: Evaluated, bank: BankTensors, rows: slice, share: Tensor, inputs: Tensor, outputs: Tensor) -> Tensor:
    """What some rows of a bank add to the penalty."""
    scale = late_scale(bank.skeleton, of.temperature)
    missing = of.penalties(bank, rows, inputs, outputs, divided=scale is None)
    sums = missing.sum(dim=1) if of.sample_weight is None else missing @ of.sample_weight.to(missing)
    return (sums * (share if scale is None else share / bank.params[scale, rows, 0].to(share.dtype))).sum()


def _shares(of: Evaluated) -> list[Tensor | None]:
    """For each bank on outputs what one unit of a row's penalty, summed over the batch, adds to the total: [R].

    A rule's weight divided by the weighted number of (constraint, sample) pairs of it that apply (and, over time, are known).
    """
    dtype = of.inputs.dtype
    weight = of.inputs.new_ones(of.batch) if of.sample_weight is None else of.sample_weight.to(of.inputs)
    rules = len(of.pack.manifest.rules)
    counts, weights = of.inputs.new_zeros(rules), of.inputs.new_zeros(rules)
    met = of.met.to(dtype) @ weight
    for bank in of.banks:
        if bank.touches_output and not of.asleep(bank):
            applying = [_applying(of, bank, rows, met, weight) for rows in of.chunks(bank)]
            count = torch.cat([counts[:0], *applying]) * bank.weight.to(dtype)
            counts = counts.index_add(0, bank.rule, count)
            weights = weights.index_add(0, bank.rule, bank.weight.to(dtype))
    factor = torch.where(counts > 0, weights / torch.where(counts > 0, counts, 1.0), 0.0)
    return [factor[bank.rule] * bank.weight.to(dtype) if bank.touches_output and not of.asleep(bank) else None for bank in of.banks]


def _applying(of: Evaluated, bank: BankTensors, rows: slice, of_condition: Tensor, weight: Tensor) -> Tensor:
    """The weight of the samples that count for each row, [R]; steps that are padding have none."""
    if bank.temporal:
        return of.counted(bank, rows).to(weight.dtype) @ weight
    conditions = bank.conditions[:, rows]
    if conditions.shape[0] == 0:
        return weight.sum().expand(rows.stop - rows.start)
    if conditions.shape[0] == 1:
        return of_condition[conditions[0]]
    applies = bank.applies(rows, of.met)
    return weight.sum().expand(rows.stop - rows.start) if applies is None else applies.to(weight.dtype) @ weight
