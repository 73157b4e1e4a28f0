"""The algorithm of a job file, joint by joint: a preset, what differs from it, or all of it written out.

Of choices with settings of their own one is named: ``server: adam``, or ``server: {adam: {rate: 0.01}}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from fedkg._internal.name_matching import nearest_name
from fedkg.compatibility import (
    Aggregates,
    AlgorithmChoices,
    Locals,
    find_contradictions,
    format_contradictions,
)
from fedkg.jobs.schema.presets import PRESETS
from fedkg.jobs.schema.section import Count, Positive, Section, Share, Value
from fedkg.jobs.schema.site_constraints import Agents, ParameterSets, PropertyClusters

BelowOne = Annotated[float, Field(ge=0, lt=1)]


class Sgd(Section):
    """Gradient descent."""

    momentum: BelowOne = Field(
        default=0.0,
        description="Share of the last step that is made again; begins anew in every round.",
    )
    weight_decay: float = Field(default=0.0, ge=0, description="Pull towards 0.")


class Adam(Section):
    """Adam, its memory begun anew in every round."""

    beta1: BelowOne = Field(default=0.9, description="How long the gradient is remembered.")
    beta2: BelowOne = Field(default=0.999, description="How long its square is remembered.")
    tau: Positive = Field(default=1e-8, description="Keeps small gradients from being blown up.")


class NoSettings(Section):
    """No settings."""


class OneOf(Section):
    """One of several, each with settings of its own."""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        """`adam` is `adam: {}`, and what is empty is not chosen."""
        if isinstance(value, str):
            return {value: {}}
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
            raise ValueError(f"must be one of {', '.join(type(self).model_fields)}")
        return self

    @property
    def kind(self) -> str:
        """The name of the one that is chosen."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)


class Local(OneOf):
    """How a site makes its steps."""

    sgd: Sgd | None = Field(default=None, description="Gradient descent.")
    adam: Adam | None = Field(default=None, description="Adam.")
    scaffold: NoSettings | None = Field(
        default=None, description="Gradient descent with control variates, at sites and server."
    )
    scaffnew: NoSettings | None = Field(
        default=None, description="Gradient descent with control variates that are never sent."
    )


class AddStep(Section):
    """The update is added to the model."""

    rate: Positive = Field(default=1.0, description="How much of it.")


class Adaptive(Section):
    """The update is taken as a gradient by Adam or Yogi."""

    rate: Positive = Field(default=0.1, description="Step size of the server.")
    beta1: BelowOne = Field(default=0.9, description="How long the update is remembered.")
    beta2: Share = Field(default=0.99, description="How long its square is remembered.")
    tau: Positive = Field(
        default=1e-3, description="How adaptive the step is: the smaller, the more."
    )


class Adagrad(Section):
    """The update is taken as a gradient by Adagrad."""

    rate: Positive = Field(default=0.1, description="Step size of the server.")
    beta1: BelowOne = Field(default=0.0, description="How long the update is remembered.")
    tau: Positive = Field(
        default=1e-3, description="How adaptive the step is: the smaller, the more."
    )


class Server(OneOf):
    """What the server makes of an aggregated update."""

    add: AddStep | None = Field(default=None, description="Add it.")
    adam: Adaptive | None = Field(default=None, description="Adam.")
    yogi: Adaptive | None = Field(default=None, description="Yogi.")
    adagrad: Adagrad | None = Field(default=None, description="Adagrad.")


class TrimmedMean(Section):
    """The mean without the extremes of each parameter."""

    trim: float = Field(
        default=0.1, gt=0, le=0.5, description="Share of the sites taken away at either end."
    )


class Krum(Section):
    """The update closest to its neighbours."""

    attackers: int = Field(default=1, ge=0, description="How many sites of a round may be corrupt.")


class MultiKrum(Section):
    """The mean of the updates closest to their neighbours."""

    attackers: int = Field(default=1, ge=0, description="How many sites of a round may be corrupt.")
    keep: Count | None = Field(
        default=None, description="How many updates are averaged; empty: all but the attackers."
    )


class Aggregate(OneOf):
    """How many updates become one."""

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
        description="Weighted by likeness to an update made on the server's labelled rows.",
    )


class Ifca(Section):
    """Clusters that sites choose by their loss."""

    models: int = Field(default=2, ge=2, le=1_000, description="How many models the server holds.")


class Grouping(OneOf):
    """Whose updates are aggregated together."""

    all: NoSettings | None = Field(default=None, description="Everybody's.")
    ifca: Ifca | None = Field(
        default=None,
        description="Of sites that chose the same of the server's models, by their loss.",
    )
    fedstl: PropertyClusters | None = Field(
        default=None,
        description="Of sites whose series have the same properties, which the rules `infer`.",
    )


class Private(Section):
    """Layers that stay at each site."""

    layers: tuple[str, ...] = Field(
        default=(), description="Beginnings of parameter names; empty: the model's head."
    )
    first: Share | None = Field(
        default=None,
        description="Share of the local steps that train them alone, before the others train the rest; empty: all together.",
    )


class Personal(Section):
    """A model of each site's own, trained beside the common one."""

    strength: float = Field(default=0.1, ge=0, description="Pull towards the common model.")


