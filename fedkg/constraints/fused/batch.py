"""A batch as the loops read it: where its numbers stand, and which samples meet which condition.

Letters: B batch, N and N' numbers per sample, D conditions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from fedkg.constraints.engine.traces import Lined, Traces, line_up
from fedkg.constraints.fused.bound import Integers, loops

PART = 1 << 16
"""Places times rows that are worth a thread of their own."""


class FusedBatch(NamedTuple):
    """The numbers of a batch by place: rows of the batch as they are or, for formulas over time, trace by trace.

    Attributes:
        inputs: [N, B], outputs: [N', B]. met: bool [D, B]. starts: int64 [D, 2] and samples: int64, see `machine.listed`.
        lined: the order of places; None: that of the batch.
        steps: T of each trace; 1 without. lengths: int64 [traces], how many are steps; None: all.
        places: B. at: where all this stands, in `layout`'s order: told.
    """

    inputs: Tensor
    outputs: Tensor
    met: Tensor
    starts: Tensor
    samples: Tensor
    lined: Lined | None
    steps: int
    lengths: Tensor | None
    places: int
    at: int
    told: Integers

    def __reduce__(self) -> tuple[object, ...]:
        """A copy is told of anew, for of itself it is told by addresses."""
        return _batch, (self.inputs, self.outputs, self.met, self.starts, self.samples, self.lined, self.lengths)


def fused_batch(inputs: Tensor, outputs: Tensor, met: Tensor, traces: Traces | None) -> FusedBatch | None:
    """A batch of inputs [N, B] and outputs [N', B], in time where traces are given; None where its numbers cannot be looked at."""
    if inputs.device.type != "cpu" or inputs.dtype not in (torch.float32, torch.float64) or outputs.dtype != inputs.dtype:
        return None
    lined = None if traces is None else line_up(traces, None)
    try:
        for part in (inputs, outputs, met):
            part.data_ptr()
            dual = forward_ad.unpack_dual(part)  # type: ignore[no-untyped-call]  # torch declares it without types
            if dual.tangent is not None:  # the loops know derivatives in the other direction alone
                return None
        ours, theirs, meets = (_there(part.detach(), lined).contiguous() for part in (inputs, outputs, met))
    except RuntimeError:  # tensors of torch.func transforms have no storage
        return None
    starts, samples = _listed(meets, inputs.dtype)
    length = None if lined is None or lined.steps.length is None else lined.steps.length.flatten().contiguous()
    return _batch(ours, theirs, meets, starts, samples, lined, length)


def _batch(
    inputs: Tensor, outputs: Tensor, met: Tensor, starts: Tensor, samples: Tensor, lined: Lined | None, lengths: Tensor | None
) -> FusedBatch:
    """The batch, and what loops are told of it."""
    places, steps = inputs.shape[1], 1 if lined is None else lined.steps.count
    at_lengths, clip = 0 if lengths is None else lengths.data_ptr(), lined is not None and lined.steps.clip
    parts = (part.data_ptr() for part in (inputs, outputs))
    told = np.array((*parts, places, met.data_ptr(), starts.data_ptr(), samples.data_ptr(), at_lengths, clip), dtype=np.int64)
    return FusedBatch(inputs, outputs, met, starts, samples, lined, steps, lengths, places, told.ctypes.data, told)


def _listed(met: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Of each condition where its samples begin and how many meet it, [D, 2], and the samples."""
    conditions, places = met.shape
    starts, total, of_dtype = torch.empty(conditions, 2, dtype=torch.int64), torch.empty(1, dtype=torch.int64), loops(dtype)
    of_dtype.numbered(met.data_ptr(), conditions, places, starts.data_ptr(), total.data_ptr())
    samples = torch.empty(int(total), dtype=torch.int64)
    of_dtype.listed(met.data_ptr(), conditions, places, starts.data_ptr(), samples.data_ptr())
    return starts, samples


def _there(values: Tensor, lined: Lined | None) -> Tensor:
    return values if lined is None else lined.there(values)
