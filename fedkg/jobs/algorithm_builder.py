"""Build the algorithm of a trial from the algorithm section of its job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, assert_never

from fedkg._internal.user_code import describe_lack_of_memory, load_object
from fedkg.errors import FedkgError, JobError
from fedkg.federated import Algorithm, ScoreOptions
from fedkg.federated.algorithms import pcfedavg
from fedkg.federated.client.optimisers import SGD, Adam, PrivateFirst
from fedkg.federated.client.proximal import Proximal
from fedkg.federated.client.start_points import BestModel, GlobalStart, OwnModel, PrivateLayers
from fedkg.federated.client.variates import ControlVariates, ProxSkip
from fedkg.federated.pcfedavg.agent_sets import AgentSets
from fedkg.federated.pcfedavg.penalty import PenaltySchedule, SetPenalty
from fedkg.federated.pcfedavg.round_step_sizes import Equally
from fedkg.federated.round_steps import (
    AfterRound,
    AggregationRule,
    BeforeRound,
    ExclusionRule,
    LocalUpdate,
    NothingAfter,
    NothingBefore,
    ServerStep,
    StartRule,
    Term,
    WeightingRule,
)
from fedkg.federated.server.optimisers import AdaptiveStep, AddUpdate
from fedkg.federated.server.prediction_outlier_exclusion import AnswerExclusion
from fedkg.federated.server.robust import Krum, TrimmedMean, TrustedMean
from fedkg.federated.server.weighted_mean import WeightedMean
from fedkg.federated.server.weighting import BySamples, ByScore, ByValidity
from fedkg.federated.temporal.client_property_mining import Inferred
from fedkg.federated.temporal.outlying_property_exclusion import PropertyExclusion
from fedkg.federated.temporal.property_loss_clustering import ByProperty, ClusterStart
from fedkg.federated.temporal.server_cluster_training import ClusterTraining
from fedkg.federated.temporal.teacher_loss import TeacherLoss
from fedkg.jobs.schema import algorithm_section as schema
from fedkg.jobs.schema.job import Scoring
from fedkg.jobs.schema.site_constraint_sections import Agents, ParameterSets, PropertyClusters
from fedkg.models import Model, PartitionedModel


def build_algorithm(
    name: str,
    section: schema.Algorithm,
    scoring: Scoring,
    model: Model,
    sets: AgentSets | None = None,
    *,
    head: tuple[str, ...] = (),
    inferred: Inferred | None = None,
) -> Algorithm:
    """The algorithm that an algorithm section describes.

    Args:
        sets: the parameter sets of the sites, if the algorithm uses them.
        head: the parameters that a site may keep, if the job marks them.
        inferred: the properties mined from the sites' series; FedSTL needs them.

    Raises:
        JobError: the algorithm keeps the model's head private, but the model does not define one.
    """
    if section.path is not None:
        return _own_algorithm(name, section.path, section.options)
    if section.agents is not None:
        return replace(_agents(section, section.agents, scoring, sets), name=name)
    layers = () if section.private is None else _private_layers(section.private, model, head)
    start = _start(section, layers, inferred)
    return Algorithm(
        name=name,
        exclusion=_exclusion(section.exclude, inferred),
        before=_clustering(section.grouping.fedstl, inferred),
        start=start,
        terms=(
            *_proximal_terms(section.proximal),
            *_teacher_terms(section.grouping.fedstl, inferred),
            *_set_terms(section.sets, sets),
        ),
        local=_local(section, layers),
        weighting=_weighting(section, scoring),
        aggregate=_aggregate(section.aggregate, scored=section.is_robust_scfa),
        server=_server(section.server),
        after=_cluster_training(section.grouping.fedstl, inferred),
        beside=None
        if section.personal is None
        else _personal_model(section, section.personal, start),
        pooled=section.exchange == "data",
    )


def _own_algorithm(name: str, path: str, options: Mapping[str, Any]) -> Algorithm:
    """The algorithm of a user's function. `Any`: its keyword arguments."""
    made = _call(path, options, f"algorithms.{name}.path")
    if not isinstance(made, Algorithm):
        raise JobError(
            f"algorithms.{name}.path: {path} does not return an algorithm",
            expected="a fedkg.federated.Algorithm",
            received=type(made).__name__,
            help="correct the function or class, or name another one",
        )
    return replace(made, name=name)


