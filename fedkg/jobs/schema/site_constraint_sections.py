"""Sections about constraints of single sites: mined properties and parameter sets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from fedkg.jobs.schema.section_base import Count, Positive, Section


class PropertyClusters(Section):
    """FedSTL: clusters of sites with similar mined properties, and a teacher for forecasts."""

    clusters: Count = Field(default=5, description="Number of models at the server.")
    weight: float = Field(
        default=1.0,
        ge=0,
        description="Weight of the teacher: of the distance to the nearest forecast that satisfies "
        "the site's property.",
    )
    every: Count = Field(default=1, description="Rounds between clusterings.")
    assignment: Literal["capacity", "argmin"] = Field(
        default="capacity",
        description="`capacity` fills clusters evenly, `argmin` assigns each site to its best "
        "cluster.",
    )
    share: float = Field(
        default=0.05,
        gt=0,
        le=1,
        description="Share of its training samples that a site sends to the server.",
    )
    cluster_epochs: int = Field(
        default=2,
        ge=0,
        description="Epochs of each cluster on its members' shared samples, after a round.",
    )
    cluster_rate: Positive | None = Field(
        default=None, description="Learning rate of the clusters; empty: that of the sites."
    )


class ParameterSets(Section):
    """A penalty on the distance between each site's model and the parameter sets of the rules."""

    penalty: Positive = Field(
        default=1.0, description="Weight of half the squared distance to the set."
    )
    growing: bool = Field(
        default=False, description="Whether `penalty` grows with the square root of the round."
    )
    given: dict[str, float] = Field(
        default_factory=dict,
        description="Values of the numbers that the rules leave open, such as `radius = job`.",
    )


class Agents(Section):
    """A model for each site within the parameter sets of the rules (PC-FedAvg)."""

    strength: float = Field(
        default=0.0,
        ge=0,
        description="Weight of half the squared distance of each site's model to the average.",
    )
    penalty: Positive | None = Field(
        default=None,
        description="Weight of half the squared distance to the set; empty: the square root of "
        "the number of rounds.",
    )
    growing: bool = Field(
        default=False,
        description="Whether `penalty` grows with the square root of the round; requires "
        "`penalty`.",
    )
    form: Literal["two", "all"] = Field(
        default="two",
        description="Whether each site sends `two` parameter vectors, or one for each of `all` "
        "sites as in the paper; the result is the same.",
    )
    smooth: Positive | None = Field(
        default=None, description="Lipschitz constant of the gradients of the losses, if known."
    )
    by_rule: bool = Field(
        default=False,
        description="Use the largest step for which the theorem holds; requires `smooth`.",
    )
    given: dict[str, float] = Field(
        default_factory=dict,
        description="Values of the numbers that the rules leave open, such as `radius = job`.",
    )

    @model_validator(mode="after")
    def _whole(self) -> Agents:
        if self.growing and self.penalty is None:
            raise ValueError("`growing` requires an initial `penalty`")
        if self.by_rule and self.smooth is None:
            raise ValueError("`by_rule` requires `smooth`, the smoothness constant of the losses")
        return self
