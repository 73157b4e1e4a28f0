"""The contract of a round with sites in other processes: for whom the server waits, how long."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Field

from fedkg.jobs.schema.section_base import Count, Fraction, Positive, Section

NonNegative = Annotated[float, Field(ge=0)]
Tries = Annotated[int, Field(ge=0, le=100)]


class RoundContract(Section):
    """When a round of a federation across sites ends; `fedkg run` only checks this section."""

    quorum: Literal["all"] | Count | Fraction = Field(
        default="all",
        description=(
            "Sites that must answer a round: `all` that `training.participation` selects, a "
            "number, or a share of them. With fewer answers the round is skipped: the model stays "
            "as it is."
        ),
    )
    deadline: Positive = Field(
        default=600.0, description="Longest time that the server waits in a round, in seconds."
    )
    grace: NonNegative = Field(
        default=10.0,
        description=(
            "Seconds that the server waits for further answers after the quorum, or after it "
            "became impossible."
        ),
    )
    oversampling: float = Field(
        default=1.0,
        ge=1,
        le=10,
        description=(
            "Sites that the server asks, as a multiple of those that `training.participation` "
            "selects. The others are spares: fedkg uses them in place of sites without an answer."
        ),
    )
    late: Literal["drop", "weight"] = Field(
        default="drop",
        description=(
            "What happens to an answer after the end of its round. `drop`: nothing; `weight`: it "
            "counts in a later round with its weight times 1 / (1 + tau)^`staleness`, tau rounds "
            "late."
        ),
    )
    staleness: NonNegative = Field(
        default=0.5, description="Exponent of the discount of late answers."
    )
    retries: Tries = Field(
        default=8,
        description="How often the server asks a site again that does not answer in a round.",
    )
    backoff: Positive = Field(
        default=1.0,
        description=(
            "Seconds before the server asks again if Flower reports that a site does not answer; "
            "doubled each further time, at most 60. Without a report, it asks again after a "
            "quarter of `deadline`."
        ),
    )
    skipped_rounds: Annotated[int, Field(ge=0)] = Field(
        default=3,
        description=(
            "Skipped rounds in a row that the run survives; after one more it stops with exit "
            "code 5, and can be resumed."
        ),
    )
    start_seconds: Positive = Field(
        default=3600.0,
        description=(
            "Longest time in seconds that the server waits for each answer of the sites about "
            "their data; with `flwr run` and in Python also for all sites to connect (`fedkg "
            "server run` has `--wait`)."
        ),
    )
    lost_after: Count = Field(
        default=3, description="Rounds in a row without an answer after which a site is lost."
    )

    def needed(self, sites: int) -> int:
        """The number of answers that a round with this many participants needs, at least 1."""
        if self.quorum == "all":
            return max(1, sites)
        if isinstance(self.quorum, int):
            return min(self.quorum, max(1, sites))
        return max(1, math.ceil(self.quorum * sites - 1e-9))

    def longest_wait(self, kind: str) -> float:
        """How long the server waits for answers to requests of a kind, in seconds."""
        return self.start_seconds if kind == "describe" else self.deadline

    def staleness_factor(self, rounds: int) -> float:
        """The factor on the weight of an answer that is `rounds` late: (1 + tau)^-a, the polynomial
        staleness of Xie, Koyejo and Gupta (FedAsync, arXiv 1903.03934, section 5.2).
        """
        return float((1 + rounds) ** -self.staleness)

    def choices(self) -> dict[str, Any]:
        """The choices that can contradict an algorithm, as fields of `AlgorithmChoices`.

        `Any`: booleans.
        """
        return {
            "partial_rounds": self.quorum != "all",
            "late_updates": self.late == "weight",
            "spare_clients": self.oversampling > 1,
        }
