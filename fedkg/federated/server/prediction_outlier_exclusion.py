"""Exclusion of updates whose models answer differently from those of the other clients.

Letters: C clients of a round, B rows of the server, H outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.client.task_losses import BinaryCrossEntropy, CrossEntropy
from fedkg.federated.problem import Problem
from fedkg.federated.temporal.outlying_property_exclusion import (
    LEAST,
    MAD_OF_NORMAL,
    THRESHOLD,
    check_bounds,
)
from fedkg.models.model_protocols import Params

LEAST_SPREAD = 0.05
"""Spread of the distances if the answers of a cohort are more alike, or equal, as may be in a first
round: a probability, or a part of the standard deviation of a number."""

MOST_ROWS = 200
"""Rows of the server that are answered, as many as in the probe of a job."""

TOGETHER = 32
"""Models that answer at the same time, which bounds the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerExclusion:
    """Leaves out, in each round, the updates with outlying answers.

    The server lets the models of all updates answer its own rows, without their labels. The
    distance of two updates is the mean absolute difference of their answers: probabilities, or
    standardised numbers. The distance of an update is the median of its distances to the other
    updates of the round: fewer than half of them cannot choose it. An update is left out if its
    distance is above the median of all by more than `threshold` times ``max(1.4826 MAD,
    LEAST_SPREAD)``, with the median absolute deviation MAD. This rule is fedkg's own.

    Args:
        threshold: the largest robust z-score of an update that counts.
        least: the fewest usable updates in a round; with fewer it leaves out nobody.

    Raises:
        JobError: an argument is out of its range.
    """

    threshold: float = THRESHOLD
    least: int = LEAST

    def __post_init__(self) -> None:
        check_bounds(self.threshold, self.least)

    def exclude(self, names: Sequence[str]) -> tuple[dict[int, str], tuple[str, ...]]:
        """See `ExclusionRule.exclude`: nobody before the first round."""
        return {}, ()

    def outliers(self, problem: Problem, params: Params) -> dict[int, str]:
        """The reasons by position of the updates to leave out; `params` [C, ...] are the models.

        Raises:
            JobError: the server has no rows.
        """
        count = len(next(iter(params.values())))
        if count < self.least:
            return {}
        answers = _answer(problem, params)
        distance = torch.stack([_median_distance(answers, place) for place in range(count)])
        middle = distance.quantile(0.5)
        spread = MAD_OF_NORMAL * (distance - middle).abs().quantile(0.5)
        scores = (distance - middle) / spread.clamp(min=LEAST_SPREAD)
        return {
            place: f"its answers are outliers: they differ by {float(distance[place]):.3g} from"
            f" those of the other updates (median {float(middle):.3g}, robust z-score"
            f" {float(scores[place]):.3g}; threshold {self.threshold:g})"
            for place in (scores > self.threshold).nonzero().flatten().tolist()
        }


def _answer(problem: Problem, params: Params) -> Tensor:
    """The answers [C, B * H] of models to rows of the server, float64."""
    if problem.server_data is None:
        raise JobError(
            "the server has no rows on which it can compare the predictions of updates",
            help="set `data.server` in a job, or `Problem(server_data=...)`; or choose another "
            "exclusion",
        )
    x = problem.server_data.x[0]
    x = x[:: max(1, -(-len(x) // MOST_ROWS))].to(next(iter(params.values())).dtype)
    parts = zip(*(torch.split(value, TOGETHER) for value in params.values()), strict=True)
    raw = torch.cat(
        [problem.model.apply(dict(zip(params, part, strict=True)), x) for part in parts]
    ).double()
    match problem.loss:
        case BinaryCrossEntropy():
            raw = raw.sigmoid()
        case CrossEntropy():
            raw = raw.softmax(-1)
        case _:
            pass
    return raw.flatten(1)


def _median_distance(answers: Tensor, place: int) -> Tensor:
    """The median distance of an update to the others."""
    distance = (answers - answers[place]).abs().mean(1)
    others = torch.arange(len(answers), device=answers.device) != place
    return distance[others].quantile(0.5)
