"""The constraint penalty as a term of the clients' objective.

Letters: C clients of a stack, B batch, F features, H outputs, V runs of the model, R rows of the pack.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.constraints.module import ConstraintModule
from fedkg.constraints.report import ConstraintReport
from fedkg.errors import JobError
from fedkg.federated.joints import Step


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConstraintPenalty:
    """``weight`` times what a client's model misses of the rules on its own minibatch, as `ConstraintReport.penalty` measures it.

    The model is judged as it will be used: without dropout. Rules that compare a row with the one before it do not apply to a minibatch,
    which is in no order. Rules that select rows by category read `Clients.keys`.

    Args:
        rules: the pack over the layout of the model's inputs and raw outputs.
        weight: of the penalty beside the task's loss; at least 0.
    """

    rules: ConstraintModule
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise JobError("the weight of the constraint penalty must not be negative", received=str(self.weight))

    def value(self, step: Step) -> Tensor:
        """See `Term.value`."""
        clients, batch = step.x.shape[:2]

        def answers(x: Tensor) -> Tensor:
            """The stacked model on rows of all clients, [V * C * B, F] to [V * C * B, H]."""
            runs = x.shape[0] // (clients * batch)
            own = x.view(runs, clients, batch, -1).transpose(0, 1).reshape(clients, runs * batch, -1)
            output = step.model.apply(step.params, own)
            return output.view(clients, runs, batch, -1).transpose(0, 1).reshape(runs * clients * batch, -1)

        keys = {name: codes.flatten() for name, codes in step.keys.items()}
        report: ConstraintReport = self.rules(step.x.flatten(0, 1), answers, keys=keys)
        missing = report.penalties.view(clients, batch, -1)
        applies = report.applicable.view(clients, batch, -1).to(missing.dtype)
        share = missing.new_full((clients, batch), 1.0 / batch) if step.share is None else step.share.to(missing.dtype)
        weight = torch.cat([bank.weight for bank in self.rules.banks]).to(missing)
        shape, rules = missing.new_zeros((clients, len(self.rules.rule_names))), report.rule_index
        sums = shape.index_add(1, rules, torch.einsum("cb,cbr->cr", share, missing) * weight)
        counts = shape.index_add(1, rules, torch.einsum("cb,cbr->cr", share, applies) * weight)
        of_rule = shape[0].index_add(0, rules, weight)
        total: Tensor = (sums * of_rule / torch.where(counts > 0, counts, 1.0)).sum(1)
        return self.weight * total.to(step.x.dtype)
