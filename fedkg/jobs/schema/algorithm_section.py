"""The algorithm section of a job file: a preset, changes to it, or all round steps written out.

A choice with settings is a name or a section: ``server: adam`` or ``server: {adam: {rate: 0.01}}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from fedkg._internal.name_matching import nearest_name
from fedkg.algorithm_compatibility import (
    Aggregates,
    AlgorithmChoices,
    Locals,
    find_contradictions,
    format_contradictions,
)
from fedkg.jobs.schema.algorithm_presets import PRESETS
from fedkg.jobs.schema.section_base import Count, Positive, Section, Share, Value
from fedkg.jobs.schema.site_constraint_sections import Agents, ParameterSets, PropertyClusters

CodePath = Annotated[str, Field(pattern=r"^[^:]+:[A-Za-z_][A-Za-z0-9_]*$")]
"""A name in a Python file or module: ``mine.py:Name``."""

BelowOne = Annotated[float, Field(ge=0, lt=1)]


class Sgd(Section):
    """Gradient descent."""

    momentum: BelowOne = Field(
        default=0.0,
        description="Share of the last step that the next one repeats; reset in every round.",
    )
    weight_decay: float = Field(default=0.0, ge=0, description="Weight decay.")


class Adam(Section):
    """Adam; its moments are reset in every round."""

    beta1: BelowOne = Field(default=0.9, description="Decay rate of the first moment.")
    beta2: BelowOne = Field(default=0.999, description="Decay rate of the second moment.")
    tau: Positive = Field(
        default=1e-8, description="Added to the denominator for numerical stability."
    )


class NoSettings(Section):
    """No settings."""


class OneOf(Section):
    """One of several options, each with its own settings."""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        """Expand `adam` to `adam: {}` and `mine.py:rule` to `own`, and drop empty options."""
        if isinstance(value, str):
            return {"own": {"path": value}} if ":" in value else {value: {}}
        return (
            {key: {} if part is None and len(value) == 1 else part for key, part in value.items()}
            if isinstance(value, dict)
            else value
        )

    @model_validator(mode="after")
    def _just_one(self) -> Self:
        if (
            len(
                self.model_fields_set
                - {name for name in type(self).model_fields if getattr(self, name) is None}
            )
            != 1
        ):
            raise ValueError(f"must be exactly one of {', '.join(type(self).model_fields)}")
        return self

    @property
    def kind(self) -> str:
        """The name of the chosen option."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)


class Local(OneOf):
    """The optimiser of the local steps."""

    sgd: Sgd | None = Field(default=None, description="Gradient descent.")
    adam: Adam | None = Field(default=None, description="Adam.")
    scaffold: NoSettings | None = Field(
        default=None, description="Gradient descent with control variates at sites and server."
    )
    scaffnew: NoSettings | None = Field(
        default=None, description="Gradient descent with control variates that stay at the sites."
    )


class AddStep(Section):
    """Add the update to the model."""

    rate: Positive = Field(default=1.0, description="Factor of the update.")


class Adaptive(Section):
    """Adam or Yogi, with the update as gradient."""

    rate: Positive = Field(default=0.1, description="Server learning rate.")
    beta1: BelowOne = Field(default=0.9, description="Decay rate of the first moment.")
    beta2: Share = Field(default=0.99, description="Decay rate of the second moment.")
    tau: Positive = Field(
        default=1e-3, description="Degree of adaptivity: smaller values adapt more."
    )


class Adagrad(Section):
    """Adagrad, with the update as gradient."""

    rate: Positive = Field(default=0.1, description="Server learning rate.")
    beta1: BelowOne = Field(default=0.0, description="Decay rate of the first moment.")
    tau: Positive = Field(
        default=1e-3, description="Degree of adaptivity: smaller values adapt more."
    )


class Server(OneOf):
    """The server's optimiser."""

    add: AddStep | None = Field(default=None, description="Add the update.")
    adam: Adaptive | None = Field(default=None, description="Adam.")
    yogi: Adaptive | None = Field(default=None, description="Yogi.")
    adagrad: Adagrad | None = Field(default=None, description="Adagrad.")


class TrimmedMean(Section):
    """The mean without the extremes of each parameter."""

    trim: float = Field(
        default=0.1, gt=0, le=0.5, description="Share of the sites removed at either end."
    )