def _call(path: str, options: Mapping[str, Any], field: str) -> Any:
    """What a user's function returns. `Any`: its keyword arguments and its result."""
    make = load_object(path, field)
    try:
        return make(**options)
    except FedkgError:
        raise
    except Exception as error:  # whatever the user's function raises
        raise describe_lack_of_memory(error, f"{field}: {path}") or JobError(
            f"{field}: {path} fails with the `options` {', '.join(options) or 'of the job (none)'}",
            received=f"{type(error).__name__}: {error}",
            help="correct `options`, or the function in the file",
        ) from error


def _agents(
    section: schema.Algorithm, agents: Agents, scoring: Scoring, sets: AgentSets | None
) -> Algorithm:
    """PC-FedAvg: one model for each site, within its parameter sets."""
    made = pcfedavg(
        sets=sets,
        strength=agents.strength,
        penalty=agents.penalty,
        growing=agents.growing,
        form=agents.form,
        smooth=agents.smooth,
        by_rule=agents.by_rule,
    )
    weighting = _weighting(section, scoring)
    weighting = (
        Equally(options=weighting.options) if isinstance(weighting, BySamples) else weighting
    )
    server = _server(section.server)
    return replace(
        made, weighting=weighting, server=made.server if server == AddUpdate() else server
    )


def _personal_model(
    section: schema.Algorithm, personal: schema.Personal, common: StartRule
) -> Algorithm:
    """The model that each site trains next to the common one."""
    local = (
        _adam(section.local.adam)
        if section.local.adam
        else _descent(section.local.sgd)
        if section.local.sgd
        else SGD()
    )
    return Algorithm(
        name="own",
        start=OwnModel(room="own", common=common),
        terms=_proximal_terms(personal.strength),
        local=local,
    )


def _proximal_terms(strength: float) -> tuple[Term, ...]:
    return (Proximal(strength=strength),) if strength else ()


def _start(
    section: schema.Algorithm, layers: tuple[str, ...], inferred: Inferred | None
) -> StartRule:
    if section.exchange == "none":
        return OwnModel()
    common: BestModel | ClusterStart | GlobalStart = GlobalStart()
    if section.grouping.ifca is not None:
        common = BestModel(models=section.grouping.ifca.models)
    elif section.grouping.fedstl is not None:
        common = ClusterStart(clusters=section.grouping.fedstl.clusters, inferred=inferred)
    return PrivateLayers(private=layers, common=common) if layers else common


def _exclusion(exclude: schema.Exclude | None, inferred: Inferred | None) -> ExclusionRule | None:
    match exclude:
        case schema.Exclude(answers=schema.OutlyingAnswers(threshold=threshold, least=least)):
            return AnswerExclusion(threshold=threshold, least=least)
        case schema.Exclude(properties=schema.OutlyingProperties(threshold=threshold, least=least)):
            if inferred is not None:
                return PropertyExclusion(properties=inferred.own, threshold=threshold, least=least)
    return None


def _clustering(fedstl: PropertyClusters | None, inferred: Inferred | None) -> BeforeRound:
    if fedstl is None or inferred is None or fedstl.clusters == 1:
        return NothingBefore()
    return ByProperty(inferred=inferred, every=fedstl.every, assignment=fedstl.assignment)


def _teacher_terms(fedstl: PropertyClusters | None, inferred: Inferred | None) -> tuple[Term, ...]:
    """The loss term of FedSTL's teacher."""
    return (
        (TeacherLoss(properties=inferred.own, weight=fedstl.weight),)
        if fedstl and inferred and fedstl.weight
        else ()
    )


def _cluster_training(fedstl: PropertyClusters | None, inferred: Inferred | None) -> AfterRound:
    """The training of the cluster models after a round."""
    if fedstl is None or inferred is None or not fedstl.cluster_epochs:
        return NothingAfter()
    return ClusterTraining(
        inferred=inferred,
        epochs=fedstl.cluster_epochs,
        weight=fedstl.weight,
        rate=fedstl.cluster_rate,
    )


