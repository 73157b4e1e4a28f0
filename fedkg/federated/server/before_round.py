"""What the server does once it is known who takes part in a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from fedkg.federated.state import ServerState

if TYPE_CHECKING:
    from fedkg.federated.executors.protocol import Work


@dataclass(frozen=True, slots=True)
class NothingBefore:
    """The round begins with the state as it is."""

    def apply(self, work: Work, state: ServerState, clients: Tensor) -> ServerState:
        """See `BeforeRound.apply`."""
        return state
