"""Groups of clients: updates of one group are aggregated together."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedkg.federated.state import ServerState
from fedkg.models.model_protocols import Params


@dataclass(frozen=True, slots=True)
class AsStarted:
    """Clients that started from the same model."""

    def assign(
        self, state: ServerState, clients: Tensor, started: Tensor, update: Params
    ) -> Tensor:
        """See `GroupingRule.assign`."""
        return started
