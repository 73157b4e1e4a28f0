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

from fedkg.federated.client.optimisers import change, descend
from fedkg.federated.client_state_store import equal_rows
from fedkg.federated.per_client_broadcast import per_client
from fedkg.federated.round_steps import Outcome, Setting
from fedkg.models.model_protocols import Gradient, Params


@dataclass(frozen=True, slots=True)
class ControlVariates:
    """SCAFFOLD's local steps (Karimireddy et al., "SCAFFOLD", 2020, algorithm 1 with option II):
    ``w <- w - rate (g - c_k + c)``.

    After its S steps from x to w a client keeps ``c_k <- c_k - c + (x - w) / (S rate)`` and sends
    the change; the server adds
    ``sum_k p_k (change of c_k)`` over the round's clients to c. Here p_k is n_k / n, so that c
    stays the mean of all c_k in the weights
    of the common objective; the paper has equal weights 1 / N. All variates begin at 0, so that the
    first round is that of plain steps.
    A client sends twice as much as in FedAvg, and so does the server.
    """

    def initial_memory(self, models: Params, population: int) -> Params:
        """See `LocalUpdate.initial_memory`: c_k."""
        return equal_rows(
            {f"local/{name}": torch.zeros_like(value[:1]) for name, value in models.items()},
            population,
        )

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

    def point(self, variables: Params) -> Params:
        """See `LocalUpdate.point`."""
        return variables

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
class ProxSkip:
    """Scaffnew's local steps (Mishchenko et al., "ProxSkip", 2022, algorithm 2): ``w <- w - rate (g
    - h_k)``.

    Once the server has averaged the clients' w_k to x, a client does ``h_k <- h_k + (x - w_k) / (S
    rate)``; it does so when it receives x,
    at its next round. The h_k are never sent: a client sends as much as in FedAvg. The paper
    averages with probability p after each
    step; here the S steps of a round are counted instead, with p = 1 / S. The h_k add up to 0 in
    the weights of the average only while
    all clients take part with equally many steps; a client with an unusable update invalidates them
    until the end of the run.
    """

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

    def shared(self, models: Params) -> Params:
        """See `LocalUpdate.shared`."""
        return {}

    def begin(self, setting: Setting, variables: Params) -> Params:
        """See `LocalUpdate.begin`: h_k."""
        rows = setting.state.clients
        scale = rows["local/scale"][setting.clients].flatten()
        return {
            name: rows[f"local/h/{name}"][setting.clients]
            + per_client(scale, value) * (value - rows[f"local/w/{name}"][setting.clients])
            for name, value in variables.items()
        }

    def point(self, variables: Params) -> Params:
        """See `LocalUpdate.point`."""
        return variables

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

    def finish(self, setting: Setting, variables: Params, carry: Params) -> Outcome:
        """See `LocalUpdate.finish`."""
        rows = {f"local/h/{name}": value for name, value in carry.items()}
        rows |= {f"local/w/{name}": value.clone() for name, value in variables.items()}
        first = next(iter(variables.values()))
        rows["local/scale"] = (
            (1.0 / (setting.rate * setting.steps.to(torch.float64))).to(first.dtype).unsqueeze(1)
        )
        return Outcome(update=change(setting, variables).update, client_memory=rows)
