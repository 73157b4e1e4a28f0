"""Contradictions between the choices of an algorithm, with their reasons and alternatives.

This is the only list of them, for job files (before anything is loaded) and for algorithms composed
in Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Aggregates = Literal["mean", "trimmed_mean", "krum", "fltrust", "blocks", "other"]
Locals = Literal["sgd", "scaffold", "scaffnew", "two_phases", "blocks", "other"]
Exchange = Literal["models", "none", "data"]
Attacks = Literal["none", "labels", "update", "model", "score"]
AttackKind = Literal[
    "flipped_labels",
    "constant_label",
    "scaled_update",
    "sign_flipped_update",
    "nan_update",
    "replayed_update",
    "constant_model",
    "rule_satisfying_model",
    "inflated_score",
]
ATTACKS: Mapping[AttackKind, Attacks] = {
    "flipped_labels": "labels",
    "constant_label": "labels",
    "scaled_update": "update",
    "sign_flipped_update": "update",
    "nan_update": "update",
    "replayed_update": "model",
    "constant_model": "model",
    "rule_satisfying_model": "model",
    "inflated_score": "score",
}
"""What each simulated attack changes: labels, an update whatever it is, the model that an update
leads to, or the score that a client tells."""


def count_attackers(share: float, population: int) -> int:
    """The number of attackers that are a share of the clients: at least one for a share above 0."""
    return max(1, math.floor(share * population + 0.5)) if share else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmChoices:
    """The choices of an algorithm and its settings that can contradict each other; the defaults are
    FedAvg's.

    Attributes:
        exchange: what the clients send: models, nothing, or all their data before the first round.
        rule_weighting: whether updates are weighted by the rules.
        aggregate: how updates become one.
        plain_server_step: whether the server adds the aggregate without another step.
        local: the clients' optimiser.
        proximal: whether a proximal term pulls clients to the received model.
        protected_updates: whether updates are clipped or noised.
        private_layers: whether some layers stay at the clients.
        server_trains: whether the server trains on shared rows.
        personal_models: whether clients also train a personal model.
        model_count: number of models at the server.
        clustered_by: how clients choose among them: by loss, or by the properties of their data.
        agent_blocks: whether the server has a model for each client, and all clients send all of
            them (PC-FedAvg).
        set_penalty: whether the distance to each client's set is a penalty in its loss.
        privacy_unit: what differential privacy protects: nothing, single samples (``example``), or
            all data of a client (``client``).
        property_training: whether properties that were mined without privacy affect the clients'
            training.
        equal_clusters: whether clusters have equal sizes.
        clusters_by_client_samples: whether the server assigns clusters by samples of the clients
            instead of its own rows.
        pooled_property: whether a property was mined, without privacy, in the data of all clients
            together.
        mixed_precision: whether local steps use mixed precision.
        compressed_updates: whether updates are sent with fewer bits.
        secure_aggregation: whether the server learns the sum of the updates alone.
        full_participation: whether all clients take part in each round.
        equal_steps: whether all clients make the same number of steps.
        clients_per_round: number of participants, if known.
        attackers: number of attackers in a round that Krum is to withstand. With 0, Krum has no
            proof of robustness and accepts any number of clients.
        trim: share of the values that the trimmed mean removes at each end.
        property_exclusion: whether clients with outlying mined properties are excluded.
        answer_exclusion: whether updates with outlying answers are left out.
        mined_privately: whether the properties that exclude clients were mined privately.
        scored_shares: whether the aggregate scales its shares by the rules' scores (robust SCFA).
        score_factors: whether weights by the rules are such factors.
        attack: what simulated attackers change: nothing, their labels, the update that they send,
            the model that it leads to, or the score that they tell.
        scores_at_sites: whether clients score their own models.
        attackers_are_majority: whether more than half of all clients attack.
        partial_rounds: whether a round may end without some of its participants.
        late_updates: whether updates count in a later round than the one that they were made for.
        spare_clients: whether the server asks more clients than take part.
    """

    exchange: Exchange = "models"
    rule_weighting: bool = False
    aggregate: Aggregates = "mean"
    plain_server_step: bool = True
    local: Locals = "sgd"
    proximal: bool = False
    protected_updates: bool = False
    private_layers: bool = False
    server_trains: bool = False
    personal_models: bool = False
    model_count: int = 1
    clustered_by: Literal["loss", "property"] = "loss"
    agent_blocks: bool = False
    set_penalty: bool = False
    privacy_unit: Literal["none", "example", "client"] = "none"
    property_training: bool = False
    equal_clusters: bool = False
    clusters_by_client_samples: bool = True
    pooled_property: bool = False
    mixed_precision: bool = False
    compressed_updates: bool = False
    secure_aggregation: bool = False
    full_participation: bool = True
    equal_steps: bool = True
    clients_per_round: int | None = None
    attackers: int = 0
    trim: float = 0.0
    property_exclusion: bool = False
    answer_exclusion: bool = False
    mined_privately: bool = True
    scored_shares: bool = False
    score_factors: bool = False
    attack: Attacks = "none"
    scores_at_sites: bool = False
    attackers_are_majority: bool = False
    partial_rounds: bool = False
    late_updates: bool = False
    spare_clients: bool = False

    @property
    def variates(self) -> bool:
        """Whether control variates correct the clients' steps."""
        return self.local in ("scaffold", "scaffnew")

    @property
    def plain(self) -> bool:
        """Whether no choice depends on the exchange of models."""
        common = (
            not (
                self.rule_weighting
                or self.proximal
                or self.private_layers
                or self.personal_models
                or self.variates
                or self.agent_blocks
                or self.property_exclusion
                or self.answer_exclusion
            )
            and self.plain_server_step
        )
        return common and self.aggregate == "mean" and self.model_count == 1


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A contradiction between choices: the reason, and what to do instead."""

    reason: str
    help: str


ConflictRule = tuple[
    Callable[[AlgorithmChoices], bool], str | Callable[[AlgorithmChoices], str], str
]

_CONFLICTS: tuple[ConflictRule, ...] = (
    (
        lambda c: c.exchange == "none" and not c.plain,
        (
            "nothing is exchanged, so weighting, grouping, aggregation, exclusion, correction and "
            "proximal terms have no effect"
        ),
        "keep only the local optimiser, or exchange models",
    ),
    (
        lambda c: c.exchange == "data" and not c.plain,
        (
            "all data is in one place, so there is one client, and weighting, grouping, "
            "aggregation, exclusion, correction, proximal terms and private layers have no effect"
        ),
        "keep only the local optimiser, or exchange models",
    ),
    (
        lambda c: c.exchange != "models" and c.attack in ("update", "model"),
        "no update is sent that an attacker could change",
        "an attack by labels (`flipped_labels`, `constant_label`), or exchange models",
    ),
    (
        lambda c: c.attack == "score" and not c.scores_at_sites,
        "the attack `inflated_score` changes scores that sites tell, and the server scores",
        "`scoring.at: sites` (in Python: `scores_at_sites=True`)",
    ),
    (
        lambda c: c.agent_blocks and c.attack == "model",
        "PC-FedAvg's agents send the models of all agents, and the attack sends one model",
        "an attack that changes updates (`scaled_update`, `sign_flipped_update`, `nan_update`)",
    ),
    (
        lambda c: (
            c.rule_weighting
            and (c.aggregate == "trimmed_mean" or (c.aggregate == "krum" and not c.scored_shares))
        ),
        (
            "medians, trimmed means and Krum count every client alike, so they would ignore "
            "weights by the rules"
        ),
        (
            "`aggregate: mean`, `krum`, `multi_krum` or `fltrust` with weights by the rules (in "
            "Python: `robust_scfa`), or `weighting: samples`"
        ),
    ),
    (
        lambda c: c.rule_weighting and c.aggregate == "fltrust" and not c.scored_shares,
        "FLTrust weighs by its own trust in each update, so it would ignore weights by the rules",
        "`robust_scfa(aggregate=TrustedMean())`, or `weighting: samples`",
    ),
    (
        lambda c: (
            (c.property_exclusion or c.answer_exclusion)
            and (c.agent_blocks or c.local == "scaffnew")
        ),
        "PC-FedAvg and Scaffnew need all clients in every round, and some would be excluded",
        "another algorithm, or no exclusion",
    ),
    (
        lambda c: (c.property_exclusion or c.answer_exclusion) and c.privacy_unit == "client",
        (
            "which clients are excluded depends on the properties or updates of all of them, so "
            "the influence of one client has no bound"
        ),
        "`unit: example` (with privately mined properties), or no exclusion",
    ),
    (
        lambda c: c.answer_exclusion and c.model_count > 1,
        "models of different clusters answer differently, and would exclude each other",
        "one model, or no exclusion",
    ),
    (
        lambda c: c.answer_exclusion and c.private_layers,
        "the answers of whole models are compared, and the server has no private layers",
        "no private layers, or no exclusion",
    ),
    (
        lambda c: c.answer_exclusion and c.secure_aggregation,
        "the answers of single updates are compared, which secure aggregation hides",
        "`privacy` with `unit: example`, which protects each update, or no exclusion",
    ),
    (
        lambda c: c.attackers_are_majority and c.aggregate in ("trimmed_mean", "krum"),
        (
            "more than half of the sites attack (`simulation.attacks`), and medians, trimmed means "
            "and Krum take the majority for honest"
        ),
        "attackers at no more than half of the sites, or `aggregate: fltrust`",
    ),
    (
        lambda c: c.property_exclusion and c.privacy_unit == "example" and not c.mined_privately,
        "properties mined without noise decide which clients are excluded",
        "privately mined properties (`inferred_privately`; in jobs `privacy.mined`)",
    ),
    (
        lambda c: c.scored_shares != c.score_factors,
        "scores of the rules scale the shares of a robust aggregate, and only one of both is there",
        "`robust_scfa`, or `ByScore` with a `Krum` or `TrustedMean` that is `scored`",
    ),
    (
        lambda c: c.rule_weighting and c.private_layers and not c.server_trains,
        (
            "the rules judge whole models; the server would add a head that nobody trains to the "
            "shared layers"
        ),
        (
            "`weighting: samples`, or the rules as a penalty (`training.penalty`) on each site's "
            "whole model"
        ),
    ),
    (
        lambda c: c.private_layers and c.aggregate in ("krum", "fltrust"),
        (
            "Krum and FLTrust compare whole updates, but private layers are never sent: a "
            "corrupt site would hide there"
        ),
        "`aggregate: median` or `trimmed_mean`, which treat each parameter separately",
    ),
    (
        lambda c: c.private_layers and c.model_count > 1 and c.clustered_by == "loss",
        (
            "choosing a cluster by loss needs whole models, but private layers fit only the "
            "client's current cluster"
        ),
        "either clusters or private layers",
    ),
    (
        lambda c: c.local == "two_phases" and not c.private_layers,
        "training private layers first needs private layers: there are no private layers",
        "name the private layers",
    ),
    (
        lambda c: c.variates and c.private_layers,
        (
            "control variates correct every layer towards the common objective; private layers "
            "have none"
        ),
        "plain gradient descent with private layers, or control variates without them",
    ),
    (
        lambda c: c.variates and c.model_count > 1,
        (
            "control variates belong to one common model; a client that changes its cluster "
            "would use those of another model"
        ),
        "plain gradient descent within clusters",
    ),
    (
        lambda c: c.variates and c.protected_updates,
        (
            "control variates are gradients of the client's data; clipping and noise protect the "
            "update alone"
        ),
        "plain gradient descent under privacy",
    ),
    (
        lambda c: c.local == "scaffold" and c.aggregate in ("trimmed_mean", "krum", "fltrust"),
        (
            "the server sums control variates without the robust aggregate: a corrupt site would "
            "pull all others by them"
        ),
        "plain gradient descent under a robust aggregate, or `aggregate: mean`",
    ),
    (
        lambda c: c.local == "scaffold" and c.rule_weighting,
        (
            "the server sums control variates by samples: a site with a weight of 0 by the rules "
            "would pull all others by them"
        ),
        "plain gradient descent with weights by the rules, or `weighting: samples`",
    ),
    (
        lambda c: (
            c.local == "scaffnew"
            and not (c.aggregate == "mean" and c.plain_server_step and not c.rule_weighting)
        ),
        (
            "Scaffnew's variates cancel only if the server takes the mean of the models, "
            "weighted by samples"
        ),
        "`local: scaffold`, with variates at the server, or the plain mean",
    ),
    (
        lambda c: c.local == "scaffnew" and not c.full_participation,
        "Scaffnew's variates cancel only if all clients take part in every round",
        "`participation: 1`, or `local: scaffold`, which supports partial participation",
    ),
    (
        lambda c: c.local == "scaffnew" and not c.equal_steps,
        "Scaffnew's variates cancel only if all clients make equally many steps",
        (
            "`local_steps` instead of `local_epochs` (steps = epochs * rows of a site / rows in "
            "a batch), or `local: scaffold`"
        ),
    ),
    (
        lambda c: len({c.agent_blocks, c.local == "blocks", c.aggregate == "blocks"}) > 1,
        (
            "PC-FedAvg's agents send the models of all agents, which requires its start, its "
            "local optimiser and its mean of blocks together"
        ),
        (
            "`pcfedavg` with its own start, local optimiser and aggregate; you can replace its "
            "terms and its server step"
        ),
    ),
    (
        lambda c: c.agent_blocks and c.rule_weighting,
        (
            "PC-FedAvg is the plain mean of all agents: one with a weight of 0 by the rules "
            "could not move its block into its own set"
        ),
        (
            "`weighting: samples`, which counts all agents equally here, or the rules as a "
            "penalty (`training.penalty`)"
        ),
    ),
    (
        lambda c: (
            c.agent_blocks
            and (
                c.proximal
                or c.private_layers
                or c.personal_models
                or c.model_count > 1
                or c.exchange != "models"
            )
        ),
        "PC-FedAvg already has a model for each client, and pulls it to the average of all",
        "`agents.strength` instead of `proximal` and `personal`; no private layers or clusters",
    ),
    (
        lambda c: c.agent_blocks and c.set_penalty,
        "PC-FedAvg already penalises the distance of each agent's block to its set",
        "`agents`, or `sets` with another algorithm",
    ),
    (
        lambda c: c.agent_blocks and not c.full_participation,
        (
            "PC-FedAvg needs all agents in every round: the block of an absent agent would drift "
            "without its set"
        ),
        "`participation: 1`",
    ),
    (
        lambda c: c.aggregate == "fltrust" and c.model_count > 1,
        "FLTrust compares with one update of the server, which belongs to one model",
        "`aggregate: median` within clusters",
    ),
    (
        lambda c: c.aggregate == "krum" and c.model_count > 1,
        "a cluster may be smaller than Krum needs",
        "`aggregate: median` within clusters",
    ),
    (
        lambda c: (
            c.aggregate == "krum"
            and c.attackers > 0
            and c.clients_per_round is not None
            and c.clients_per_round < 2 * c.attackers + 3
        ),
        lambda c: (
            f"Krum needs at least {2 * c.attackers + 3} sites in a round (2 x `attackers` + 3); "
            f"this one has {c.clients_per_round}"
        ),
        "fewer `attackers`, or a larger share of the clients in each round",
    ),
    (
        lambda c: (
            c.aggregate == "trimmed_mean"
            and 0 < c.trim < 0.5
            and c.clients_per_round is not None
            and min(int(c.trim * c.clients_per_round + 1e-9), (c.clients_per_round - 1) // 2) < 1
        ),
        "the trimmed mean would remove no client at either end",
        (
            "a `trim` of at least 1 / clients in a round, or a larger share of the clients in "
            "each round"
        ),
    ),
    (
        lambda c: (
            c.aggregate == "trimmed_mean"
            and c.trim >= 0.5
            and c.clients_per_round is not None
            and c.clients_per_round < 3
        ),
        "the median of one or two clients is their mean, which excludes nobody",
        "at least three clients in each round, or `aggregate: mean`",
    ),
    (
        lambda c: c.privacy_unit != "none" and c.exchange == "data",
        (
            "all rows are sent before the first round, so there is nothing left that clipping "
            "and noise could protect"
        ),
        "exchange models, or leave out `privacy`",
    ),
    (
        lambda c: c.privacy_unit == "client" and c.exchange == "none",
        "nothing is sent, so there is no sum in which a client could hide",
        "exchange models, or leave out `privacy`",
    ),
    (
        lambda c: c.privacy_unit == "example" and c.model_count > 1 and c.clustered_by == "loss",
        (
            "clients reveal to the server which model fits their samples best, and that choice "
            "is not noised"
        ),
        (
            "clusters by privately mined properties, `unit: client` (each client then chooses "
            "locally), or one model"
        ),
    ),
    (
        lambda c: c.privacy_unit != "none" and c.server_trains,
        (
            "the server trains clusters on samples that clients send; clipping and noise do not "
            "cover these"
        ),
        "`cluster_epochs: 0`: clusters then depend only on their members' updates",
    ),
    (
        lambda c: (
            c.privacy_unit == "example"
            and c.model_count > 1
            and c.clustered_by == "property"
            and c.clusters_by_client_samples
        ),
        (
            "clients send some of their samples, by which the server assigns clusters; clipping "
            "and noise do not cover these"
        ),
        (
            "clusters by rows of the server and privately mined properties "
            "(`inferred_privately`; in jobs `privacy.mined`)"
        ),
    ),
    (
        lambda c: (
            c.privacy_unit == "client"
            and c.model_count > 1
            and c.clustered_by == "property"
            and c.equal_clusters
        ),
        (
            "the place of a client in clusters of equal size depends on the others, so the "
            "influence of one client has no bound"
        ),
        "`assignment: argmin`, which assigns each client independently",
    ),
    (
        lambda c: c.privacy_unit == "client" and c.pooled_property,
        (
            "a property `per run` is mined in the data of all clients together and affects them "
            "all; the noise on sums does not cover it"
        ),
        "`infer ... per client`, which uses each client's data separately",
    ),
    (
        lambda c: c.privacy_unit == "example" and c.property_training,
        (
            "properties mined in all samples of a client affect its steps, which clipping of "
            "single samples does not cover"
        ),
        (
            "`unit: client`, or privately mined properties (`fedkg.mining.private`), with their "
            "cost in the ledger"
        ),
    ),
    (
        lambda c: c.privacy_unit == "client" and c.aggregate != "mean" and not c.agent_blocks,
        (
            "the noise fits a sum in which each client counts at most its clip; medians, Krum "
            "and FLTrust have no known bound"
        ),
        "`aggregate: mean`, or `unit: example`, which allows any aggregate",
    ),
    (
        lambda c: c.privacy_unit == "client" and c.agent_blocks,
        (
            "PC-FedAvg's server stores a model for each client from that client's update alone: "
            "there is no sum in which it could hide"
        ),
        "`unit: example`",
    ),
    (
        lambda c: c.privacy_unit == "example" and c.mixed_precision,
        (
            "mixed precision needs automatic differentiation of a whole minibatch, but here each "
            "sample is clipped separately"
        ),
        "`precision: float32` with `unit: example`",
    ),
    (
        lambda c: c.local == "scaffnew" and c.compressed_updates,
        (
            "Scaffnew's variates cancel only if the mean of the models is exact; rounded updates "
            "add up to a drift"
        ),
        "`local: scaffold`, or leave out `wire`",
    ),
    (
        lambda c: c.partial_rounds and (c.agent_blocks or c.local == "scaffnew"),
        (
            "PC-FedAvg and Scaffnew need all sites in every round, and `federation.quorum` lets "
            "a round end without some"
        ),
        "`federation.quorum: all`: a round without a site is then skipped",
    ),
    (
        lambda c: c.late_updates and c.agent_blocks,
        (
            "PC-FedAvg's agents send the models of all agents, so a late update would restore "
            "old models of the others"
        ),
        "`federation.late: drop`",
    ),
    (
        lambda c: c.late_updates and c.variates,
        "control variates correct the steps of one round; late ones correct an older model",
        "`federation.late: drop`, or plain gradient descent",
    ),
    (
        lambda c: c.late_updates and (c.private_layers or c.personal_models),
        (
            "a site drops the private layers of a round that ended without it, and its late "
            "update fits only those"
        ),
        "`federation.late: drop`",
    ),
    (
        lambda c: c.late_updates and c.model_count > 1,
        "a late update belongs to the cluster that its site was in, which may have changed",
        "`federation.late: drop`, or one model",
    ),
    (
        lambda c: c.late_updates and (c.privacy_unit != "none" or c.protected_updates),
        (
            "the privacy accountant counts a site in the rounds for which it was drawn; a late "
            "update would count in another one"
        ),
        "`federation.late: drop`",
    ),
    (
        lambda c: c.late_updates and c.aggregate != "mean",
        "only the weighted mean can count a late update less than the others",
        "`aggregate: mean`, or `federation.late: drop`",
    ),
    (
        lambda c: c.spare_clients and c.privacy_unit == "client",
        (
            "differential privacy of sites assumes that chance alone selects them; spares take "
            "part because others did not answer"
        ),
        "`federation.oversampling: 1`",
    ),
    (
        lambda c: c.spare_clients and c.full_participation,
        "all sites already take part in each round, so there are no spares to ask",
        "`federation.oversampling: 1`, or a smaller `training.participation`",
    ),
    (
        lambda c: c.secure_aggregation and c.exchange == "data",
        "secure aggregation hides updates in their sum, and here all rows are sent",
        "exchange models, or leave out `secure_aggregation`",
    ),
    (
        lambda c: c.secure_aggregation and c.late_updates,
        (
            "the masks of secure aggregation cancel only among the updates of one round, so the "
            "server cannot use a late one"
        ),
        "`federation.late: drop`, or leave out `secure_aggregation`",
    ),
    (
        lambda c: c.secure_aggregation and c.rule_weighting,
        (
            "SCFA's rules judge each site's update, and secure aggregation shows the server their "
            "sum alone"
        ),
        (
            "`weighting: samples` with the rules as a penalty (`training.penalty`), or "
            "`privacy` with `unit: example`, which protects each update"
        ),
    ),
    (
        lambda c: c.secure_aggregation and c.aggregate in ("trimmed_mean", "krum", "fltrust"),
        "robust aggregates compare single updates, which secure aggregation hides",
        "`aggregate: mean`, or `privacy` with `unit: example`, which protects each update",
    ),
    (
        lambda c: c.secure_aggregation and c.agent_blocks,
        "PC-FedAvg's server stores a model for each site, from that site's update alone",
        "an algorithm with one common model, such as FedAvg or FedProx",
    ),
    (
        lambda c: c.secure_aggregation and c.model_count > 1,
        "the server would have to know the cluster of each site, and the sum of each cluster",
        "one model, or `privacy` with `unit: example`",
    ),
    (
        lambda c: c.secure_aggregation and c.aggregate == "other",
        "an aggregate of another kind may need more than the weighted sum of the updates",
        "`WeightedMean`",
    ),
    (
        lambda c: c.secure_aggregation and (c.private_layers or c.personal_models or c.variates),
        (
            "sites that keep layers, models or control variates send a receipt of each update, by "
            "which a guess of it could be checked"
        ),
        "plain gradient descent on one common model",
    ),
    (
        lambda c: c.secure_aggregation and c.compressed_updates,
        "masked updates are whole numbers of 32 bits, which cannot be sent with fewer",
        "leave out `wire`",
    ),
    (
        lambda c: (
            c.secure_aggregation and c.clients_per_round is not None and c.clients_per_round < 3
        ),
        "in a sum of two updates, each of the two sites can subtract its own",
        "at least three sites in each round",
    ),
)


def find_contradictions(choices: AlgorithmChoices) -> tuple[Contradiction, ...]:
    """All contradictions between the choices; only the first if no models are exchanged, because
    the others follow from it.
    """
    found = tuple(
        Contradiction(reason if isinstance(reason, str) else reason(choices), instead)
        for applies, reason, instead in _CONFLICTS
        if applies(choices)
    )
    return found[:1] if choices.exchange != "models" else found


def format_contradictions(found: Sequence[Contradiction]) -> tuple[str, str]:
    """The reasons of contradictions, and what to do instead, numbered if there are several."""
    if len(found) == 1:
        return found[0].reason, found[0].help
    reasons = "; ".join(f"({place}) {one.reason}" for place, one in enumerate(found, 1))
    return reasons, "; ".join(f"({place}) {one.help}" for place, one in enumerate(found, 1))
