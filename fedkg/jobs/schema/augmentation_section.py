"""States of a causal discovery as additional inputs of the model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedkg.jobs.schema.causal_learning import Learning
from fedkg.jobs.schema.section_base import Section


class StateLearning(Learning):
    """Settings of the causal discovery that the states come from."""

    ridge: float = Field(default=0.01, ge=0, description="Weight of squared parameters.")


class Augmentation(Section):
    """Additional inputs: the states of each site from its filter and from causal discovery."""

    by: Literal["none", "filter", "granger"] = Field(
        default="granger",
        description="`granger`: states of every site, corrected by the federated causal discovery; "
        "`filter`: states of each site's own Kalman filter, without exchange (always so with an "
        "algorithm that exchanges nothing, such as `local_only`); `none`: no states.",
    )
    states: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1,
        description="Number of states per site; states that a site's signals cannot provide are "
        "unknown.",
    )
    past: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1,
        description="Number of past values of each signal in the measurement of a step; sites with "
        "one signal need more than one.",
    )
    reads: Literal["states", "server", "both"] = Field(
        default="states",
        description=(
            "`states`: the site's states and their predictions; `server`: the server's prediction "
            "of the site's next step, which requires a request to the server for every "
            "prediction; `both`: both of them."
        ),
    )
    learning: StateLearning = Field(
        default_factory=StateLearning,
        description="Settings of the causal discovery, by default with `ridge: 0.01`.",
    )
