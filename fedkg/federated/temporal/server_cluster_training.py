"""After a round each cluster trains its model on what its members share, under the property of all
of them (equation 4).

Letters: N clients in all, K sampled in a round, G clusters with members in it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from fedkg.errors import JobError
from fedkg.federated.algorithm import Algorithm
from fedkg.federated.client.optimisers import SGD
from fedkg.federated.problem import Clients, Problem, pool
from fedkg.federated.round_record import RoundRecord
from fedkg.federated.server.guard import usable
from fedkg.federated.state import Choice, ServerState
from fedkg.federated.temporal.client_property_mining import Inferred, traces_of
from fedkg.federated.temporal.properties import mined
from fedkg.federated.temporal.property_loss_clustering import (
    ClusterStart,
    known_clusters,
    with_clusters,
)
from fedkg.federated.temporal.teacher_loss import TeacherLoss

if TYPE_CHECKING:
    from fedkg.federated.executors.protocol import Work


class ClusterWarning(UserWarning):
    """The training of a cluster led to numbers that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterTraining:
    """Trains, after a round, the models of the clusters that had members in it, by gradient descent
    on the samples that the members share.

    If the training of a cluster ends at NaN or infinity, its model is unchanged, with a
    `ClusterWarning`.

    The members' private layers never reach the server: its models have separate layers in their
    place, which are trained here and stay there.

    Args:
        inferred: the mined properties.
        epochs: kappa, the passes over the shared samples; 0 for none.
        weight: lambda, the weight of the teacher's term in the loss.
        rate: eta_j, the learning rate; None: that of the clients in the round.
    """

    inferred: Inferred
    epochs: int
    weight: float
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.epochs < 0:
            raise JobError(
                "`epochs`, the passes over the samples that a cluster shares, must not be negative",
                expected="at least 0",
                received=str(self.epochs),
            )

    def apply(self, work: Work, state: ServerState, record: RoundRecord) -> ServerState:
        """See `AfterRound.apply`."""
        from fedkg.federated.executors import (
            executor_of,
        )  # the executors are made of algorithms, and this is a part of one

        place = {name: position for position, name in enumerate(work.problem.clients.names)}
        members = [place[name] for name in record.clients if name not in record.excluded]
        if not self.epochs or not members:
            return state
        groups = (
            known_clusters(state, torch.tensor(members, device=work.pool.x.device))
            .clamp(min=0)
            .tolist()
        )
        active = sorted(set(groups))
        together = [
            [member for member, group in zip(members, groups, strict=True) if group == cluster]
            for cluster in active
        ]
        inner = self._work(work, state, active, together)
        choice = state.choice or Choice(executor="stacked", chunk=len(active), threads=1)
        everybody = torch.arange(len(active), device=work.pool.x.device)
        begun = with_clusters(
            replace(state, joints={}, clients={}),
            everybody,
            torch.tensor(active, device=everybody.device),
            len(active),
        )
        models = dict(state.models)
        lost: dict[int, str] = {}
        for sent in executor_of(choice).train(inner, begun, everybody):
            updates = usable(sent)
            lost |= updates.rejected
            models = {
                key: value.index_add(0, updates.groups, updates.update[key])
                for key, value in models.items()
            }
        if lost:
            which = "; ".join(
                f"cluster {active[position]}: {reason}" for position, reason in sorted(lost.items())
            )
            warnings.warn(
                f"round {state.round}: clusters could not be trained on the samples that they "
                f"share, and their models are unchanged; {which}; check these samples, or lower "
                "the learning rate of clusters",
                ClusterWarning,
                stacklevel=2,
            )
        return replace(state, models=models)

    def _work(
        self, work: Work, state: ServerState, active: list[int], together: list[list[int]]
    ) -> Work:
        """Return the clusters as the clients of a separate training."""
        shared, own = self.inferred.shared, self.inferred.own
        data = Clients(
            names=tuple(f"cluster {cluster}" for cluster in active),
            x=tuple(torch.cat([shared.x[member] for member in members]) for members in together),
            y=tuple(torch.cat([shared.y[member] for member in members]) for members in together),
        )
        of_clusters = [
            one for one in own.pack.manifest.inferences if one.per == "cluster"
        ] or own.inferences
        terms: tuple[TeacherLoss, ...] = ()
        if self.weight:
            traces = traces_of(data, own.steps, len(own.layout.names))
            properties = mined(
                own.pack, traces, own.layout, inferences=of_clusters, pick=self.inferred.pick
            )
            terms = (TeacherLoss(properties=properties, weight=self.weight),)
        local = work.algorithm.local if isinstance(work.algorithm.local, SGD) else SGD()
        algorithm = Algorithm(
            name="clusters", start=ClusterStart(clusters=len(active)), terms=terms, local=local
        )
        rate = (
            work.settings.rate(state.round) if self.rate is None else self.rate
        )  # the round is over: its number is the state's
        settings = replace(
            work.settings,
            local_epochs=self.epochs,
            local_steps=None,
            learning_rate=rate,
            schedule="constant",
        )
        problem = Problem(model=work.problem.model, loss=work.problem.loss, clients=data)
        return replace(
            work, problem=problem, algorithm=algorithm, settings=settings, pool=pool(data)
        )
