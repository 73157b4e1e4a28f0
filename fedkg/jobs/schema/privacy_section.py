"""What a training promises about the rows, or the sites, that it learns from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fedkg.jobs.schema.section import Positive, Section, Share

Probability = Annotated[float, Field(gt=0, lt=1)]


class PrivateMining(Section):
    """What properties of the sites' series cost, where an algorithm mines some: it stands in the ledger beside the training."""

    epsilon: Positive = Field(
        description="What mining may spend of a row's privacy, for all properties of its site together."
    )
    share: Share = Field(
        default=0.9,
        description="Share of a site's windows that should keep each end of a property.",
    )


class Privacy(Section):
    """Differential privacy: nobody can tell from the result whether one row, or one site, was there."""

    unit: Literal["example", "client"] = Field(
        description="example: a row, at every site, against all that sees updates; client: a site, against all that sees the models."
    )
    epsilon: Positive | None = Field(
        default=None,
        description="What may be spent; the training ends before the round that would exceed it. Empty: what `noise` leads to.",
    )
    delta: Probability = Field(
        default=1e-5,
        description="Chance that the promise does not hold; well below one over the number of units.",
    )
    clip: Positive = Field(
        default=1.0,
        description="Largest norm of a row's gradient, or of a site's update; longer ones are cut.",
    )
    noise: Positive | None = Field(
        default=None,
        description="Standard deviation of the noise, in clips; empty: the least at which all rounds keep `epsilon`.",
    )
    accountant: Literal["rdp", "prv", "paper"] = Field(
        default="rdp",
        description="rdp and prv (closer, slower) compose by Opacus; paper: the classical formula, release by release.",
    )

    mined: PrivateMining | None = Field(
        default=None,
        description="How FedSTL's properties are mined under `unit: example`; under `client` they are each site's own matter.",
    )

    @model_validator(mode="after")
    def _something_asked(self) -> Privacy:
        if self.mined is not None and self.unit == "client":
            raise ValueError(
                "`mined` belongs to `unit: example`: under `client` what a site mines is covered by the noise on its update"
            )
        if (
            self.mined is not None
            and self.epsilon is not None
            and self.noise is None
            and self.mined.epsilon >= self.epsilon
        ):
            raise ValueError(
                "`mined.epsilon` is a part of `epsilon`, and leaves the training nothing"
            )
        if self.epsilon is None and self.noise is None:
            raise ValueError("give `epsilon`, `noise` or both: without them nothing is promised")
        return self
