"""Clusters of clients with properties that one model satisfies (An, Johnson and Ma 2024, algorithm
1).

Letters: N clients in all, K sampled in a round, C of them in a stack, k clusters, M samples that
the K clients share, T steps, V channels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.client_state_store import changed
from fedkg.federated.round_steps import Outcome, Setting, StartPoint
from fedkg.federated.state import ServerState
from fedkg.federated.temporal.properties import as_traces
from fedkg.federated.temporal.shared_samples import Inferred
from fedkg.models.model_protocols import Params

if TYPE_CHECKING:
    from fedkg.federated.executors.protocol import Work

Assignment = Literal["capacity", "argmin"]
CLUSTER = "start/cluster"
"""Which cluster each client was put into last, in `ServerState.clients`; -1 for one that was never
sampled.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterStart:
    """Each client begins at the model of its cluster.

    Args:
        clusters: k, the number of models that the server holds.
        inferred: the mined properties, which assign clients without a cluster to one; None is
            possible for a single cluster.
    """

    clusters: int
    inferred: Inferred | None = None

    def __post_init__(self) -> None:
        if self.clusters < 1:
            raise JobError("there must be at least one cluster", received=str(self.clusters))

    def model_count(self, population: int) -> int:
        """See `StartRule.model_count`."""
        return self.clusters

    def initial_memory(self, models: Params, population: int) -> Params:
        """See `StartRule.initial_memory`."""
        first = next(iter(models.values()))
        return {CLUSTER: torch.full((population,), -1, dtype=torch.int64, device=first.device)}

    def place_clients(self, work: Work, state: ServerState, clients: Tensor) -> StartPoint:
        """See `StartRule.place_clients`."""
        groups = state.clients[CLUSTER][clients].clamp(min=0)
        return StartPoint(
            variables={name: value[groups] for name, value in state.models.items()}, groups=groups
        )

    def part(self, setting: Setting, outcome: Outcome) -> Outcome:
        """See `StartRule.part`."""
        return outcome

    def site_models(self, work: Work, state: ServerState, clients: Tensor) -> Params:
        """See `StartRule.site_models`: a client that was never sampled uses the cluster that keeps
        its property best.
        """
        groups = cluster_of(work, state, clients, self.inferred)
        return {name: value[groups] for name, value in state.models.items()}


def cluster_of(
    work: Work, state: ServerState, clients: Tensor, inferred: Inferred | None
) -> Tensor:
    """The cluster int64 [C] of clients: the one they are in, or else the one that keeps their
    property best.
    """
    groups = state.clients[CLUSTER][clients].clone()
    new = torch.nonzero(groups < 0).squeeze(1)
    if len(new):
        single = inferred is None or len(next(iter(state.models.values()))) == 1
        groups[new] = (
            0
            if single or inferred is None
            else losses(work, state, clients[new], inferred).argmin(0)
        )
    return groups


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ByProperty:
    """Assigns the sampled clients to clusters every `every` rounds, by the loss of each cluster's
    model on their properties (CLUSTER_ID).

    In the other rounds, it assigns only the clients without a cluster.

    Args:
        inferred: the mined properties.
        every: m, the number of rounds between two clusterings.
        assignment: how losses determine the cluster of each client, see `assigned`.
    """

    inferred: Inferred
    every: int = 1
    assignment: Assignment = "capacity"

    def __post_init__(self) -> None:
        if self.every < 1:
            raise JobError(
                "the number of rounds between clusterings is out of range",
                expected="at least 1",
                received=str(self.every),
            )

    def apply(self, work: Work, state: ServerState, clients: Tensor) -> ServerState:
        """See `BeforeRound.apply`."""
        _check(self.inferred, work)
        if state.round % self.every == 0:
            groups = assigned(losses(work, state, clients, self.inferred), self.assignment)
        else:
            groups = cluster_of(work, state, clients, self.inferred)
        before = state.clients[CLUSTER]
        kept = changed(before, clients, groups, before=before)
        return replace(state, clients={**state.clients, CLUSTER: kept})


def losses(work: Work, state: ServerState, clients: Tensor, inferred: Inferred) -> Tensor:
    """L_p(phi_i^s, predictions of cluster j on D_i^s) for each cluster and client, float64 [k,
    K].
    """
    shared, sample = inferred.shared, inferred.sample
    places = clients.tolist()
    x = torch.cat([shared.x[place] for place in places])
    counts = torch.tensor([len(shared.x[place]) for place in places], device=x.device)
    row = torch.arange(len(places), device=x.device).repeat_interleave(counts)
    count = len(next(iter(state.models.values())))
    traces = as_traces(
        work.problem.model.apply(state.models, x), sample.steps, len(sample.layout.names)
    )
    away = traces - sample.corrected(traces, clients[row].repeat(count))
    each = away.double().abs().flatten(1).mean(1).view(count, -1)
    total = torch.zeros((count, len(places)), dtype=torch.float64, device=x.device).index_add(
        1, row, each
    )
    return total / counts


def assigned(losses: Tensor, assignment: Assignment) -> Tensor:
    """The cluster of each client, int64 [K], from losses [k, K].

    ``capacity``: again and again the smallest loss that is left, as long as its client is in no
    cluster and its cluster has fewer than
    ``ceil(K / k)`` members; each client once. ``argmin``: each client its best cluster, which may
    leave clusters empty. The paper's
    algorithm lets a client be in several clusters or in none.
    """
    table = torch.where(losses.isnan(), torch.inf, losses)
    if assignment == "argmin":
        return table.argmin(0)
    clusters, clients = table.shape
    room = [math.ceil(clients / clusters)] * clusters
    found = [-1] * clients
    for place in torch.argsort(table.flatten(), stable=True).tolist():
        cluster, client = divmod(place, clients)
        if found[client] < 0 and room[cluster]:
            found[client], room[cluster] = cluster, room[cluster] - 1
    return torch.tensor(found, dtype=torch.int64, device=losses.device)


def _check(inferred: Inferred, work: Work) -> None:
    if inferred.shared.names != work.problem.clients.names:
        raise JobError(
            "the properties belong to other clients than the data",
            expected=", ".join(work.problem.clients.names[:5]),
            received=", ".join(inferred.shared.names[:5]),
        )
