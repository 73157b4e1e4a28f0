"""States of a learning of causes as further inputs of the model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedkg.jobs.schema.causal_learning import Learning
from fedkg.jobs.schema.section import Section


class Augmentation(Section):
    """What models read beside the signals of a window: each site's states, as its filter and the learning of causes have them."""

    by: Literal["none", "filter", "granger"] = Field(
        default="granger",
        description="granger: every site's Granger-augmented states, as many at each site; filter: those of its own filter, for which "
        "nothing is learnt with anybody; none: signals alone.",
    )
    states: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1,
        description="States of each site; one whose signals have fewer directions has the others unknown.",
    )
    past: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1,
        description="How many of the last values of each signal count as measurements of a step; sites of one signal need some.",
    )
    reads: Literal["states", "server", "both"] = Field(
        default="states",
        description="states: the site's augmented states and their predictions; server: what the server, who knows the states of all, "
        "predicts for the site's next step, which it must then be asked for whenever the model is used; both.",
    )
    learning: Learning = Field(
        default_factory=lambda: Learning(ridge=0.01),
        description="How it is learnt who drives whom; with a ridge of 0.01 where nothing is said.",
    )
