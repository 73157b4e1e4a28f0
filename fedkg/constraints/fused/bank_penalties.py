"""Penalties of all banks that have a program, with their gradients.

Letters: B batch, R rows, C parts of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from typing_extensions import override

if TYPE_CHECKING:
    from fedkg.constraints.batch_evaluation import BatchEvaluation
    from fedkg.constraints.engine.bank_tensors import BankTensors


class _Known(torch.autograd.Function):
    """The contribution of each sample to a penalty [B], with known gradients.

    A second derivative recomputes it.
    """

    @staticmethod
    @override
    def forward(
        ctx: Any,
        inputs: Tensor,
        outputs: Tensor,
        value: Tensor,
        of_inputs: Tensor,
        of_outputs: Tensor,
        again: Callable[[], Tensor],
    ) -> Tensor:
        ctx.save_for_backward(inputs, outputs, of_inputs, of_outputs)
        ctx.again = again
        return value.clone()

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Any) -> Any:
        inputs, outputs, *slopes = ctx.saved_tensors
        wanted = [
            part
            for part, want in zip((inputs, outputs), ctx.needs_input_grad[:2], strict=True)
            if want
        ]
        if torch.is_grad_enabled():
            found = iter(
                torch.autograd.grad(
                    ctx.again(), wanted, gradients[0], create_graph=True, allow_unused=True
                )
            )
            return (
                *(next(found) if want else None for want in ctx.needs_input_grad[:2]),
                None,
                None,
                None,
                None,
            )
        return *(
            slope * gradients[0] if want else None
            for slope, want in zip(slopes, ctx.needs_input_grad[:2], strict=True)
        ), *[None] * 4


def _stand_together(of: BatchEvaluation, bank: BankTensors, parts: int) -> bool:
    """Whether the places of each part of the batch are adjacent and in the batch's order, as a bank
    sees them.
    """
    if parts == 1 or not bank.temporal or of.traces is None:
        return True
    return of.traces.place is None and (
        of.traces.inside is None or of.batch // parts % of.traces.steps == 0
    )


def paid(
    of: BatchEvaluation,
    shares: Sequence[Tensor | None],
    weight: Tensor,
    again: Callable[[Sequence[int]], Tensor],
) -> tuple[Tensor | None, set[int]]:
    """What each sample adds to the penalty by the banks that have a program, [B], differentiable.

    And which banks these are.

    Args:
        shares: for each bank [R, C], by what penalties in the C parts of the batch are multiplied;
            None: the bank adds nothing.
        weight: of samples, [B].
        again: computes the same of some banks with the usual graph.
    """
    done: set[int] = set()
    purses: dict[bool, Any] = {}
    wants = [torch.is_grad_enabled() and part.requires_grad for part in (of.inputs, of.outputs)]
    for at, (bank, share) in enumerate(zip(of.banks, shares, strict=True)):
        if share is None or not _stand_together(of, bank, share.shape[1]):
            continue
        call = of.call(bank, slice(0, bank.rows), missing=True)
        if call is None:
            continue
        from fedkg.constraints.fused.call import penalise, purse

        if bank.temporal not in purses:
            purses[bank.temporal] = call.batch, purse(call.batch, *wants)
        penalise(call, of.form, weight, share, purses[bank.temporal][1])
        done.add(at)
    if not done:
        return None, done
    value, of_inputs, of_outputs = (
        reduce(torch.add, parts)
        for parts in zip(*(own.by_row(batch) for batch, own in purses.values()), strict=True)
    )
    value = value.to(of.inputs.dtype)
    if not any(wants):
        return value, done
    chosen = sorted(done)
    known: Tensor = _Known.apply(
        of.inputs, of.outputs, value, of_inputs, of_outputs, lambda: again(chosen)
    )  # type: ignore[no-untyped-call]  # torch gives it no types
    return known, done
