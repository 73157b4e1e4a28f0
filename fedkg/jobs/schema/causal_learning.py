"""Settings of federated Granger learning, for causal discovery jobs and for augmented models."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from fedkg.jobs.schema.section_base import Count, DeviceName, Positive, Section, SiteName


class Learning(Section):
    """Settings of federated Granger learning; see `fedkg.granger.learn`."""

    mode: Literal["sequential", "batch", "closed_form"] = Field(
        default="sequential",
        description="sequential: one sample per step, as published; batch: steps on averages; "
        "closed_form: the fixed point of both.",
    )
    epochs: Count = Field(default=500, description="Maximum number of passes over the steps.")
    tolerance: float = Field(
        default=1e-3,
        ge=0,
        description=(
            "Stop once an epoch changes the parameters by less than this share of their size."
        ),
    )
    client: Positive = Field(
        default=0.01, description="eta 1: rate of a client's step on its own loss."
    )
    server: float = Field(
        default=0.001, ge=0, description="eta 2: rate of a client's step on the server's gradient."
    )
    causes: Positive = Field(default=0.01, description="gamma: rate of the server's step.")
    ridge: float = Field(default=0.0, ge=0, description="Weight of squared parameters.")
    normalised: bool = Field(
        default=True,
        description="Whether steps are divided by squared norms (in batch mode by their mean), so "
        "that rates do not depend on the scale of the data. The server's steps are "
        "divided by the norms of all drivers of a client together.",
    )
    lags: Count | Literal["choose"] | dict[SiteName, Count] = Field(
        default=1,
        description="Number of lags: one number for all clients; a mapping by client, 1 for the "
        "others; or `choose` for one to five per client by the Bayesian information "
        "criterion.",
    )
    device: DeviceName = Field(
        default="cpu",
        description="Device of the sequential mode: cpu, cuda, or cuda:1 for the second GPU; other "
        "modes use the CPU.",
    )

    @model_validator(mode="after")
    def _device_has_work(self) -> Learning:
        if self.device != "cpu" and self.mode != "sequential":
            raise ValueError(
                f"`device: {self.device}` requires `mode: sequential`; `{self.mode}` runs "
                "on the CPU"
            )
        return self
