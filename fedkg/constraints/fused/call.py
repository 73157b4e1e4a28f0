"""Banks evaluated by their loops, as tensor functions with a gradient.

Letters: B batch, R rows, N and N' numbers per sample, C parts of the batch; n traces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from typing_extensions import override

from fedkg._internal.threads import run_in_parts
from fedkg.constraints.engine.penalty import PenaltyForm
from fedkg.constraints.fused.bank_loop_arguments import Fused, loops
from fedkg.constraints.fused.batch_loop_arguments import PART, FusedBatch
from fedkg.kernels.checked_memory_access import address
from fedkg.kernels.formulas import bank_execution
from fedkg.kernels.formulas.penalty_form_loops import HINGE, LOG_BARRIER, SLOPES, SQUARED
from fedkg.kernels.scratch import scratch_space

KINDS = {"hinge": HINGE, "squared": SQUARED, "log_barrier": LOG_BARRIER}


class Call(NamedTuple):
    """Some rows of a bank on a batch."""

    fused: Fused
    batch: FusedBatch
    first: int
    last: int

    def split(self, slopes: bool, work: Callable[..., None], *rest: Any) -> None:
        """Parts of the batch, whole traces for formulas over time, on threads: ``work(frame, batch,
        begin, end, *rest, room, room)``.

        Args:
            slopes: whether there must be room for those, too.
            rest: numbers and addresses; the caller keeps the referenced memory alive.
        """
        fused, batch = self.fused, self.batch
        steps, in_time, places = batch.steps, batch.lined is not None, batch.places
        frame, size = fused.frame(steps, in_time, slopes), steps if in_time else 64
        least = max(1, PART // max(1, size * (self.last - self.first)))
        others, itemsize = fused.program.registers, frame.itemsize

        def part(start: int, stop: int) -> None:
            begin, end = start * size, min(stop * size, places)
            integers = 8 * (2 * (frame.piece or end - begin) + others)
            whole = integers + itemsize * frame.room
            own = scratch_space(whole)
            room = own.part_address(integers, whole), own.part_address(0, integers)
            work(frame.at, batch.at, begin, end, *rest, *room)

        run_in_parts(-(-places // size), least, part)

    def robustness(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """Robustness as it is reported, [R, B] by row of the batch: NaN where unknown or not
        applicable; differentiable once.
        """
        if inputs.requires_grad or outputs.requires_grad:
            # torch declares `apply` without types
            found: Tensor = _Robustness.apply(inputs, outputs, self)  # type: ignore[no-untyped-call]
            return found
        return _reported(self)

    def verdicts(self) -> tuple[Tensor, Tensor]:
        """Robustness with strictness nudged [R, B], and where implications fire, bool [R, B].

        Of others nothing, [0, B].
        """
        batch, rows, fires = self.batch, self.last - self.first, self.fused.program.refuted >= 0
        into = batch.inputs.new_empty(rows, batch.places)
        fired = into.new_zeros(rows if fires else 0, batch.places, dtype=torch.bool)
        _values(self, bank_execution.NUDGED, into, int(fires), address(fired))
        return _to_rows(into, batch), _to_rows(fired, batch) if fires else fired

    def judged(self, *, whole: bool = False) -> Tensor:
        """Where the rows apply and are satisfied, are violated, and fire (non-implications:
        always), bool [3, R, B].

        Args:
            whole: [3, R, n], at some step of each trace, and violated at none where satisfied; of
                rows that apply everywhere.
        """
        batch, rows = self.batch, self.last - self.first
        into = batch.inputs.new_zeros(
            3 * rows, batch.places // batch.steps if whole else batch.places, dtype=torch.bool
        )
        _values(self, bank_execution.JUDGED, into, int(whole), address(into))
        found = into if whole else _to_rows(into, batch)
        return found.view(3, rows, found.shape[1])

    def least(self) -> Tensor:
        """Of each trace the least robustness of its steps, [R, n], NaN where none is known.

        Of rows that apply everywhere.
        """
        batch = self.batch
        into = batch.inputs.new_empty(self.last - self.first, batch.places // batch.steps)
        _values(self, bank_execution.LEAST, into)
        return into


def _reported(call: Call) -> Tensor:
    batch = call.batch
    into = batch.inputs.new_empty(call.last - call.first, batch.places)
    _values(call, bank_execution.REPORTED, into)
    return _to_rows(into, batch)


def _values(call: Call, what: int, into: Tensor, fires: int = 0, fired: int = 0) -> None:
    """The robustness request.

    `fired`: the address of the firing output, see `bank_execution.values_of`.
    """
    work = loops(call.batch.inputs.dtype).values_of
    call.split(False, work, call.first, call.last, what, address(into), fires, fired)


def _pulled(
    call: Call,
    kind: int,
    given: Tensor,
    weight: Tensor,
    size: int,
    sharpness: float,
    value: Tensor,
    of_inputs: Tensor,
    of_outputs: Tensor,
) -> None:
    slopes = (
        number
        for part in (of_inputs, of_outputs)
        for number in (address(part), int(part.numel() > 0))
    )
    rest = (
        kind,
        address(given),
        given.shape[1],
        address(weight),
        size,
        sharpness,
        address(value),
        *slopes,
    )
    call.split(True, loops(call.batch.inputs.dtype).pulled, call.first, call.last, *rest)


class _Robustness(torch.autograd.Function):
    @staticmethod
    @override
    def forward(ctx: Any, inputs: Tensor, outputs: Tensor, call: Call) -> Tensor:
        ctx.save_for_backward(inputs, outputs)
        ctx.call = call
        return _reported(call)

    @staticmethod
    @torch.autograd.function.once_differentiable
    @override
    def backward(ctx: Any, *gradients: Any) -> Any:
        _ = (
            ctx.saved_tensors
        )  # raises where they, which the call reads again, are no longer what they were
        call: Call = ctx.call
        batch = call.batch
        given = _to_places(gradients[0], batch).contiguous()
        slopes = _slopes(batch, *ctx.needs_input_grad[:2])
        none = given[:0]
        _pulled(call, SLOPES, given, none, 1, 1.0, none, *slopes)
        return (
            *(
                _to_rows(slope, batch) if want else None
                for slope, want in zip(slopes, ctx.needs_input_grad[:2], strict=True)
            ),
            None,
        )


def _to_places(values: Tensor, batch: FusedBatch) -> Tensor:
    """What is given for rows of the batch, by place; 0 at places of padding."""
    if batch.lined is None or batch.lined.back is None:
        return values
    return values.new_zeros(values.shape[0], batch.places).index_copy(
        1, batch.lined.back[0], values
    )


def _to_rows(values: Tensor, batch: FusedBatch) -> Tensor:
    """Values by place, by row of the batch."""
    return values if batch.lined is None else batch.lined.again(values)


def _slopes(batch: FusedBatch, inputs: bool, outputs: bool) -> tuple[Tensor, Tensor]:
    """Where slopes by the numbers are added up, [N, B] and [N', B], or nothing where they are not
    wanted.
    """
    first, second = (
        torch.zeros_like(part if want else part[:0, :0])
        for part, want in ((batch.inputs, inputs), (batch.outputs, outputs))
    )
    return first, second


def applying(call: Call, weight: Tensor) -> Tensor:
    """The weight [C, n] of the samples of each of C parts of the batch to which each row applies,
    [R, C]; not over time.
    """
    batch, parts = call.batch, weight.shape[0]
    into = batch.inputs.new_zeros(call.fused.rows, parts, dtype=torch.float64)
    places = batch.inputs.new_empty(batch.places, dtype=torch.int64)
    own, at = (
        weight.detach().to(torch.float64).contiguous(),
        call.fused.frame(batch.steps, batch.lined is not None).at,
    )
    size = max(1, weight.shape[1])
    loops(batch.inputs.dtype).counted(
        at, batch.at, address(own), size, parts, address(into), address(places)
    )
    return into[call.first : call.last].to(weight.dtype)


class Purse(NamedTuple):
    """Where penalties and their slopes by the numbers are added up, by place: float64 [B], [N, B]
    and [N', B], or [0, 0].
    """

    value: Tensor
    of_inputs: Tensor
    of_outputs: Tensor

    def by_row(self, batch: FusedBatch) -> tuple[Tensor, Tensor, Tensor]:
        """The same by row of the batch."""
        of_inputs, of_outputs = (
            _to_rows(slope, batch) if slope.shape[1] else slope for slope in self[1:]
        )
        return _to_rows(self.value[None], batch)[0], of_inputs, of_outputs


def purse(batch: FusedBatch, inputs: bool, outputs: bool) -> Purse:
    """An empty one; with slopes by inputs or outputs where they are wanted."""
    return Purse(
        batch.inputs.new_zeros(batch.places, dtype=torch.float64), *_slopes(batch, inputs, outputs)
    )


def penalise(call: Call, form: PenaltyForm, weight: Tensor, share: Tensor, into: Purse) -> None:
    """Add the penalties of a bank in an exact form.

    Args:
        call: the rows of the bank and the batch.
        form: the exact form.
        weight: [B], the weight of each row of the batch.
        share: [R, C], the factor of each bank row's penalties in each part of the batch.
        into: the sums of penalties and gradients.
    """
    batch, dtype = call.batch, call.batch.inputs.dtype
    weights = _to_places(weight.detach().to(dtype)[None], batch)[0].contiguous()
    shares = share.detach().to(dtype).contiguous()
    size = max(1, batch.places // max(1, shares.shape[1]))
    _pulled(call, KINDS[form.kind], shares, weights, size, form.sharpness, *into)
