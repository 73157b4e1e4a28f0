"""Local optimisers.

Letters: C clients of a stack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.joints import Outcome, Setting
from fedkg.models.model import Gradient, Outer, Params


@dataclass(frozen=True, slots=True, kw_only=True)
class SGD:
    """Stochastic gradient descent: ``v <- momentum v + (g + decay w);  w <- w - rate v``.

    Args:
        momentum: at least 0 and below 1; its memory starts at 0 in every round.
        weight_decay: pull towards 0.
    """

    momentum: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.momentum < 1.0:
            raise JobError("momentum out of range", expected="0 <= momentum < 1", received=str(self.momentum))
        if self.weight_decay < 0:
            raise JobError("weight_decay must not be negative", received=str(self.weight_decay))

    def remembered(self, models: Params, population: int) -> Params:
        """See `Local.remembered`."""
        return {}

    def begin(self, setting: Setting, variables: Params) -> Params:
        """See `Local.begin`."""
        return {name: torch.zeros_like(value) for name, value in variables.items()} if self.momentum else {}

    def point(self, variables: Params) -> Params:
        """See `Local.point`."""
        return variables

    def advance(self, variables: Params, gradient: Mapping[str, Gradient], carry: Params, rate: float) -> None:
        """See `Local.advance`."""
        for name, slope in gradient.items():
            value = variables[name]
            if not self.momentum and not self.weight_decay:
                _descend(value, slope, rate)
                continue
            slope = slope.dense() if isinstance(slope, Outer) else slope
            if self.weight_decay:
                slope = slope + self.weight_decay * value
            if self.momentum:
                slope = carry[name].mul_(self.momentum).add_(slope)
            value.sub_(slope, alpha=rate)

    def finish(self, setting: Setting, variables: Params, carry: Params) -> Outcome:
        """See `Local.finish`: the update is the change since the start."""
        return Outcome(update={name: value.sub_(setting.start.variables[name]) for name, value in variables.items()})


def _descend(value: Tensor, slope: Gradient, rate: float) -> None:
    """value -= rate * slope; a factored slope is multiplied out straight into the value."""
    if not isinstance(slope, Outer):
        value.sub_(slope, alpha=rate)
    elif value.shape[0] == 1:
        value[0].addmm_(slope.left[0].t(), slope.right[0], alpha=-rate)
    else:
        value.baddbmm_(slope.left.transpose(1, 2), slope.right, alpha=-rate)
