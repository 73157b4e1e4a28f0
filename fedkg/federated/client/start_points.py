"""Where the clients of a round begin.

Letters: N clients in all, C clients of a stack, G models the server holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.client_state_store import equal_rows
from fedkg.federated.round_steps import Outcome, Setting, StartPoint, StartRule
from fedkg.federated.state import ServerState
from fedkg.models.model_protocols import Params, match_parameters

if TYPE_CHECKING:
    from fedkg.federated.executors.protocol import Work


@dataclass(frozen=True, slots=True)
class GlobalStart:
    """Everybody begins at the server's one model."""

    def model_count(self, population: int) -> int:
        """See `StartRule.model_count`."""
        return 1

    def initial_memory(self, models: Params, population: int) -> Params:
        """See `StartRule.initial_memory`."""
        return {}

    def place_clients(self, work: Work, state: ServerState, clients: Tensor) -> StartPoint:
        """See `StartRule.place_clients`."""
        count = clients.shape[0]
        variables = {
            name: value[:1].expand(count, *value.shape[1:]) for name, value in state.models.items()
        }
        return StartPoint(
            variables=variables, groups=torch.zeros(count, dtype=torch.int64, device=clients.device)
        )

    def part(self, setting: Setting, outcome: Outcome) -> Outcome:
        """See `StartRule.part`."""
        return outcome

    def site_models(self, work: Work, state: ServerState, clients: Tensor) -> Params:
        """See `StartRule.site_models`."""
        return self.place_clients(work, state, clients).variables


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateLayers:
    """Some layers are each client's own: they begin as the server's do, never leave the client, and
    it goes on from them.

    Proximal terms pull the others alone.

    Args:
        private: which parameters: prefixes of their names, such as those of a model's head
            (`PartitionedModel`).
        common: where the others begin: at the one model of the server, or at one of several.
    """

    private: tuple[str, ...]
    common: StartRule = field(default_factory=GlobalStart)

    def model_count(self, population: int) -> int:
        """See `StartRule.model_count`."""
        return self.common.model_count(population)

    def initial_memory(self, models: Params, population: int) -> Params:
        """See `StartRule.initial_memory`.

        Raises:
            JobError: when the model has no such parameters, or no others.
        """
        own = match_parameters(self.private, models)
        if len(own) == len(models):
            raise JobError(
                "all parameters of the model are private: nothing is left to share",
                received=", ".join(self.private),
            )
        return self.common.initial_memory(models, population) | _copies(
            {name: models[name] for name in own}, population, "start"
        )

    def place_clients(self, work: Work, state: ServerState, clients: Tensor) -> StartPoint:
        """See `StartRule.place_clients`."""
        point = self.common.place_clients(work, state, clients)
        own = {
            name: state.clients[f"start/{name}"][clients]
            for name in match_parameters(self.private, state.models)
        }
        received = {name: value for name, value in point.pull.items() if name not in own}
        return replace(point, variables=point.variables | own, anchor=received)

    def part(self, setting: Setting, outcome: Outcome) -> Outcome:
        """See `StartRule.part`."""
        return _at_home(
            setting, outcome, match_parameters(self.private, setting.state.models), "start"
        )

    def site_models(self, work: Work, state: ServerState, clients: Tensor) -> Params:
        """See `StartRule.site_models`."""
        own = {
            name: state.clients[f"start/{name}"][clients]
            for name in match_parameters(self.private, state.models)
        }
        return self.common.site_models(work, state, clients) | own


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnModel:
    """Every client continues from its personal model, which starts as the server's model; nothing
    is sent.

    Args:
        room: under which name it is remembered: ``start`` where it is the algorithm's model,
            another where it is trained beside one.
        common: where the models that are sent begin: what proximal terms pull to.
    """

    room: str = "start"
    common: StartRule = field(default_factory=GlobalStart)

    def model_count(self, population: int) -> int:
        """See `StartRule.model_count`."""
        return 1

    def initial_memory(self, models: Params, population: int) -> Params:
        """See `StartRule.initial_memory`."""
        return _copies(models, population, self.room)

    def place_clients(self, work: Work, state: ServerState, clients: Tensor) -> StartPoint:
        """See `StartRule.place_clients`; the anchor is what the client received of the common
        start.
        """
        point = self.common.place_clients(work, state, clients)
        own = {name: state.clients[f"{self.room}/{name}"][clients] for name in state.models}
        return replace(point, variables=own, anchor=point.pull)

    def part(self, setting: Setting, outcome: Outcome) -> Outcome:
        """See `StartRule.part`."""
        return _at_home(setting, outcome, tuple(outcome.update), self.room)

    def site_models(self, work: Work, state: ServerState, clients: Tensor) -> Params:
        """See `StartRule.site_models`."""
        return self.place_clients(work, state, clients).variables


@dataclass(frozen=True, slots=True, kw_only=True)
class BestModel:
    """Each client starts from the server's model with the least loss on its own samples (IFCA).

    Ghosh et al., "An efficient framework for clustered federated learning", 2020, algorithm 1, with
    averaged models. The server sends all G models to each client. If losses are equal, or all are
    NaN, the client takes the first model.

    Args:
        models: G, at least 1; each model starts with different random parameters.
    """

    models: int

    def __post_init__(self) -> None:
        if self.models < 1:
            raise JobError(
                "the server needs at least one model",
                expected="at least 1",
                received=str(self.models),
            )

    def model_count(self, population: int) -> int:
        """See `StartRule.model_count`."""
        return self.models

    def initial_memory(self, models: Params, population: int) -> Params:
        """See `StartRule.initial_memory`."""
        return {}

    def place_clients(self, work: Work, state: ServerState, clients: Tensor) -> StartPoint:
        """See `StartRule.place_clients`."""
        if self.models == 1:
            return GlobalStart().place_clients(work, state, clients)
        groups = torch.stack([_best(work, state, client) for client in clients.tolist()])
        return StartPoint(
            variables={name: value[groups] for name, value in state.models.items()}, groups=groups
        )

    def part(self, setting: Setting, outcome: Outcome) -> Outcome:
        """See `StartRule.part`."""
        return outcome

    def site_models(self, work: Work, state: ServerState, clients: Tensor) -> Params:
        """See `StartRule.site_models`."""
        return self.place_clients(work, state, clients).variables


def _copies(models: Params, population: int, room: str) -> Params:
    """The server's first model for each of the N clients."""
    return equal_rows({f"{room}/{name}": value[:1] for name, value in models.items()}, population)


def _at_home(setting: Setting, outcome: Outcome, own: tuple[str, ...], room: str) -> Outcome:
    """The outcome with these parameters remembered instead of sent."""
    kept = {f"{room}/{name}": setting.start.variables[name] + outcome.update[name] for name in own}
    sent = {name: value for name, value in outcome.update.items() if name not in own}
    return replace(outcome, update=sent, client_memory=outcome.client_memory | kept)


def _best(work: Work, state: ServerState, client: int) -> Tensor:
    """int64, no dimensions: which of the G models has the least mean loss on a client's samples."""
    first, count = int(work.pool.offsets[client]), int(work.pool.sizes[client])
    x, y = work.pool.x[first : first + count], work.pool.y[first : first + count]
    output = work.problem.model.apply(state.models, x)
    losses = work.problem.loss.value(output, y.expand(output.shape[0], *y.shape)).mean(1)
    return torch.where(losses.isnan(), torch.inf, losses).argmin()
