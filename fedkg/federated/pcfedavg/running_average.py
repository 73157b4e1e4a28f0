"""The server's step with the running average of its models: what the theorems of PC-FedAvg speak
of.

Letters: G models the server holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from typing_extensions import override

from fedkg.federated.client_axis_broadcasting import per_client
from fedkg.federated.server.optimisers import AddUpdate
from fedkg.models.model_protocols import Params

AVERAGE = "average/"
"""Before the names of parameters in ``ServerState.joints["server"]``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddAndAverage(AddUpdate):
    """``models + update``, and the mean of the models after each round so far.

    With one local step in each round, this is the mean of the iterates 1 to K.
    """

    @override
    def begin(self, models: Params) -> Params:
        """See `ServerStep.begin`."""
        first = next(iter(models.values()))
        count = torch.zeros(first.shape[0], dtype=torch.float64, device=first.device)
        return {AVERAGE + name: torch.zeros_like(value) for name, value in models.items()} | {
            "count": count
        }

    @override
    def apply(self, models: Params, update: Params, memory: Params) -> tuple[Params, Params]:
        """See `ServerStep.apply`."""
        new, _ = AddUpdate.apply(self, models, update, {})
        count = memory["count"] + 1
        kept: Params = {"count": count}
        for name, value in new.items():
            before = memory[AVERAGE + name]
            kept[AVERAGE + name] = before + (value - before) / per_client(count, value)
        return new, kept


def averaged(memory: Params) -> Params:
    """The running average of the models [G, ...], from the state of `AddAndAverage`."""
    return {
        name.removeprefix(AVERAGE): value
        for name, value in memory.items()
        if name.startswith(AVERAGE)
    }
