"""Where the clients of a round begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedkg.federated.joints import StartPoint
from fedkg.federated.state import ServerState
from fedkg.models.model import Params

if TYPE_CHECKING:
    from fedkg.federated.executors.interface import Work


@dataclass(frozen=True, slots=True)
class GlobalStart:
    """Everybody begins at the server's one model."""

    def held(self, population: int) -> int:
        """See `Start.held`."""
        return 1

    def remembered(self, models: Params, population: int) -> Params:
        """See `Start.remembered`."""
        return {}

    def place(self, work: Work, state: ServerState, clients: Tensor) -> StartPoint:
        """See `Start.place`."""
        count = clients.shape[0]
        variables = {name: value[:1].expand(count, *value.shape[1:]) for name, value in state.models.items()}
        return StartPoint(variables=variables, groups=torch.zeros(count, dtype=torch.int64, device=clients.device))
