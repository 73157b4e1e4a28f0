"""Personalised federated learning through properties of time series.

Source: Z. An, T. T. Johnson and M. Ma, "FedSTL", 2024, algorithm 2.
"""

from __future__ import annotations

from fedkg.errors import JobError
from fedkg.federated.algorithm import Algorithm
from fedkg.federated.client.optimisers import SGD
from fedkg.federated.client.start_points import PrivateLayers
from fedkg.federated.round_steps import NothingAfter, NothingBefore, StartRule
from fedkg.federated.temporal.client_property_mining import Inferred
from fedkg.federated.temporal.property_loss_clustering import Assignment, ByProperty, ClusterStart
from fedkg.federated.temporal.server_cluster_training import ClusterTraining
from fedkg.federated.temporal.teacher_loss import TeacherLoss


def fedstl(
    *,
    inferred: Inferred | None = None,
    clusters: int = 5,
    private: tuple[str, ...] = (),
    weight: float = 1.0,
    cluster_epochs: int = 2,
    cluster_rate: float | None = None,
    every: int = 1,
    assignment: Assignment = "capacity",
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> Algorithm:
    """FedAvg within clusters of clients with similar properties; a teacher corrects each client's
    forecasts.

    Each sampled client starts from its cluster's shared layers and its own private ones, and trains
    ``loss + weight * distance to the nearest forecast that satisfies its property``. The server
    averages the models of each cluster by samples, and trains them on the samples that the
    cluster's members share.

    Args:
        inferred: the mined properties, see
            `fedkg.federated.temporal.client_property_mining.inferred`; None for training without
            teacher and clusters.
        clusters: k, the number of clusters.
        private: prefixes of the names of private parameters, such as ``head.``. These parameters
            never leave a client.
        weight: lambda, the weight of the distance in the loss.
        cluster_epochs: kappa, the passes of each cluster over its shared samples after a round; 0
            for none. The number of passes of the clients is the settings' `local_epochs`. The paper
            has 8 passes of clients and 2 of clusters in its appendix, 6 and 4 in its text.
        cluster_rate: eta_j, the learning rate of clusters; None: that of the clients.
        every: the number of rounds between two clusterings.
        assignment: ``capacity`` or ``argmin``, see `clusters.assigned`.
        momentum: the momentum of gradient descent, for clients and clusters.
        weight_decay: the weight decay of gradient descent, for clients and clusters.

    Raises:
        JobError: a teacher, several clusters or their training without properties; numbers out of
            range.
    """
    start: StartRule = ClusterStart(clusters=clusters, inferred=inferred)
    if private:
        start = PrivateLayers(private=private, common=start)
    local = SGD(momentum=momentum, weight_decay=weight_decay)
    if inferred is None:
        if clusters > 1 or weight or cluster_epochs:
            raise JobError(
                "FedSTL needs the properties that were mined from the series of the clients",
                expected="inferred=... (or clusters: 1, weight: 0, cluster_epochs: 0)",
                received=(
                    f"clusters: {clusters}, weight: {weight:g}, cluster_epochs: {cluster_epochs}"
                ),
            )
        return Algorithm(name="fedstl", start=start, local=local)
    training = ClusterTraining(
        inferred=inferred, epochs=cluster_epochs, weight=weight, rate=cluster_rate
    )
    return Algorithm(
        name="fedstl",
        before=(
            ByProperty(inferred=inferred, every=every, assignment=assignment)
            if clusters > 1
            else NothingBefore()
        ),
        start=start,
        terms=(TeacherLoss(properties=inferred.own, weight=weight),) if weight else (),
        local=local,
        after=training if cluster_epochs else NothingAfter(),
    )
