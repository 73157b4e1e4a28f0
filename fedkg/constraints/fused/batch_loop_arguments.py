"""A batch as the loops read it: addresses of its numbers, and the samples that meet each condition.

Letters: B batch, N and N' numbers per sample, D conditions.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.constraints.engine.batch_rows_as_traces import Lined, Traces, line_up
from fedkg.constraints.fused.bank_loop_arguments import loops
from fedkg.constraints.kernel_tensor_checks import is_plain
from fedkg.kernels.checked_memory_access import address

PART = 1 << 16
"""Places times rows per thread; below this a further thread costs more than it saves."""


class Places(NamedTuple):
    """The places of a batch and the conditions that they meet: everything except the numbers, and
    equal for all batches of one kind.

    A place is a row of the batch or, for formulas over time, a step of a trace.

    Attributes:
        met: bool [D, B], whether each place meets each condition.
        starts: int64 [D, 2], for each condition the position of its first place in `samples` and
            the number of places that meet it.
        samples: int64, the places that meet each condition, one condition after the other, without
            the conditions that all places meet.
        lined: the order of the places; None: the order of the batch.
        lengths: int64 [traces], how many places of each trace are steps; None: all.
        size: B.
        steps: the places of each trace; 1 without traces.
        loop_arguments: sizes and addresses of these arrays, in the order of
            `loop_argument_positions`, with 0 for the addresses of the numbers.
    """

    met: Tensor
    starts: Tensor
    samples: Tensor
    lined: Lined | None
    lengths: Tensor | None
    size: int
    steps: int
    loop_arguments: array[int]

    @override
    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild the addresses of a copy, because they point into the original."""
        return _build_places, (self.met, self.starts, self.samples, self.lined, self.lengths)

    def batch(self, inputs: Tensor, outputs: Tensor) -> FusedBatch:
        """The batch of inputs [N, B] and outputs [N', B] that can be looked at."""
        return _batch(_there(inputs, self.lined), _there(outputs, self.lined), self)


class FusedBatch(NamedTuple):
    """The numbers of a batch by place: rows of the batch as they are or, for formulas over time,
    trace by trace.

    Attributes:
        inputs: [N, B], the input numbers at each place.
        outputs: [N', B], the output numbers at each place.
        known: the places of the batch and the conditions that they meet.
        at: the address of `loop_arguments`.
        loop_arguments: sizes and addresses of all these arrays, in the order of
            `loop_argument_positions`.
    """

    inputs: Tensor
    outputs: Tensor
    known: Places
    at: int
    loop_arguments: array[int]

    @override
    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild the addresses of a copy, because they point into the original."""
        return _batch, (self.inputs, self.outputs, self.known)

    @property
    def lined(self) -> Lined | None:
        """The order of places; None: that of the batch."""
        return self.known.lined

    @property
    def steps(self) -> int:
        """T of each trace; 1 without."""
        return self.known.steps

    @property
    def places(self) -> int:
        """B."""
        return self.known.size


def fused_batch(
    inputs: Tensor, outputs: Tensor, met: Tensor, traces: Traces | None
) -> FusedBatch | None:
    """A batch of inputs [N, B] and outputs [N', B], in time where traces are given.

    None where its numbers cannot be looked at.
    """
    if (
        inputs.device.type != "cpu"
        or inputs.dtype not in (torch.float32, torch.float64)
        or outputs.dtype != inputs.dtype
    ):
        return None
    known = (
        fused_places(met, traces, inputs.dtype)
        if is_plain(met) and is_plain(inputs) and is_plain(outputs)
        else None
    )
    return None if known is None else known.batch(inputs, outputs)


def fused_places(met: Tensor, traces: Traces | None, dtype: torch.dtype) -> Places | None:
    """The batch data besides its numbers, from a dtype and the conditions met, bool [D, B].

    None as for `fused_batch`.
    """
    lined = None if traces is None else line_up(traces, None)
    try:
        meets = _there(met, lined)
        starts, samples = _listed(meets, dtype)
        length = (
            None
            if lined is None or lined.steps.length is None
            else lined.steps.length.flatten().contiguous()
        )
        return _build_places(meets, starts, samples, lined, length)
    except RuntimeError:  # tensors of torch.func transforms have no storage
        return None


def _build_places(
    met: Tensor, starts: Tensor, samples: Tensor, lined: Lined | None, lengths: Tensor | None
) -> Places:
    clip, at_lengths = (
        lined is not None and lined.steps.clip,
        0 if lengths is None else address(lengths),
    )
    size, steps = met.shape[1], 1 if lined is None else lined.steps.count
    loop_arguments = (
        0,
        0,
        size,
        address(met),
        address(starts),
        address(samples),
        at_lengths,
        int(clip),
    )
    return Places(met, starts, samples, lined, lengths, size, steps, array("q", loop_arguments))


def _batch(inputs: Tensor, outputs: Tensor, known: Places) -> FusedBatch:
    loop_arguments = array("q", known.loop_arguments)
    loop_arguments[0], loop_arguments[1] = address(inputs), address(outputs)
    return FusedBatch(inputs, outputs, known, address(loop_arguments), loop_arguments)


def _listed(met: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Of each condition where its samples begin and how many meet it, [D, 2], and the samples."""
    conditions, places = met.shape
    starts, total = (
        met.new_empty(conditions, 2, dtype=torch.int64),
        met.new_empty(1, dtype=torch.int64),
    )
    of_dtype = loops(dtype)
    of_dtype.number_samples(address(met), conditions, places, address(starts), address(total))
    samples = met.new_empty(int(total), dtype=torch.int64)
    of_dtype.listed(address(met), conditions, places, address(starts), address(samples))
    return starts, samples


def _there(values: Tensor, lined: Lined | None) -> Tensor:
    """Values by place, one after the other, apart from any graph."""
    own = values.detach() if values.requires_grad else values
    return (
        own.contiguous() if lined is None or lined.order is None else lined.there(own).contiguous()
    )
