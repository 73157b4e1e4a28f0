"""What the server makes of an aggregated update.

Letters: G models the server holds.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedkg.models.model import Params


@dataclass(frozen=True, slots=True, kw_only=True)
class AddUpdate:
    """``models + rate * update``; the rate is 1 in FedAvg and SCFA."""

    rate: float = 1.0

    def begin(self, models: Params) -> Params:
        """See `ServerStep.begin`."""
        return {}

    def apply(self, models: Params, update: Params, memory: Params) -> tuple[Params, Params]:
        """See `ServerStep.apply`."""
        if self.rate == 1.0:
            return {name: value + update[name] for name, value in models.items()}, memory
        return {name: value + self.rate * update[name] for name, value in models.items()}, memory
