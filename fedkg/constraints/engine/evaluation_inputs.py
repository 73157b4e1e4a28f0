"""What a skeleton is evaluated on: the numbers of some rows of a bank, of the members of their
sets, and how rows are steps of traces.

Letters: R rows, B batch, p parameters; P owners of sets, M members; n traces of T places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steps:
    """How the B places of a reading are steps: n traces one after the other, each of T places, its
    steps first.

    Attributes:
        places: B = n * T.
        count: T.
        length: int64 [R, n, 1] or [1, n, 1], how many places of each trace are steps; None when all
            are.
        clip: whether a window ends with its trace; else what lies beyond is unknown.
    """

    places: int
    count: int
    length: Tensor | None
    clip: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Members:
    """The members of the sets of P owners.

    Attributes:
        owner: int64 [M], the set of each member, in ascending order.
        offsets: int64 [P + 1], the position of each set's first member, then M.
        reading: the numbers of the members, [M, B].
    """

    owner: Tensor
    offsets: Tensor
    reading: Reading


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """What a skeleton is evaluated on, and how.

    Attributes:
        slots: [R, B] for each slot that the skeleton reads; NaN where unknown, never infinite.
        params: [p, R, 1], or one tensor for each parameter, broadcast to [R, B].
        careful: whether anything may be unknown or overflow; without it no operation is spent on
            that.
        offset: for penalties: margins are moved by a hair, so that none is 0 and satisfied is ``>
            0``. Cheaper than to look for zeros, and good enough where no verdict is reported.
        numbers: float64 [p, R], the parameters where they steer the evaluation: windows and counts.
        members: by position of the set's table.
        steps: for formulas over time.
        unit: for what is missing: [R, 1], what every margin is divided by, also those of inputs,
            which then decide nothing; None: each comparison's own scale, and inputs decide.
        unsure: of slots that hold extremes over windows, bool [R, B] for each: where something in
            the window is unknown.
    """

    slots: Mapping[int, Tensor]
    params: Tensor | Sequence[Tensor]
    careful: bool = True
    offset: bool = False
    numbers: NDArray[np.float64] | None = None
    members: Mapping[int, Members] = field(default_factory=dict)
    steps: Steps | None = None
    unit: Tensor | None = None
    unsure: Mapping[int, Tensor] = field(default_factory=dict)


def steps_on(values: Tensor, steps: Steps, by: int) -> Tensor:
    """Values [R, B] shifted by a number of steps (negative: back).

    Beyond the trace, its last (first) value.
    """
    if by == 0:
        return values
    places = torch.arange(steps.count, device=values.device) + by
    places = places.clamp(max=steps.count - 1) if by > 0 else places.clamp(min=0)
    return values.reshape(values.shape[0], -1, steps.count)[..., places].reshape(values.shape)


def reading_on(reading: Reading, by: int) -> Reading:
    """A reading of slots alone, shifted by a number of steps."""
    steps = reading.steps
    assert steps is not None, "there are steps"
    return replace(
        reading, slots={slot: steps_on(values, steps, by) for slot, values in reading.slots.items()}
    )
