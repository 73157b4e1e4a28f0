"""Which choices at the joints of an algorithm contradict each other, why, and what to do instead.

The one list of them, for job files (before anything is loaded) and for algorithms put together in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Aggregates = Literal["mean", "trimmed_mean", "krum", "fltrust", "blocks", "other"]
Locals = Literal["sgd", "scaffold", "scaffnew", "two_phases", "blocks", "other"]
Exchange = Literal["models", "none", "data"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmChoices:
    """What of an algorithm and its settings can contradict something else; the defaults are FedAvg's.

    Attributes:
        exchange: what the clients send: models, nothing, or all their data before the first round.
        by_rules: whether updates are weighted by the rules. aggregate: how they become one. adds: whether the server adds it as it is.
        local: the clients' optimiser. proximal: whether they are pulled to what they received. protected: whether updates are clipped
        or noised.
        private: whether some layers stay at home. server_trains: whether the server trains what it has of them on rows that are shared.
        personal: whether clients train a model of their own beside.
        models: how many the server holds. chosen_by: what puts clients into clusters of them: their loss, or the properties of their data.
        blocks: whether the server holds one for each client, of which all clients speak (PC-FedAvg).
        penalised: whether the distance to each client's set is a penalty beside its loss.
        unit: what differential privacy protects: nothing, the samples of each client (``example``), or all that a client has (``client``).
        taught: whether properties that were mined without privacy steer the clients' training.
        evenly: whether clusters are filled evenly. on_samples: whether the server puts clients into clusters by samples of theirs, and not
        by rows of its own. pooled: whether a property was mined, without privacy, in the data of all clients together.
        half: whether local steps are made in mixed precision. rounded: whether updates travel in fewer bits.
        everybody: whether all clients take part in each round. alike: whether they make equally many steps.
        sampled: how many take part, where that is known. attackers, trim: of Krum and the trimmed mean; Krum with 0 attackers is proven
        against nobody, and may have as few clients as it likes.
    """

    exchange: Exchange = "models"
    by_rules: bool = False
    aggregate: Aggregates = "mean"
    adds: bool = True
    local: Locals = "sgd"
    proximal: bool = False
    protected: bool = False
    private: bool = False
    server_trains: bool = False
    personal: bool = False
    models: int = 1
    chosen_by: Literal["loss", "property"] = "loss"
    blocks: bool = False
    penalised: bool = False
    unit: Literal["none", "example", "client"] = "none"
    taught: bool = False
    evenly: bool = False
    on_samples: bool = True
    pooled: bool = False
    half: bool = False
    rounded: bool = False
    everybody: bool = True
    alike: bool = True
    sampled: int | None = None
    attackers: int = 0
    trim: float = 0.0

    @property
    def variates(self) -> bool:
        """Whether the clients' steps are corrected by control variates."""
        return self.local in ("scaffold", "scaffnew")

    @property
    def plain(self) -> bool:
        """Whether nothing is chosen that makes a difference only where models are exchanged."""
        common = (
            not (
                self.by_rules
                or self.proximal
                or self.private
                or self.personal
                or self.variates
                or self.blocks
            )
            and self.adds
        )
        return common and self.aggregate == "mean" and self.models == 1


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Choices that cannot stand together: the sentence that says why, and what to do."""

    reason: str
    help: str


Rule = tuple[Callable[[AlgorithmChoices], bool], str, str]

_RULES: tuple[Rule, ...] = (
    (
        lambda c: c.exchange == "none" and not c.plain,
        "nothing is exchanged, so there is nothing to weigh, group, aggregate, correct or pull to",
        "leave out all but the local optimiser, or exchange models",
    ),
    (
        lambda c: c.exchange == "data" and not c.plain,
        "all data is in one place, so there is one client: nothing to weigh, group, aggregate, correct, pull to or keep private",
        "leave out all but the local optimiser, or exchange models",
    ),
    (
        lambda c: c.by_rules and c.aggregate in ("trimmed_mean", "krum"),
        "medians, trimmed means and Krum count every client alike, so that weights by the rules would be ignored",
        "`aggregate: mean` with weights by the rules, or `weighting: samples`",
    ),
    (
        lambda c: c.by_rules and c.aggregate == "fltrust",
        "FLTrust weighs by its own trust in each update, so that weights by the rules would be ignored",
        "`aggregate: mean` with weights by the rules, or `weighting: samples`",
    ),
    (
        lambda c: c.by_rules and c.private and not c.server_trains,
        "the rules judge whole models; the server would put a head that nobody trains on the layers it receives",
        "`weighting: samples`, or the rules as a penalty (`training.penalty`), which each site's whole model obeys",
    ),
    (
        lambda c: c.private and c.aggregate in ("krum", "fltrust"),
        "Krum and FLTrust compare whole updates, and private layers are never sent: a corrupt site would hide there",
        "`aggregate: median` or `trimmed_mean`, which look at each parameter alone",
    ),
    (
        lambda c: c.private and c.models > 1 and c.chosen_by == "loss",
        "clusters that clients choose by their loss need whole models, and private layers fit the client's own cluster only",
        "either clusters or private layers",
    ),
    (
        lambda c: c.local == "two_phases" and not c.private,
        "private layers first, then shared ones: there are no private layers",
        "name the private layers",
    ),
    (
        lambda c: c.variates and c.private,
        "control variates correct every layer towards the common objective; private layers have none",
        "plain gradient descent with private layers, or control variates without them",
    ),
    (
        lambda c: c.variates and c.models > 1,
        "control variates belong to one common model; clients that change their cluster would carry those of another",
        "plain gradient descent within clusters",
    ),
    (
        lambda c: c.variates and c.protected,
        "control variates are gradients of the client's data; clipping and noise protect the update alone",
        "plain gradient descent under privacy",
    ),
    (
        lambda c: c.local == "scaffold" and c.aggregate in ("trimmed_mean", "krum", "fltrust"),
        "the server adds up control variates as they come: a corrupt site would pull all others by them, past the aggregate",
        "plain gradient descent under a robust aggregate, or `aggregate: mean`",
    ),
    (
        lambda c: c.local == "scaffold" and c.by_rules,
        "the server adds up control variates by samples: a site that weights by the rules keep out would pull all others by them",
        "plain gradient descent with weights by the rules, or `weighting: samples`",
    ),
    (
        lambda c: (
            c.local == "scaffnew" and not (c.aggregate == "mean" and c.adds and not c.by_rules)
        ),
        "Scaffnew's variates cancel only where the server takes the mean of the models, weighted by samples",
        "`local: scaffold`, whose variates the server keeps, or the plain mean",
    ),
    (
        lambda c: c.local == "scaffnew" and not c.everybody,
        "Scaffnew's variates cancel only where all clients take part in every round",
        "`participation: 1`, or `local: scaffold`, which allows for clients that stay away",
    ),
    (
        lambda c: c.local == "scaffnew" and not c.alike,
        "Scaffnew's variates cancel only where all clients make equally many steps",
        "`local_steps` instead of `local_epochs` (steps = epochs * rows of a site / rows in a batch), or `local: scaffold`",
    ),
    (
        lambda c: len({c.blocks, c.local == "blocks", c.aggregate == "blocks"}) > 1,
        "PC-FedAvg's agents speak of the models of all agents, which takes its own start, its own steps and the mean of blocks together",
        "`pcfedavg` with its own start, local optimiser and aggregate; its terms and server step may be others",
    ),
    (
        lambda c: c.blocks and c.by_rules,
        "PC-FedAvg is the plain mean of all agents: one that weights by the rules keep out could not move its block into its own set",
        "`weighting: samples`, which counts all agents alike here, or the rules as a penalty (`training.penalty`)",
    ),
    (
        lambda c: (
            c.blocks
            and (c.proximal or c.private or c.personal or c.models > 1 or c.exchange != "models")
        ),
        "PC-FedAvg holds a model for each client already, and pulls it to the average of all",
        "`agents.strength` in place of `proximal` and `personal`; neither private layers nor clusters",
    ),
    (
        lambda c: c.blocks and c.penalised,
        "PC-FedAvg penalises the distance of each agent's own block to its set already",
        "`agents`, or `sets` under another algorithm",
    ),
    (
        lambda c: c.blocks and not c.everybody,
        "PC-FedAvg needs all agents in every round: the block of one that is away would drift without its set",
        "`participation: 1`",
    ),
    (
        lambda c: c.aggregate == "fltrust" and c.models > 1,
        "FLTrust compares with one update that the server makes from one model",
        "`aggregate: median` within clusters",
    ),
    (
        lambda c: c.aggregate == "krum" and c.models > 1,
        "a cluster may be smaller than Krum needs",
        "`aggregate: median` within clusters",
    ),
    (
        lambda c: (
            c.aggregate == "krum"
            and c.attackers > 0
            and c.sampled is not None
            and c.sampled < 2 * c.attackers + 3
        ),
        "Krum needs at least 2 attackers + 3 clients in a round",
        "fewer `attackers`, or a larger share of the clients in each round",
    ),
    (
        lambda c: (
            c.aggregate == "trimmed_mean"
            and 0 < c.trim < 0.5
            and c.sampled is not None
            and min(int(c.trim * c.sampled + 1e-9), (c.sampled - 1) // 2) < 1
        ),
        "the trimmed mean would take no client away at either end",
        "a `trim` of at least 1 / clients in a round, or a larger share of the clients in each round",
    ),
    (
        lambda c: (
            c.aggregate == "trimmed_mean"
            and c.trim >= 0.5
            and c.sampled is not None
            and c.sampled < 3
        ),
        "the median of one or two clients is their mean: it would leave nobody out",
        "at least three clients in each round, or `aggregate: mean`",
    ),
    (
        lambda c: c.unit != "none" and c.exchange == "data",
        "all rows are sent before the first round: there is nothing left that clipping and noise could protect",
        "exchange models, or leave out `privacy`",
    ),
    (
        lambda c: c.unit == "client" and c.exchange == "none",
        "nothing is sent, so there is no sum in which a client could hide",
        "exchange models, or leave out `privacy`",
    ),
    (
        lambda c: c.unit == "example" and c.models > 1 and c.chosen_by == "loss",
        "clients tell the server which model fits their samples best, and that choice is not noised",
        "clusters by properties that were mined privately, `unit: client` (under which the choice is the client's own), or one model",
    ),
    (
        lambda c: c.unit != "none" and c.server_trains,
        "the server trains clusters on samples that clients send; clipping and noise do not cover these",
        "`cluster_epochs: 0`: clusters are then what their members' updates make of them",
    ),
    (
        lambda c: (
            c.unit == "example" and c.models > 1 and c.chosen_by == "property" and c.on_samples
        ),
        "clients send some of their samples, by which the server puts them into clusters; clipping and noise do not cover these",
        "clusters by rows of the server and properties mined privately (`inferred_privately`; in jobs `privacy.mined`)",
    ),
    (
        lambda c: c.unit == "client" and c.models > 1 and c.chosen_by == "property" and c.evenly,
        "clusters of equal size put one client where another one leaves room, so that what one client can change has no bound",
        "`assignment: argmin`, by which each client's cluster is its own matter",
    ),
    (
        lambda c: c.unit == "client" and c.pooled,
        "a property `per run` is mined in the data of all clients together and steers them all; the noise on sums does not cover it",
        "`infer ... per client`, which is each client's own matter",
    ),
    (
        lambda c: c.unit == "example" and c.taught,
        "properties mined in all samples of a client steer its steps, which clipping sample by sample does not cover",
        "`unit: client`, or properties mined privately (`fedkg.mining.private`), whose cost is added to the ledger",
    ),
    (
        lambda c: c.unit == "client" and c.aggregate != "mean" and not c.blocks,
        "noise is sized for a sum in which each client counts at most its clip; of medians, Krum and FLTrust no such bound is known",
        "`aggregate: mean`, or `unit: example`, under which any aggregate is free",
    ),
    (
        lambda c: c.unit == "client" and c.blocks,
        "PC-FedAvg's server keeps a model for each client, made of that client's update alone: there is no sum in which it could hide",
        "`unit: example`",
    ),
    (
        lambda c: c.unit == "example" and c.half,
        "mixed precision is for automatic differentiation of a whole minibatch; here each sample is clipped on its own",
        "`precision: float32` under `unit: example`",
    ),
    (
        lambda c: c.local == "scaffnew" and c.rounded,
        "Scaffnew's variates cancel only where the mean of the models is exact; updates rounded on the way add up to a drift",
        "`local: scaffold`, or leave out `wire`",
    ),
)


def find_contradictions(composition: AlgorithmChoices) -> tuple[Contradiction, ...]:
    """All reasons why an algorithm so put together cannot be meant; only the first where nothing is exchanged, as others follow from it."""
    found = tuple(
        Contradiction(reason, instead)
        for applies, reason, instead in _RULES
        if applies(composition)
    )
    return found[:1] if composition.exchange != "models" else found


def format_contradictions(found: Sequence[Contradiction]) -> tuple[str, str]:
    """Contradictions in words: the reasons, and what to do instead, numbered where there are several."""
    if len(found) == 1:
        return found[0].reason, found[0].help
    reasons = "; ".join(f"({place}) {one.reason}" for place, one in enumerate(found, 1))
    return reasons, "; ".join(f"({place}) {one.help}" for place, one in enumerate(found, 1))