AGGREGATION_KINDS: Mapping[str, Aggregates] = {
    "mean": "mean",
    "median": "trimmed_mean",
    "trimmed_mean": "trimmed_mean",
    "krum": "krum",
    "multi_krum": "krum",
    "fltrust": "fltrust",
}
LOCAL_KINDS: Mapping[str, Locals] = {
    "sgd": "sgd",
    "adam": "other",
    "scaffold": "scaffold",
    "scaffnew": "scaffnew",
}


class Algorithm(Section):
    """An algorithm: a preset, and what differs from it at the joints of the round."""

    preset: str = Field(
        default="fedavg", description="A name from the table of algorithms in the guide."
    )
    title: str = Field(default="", description="What reports call it.")
    weighting: Literal["samples", "scfa"] = Field(
        default="samples", description="What an update counts by: `scfa` is by the rules, too."
    )
    proximal: float = Field(
        default=0.0, ge=0, description="Pull of the sites' models towards the one they received."
    )
    local: Local = Field(
        default_factory=lambda: Local(sgd=Sgd()), description="How a site makes its steps."
    )
    server: Server = Field(
        default_factory=lambda: Server(add=AddStep()),
        description="What the server makes of an aggregated update.",
    )
    aggregate: Aggregate = Field(
        default_factory=lambda: Aggregate(mean=NoSettings()),
        description="How many updates become one.",
    )
    grouping: Grouping = Field(
        default_factory=lambda: Grouping(all=NoSettings()),
        description="Whose updates are aggregated together.",
    )
    private: Private | None = Field(default=None, description="Layers that stay at each site.")
    personal: Personal | None = Field(
        default=None, description="A model of each site's own beside the common one."
    )
    agents: Agents | None = Field(
        default=None, description="A model for each site, within sets of its own."
    )
    sets: ParameterSets | None = Field(
        default=None,
        description="The same sets as a penalty on the sites' models, under any algorithm.",
    )
    exchange: Literal["models", "none", "data"] = Field(
        default="models",
        description="What sites send: models, nothing, or once all their rows (the bound that a federation is held to).",
    )
    scoring: dict[str, Value] = Field(
        default_factory=dict, description="Fields of `scoring` that differ for it."
    )
    training: dict[str, Value] = Field(
        default_factory=dict, description="Fields of `training` that differ for it."
    )

    @field_validator("preset")
    @classmethod
    def _is_a_preset(cls, name: str) -> str:
        if name not in PRESETS:
            near = nearest_name(name, list(PRESETS))
            raise ValueError(
                f"there is no preset {name!r}; "
                + (f"did you mean {near!r}?" if near else "known: " + ", ".join(PRESETS))
            )
        return name

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, value: object) -> object:
        """What the preset says, and the rest as it is written."""
        if value == {}:
            raise ValueError(
                "names neither a `preset` nor what differs from FedAvg at a joint; FedAvg itself is `{preset: fedavg}`"
            )
        name = value.get("preset", "fedavg") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(name, str) or name not in PRESETS:
            return value
        return {
            **value,
            **{
                joint: _merge_step(name, joint, said, value.get(joint))
                for joint, said in PRESETS[name].items()
            },
        }

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        if self.private and self.private.first is not None and self.local != Local(sgd=Sgd()):
            raise ValueError(
                "private layers first, then the others, is plain gradient descent; instead: leave out `private.first` or `local`"
            )
        found = find_contradictions(self.choices())
        if found:
            raise ValueError("; instead: ".join(format_contradictions(found)))
        return self

    def choices(self, **settings: Any) -> AlgorithmChoices:
        """What of it can contradict something else. `Any`: the fields of `Composition` that say how it is run."""
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
            plain_server_step=self.server.add is not None and self.server.add.rate == 1.0,
            local=self._steps(),
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
            clusters_by_client_samples=False,  # under privacy a job mines privately and clusters by rows of the server (see `uncovered`)
            attackers=krum.attackers if krum else 0,
            trim=trimmed,
            **settings,
        )

    def _steps(self) -> Locals:
        if self.private and self.private.first is not None:
            return "two_phases"
        return (
            "blocks"
            if self.agents and self.local == Local(sgd=Sgd())
            else LOCAL_KINDS[self.local.kind]
        )


def _merge_step(preset: str, joint: str, said: object, written: object) -> object:
    """A joint of a preset with what is written for it. Raises ValueError where something else than the preset is chosen."""
    if written is None:
        return said
    if isinstance(said, str) and written != said:
        raise ValueError(
            f"{preset} is FedAvg with `{joint}: {said}`; name no preset to choose another `{joint}`"
        )
    if not isinstance(said, Mapping):
        return written
    written = {written: {}} if isinstance(written, str) else written
    if not isinstance(written, Mapping):
        return written
    chosen = {key: part for key, part in written.items() if part is not None}
    if joint not in ("private", "personal", "agents", "sets") and not chosen.keys() <= said.keys():
        raise ValueError(
            f"{preset} is FedAvg with `{joint}: {', '.join(said)}`; name no preset to choose another `{joint}`"
        )
    return {**said, **chosen}
