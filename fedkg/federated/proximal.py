"""A pull of the clients' models towards where they come from.

Letters: C clients of a stack.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.joints import Step
from fedkg.models.model import Params


@dataclass(frozen=True, slots=True, kw_only=True)
class Proximal:
    """``strength / 2 * |w - a|^2`` for each client, a the anchor of its start: the model that it received.

    FedProx's term (Li et al., "Federated optimization in heterogeneous networks", 2020, equation 2), and Ditto's pull of the personal
    model towards the common one.

    Args:
        strength: mu of FedProx, lambda of Ditto; at least 0.
    """

    strength: float

    def __post_init__(self) -> None:
        if not self.strength >= 0:
            raise JobError("the strength of the proximal term must not be negative", received=str(self.strength))

    def value(self, step: Step) -> Tensor:
        """See `Term.value`."""
        squares = [(value - step.start[name]).square().flatten(1).sum(1) for name, value in step.params.items()]
        return 0.5 * self.strength * torch.stack(squares).sum(0)

    def slope(self, step: Step) -> Params:
        """See `SlopedTerm.slope`: ``strength (w - a)``."""
        return {name: (value - step.start[name]).mul_(self.strength) for name, value in step.params.items()}
