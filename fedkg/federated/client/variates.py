"""Local steps corrected by control variates: what a client's gradient differs by from everybody's
is taken off it.

Letters: N clients in all, C clients of a stack, S steps of a client, G models the server holds
(here 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.federated.client.optimisers import LocalSteps, change, descend
from fedkg.federated.client_axis_broadcasting import per_client
from fedkg.federated.client_state_store import equal_rows
from fedkg.federated.round_steps import Outcome, Setting
from fedkg.models.model_protocols import Gradient, Params


@dataclass(frozen=True, slots=True)
class ControlVariates(LocalSteps):
    """The local steps of SCAFFOLD (Karimireddy et al., "SCAFFOLD", 2020, algorithm 1 with option
    II): ``w <- w - rate (g - c_k + c)``.

    After S steps from x to w, client k sets ``c_k <- c_k - c + (x - w) / (S rate)`` and sends the
    change. The server adds ``sum_k p_k (change of c_k)`` over the clients of the round to c. fedkg
    uses p_k = n_k / n, so c stays the mean of all c_k with the weights of the objective; the paper
    uses equal weights 1 / N. All variates start at 0, so the first round takes plain steps. Clients
    and server send twice as much as in FedAvg.
    """

    @override
    def initial_memory(self, models: Params, population: int) -> Params:
        """See `LocalUpdate.initial_memory`: c_k."""
        return equal_rows(
            {f"local/{name}": torch.zeros_like(value[:1]) for name, value in models.items()},
            population,
        )

    @override
    def shared(self, models: Params) -> Params:
        """See `LocalUpdate.shared`: c."""
        return {f"control/{name}": torch.zeros_like(value) for name, value in models.items()}

    def begin(self, setting: Setting, variables: Params) -> Params:
        """See `LocalUpdate.begin`: c - c_k."""
        own, common = setting.state.clients, setting.state.joints["local"]
        return {
            name: common[f"control/{name}"] - own[f"local/{name}"][setting.clients]
            for name in variables
        }

    def advance(
        self,
        variables: Params,
        gradient: Mapping[str, Gradient],
        carry: Params,
        rate: float | Tensor,
    ) -> None:
        """See `LocalUpdate.advance`."""
        for name, slope in gradient.items():
            descend(variables[name], slope, rate)
            descend(variables[name], carry[name], rate)

    @override
    def finish(self, setting: Setting, variables: Params, carry: Params) -> Outcome:
        """See `LocalUpdate.finish`."""
        update = change(setting, variables).update
        scale = 1.0 / (setting.rate * setting.steps.to(torch.float64))
        remembered, shared = {}, {}
        for name, value in update.items():
            old = setting.state.clients[f"local/{name}"][setting.clients]
            new = -carry[name] - per_client(scale, value) * value
            remembered[f"local/{name}"], shared[f"control/{name}"] = (
                new,
                per_client(setting.share, value) * (new - old),
            )
        return Outcome(update=update, client_memory=remembered, shared=shared)


@dataclass(frozen=True, slots=True)
class ProxSkip(LocalSteps):
    """The local steps of Scaffnew (Mishchenko et al., "ProxSkip", 2022, algorithm 2):
    ``w <- w - rate (g - h_k)``.

    The server averages the w_k of the clients to x. When client k receives x in its next round, it
    sets ``h_k <- h_k + (x - w_k) / (S rate)``. A client never sends h_k, so it sends as much as in
    FedAvg. The paper averages with probability p after each step; fedkg averages after S steps,
    which corresponds to p = 1 / S. The weighted sum of the h_k stays 0 only while all clients take
    part with equally many steps at the same rate. After an unusable update of one client it differs
    from 0 until the end of the run.
    """

    @override
    def initial_memory(self, models: Params, population: int) -> Params:
        """See `LocalUpdate.initial_memory`: h_k before the last average, where the client ended,
        and 1 / (S rate) of its last round, at first 0.
        """
        first = next(iter(models.values()))
        row = {
            f"local/{part}/{name}": torch.zeros_like(value[:1])
            for name, value in models.items()
            for part in "hw"
        }
        return equal_rows(row | {"local/scale": first.new_zeros((1, 1))}, population)

    def begin(self, setting: Setting, variables: Params) -> Params:
        """See `LocalUpdate.begin`: h_k."""
        rows = setting.state.clients
        scale = rows["local/scale"][setting.clients].flatten()
        return {
            name: rows[f"local/h/{name}"][setting.clients]
            + per_client(scale, value) * (value - rows[f"local/w/{name}"][setting.clients])
            for name, value in variables.items()
        }

    def advance(
        self,
        variables: Params,
        gradient: Mapping[str, Gradient],
        carry: Params,
        rate: float | Tensor,
    ) -> None:
        """See `LocalUpdate.advance`."""
        for name, slope in gradient.items():
            descend(variables[name], slope, rate)
            descend(variables[name], carry[name], -rate)

    @override
    def finish(self, setting: Setting, variables: Params, carry: Params) -> Outcome:
        """See `LocalUpdate.finish`."""
        rows = {f"local/h/{name}": value for name, value in carry.items()}
        rows |= {f"local/w/{name}": value.clone() for name, value in variables.items()}
        first = next(iter(variables.values()))
        rows["local/scale"] = (
            (1.0 / (setting.rate * setting.steps.to(torch.float64))).to(first.dtype).unsqueeze(1)
        )
        return Outcome(update=change(setting, variables).update, client_memory=rows)
