"""The constraint penalty as a term of the clients' objective.

Letters: C clients of a stack, B batch, T steps of a window, F features, H outputs, V runs of the
model, R rows of the pack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from fedkg.constraints.module import ConstraintModule
from fedkg.constraints.report import ConstraintReport
from fedkg.errors import JobError
from fedkg.federated.round_steps import Step


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConstraintPenalty:
    """``weight`` times the violation of the rules by a client's model on its minibatch
    (`ConstraintReport.penalty`).

    The model is evaluated as it will be used, without dropout. Rules that compare a row with the
    one before it, and rules over time, do not apply to a minibatch of rows, because its rows have
    no order; they apply to a minibatch of windows. Rules that select rows by category read
    `Clients.keys`.

    Args:
        rules: the pack over the layout of the model's inputs and raw outputs.
        weight: of the penalty beside the task's loss; at least 0.
    """

    rules: ConstraintModule
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise JobError(
                "`weight` of the constraint penalty must not be negative", received=str(self.weight)
            )

    @property
    def reads(self) -> Literal["samples"]:
        """See `KnownTerm.reads`: rules that compare rows with each other do not apply to a
        minibatch.
        """
        return "samples"

    def value(self, step: Step) -> Tensor:
        """See `Term.value`."""
        clients, batch = step.x.shape[:2]

        def answers(x: Tensor) -> Tensor:
            """The stacked model on rows (or windows) of all clients, [V * C * B, F] to [V * C * B,
            H].
            """
            runs = x.shape[0] // (clients * batch)
            own = (
                x.reshape(runs, clients, batch, *x.shape[1:])
                .transpose(0, 1)
                .reshape(clients, runs * batch, *x.shape[1:])
            )
            output = step.model.apply(step.params, own)
            rest = output.shape[2:]
            return (
                output.reshape(clients, runs, batch, *rest)
                .transpose(0, 1)
                .reshape(runs * clients * batch, *rest)
            )

        keys = {name: codes.flatten() for name, codes in step.keys.items()}
        report: ConstraintReport = self.rules(step.x.flatten(0, 1), answers, keys=keys)
        share = step.x.new_full((clients, batch), 1.0 / batch) if step.share is None else step.share
        steps = step.x[0, 0].numel() // step.x.shape[-1]
        share = share if steps == 1 else share.repeat_interleave(steps, dim=1) / steps
        return self.weight * report.penalty_apart(share).to(step.x.dtype)
