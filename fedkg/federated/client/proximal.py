"""A pull of the clients' models towards where they come from.

Letters: C clients of a stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.round_steps import Step
from fedkg.models.model_protocols import Params


@dataclass(frozen=True, slots=True, kw_only=True)
class Proximal:
    """``strength / 2 * |w - a|^2`` for each client, a the anchor of its start: the model that it
    received.

    FedProx's term (Li et al., "Federated optimization in heterogeneous networks", 2020, equation
    2), and Ditto's pull of the personal
    model towards the common one. Parameters that a client did not receive have no such term:
    private layers (`PrivateLayers`) have no common value to be
    pulled to, and a pull to where they were at the start of the round would only slow them down.
    FedProx has no such layers, FedRep
    (Collins et al. 2021) trains them to their own optimum.

    Args:
        strength: mu of FedProx, lambda of Ditto; at least 0.
    """

    strength: float

    def __post_init__(self) -> None:
        if not self.strength >= 0:
            raise JobError(
                "the strength of the proximal term is negative (FedProx: `mu`, Ditto: `strength`)",
                expected="a number of at least 0",
                received=str(self.strength),
            )

    @property
    def reads(self) -> Literal["parameters"]:
        """See `KnownTerm.reads`."""
        return "parameters"

    def value(self, step: Step) -> Tensor:
        """See `Term.value`."""
        squares = [
            (step.params[name] - anchor).square().flatten(1).sum(1)
            for name, anchor in step.start.items()
        ]
        return 0.5 * self.strength * torch.stack(squares).sum(0)

    def slope(self, step: Step) -> Params:
        """See `SlopedTerm.slope`: ``strength (w - a)``."""
        return {
            name: (step.params[name] - anchor).mul_(self.strength)
            for name, anchor in step.start.items()
        }