class Krum(Section):
    """The update closest to its neighbours."""

    attackers: int = Field(
        default=1, ge=0, description="Number of corrupt sites in a round that the rule withstands."
    )


class MultiKrum(Section):
    """The mean of the updates closest to their neighbours."""

    attackers: int = Field(
        default=1, ge=0, description="Number of corrupt sites in a round that the rule withstands."
    )
    keep: Count | None = Field(
        default=None, description="Number of averaged updates; empty: all but the attackers."
    )


class Own(Section):
    """A step in a Python file of yours."""

    path: CodePath = Field(
        description="A function that returns the step, as `mine.py:Name` or `package.file:Name`."
    )
    options: dict[str, Value | tuple[Value, ...]] = Field(
        default_factory=dict, description="Keyword arguments of the function."
    )


class Aggregate(OneOf):
    """How the server combines updates."""

    mean: NoSettings | None = Field(default=None, description="The mean, weighted by `weighting`.")
    median: NoSettings | None = Field(default=None, description="The median of each parameter.")
    trimmed_mean: TrimmedMean | None = Field(
        default=None, description="The mean of each parameter without the extremes."
    )
    krum: Krum | None = Field(default=None, description="The update closest to its neighbours.")
    multi_krum: MultiKrum | None = Field(
        default=None, description="The mean of the updates closest to their neighbours."
    )
    fltrust: NoSettings | None = Field(
        default=None,
        description="Weights by similarity to an update computed on the server's labelled rows.",
    )
    own: Own | None = Field(
        default=None, description="Your own rule; `mine.py:Name` is short for it."
    )


class Ifca(Section):
    """Clusters that sites choose by their loss."""

    models: int = Field(default=2, ge=2, le=1_000, description="Number of models at the server.")


class Grouping(OneOf):
    """Which sites share an aggregated model."""

    all: NoSettings | None = Field(default=None, description="All sites share one model.")
    ifca: Ifca | None = Field(
        default=None, description="Sites that choose the same server model by their loss."
    )
    fedstl: PropertyClusters | None = Field(
        default=None,
        description="Sites with the same properties of their series, which the rules `infer`.",
    )


class OutlyingProperties(Section):
    """Robust z-scores of the numbers that the rules `infer` from the data of each site."""

    threshold: Positive = Field(
        default=3.5, description="Largest robust z-score of a site that takes part."
    )
    least: int = Field(
        default=5, ge=3, description="Fewest sites with a value; with fewer, none is excluded."
    )


class OutlyingAnswers(Section):
    """Robust z-scores of how differently the model of each update answers rows of the server."""

    threshold: Positive = Field(
        default=3.5, description="Largest robust z-score of an update that counts."
    )
    least: int = Field(
        default=5, ge=3, description="Fewest updates in a round; with fewer, none is excluded."
    )


class Exclude(OneOf):
    """Which sites are excluded."""

    properties: OutlyingProperties | None = Field(
        default=None,
        description="From all rounds, sites with mined properties far from those of the others.",
    )
    answers: OutlyingAnswers | None = Field(
        default=None,
        description="From a round, sites with updates that answer rows of the server unlike those "
        "of the others.",
    )


class Private(Section):
    """Layers that stay at each site."""

    layers: tuple[str, ...] = Field(
        default=(),
        description="Prefixes of parameter names; empty: `private` or `shared` of the section "
        "`model`, or else the model's head.",
    )
    first: Share | None = Field(
        default=None,
        description=(
            "Share of the local steps that train these layers alone, before the other steps "
            "train the rest; empty: train all layers together."
        ),
    )


class Personal(Section):
    """A personal model at each site, trained next to the common one."""

    strength: float = Field(
        default=0.1, ge=0, description="Weight of a penalty on the distance to the common model."
    )


AGGREGATION_KINDS: Mapping[str, Aggregates] = {
    "mean": "mean",
    "median": "trimmed_mean",
    "trimmed_mean": "trimmed_mean",
    "krum": "krum",
    "multi_krum": "krum",
    "fltrust": "fltrust",
    "own": "other",
}
LOCAL_KINDS: Mapping[str, Locals] = {
    "sgd": "sgd",
    "adam": "other",
    "scaffold": "scaffold",
    "scaffnew": "scaffnew",
}


