"""How causes are learnt, in jobs that learn them and in jobs whose models read the states of such a learning."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from fedkg.jobs.schema.section import Count, DeviceName, Positive, Section, SiteName


class Learning(Section):
    """How is learnt: see `fedkg.granger.learn`."""

    mode: Literal["sequential", "batch", "closed_form"] = Field(
        default="sequential",
        description="One sample a step, as published; steps on averages; or the point of rest of both, at once.",
    )
    epochs: Count = Field(default=500, description="Most passes over the steps.")
    tolerance: float = Field(
        default=1e-3,
        ge=0,
        description="It ends before when an epoch changes the parameters by no more than this share of their size.",
    )
    client: Positive = Field(
        default=0.01, description="eta 1: the step by which a client follows its own loss."
    )
    server: float = Field(
        default=0.001,
        ge=0,
        description="eta 2: the step by which it follows the server's gradient.",
    )
    causes: Positive = Field(
        default=0.01, description="gamma: the step by which the server learns."
    )
    ridge: float = Field(default=0.0, ge=0, description="Weight of squared parameters.")
    normalised: bool = Field(
        default=True,
        description="Whether steps are divided by squared norms (on averages: by mean ones), so that rates need not fit the data's scale. "
        "The server's are divided by those of all drivers of a client together.",
    )
    lags: Count | Literal["choose"] | dict[SiteName, Count] = Field(
        default=1,
        description="How many steps before may drive a client: a number for all; by a client's name, 1 where it is not named; `choose`: as "
        "many for each, one to five, as the Bayesian information criterion wants.",
    )
    device: DeviceName = Field(
        default="cpu",
        description="Where one sample a step is learnt: cpu, cuda, or cuda:1 for the second of several; other modes are for cpu.",
    )

    @model_validator(mode="after")
    def _device_has_work(self) -> Learning:
        if self.device != "cpu" and self.mode != "sequential":
            raise ValueError(
                f"`device: {self.device}` is for `mode: sequential`; `{self.mode}` is learnt on the processor, from averages"
            )
        return self
