"""The privacy section of a job file: what a training guarantees about rows or sites."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fedkg.jobs.schema.section_base import Positive, Section, Share

Probability = Annotated[float, Field(gt=0, lt=1)]


class PrivateMining(Section):
    """Privacy cost of mining properties in the sites' series, next to the cost of training."""

    epsilon: Positive = Field(
        description="Epsilon that mining may spend per row, for all properties of a site together."
    )
    share: Share = Field(
        default=0.9,
        description="Share of a site's windows that should satisfy each bound of a property.",
    )


class Privacy(Section):
    """Differential privacy.

    The result reveals nearly nothing about the presence of one row or site.
    """

    unit: Literal["example", "client"] = Field(
        description="`example`: protects a row, at every site, against everyone who sees updates; "
        "`client`: protects a site against everyone who sees models, but not against the server."
    )
    epsilon: Positive | None = Field(
        default=None,
        description="Privacy budget; training ends before the round that would exceed it. Empty: "
        "whatever `noise` spends.",
    )
    delta: Probability = Field(
        default=1e-5,
        description=(
            "Probability that the guarantee fails; choose it well below 1 / number of rows (`unit: "
            "example`) or sites (`unit: client`)."
        ),
    )
    clip: Positive = Field(
        default=1.0,
        description=(
            "Largest norm of a row's gradient or of a site's update; larger ones are clipped."
        ),
    )
    noise: Positive | None = Field(
        default=None,
        description="Standard deviation of the noise, in units of `clip`; empty: the least noise "
        "that keeps all rounds within `epsilon`.",
    )
    accountant: Literal["rdp", "prv", "paper"] = Field(
        default="rdp",
        description=(
            "`rdp` and `prv` (tighter, slower) use Opacus; `paper`: the classical formula, "
            "release by release."
        ),
    )

    randomness: Literal["seeded", "system"] = Field(
        default="seeded",
        description="Where noise and random samples come from. `seeded`: a simulation, which can "
        "be reproduced and protects nothing; `system`: the operating system's generator, which "
        "real data need.",
    )
    mined: PrivateMining | None = Field(
        default=None,
        description="Private mining of FedSTL's properties under `unit: example`; `unit: client` "
        "needs none.",
    )

    @model_validator(mode="after")
    def _something_asked(self) -> Privacy:
        if self.mined is not None and self.unit == "client":
            raise ValueError(
                "`mined` requires `unit: example`; under `client` the noise on the "
                "update covers what a site mines, so remove `mined`"
            )
        if (
            self.mined is not None
            and self.epsilon is not None
            and self.noise is None
            and self.mined.epsilon >= self.epsilon
        ):
            raise ValueError(
                "`mined.epsilon` must be below `epsilon`, the budget of mining and "
                "training together"
            )
        if self.epsilon is None and self.noise is None:
            raise ValueError("give `epsilon`, `noise` or both: privacy requires one of them")
        return self
