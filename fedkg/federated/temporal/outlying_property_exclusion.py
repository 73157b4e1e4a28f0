"""Exclusion of clients with mined properties far from those of the others.

Letters: C clients, P mined parameters of all inferences together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.temporal.properties import Properties

THRESHOLD = 3.5
"""Robust z-score from which a value is an outlier (Iglewicz and Hoaglin, "How to detect and handle
outliers", 1993, section 3)."""

LEAST = 5
"""Fewest clients with a value: among four, one value moves the median and the deviation."""

MAD_OF_NORMAL = 1.482602
"""Standard deviation of a normal distribution divided by its median absolute deviation."""

MEAN_OF_NORMAL = 1.253314
"""The same divided by its mean absolute deviation, which replaces a median deviation of 0."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PropertyExclusion:
    """Excludes each client with an outlying mined parameter from all rounds.

    The robust z-score of value v is ``|v - median| / (1.4826 MAD)``, with the median absolute
    deviation MAD from the median of all clients; if more than half of the values are equal, it is
    ``|v - median| / (1.2533 mean absolute deviation)``. The comparison of mined properties follows
    the idea of LOGSAFE (arXiv 2411.03231); this score is fedkg's definition.

    Attributes:
        properties: what was mined at the clients before the first round.
        threshold: the largest score of a client that takes part.
        least: the fewest clients with a value of a parameter; with fewer it excludes nobody.

    Raises:
        JobError: an argument is out of its range.
    """

    properties: Properties
    threshold: float = THRESHOLD
    least: int = LEAST

    def __post_init__(self) -> None:
        check_bounds(self.threshold, self.least)

    def exclude(self, names: Sequence[str]) -> tuple[dict[int, str], tuple[str, ...]]:
        """The excluded clients by position with the reason, and notes about parameters that are not
        compared.

        Raises:
            JobError: the properties belong to another number of clients.
        """
        if len(names) != self.properties.clients:
            raise JobError(
                "the mined properties belong to other clients than the data",
                expected=f"{len(names)} clients",
                received=f"{self.properties.clients} clients",
                help="mine the properties again for these clients",
            )
        reasons: dict[int, list[str]] = {}
        notes = []
        for inference, values in zip(
            self.properties.inferences, self.properties.values, strict=True
        ):
            for place, parameter in enumerate(inference.parameters):
                called = f"{parameter.name} of {inference.name}"
                own = values[:, place].double().cpu()
                known = int((~own.isnan()).sum())
                if known < self.least:
                    notes.append(
                        f"{called} excludes nobody: {known} clients have a value, and the"
                        f" comparison needs {self.least}"
                    )
                    continue
                score, middle = robust_scores(own), float(_median(own[~own.isnan()]))
                for client in (score > self.threshold).nonzero().flatten().tolist():
                    reasons.setdefault(client, []).append(
                        f"{called} is {float(own[client]):.4g} (median {middle:.4g}, robust"
                        f" z-score {float(score[client]):.3g})"
                    )
        remedy = (
            f"; threshold {self.threshold:g}: check the client's units and sensors, or raise the"
            " threshold"
        )
        return {
            client: "its mined properties are outliers: " + ", ".join(found) + remedy
            for client, found in sorted(reasons.items())
        }, tuple(notes)


def check_bounds(threshold: float, least: int) -> None:
    """Raise JobError if the threshold or the fewest clients of an exclusion is out of its range."""
    if not threshold > 0:
        raise JobError("`threshold` of the exclusion must be above 0", received=str(threshold))
    if least < 3:
        raise JobError(
            "`least`, the smallest number of clients with which outliers are excluded, must be 3 "
            "or more",
            received=str(least),
        )


def robust_scores(values: Tensor) -> Tensor:
    """Robust z-scores [C] of values [C], see `PropertyExclusion`; NaN where a value is, 0 if all
    are equal.
    """
    known = values[~values.isnan()]
    away = (values - _median(known)).abs()
    spread = MAD_OF_NORMAL * _median(away[~values.isnan()])
    if not spread > 0:
        spread = MEAN_OF_NORMAL * away.nanmean()
    return away / spread if spread > 0 else away * 0.0  # NaN stays NaN


def _median(values: Tensor) -> Tensor:
    """The median; of an even number of values the mean of the middle two."""
    return values.quantile(0.5)