class Algorithm(Section):
    """An algorithm: a preset and its changes to the round steps."""

    preset: str = Field(
        default="fedavg", description="A name from the table of Federated algorithms."
    )
    title: str = Field(default="", description="Name in reports.")
    path: CodePath | None = Field(
        default=None,
        description="Your own algorithm: a function that returns a `fedkg.federated.Algorithm`, as "
        "`mine.py:Name` for a file next to the job, or `package.file:Name`.",
    )
    options: dict[str, Value | tuple[Value, ...]] = Field(
        default_factory=dict, description="Keyword arguments of this function."
    )
    weighting: Literal["samples", "scfa"] = Field(
        default="samples",
        description="Weights of updates. `samples`: numbers of samples; `scfa`: numbers of samples "
        "times validity scores, or with `krum`, `multi_krum` or `fltrust` the shares of this "
        "aggregate times validity scores (robust SCFA).",
    )
    proximal: float = Field(
        default=0.0,
        ge=0,
        description="Weight of a penalty on the distance to the received model (FedProx).",
    )
    local: Local = Field(
        default_factory=lambda: Local(sgd=Sgd()),
        description="Optimiser of the local steps, see `algorithms.NAME.local`.",
    )
    server: Server = Field(
        default_factory=lambda: Server(add=AddStep()),
        description="Optimiser of the server, see `algorithms.NAME.server`.",
    )
    aggregate: Aggregate = Field(
        default_factory=lambda: Aggregate(mean=NoSettings()),
        description="How the server combines updates, see `algorithms.NAME.aggregate`.",
    )
    grouping: Grouping = Field(
        default_factory=lambda: Grouping(all=NoSettings()),
        description="Which sites share an aggregated model, see `algorithms.NAME.grouping`.",
    )
    exclude: Exclude | None = Field(
        default=None, description="Which sites are excluded, see `algorithms.NAME.exclude`."
    )
    private: Private | None = Field(default=None, description="Layers that stay at each site.")
    personal: Personal | None = Field(
        default=None, description="A personal model at each site next to the common one."
    )
    agents: Agents | None = Field(
        default=None, description="A model for each site within its parameter sets (PC-FedAvg)."
    )
    sets: ParameterSets | None = Field(
        default=None,
        description="The same parameter sets as a penalty on the sites' models; not with `agents` "
        "or `exchange: data`.",
    )
    exchange: Literal["models", "none", "data"] = Field(
        default="models",
        description="What sites send: models, nothing, or all their rows once (an upper bound for "
        "federations).",
    )
    scoring: dict[str, Value] = Field(
        default_factory=dict, description="Changes to `scoring` for this algorithm."
    )
    training: dict[str, Value] = Field(
        default_factory=dict, description="Changes to `training` for this algorithm."
    )

    @field_validator("preset")
    @classmethod
    def _is_a_preset(cls, name: str) -> str:
        if name not in PRESETS:
            near = nearest_name(name, list(PRESETS))
            raise ValueError(
                f"unknown preset {name!r}; "
                + (f"did you mean {near!r}?" if near else "known: " + ", ".join(PRESETS))
            )
        return name

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, value: object) -> object:
        """Merge the preset with the written fields."""
        if value == {}:
            raise ValueError(
                "sets neither a `preset` nor a round step; plain FedAvg is `{preset: fedavg}`"
            )
        name = value.get("preset", "fedavg") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(name, str) or name not in PRESETS:
            return value
        return {
            **value,
            **{
                joint: _merge_step(name, joint, preset_value, value.get(joint))
                for joint, preset_value in PRESETS[name].items()
            },
        }

    @model_validator(mode="after")
    def _own_alone(self) -> Self:
        if self.path is None and self.options:
            raise ValueError("`options` requires `path`, the function that receives them")
        fields = {"path", "options", "title", "scoring", "training"}
        others = [
            name
            for name in sorted(self.model_fields_set - fields)
            if getattr(self, name)
            != type(self).model_fields[name].get_default(call_default_factory=True)
        ]
        if self.path is not None and others:
            raise ValueError(f"`path` is a whole algorithm; remove {', '.join(others)}")
        return self

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        if self.private and self.private.first is not None and self.local != Local(sgd=Sgd()):
            raise ValueError(
                "`private.first`, which the preset `fedrep` contains too, requires plain gradient "
                "descent; write `local: sgd`, or use other settings for the private layers"
            )
        found = find_contradictions(self.choices())
        if found:
            raise ValueError("; instead: ".join(format_contradictions(found)))
        return self

    def choices(self, **settings: Any) -> AlgorithmChoices:
        """The choices of the algorithm that can contradict other settings.

        `Any`: the fields of `AlgorithmChoices` that come from the rest of the job.
        """
        krum = self.aggregate.krum or self.aggregate.multi_krum
        trimmed = (
            0.5
            if self.aggregate.median
            else self.aggregate.trimmed_mean.trim
            if self.aggregate.trimmed_mean
            else 0.0
        )
        return AlgorithmChoices(
            exchange=self.exchange,
            rule_weighting=self.weighting == "scfa",
            aggregate="blocks"
            if self.agents and self.aggregate.mean
            else AGGREGATION_KINDS[self.aggregate.kind],
            agent_blocks=self.agents is not None,
            plain_server_step=self.path is None
            and self.server.add is not None
            and self.server.add.rate == 1.0,
            local="other" if self.path is not None else self._steps(),
            proximal=self.proximal > 0,
            private_layers=self.private is not None,
            personal_models=self.personal is not None,
            model_count=self.grouping.ifca.models
            if self.grouping.ifca
            else self.grouping.fedstl.clusters
            if self.grouping.fedstl
            else 1,
            clustered_by="property" if self.grouping.fedstl else "loss",
            server_trains=self.grouping.fedstl is not None
            and self.grouping.fedstl.cluster_epochs > 0,
            set_penalty=self.sets is not None,
            equal_clusters=self.grouping.fedstl is not None
            and self.grouping.fedstl.assignment == "capacity",
            # under privacy a job mines privately and clusters by server rows: `find_unprotected`
            clusters_by_client_samples=False,
            attackers=krum.attackers if krum else 0,
            property_exclusion=self.excluded_by == "properties",
            answer_exclusion=self.excluded_by == "answers",
            # under privacy a job mines privately: `find_unprotected`
            mined_privately=True,
            scored_shares=self.is_robust_scfa,
            score_factors=self.is_robust_scfa,
            trim=trimmed,
            **settings,
        )

    @property
    def excluded_by(self) -> str:
        """The field of `exclude` that is set; "" if no site is excluded."""
        return "" if self.exclude is None else self.exclude.kind

    @property
    def is_robust_scfa(self) -> bool:
        """Whether validity scores scale the shares of a robust aggregate."""
        robust = self.aggregate.krum or self.aggregate.multi_krum or self.aggregate.fltrust
        return self.weighting == "scfa" and robust is not None

    def _steps(self) -> Locals:
        if self.private and self.private.first is not None:
            return "two_phases"
        return (
            "blocks"
            if self.agents and self.local == Local(sgd=Sgd())
            else LOCAL_KINDS[self.local.kind]
        )


def _merge_step(preset: str, joint: str, preset_value: object, written: object) -> object:
    """Merge a round step of a preset with what the job writes for it.

    Raises:
        ValueError: the job chooses another option than the preset.
    """
    if written is None:
        return preset_value
    if isinstance(preset_value, str) and written != preset_value:
        raise ValueError(
            f"the preset `{preset}` sets `{joint}: {preset_value}`; remove `preset` to choose "
            f"`{joint}: {written}`"
        )
    if not isinstance(preset_value, Mapping):
        return written
    written = {written: {}} if isinstance(written, str) else written
    if not isinstance(written, Mapping):
        return written
    chosen = {key: part for key, part in written.items() if part is not None}
    if (
        joint not in ("private", "personal", "agents", "sets")
        and not chosen.keys() <= preset_value.keys()
    ):
        raise ValueError(
            f"the preset `{preset}` sets `{joint}: {', '.join(preset_value)}`; remove `preset` to "
            f"choose `{joint}: {', '.join(chosen)}`"
        )
    return {**preset_value, **chosen}
