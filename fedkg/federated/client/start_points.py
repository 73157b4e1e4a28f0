"""Where the clients of a round begin.

Letters: N clients in all, C clients of a stack, G models the server holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.errors import JobError
from fedkg.federated.client_state_store import ClientRows, equal_rows
from fedkg.federated.round_steps import Offer, Outcome, Setting, StartPoint, StartRule
from fedkg.federated.state import ServerState
from fedkg.models.model_protocols import Params, match_parameters

if TYPE_CHECKING:
    from fedkg.federated.executors.protocol import Work


@dataclass(frozen=True, slots=True)
class GlobalStart(StartRule):
    """Everybody begins at the server's one model."""

    @override
    def offer(self, state: ServerState, clients: Tensor) -> Offer:
        """See `StartRule.offer`."""
        count = clients.shape[0]
        models = {
            name: value[:1].expand(count, *value.shape[1:]) for name, value in state.models.items()
        }
        groups = torch.zeros(count, dtype=torch.int64, device=clients.device)
        return Offer(models=models, groups=groups, names=tuple(state.models))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateLayers(StartRule):
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

    @override
    def model_count(self, population: int) -> int:
        """See `StartRule.model_count`."""
        return self.common.model_count(population)

    @override
    def initial_memory(self, models: Params, population: int) -> Params:
        """See `StartRule.initial_memory`.

        Raises:
            JobError: when the model has no such parameters, or no others.
        """
        own = match_parameters(self.private, models)
        if len(own) == len(models):
            raise JobError(
                "all parameters of the model are private, so clients would share nothing",
                received=", ".join(self.private),
                help="list fewer private layers",
            )
        return self.common.initial_memory(models, population) | _copies(
            {name: models[name] for name in own}, population, "start"
        )

    @override
    def offer(self, state: ServerState, clients: Tensor) -> Offer:
        """See `StartRule.offer`."""
        return self._without_own(self.common.offer(state, clients))

    @override
    def offer_models(self, work: Work, state: ServerState, clients: Tensor) -> Offer:
        """See `StartRule.offer_models`."""
        return self._without_own(self.common.offer_models(work, state, clients))

    def _without_own(self, offer: Offer) -> Offer:
        """The offer without private layers: the server's are not used."""
        own = match_parameters(self.private, offer.names)
        shared = {name: value for name, value in offer.models.items() if name not in own}
        return replace(offer, models=shared)

    @override
    def begin(
        self, work: Work, offer: Offer, rows: Mapping[str, ClientRows], clients: Tensor
    ) -> StartPoint:
        """See `StartRule.begin`."""
        point = self.common.begin(work, offer, rows, clients)
        own = {
            name: rows[f"start/{name}"][clients]
            for name in match_parameters(self.private, offer.names)
        }
        received = {name: value for name, value in point.pull.items() if name not in own}
        whole = point.variables | own
        return replace(
            point, variables={name: whole[name] for name in offer.names}, anchor=received
        )

    @override
    def part(self, setting: Setting, outcome: Outcome) -> Outcome:
        """See `StartRule.part`."""
        return _at_home(
            setting, outcome, match_parameters(self.private, setting.state.models), "start"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnModel(StartRule):
    """Every client continues from its personal model, which starts as the server's model; nothing
    is sent.

    Args:
        room: under which name it is remembered: ``start`` where it is the algorithm's model,
            another where it is trained beside one.
        common: where the models that are sent begin: what proximal terms pull to.
    """

    room: str = "start"
    common: StartRule = field(default_factory=GlobalStart)

    @override
    def initial_memory(self, models: Params, population: int) -> Params:
        """See `StartRule.initial_memory`."""
        return _copies(models, population, self.room)

    @override
    def offer(self, state: ServerState, clients: Tensor) -> Offer:
        """See `StartRule.offer`."""
        return self.common.offer(state, clients)

    @override
    def begin(
        self, work: Work, offer: Offer, rows: Mapping[str, ClientRows], clients: Tensor
    ) -> StartPoint:
        """See `StartRule.begin`; the anchor is what the client received of the common start."""
        point = self.common.begin(work, offer, rows, clients)
        own = {name: rows[f"{self.room}/{name}"][clients] for name in offer.names}
        return replace(point, variables=own, anchor=point.pull)

    @override
    def part(self, setting: Setting, outcome: Outcome) -> Outcome:
        """See `StartRule.part`."""
        return _at_home(setting, outcome, tuple(outcome.update), self.room)


@dataclass(frozen=True, slots=True, kw_only=True)
class BestModel(StartRule):
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
                "`models`, the number of models at the server, is too small",
                expected="at least 1",
                received=str(self.models),
            )

    @override
    def model_count(self, population: int) -> int:
        """See `StartRule.model_count`."""
        return self.models

    @override
    def offer(self, state: ServerState, clients: Tensor) -> Offer:
        """See `StartRule.offer`: all models."""
        if self.models == 1:
            return GlobalStart().offer(state, clients)
        models = {
            name: value.expand(len(clients), *value.shape) for name, value in state.models.items()
        }
        return Offer(models=models, groups=None, names=tuple(state.models))

    @override
    def begin(
        self, work: Work, offer: Offer, rows: Mapping[str, ClientRows], clients: Tensor
    ) -> StartPoint:
        """See `StartRule.begin`."""
        groups = offer.groups
        if groups is None:
            groups = torch.stack(
                [
                    _best(work, {name: value[row] for name, value in offer.models.items()}, client)
                    for row, client in enumerate(clients.unbind())
                ]
            )
        return StartPoint(variables=offer.of_groups(groups), groups=groups)


def _copies(models: Params, population: int, room: str) -> Params:
    """The server's first model for each of the N clients."""
    return equal_rows({f"{room}/{name}": value[:1] for name, value in models.items()}, population)


def _at_home(setting: Setting, outcome: Outcome, own: tuple[str, ...], room: str) -> Outcome:
    """The outcome with these parameters remembered instead of sent."""
    kept = {f"{room}/{name}": setting.start.variables[name] + outcome.update[name] for name in own}
    sent = {name: value for name, value in outcome.update.items() if name not in own}
    return replace(outcome, update=sent, client_memory=outcome.client_memory | kept)


def _best(work: Work, models: Params, client: Tensor) -> Tensor:
    """int64, no dimensions: which of the models [G, ...] has the least mean loss on the samples of
    a client, int64 without dimensions.
    """
    first, count = int(work.pool.first_rows(client)), int(work.pool.sizes[client])
    # A copy: the last bits of a product depend on the address, here on the samples of others.
    x = work.pool.x[first : first + count].clone()
    y = work.pool.y[first : first + count]
    output = work.problem.model.apply(models, x)
    losses = work.problem.loss.value(output, y.expand(output.shape[0], *y.shape)).mean(1)
    return torch.where(losses.isnan(), torch.inf, losses).argmin()
