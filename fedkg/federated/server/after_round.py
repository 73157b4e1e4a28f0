"""What the server does when a round is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedkg.federated.record import RoundRecord
from fedkg.federated.state import ServerState

if TYPE_CHECKING:
    from fedkg.federated.executors.protocol import Work


@dataclass(frozen=True, slots=True)
class NothingAfter:
    """The next round begins as this one ended."""

    def apply(self, work: Work, state: ServerState, record: RoundRecord) -> ServerState:
        """See `AfterRound.apply`."""
        return state
