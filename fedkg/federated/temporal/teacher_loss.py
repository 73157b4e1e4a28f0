"""The teacher's term of the objective: how far a forecast is from the nearest trace that satisfies
its client's property.

Letters: C clients of a stack, B batch, T steps of a forecast, V channels, H = T * V outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.round_steps import OfClients, Step
from fedkg.federated.temporal.properties import Properties, as_traces


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TeacherLoss(OfClients):
    """``weight * mean |y - y*|`` over samples, steps and channels. y* is the nearest trace that
    satisfies the property, without gradient (equation 2).

    The distance is L1 in the units of the model, but y* is the nearest trace in source units; with
    channels of different scale, the nearest trace in the units of the model can be another one.

    Args:
        properties: the properties of the clients.
        weight: lambda, at least 0.
    """

    properties: Properties
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise JobError(
                "`weight` of the teacher must not be negative", received=str(self.weight)
            )

    @property
    def reads(self) -> Literal["samples", "client"]:
        """See `KnownTerm.reads`: a property that was mined without privacy tells of all samples of
        a client.
        """
        return "client" if self.properties.epsilon is None else "samples"

    def value(self, step: Step) -> Tensor:
        """See `Term.value`."""
        output = (
            step.model.apply(step.params, step.x, step.noise)
            if step.output is None
            else step.output
        )
        away = self._away(step, output).abs().flatten(2).mean(2)
        return self.weight * step.mean(away)

    def by_output(self, step: Step) -> tuple[Tensor, Tensor]:
        """See `OutputTerm.by_output`."""
        assert step.output is not None, "the output is known where its derivative is asked for"
        away = self._away(step, step.output)
        numbers = away[0, 0].numel()
        share = (
            1.0 / away.shape[1]
            if step.share is None
            else step.share.view(*step.share.shape, *[1] * (away.dim() - 2))
        )
        return self.weight * step.mean(away.abs().flatten(2).mean(2)), torch.sign(away) * (
            self.weight / numbers * share
        )

    def _away(self, step: Step, output: Tensor) -> Tensor:
        """y - y*, shaped as the outputs [C, B, ...]."""
        clients, batch = output.shape[:2]
        traces = as_traces(
            output.detach(), self.properties.steps, len(self.properties.layout.names)
        )
        owner = step.clients.repeat_interleave(batch)
        nearest = self.properties.corrected(traces, owner)
        return output - nearest.reshape(output.shape) if clients else output
