"""Clusters of clients with properties that one model satisfies (An, Johnson and Ma 2024, algorithm
1).

Letters: N clients in all, K sampled in a round, C of them in a stack, k clusters, M samples that
the K clients share, T steps, V channels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.errors import JobError
from fedkg.federated.round_steps import Offer, StartRule
from fedkg.federated.state import ServerState
from fedkg.federated.temporal.client_property_mining import Inferred
from fedkg.federated.temporal.properties import as_traces
from fedkg.models.model_protocols import Params

if TYPE_CHECKING:
    from fedkg.federated.executors.protocol import Work

Assignment = Literal["capacity", "argmin"]
START, CLUSTER = "start", "cluster"
"""Step and name in `ServerState.joints` of the cluster into which the server last put each client;
-1 for a client that was never sampled.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterStart(StartRule):
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
            raise JobError(
                "`clusters`, the number of clusters, must be at least 1",
                received=str(self.clusters),
            )

    @override
    def model_count(self, population: int) -> int:
        """See `StartRule.model_count`."""
        return self.clusters

    @override
    def offer(self, state: ServerState, clients: Tensor) -> Offer:
        """See `StartRule.offer`."""
        return _offer(state, known_clusters(state, clients).clamp(min=0))

    @override
    def offer_models(self, work: Work, state: ServerState, clients: Tensor) -> Offer:
        """See `StartRule.offer_models`: a client that was never sampled uses the cluster that keeps
        its property best.
        """
        return _offer(state, cluster_of(work, state, clients, self.inferred))


def _offer(state: ServerState, groups: Tensor) -> Offer:
    """The models of these clusters, int64 [C]."""
    models = {name: value[groups] for name, value in state.models.items()}
    return Offer(models=models, groups=groups, names=tuple(state.models))


def known_clusters(state: ServerState, clients: Tensor) -> Tensor:
    """The cluster into which the server last put clients (int64 [C]), int64 [C]; -1 for none."""
    known = state.joints.get(START, {}).get(CLUSTER)
    return torch.full_like(clients, -1) if known is None else known[clients]


def with_clusters(
    state: ServerState, clients: Tensor, groups: Tensor, population: int
) -> ServerState:
    """The state in which these of the N clients (int64 [C]) are in clusters, int64 [C]."""
    everybody = torch.arange(population, device=clients.device)
    clusters = known_clusters(state, everybody).index_copy(0, clients, groups)
    return replace(state, joints={**state.joints, START: {CLUSTER: clusters}})


def cluster_of(
    work: Work, state: ServerState, clients: Tensor, inferred: Inferred | None
) -> Tensor:
    """The cluster int64 [C] of clients: the one they are in, or else the one that keeps their
    property best.
    """
    groups = known_clusters(state, clients)
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
                "`every`, the number of rounds between two clusterings, is out of range",
                expected="at least 1",
                received=str(self.every),
            )

    def begin(self) -> Params:
        """See `BeforeRound.begin`."""
        return {}

    def apply(self, work: Work, state: ServerState, clients: Tensor) -> ServerState:
        """See `BeforeRound.apply`."""
        _check(self.inferred, work)
        if not len(clients):
            return state
        if state.round % self.every == 0:
            groups = assigned(losses(work, state, clients, self.inferred), self.assignment)
        else:
            groups = cluster_of(work, state, clients, self.inferred)
        return with_clusters(state, clients, groups, len(work.problem.clients.names))


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
    names, mined = work.problem.clients.names, inferred.shared.names
    if mined != names:
        pairs = zip_longest(names, mined, fillvalue="no client")
        place, own, other = next(
            (place, *pair) for place, pair in enumerate(pairs) if len(set(pair)) > 1
        )
        raise JobError(
            "the mined properties belong to other clients than the data",
            expected=f"{own} at position {place}",
            received=f"{other} at position {place}",
            help="mine the properties again for these clients",
        )