def _set_terms(kept: ParameterSets | None, sets: AgentSets | None) -> tuple[Term, ...]:
    """The penalty on the distance to the sites' parameter sets."""
    if kept is None or sets is None:
        return ()
    return (
        SetPenalty(sets=sets, schedule=PenaltySchedule(first=kept.penalty, growing=kept.growing)),
    )


def _private_layers(
    private: schema.Private, model: Model, head: tuple[str, ...]
) -> tuple[str, ...]:
    own = (
        private.layers
        or head
        or (model.parts["head"] if isinstance(model, PartitionedModel) else ())
    )
    if not own:
        raise JobError(
            "private.layers: fedkg does not know the last layers (the head) of this model",
            help="list the private layers here or in `model.private`",
        )
    return own


def _local(section: schema.Algorithm, layers: tuple[str, ...]) -> LocalUpdate:
    if section.private is not None and section.private.first is not None:
        return PrivateFirst(private=layers, share=section.private.first)
    match section.local:
        case schema.Local(sgd=schema.Sgd() as sgd):
            return _descent(sgd)
        case schema.Local(adam=schema.Adam() as adam):
            return _adam(adam)
        case schema.Local(scaffold=schema.NoSettings()):
            return ControlVariates()
        case _:
            return ProxSkip()


def _descent(sgd: schema.Sgd) -> SGD:
    return SGD(momentum=sgd.momentum, weight_decay=sgd.weight_decay)


def _adam(adam: schema.Adam) -> Adam:
    return Adam(beta1=adam.beta1, beta2=adam.beta2, tau=adam.tau)


def _weighting(section: schema.Algorithm, scoring: Scoring) -> WeightingRule:
    """The weighting rule.

    All algorithms share the tolerances, so that their violation rates are comparable.
    """
    options = ScoreOptions(
        hard_tolerance=scoring.hard_tolerance, soft_tolerance=scoring.soft_tolerance
    )
    match section.weighting:
        case "samples":
            return BySamples(options=options)
        case "scfa":
            options = replace(
                options,
                combine=scoring.combine,
                beta=scoring.beta,
                graded=scoring.graded,
                relative=scoring.relative,
            )
            rule = ByScore if section.is_robust_scfa else ByValidity
            return rule(on_all_invalid=scoring.on_all_invalid, options=options)
        case _:
            assert_never(section.weighting)


def _aggregate(aggregate: schema.Aggregate, *, scored: bool) -> AggregationRule:
    match aggregate:
        case schema.Aggregate(median=schema.NoSettings()):
            return TrimmedMean(trim=0.5)
        case schema.Aggregate(trimmed_mean=schema.TrimmedMean(trim=trim)):
            return TrimmedMean(trim=trim)
        case schema.Aggregate(krum=schema.Krum(attackers=attackers)):
            return Krum(attackers=attackers, scored=scored)
        case schema.Aggregate(multi_krum=schema.MultiKrum(attackers=attackers, keep=keep)):
            return Krum(attackers=attackers, keep=keep, scored=scored)
        case schema.Aggregate(fltrust=schema.NoSettings()):
            return TrustedMean(scored=scored)
        case schema.Aggregate(own=schema.Own(path=path, options=options)):
            rule: AggregationRule = _call(path, options, "aggregate.own.path")
            return rule
        case _:
            return WeightedMean()


def _server(server: schema.Server) -> ServerStep:
    match server:
        case schema.Server(adam=schema.Adaptive() as adam):
            return AdaptiveStep(
                memory="adam", rate=adam.rate, beta1=adam.beta1, beta2=adam.beta2, tau=adam.tau
            )
        case schema.Server(yogi=schema.Adaptive() as yogi):
            return AdaptiveStep(
                memory="yogi", rate=yogi.rate, beta1=yogi.beta1, beta2=yogi.beta2, tau=yogi.tau
            )
        case schema.Server(adagrad=schema.Adagrad() as adagrad):
            return AdaptiveStep(
                memory="adagrad", rate=adagrad.rate, beta1=adagrad.beta1, tau=adagrad.tau
            )
        case schema.Server(add=schema.AddStep(rate=rate)):
            return AddUpdate(rate=rate)
        case _:
            return AddUpdate()
