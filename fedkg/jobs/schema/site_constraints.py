"""What holds sites to something of their own, in a job: properties mined in their series, and sets of their parameters."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from fedkg.jobs.schema.section import Count, Positive, Section


class PropertyClusters(Section):
    """Clusters of sites whose forecasts keep the same mined properties, and a teacher who corrects them (FedSTL)."""

    clusters: Count = Field(default=5, description="How many models the server holds.")
    weight: float = Field(
        default=1.0,
        ge=0,
        description="Weight of the teacher: of the distance to the nearest forecast that keeps the site's property.",
    )
    every: Count = Field(default=1, description="Rounds between two clusterings.")
    assignment: Literal["capacity", "argmin"] = Field(
        default="capacity",
        description="`capacity` fills clusters evenly, `argmin` gives each site its best one.",
    )
    share: float = Field(
        default=0.05,
        gt=0,
        le=1,
        description="Share of its training samples that a site shares with the server.",
    )
    cluster_epochs: int = Field(
        default=2,
        ge=0,
        description="Passes of each cluster over what its members share, after a round.",
    )
    cluster_rate: Positive | None = Field(
        default=None, description="Step size of the clusters; empty: that of the sites."
    )


class ParameterSets(Section):
    """The sets that the rules keep parameters in, as a penalty on the distance of each site's model to its set."""

    penalty: Positive = Field(default=1.0, description="Weight of half the squared distance.")
    growing: bool = Field(default=False, description="Let `penalty` grow as the root of the round.")
    given: dict[str, float] = Field(
        default_factory=dict, description="Numbers of the sets that the rules leave to the job."
    )


class Agents(Section):
    """A model for each site, kept in the sets that the rules keep parameters in (PC-FedAvg)."""

    strength: float = Field(
        default=0.0, ge=0, description="Pull of each site's model to the average of all."
    )
    penalty: Positive | None = Field(
        default=None,
        description="Weight of the distance to the set; empty: the root of the rounds.",
    )
    growing: bool = Field(default=False, description="Let `penalty` grow as the root of the round.")
    form: Literal["two", "all"] = Field(
        default="two", description="Sites send `two` vectors, or `all` blocks, as the paper has it."
    )
    smooth: Positive | None = Field(
        default=None, description="How smooth the losses are, where that is known."
    )
    by_rule: bool = Field(
        default=False,
        description="Take the longest step for which the theorem holds; needs `smooth`.",
    )
    given: dict[str, float] = Field(
        default_factory=dict, description="Numbers of the sets that the rules leave to the job."
    )

    @model_validator(mode="after")
    def _whole(self) -> Agents:
        if self.growing and self.penalty is None:
            raise ValueError("a penalty that grows begins somewhere; give `penalty`")
        if self.by_rule and self.smooth is None:
            raise ValueError(
                "the rule for steps needs to know how smooth the losses are; give `smooth`"
            )
        return self
