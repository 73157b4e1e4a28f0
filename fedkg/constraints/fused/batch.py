"""A batch as the loops read it: arrays of its numbers, and which samples meet which condition.

Letters: B batch, N and N' numbers per sample, D conditions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import forward_ad

from fedkg.constraints.engine.traces import Lined, Traces, line_up
from fedkg.constraints.fused.bound import Floats, Fused, Integers
from fedkg.constraints.fused.machine import listed

CACHED = 24 << 10
"""Bytes of the registers of a run: most of a processor's first cache."""

SHORTEST, LONGEST = 64, 2048
"""Places of a run, at least and at most."""

PART = 1 << 16
"""Places times rows that are worth a thread of their own."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FusedBatch:
    """The numbers of a batch by place: rows of the batch as they are or, for formulas over time, trace by trace.

    Attributes:
        inputs: [N, B], outputs: [N', B]. met: bool [D, B]. starts: int64 [D, 2] and samples: int64, see `machine.listed`.
        lined: the order of places; None: that of the batch.
        steps: T of each trace; 1 without. lengths: int64 [traces], how many are steps; empty: all. clip: whether windows end with traces.
    """

    inputs: Floats
    outputs: Floats
    met: NDArray[np.bool_]
    starts: Integers
    samples: Integers
    lined: Lined | None
    steps: int
    lengths: Integers
    clip: bool

    @property
    def places(self) -> int:
        """B."""
        return int(self.inputs.shape[1])

    def layout(self, fused: Fused, *, initial: bool) -> Integers:
        """What `machine.values_of` wants to know about a program on this batch."""
        program = fused.program
        each = program.registers * self.inputs.itemsize
        width = min(max(CACHED // each, SHORTEST), LONGEST)
        if self.lined is not None:
            width = max(1, width // self.steps) * self.steps
        piece = self.places if fused.conditions.shape[0] and self.lined is None else width  # few samples of each row: all at once
        numbers = program.inputs, program.registers, program.result, program.refuted, width, self.steps, self.clip, initial, max(1, piece)
        return np.array(numbers, dtype=np.int64)


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
        ours, theirs = (np.ascontiguousarray(_there(part.detach(), lined).numpy()) for part in (inputs, outputs))
        meets = np.ascontiguousarray(_there(met, lined).numpy())
    except RuntimeError:  # tensors of torch.func transforms have no storage
        return None
    starts, samples = listed(meets)
    length = None if lined is None else lined.steps.length
    return FusedBatch(
        inputs=ours,
        outputs=theirs,
        met=meets,
        starts=starts,
        samples=samples,
        lined=lined,
        steps=1 if lined is None else lined.steps.count,
        lengths=np.zeros(0, dtype=np.int64) if length is None else length.flatten().numpy(),
        clip=lined is not None and lined.steps.clip,
    )


def _there(values: Tensor, lined: Lined | None) -> Tensor:
    return values if lined is None else lined.there(values)
