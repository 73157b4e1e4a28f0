"""Settings of federated Granger learning, for causal discovery jobs and for augmented models."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from fedkg.jobs.schema.section_base import Count, DeviceName, Positive, Section, SiteName


class Learning(Section):
    """Settings of federated Granger learning; see `fedkg.granger.learn`."""

    mode: Literal["sequential", "batch", "closed_form"] = Field(
        default="sequential",
        description="`sequential`: one learning step for each sample, as published; `batch`: one "
        "step of averaged gradients in each epoch; `closed_form`: least squares, which both "
        "approach.",
    )
    epochs: Count = Field(default=500, description="Largest number of passes over the steps.")
    tolerance: float = Field(
        default=1e-3,
        ge=0,
        description="Learning ends when an epoch changes the parameters by at most this share of "
        "their size.",
    )
    client: Positive = Field(
        default=0.01,
        description="eta 1 of the paper: learning rate of a client's augmentation by its own loss.",
    )
    server: float = Field(
        default=0.001,
        ge=0,
        description="eta 2: learning rate of a client's augmentation by the server's loss.",
    )
    causes: Positive = Field(default=0.01, description="gamma: learning rate of the edges.")
    ridge: float = Field(default=0.0, ge=0, description="Weight of the squared parameters.")
    normalised: bool = Field(
        default=True,
        description="Whether each learning step is divided by the squared norm of its inputs (in "
        "`batch` by their mean), so that rates do not depend on the scale of the data.",
    )
    lags: Count | Literal["choose"] | dict[SiteName, Count] = Field(
        default=1,
        description="How many previous steps may drive a client: one number for all; by name, "
        "`{turbine: 3}`, otherwise 1; or `choose`: one to five for each client by the Bayesian "
        "information criterion.",
    )
    device: DeviceName = Field(
        default="cpu",
        description="`cpu`, `cuda`, or `cuda:1` for the second GPU; GPUs only with `mode: "
        "sequential`.",
    )

    @model_validator(mode="after")
    def _device_has_work(self) -> Learning:
        if self.device != "cpu" and self.mode != "sequential":
            raise ValueError(
                f"`device: {self.device}` requires `mode: sequential`; `{self.mode}` runs "
                "on the CPU"
            )
        return self
