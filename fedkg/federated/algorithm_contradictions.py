"""What of an algorithm value can contradict something else; joints of other kinds are taken to
fit.
"""

from __future__ import annotations

from fedkg.algorithm_compatibility import (
    Aggregates,
    AlgorithmChoices,
    Locals,
    find_contradictions,
    format_contradictions,
)
from fedkg.errors import JobError
from fedkg.federated.algorithm import Algorithm
from fedkg.federated.attacks import Attack
from fedkg.federated.client.optimisers import SGD, PrivateFirst
from fedkg.federated.client.proximal import Proximal
from fedkg.federated.client.start_points import BestModel, OwnModel, PrivateLayers
from fedkg.federated.client.variates import ControlVariates, ProxSkip
from fedkg.federated.pcfedavg.block_steps import AllBlocks, AllBlockSteps, BlockMean, TwoVectorSteps
from fedkg.federated.privacy.update_noise import NoPrivacy
from fedkg.federated.round_steps import AggregationRule, KnownTerm, LocalUpdate, NothingAfter
from fedkg.federated.server.optimisers import AddUpdate
from fedkg.federated.server.prediction_outlier_exclusion import AnswerExclusion
from fedkg.federated.server.robust import Krum, TrimmedMean, TrustedMean
from fedkg.federated.server.weighted_mean import WeightedMean
from fedkg.federated.server.weighting import ByScore, ByValidity
from fedkg.federated.settings import Settings
from fedkg.federated.step_results import require_methods
from fedkg.federated.temporal.distinct_mined_properties import used_properties
from fedkg.federated.temporal.outlying_property_exclusion import PropertyExclusion
from fedkg.federated.temporal.property_loss_clustering import ByProperty, ClusterStart


def check(
    algorithm: Algorithm,
    settings: Settings,
    population: int,
    attack: Attack | None = None,
    **contract: bool,
) -> None:
    """Raises JobError, with the reasons and what to do, when joints of the algorithm lack methods
    or contradict each other, the settings, N clients or the contract of a round (fields of
    `AlgorithmChoices`).

    A trim that takes nobody away is let pass here: of two clients the median is their mean, in its
    own right.
    """
    require_methods(algorithm)
    start = algorithm.start
    common = start.common if isinstance(start, PrivateLayers) else start
    found = find_contradictions(
        AlgorithmChoices(
            exchange=(
                "data" if algorithm.pooled else "none" if isinstance(start, OwnModel) else "models"
            ),
            rule_weighting=isinstance(algorithm.weighting, ByValidity),
            aggregate=_aggregate(algorithm.aggregate),
            plain_server_step=isinstance(algorithm.server, AddUpdate)
            and algorithm.server.rate == 1.0,
            local=_local(algorithm.local),
            proximal=any(isinstance(term, Proximal) for term in algorithm.terms),
            protected_updates=not isinstance(algorithm.privacy, NoPrivacy),
            privacy_unit="none" if algorithm.budget is None else algorithm.budget.unit,
            property_training=any(
                isinstance(term, KnownTerm) and term.reads == "client" for term in algorithm.terms
            ),
            equal_clusters=isinstance(algorithm.before, ByProperty)
            and algorithm.before.assignment == "capacity",
            clusters_by_client_samples=not (
                isinstance(algorithm.before, ByProperty) and algorithm.before.inferred.public
            ),
            pooled_property=any(
                one.pooled and one.epsilon is None for one in used_properties(algorithm)
            ),
            mixed_precision=settings.precision != "float32",
            compressed_updates=settings.wire is not None,
            secure_aggregation=settings.secure_aggregation,
            private_layers=isinstance(start, PrivateLayers),
            server_trains=not isinstance(algorithm.after, NothingAfter),
            personal_models=algorithm.beside is not None,
            model_count=(
                common.models
                if isinstance(common, BestModel)
                else common.clusters
                if isinstance(common, ClusterStart)
                else 1
            ),
            clustered_by="property" if isinstance(common, ClusterStart) else "loss",
            agent_blocks=isinstance(start, AllBlocks),
            full_participation=settings.participation == 1.0,
            equal_steps=settings.local_steps is not None,
            clients_per_round=settings.sampled(population),
            attackers=algorithm.aggregate.attackers if isinstance(algorithm.aggregate, Krum) else 0,
            property_exclusion=isinstance(algorithm.exclusion, PropertyExclusion),
            answer_exclusion=isinstance(algorithm.exclusion, AnswerExclusion),
            mined_privately=isinstance(algorithm.exclusion, PropertyExclusion)
            and algorithm.exclusion.properties.epsilon is not None,
            scored_shares=isinstance(algorithm.aggregate, Krum | TrustedMean)
            and algorithm.aggregate.scored,
            score_factors=isinstance(algorithm.weighting, ByScore),
            attack="none" if attack is None else attack.changes,
            scores_at_sites=settings.scores_at_sites,
            attackers_are_majority=attack is not None and 2 * attack.count(population) > population,
            **contract,
        )
    )
    if found:
        reason, instead = format_contradictions(found)
        raise JobError(
            f"the options of algorithm {algorithm.name} contradict each other: {reason}",
            help=instead,
        )


def _aggregate(aggregate: AggregationRule) -> Aggregates:
    match aggregate:
        case WeightedMean():
            return "mean"
        case TrimmedMean():
            return "trimmed_mean"
        case Krum():
            return "krum"
        case TrustedMean():
            return "fltrust"
        case BlockMean():
            return "blocks"
        case _:
            return "other"


def _local(local: LocalUpdate) -> Locals:
    match local:
        case SGD():
            return "sgd"
        case ControlVariates():
            return "scaffold"
        case ProxSkip():
            return "scaffnew"
        case PrivateFirst():
            return "two_phases"
        case AllBlockSteps() | TwoVectorSteps():
            return "blocks"
        case _:
            return "other"
