"""From the algorithm section of a job to the algorithm value that fills the joints of the round."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from fedkg.errors import JobError
from fedkg.federated import Algorithm, ScoreOptions
from fedkg.federated.agents.round_numbers import Equally
from fedkg.federated.agents.sets import AgentSets
from fedkg.federated.aggregate import WeightedMean
from fedkg.federated.algorithms import pcfedavg
from fedkg.federated.joints import Aggregate, Local, ServerStep, Start, Term, Weighting
from fedkg.federated.local import SGD, Adam, PrivateFirst
from fedkg.federated.proximal import Proximal
from fedkg.federated.robust import Krum, TrimmedMean, TrustedMean
from fedkg.federated.server import AdaptiveStep, AddUpdate
from fedkg.federated.start import BestModel, GlobalStart, OwnModel, PrivateLayers
from fedkg.federated.variates import ControlVariates, ProxSkip
from fedkg.federated.weighting import BySamples, ByValidity
from fedkg.jobs import algorithm_schema as said
from fedkg.jobs.schema import Scoring
from fedkg.models import Model, Parted


def assembled(name: str, section: said.Algorithm, scoring: Scoring, model: Model, sets: AgentSets | None = None) -> Algorithm:
    """The algorithm of a job's section; sets: of its sites' parameters, where it keeps them in some.

    Raises:
        JobError: layers are private by default and the model has no head.
    """
    if section.agents is not None:
        return replace(_agents(section, section.agents, scoring, sets), name=name)
    start = _start(section, model)
    return Algorithm(
        name=name,
        start=start,
        terms=_pull(section.proximal),
        local=_local(section, model),
        weighting=_weighting(section, scoring),
        aggregate=_aggregate(section.aggregate),
        server=_server(section.server),
        beside=None if section.personal is None else _own(section, section.personal, start),
        pooled=section.exchange == "data",
    )


def _agents(section: said.Algorithm, agents: said.Agents, scoring: Scoring, sets: AgentSets | None) -> Algorithm:
    """A model for each site within its sets."""
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
    weighting = Equally(options=weighting.options) if isinstance(weighting, BySamples) else weighting
    server = _server(section.server)
    return replace(made, weighting=weighting, server=made.server if server == AddUpdate() else server)


def _own(section: said.Algorithm, personal: said.Personal, common: Start) -> Algorithm:
    """The model that each site trains beside the common one."""
    local = _adam(section.local.adam) if section.local.adam else _descent(section.local.sgd) if section.local.sgd else SGD()
    return Algorithm(name="own", start=OwnModel(room="own", common=common), terms=_pull(personal.strength), local=local)


def _pull(strength: float) -> tuple[Term, ...]:
    return (Proximal(strength=strength),) if strength else ()


def _start(section: said.Algorithm, model: Model) -> Start:
    if section.exchange == "none":
        return OwnModel()
    if section.grouping.ifca is not None:
        return BestModel(models=section.grouping.ifca.models)
    return PrivateLayers(private=_layers(section.private, model)) if section.private is not None else GlobalStart()


def _layers(private: said.Private, model: Model) -> tuple[str, ...]:
    if private.layers:
        return private.layers
    if not isinstance(model, Parted) or not model.parts["head"]:
        raise JobError("private.layers: this model does not say which layers are its head", help="name the private layers")
    return model.parts["head"]


def _local(section: said.Algorithm, model: Model) -> Local:
    if section.private is not None and section.private.first is not None:
        return PrivateFirst(private=_layers(section.private, model), share=section.private.first)
    match section.local:
        case said.Local(sgd=said.Sgd() as sgd):
            return _descent(sgd)
        case said.Local(adam=said.Adam() as adam):
            return _adam(adam)
        case said.Local(scaffold=said.Nothing()):
            return ControlVariates()
        case _:
            return ProxSkip()


def _descent(sgd: said.Sgd) -> SGD:
    return SGD(momentum=sgd.momentum, weight_decay=sgd.weight_decay)


def _adam(adam: said.Adam) -> Adam:
    return Adam(beta1=adam.beta1, beta2=adam.beta2, tau=adam.tau)


def _weighting(section: said.Algorithm, scoring: Scoring) -> Weighting:
    """What counts as broken is the same for all algorithms, so that their violation rates can be compared."""
    options = ScoreOptions(graded=scoring.graded, hard_tolerance=scoring.hard_tolerance, soft_tolerance=scoring.soft_tolerance)
    match section.weighting:
        case "samples":
            return BySamples(options=options)
        case "scfa":
            options = replace(options, combine=scoring.combine, beta=scoring.beta)
            return ByValidity(on_all_invalid=scoring.on_all_invalid, options=options)
        case _:
            assert_never(section.weighting)


def _aggregate(aggregate: said.Aggregate) -> Aggregate:
    match aggregate:
        case said.Aggregate(median=said.Nothing()):
            return TrimmedMean(trim=0.5)
        case said.Aggregate(trimmed_mean=said.Trimmed(trim=trim)):
            return TrimmedMean(trim=trim)
        case said.Aggregate(krum=said.OneKept(attackers=attackers)):
            return Krum(attackers=attackers)
        case said.Aggregate(multi_krum=said.SomeKept(attackers=attackers, keep=keep)):
            return Krum(attackers=attackers, keep=keep)
        case said.Aggregate(fltrust=said.Nothing()):
            return TrustedMean()
        case _:
            return WeightedMean()


def _server(server: said.Server) -> ServerStep:
    match server:
        case said.Server(adam=said.Adaptive() as adam):
            return AdaptiveStep(memory="adam", rate=adam.rate, beta1=adam.beta1, beta2=adam.beta2, tau=adam.tau)
        case said.Server(yogi=said.Adaptive() as yogi):
            return AdaptiveStep(memory="yogi", rate=yogi.rate, beta1=yogi.beta1, beta2=yogi.beta2, tau=yogi.tau)
        case said.Server(adagrad=said.Adagrad() as adagrad):
            return AdaptiveStep(memory="adagrad", rate=adagrad.rate, beta1=adagrad.beta1, tau=adagrad.tau)
        case said.Server(add=said.Plain(rate=rate)):
            return AddUpdate(rate=rate)
        case _:
            return AddUpdate()
