"""How good a model is, and how soon it was.

Letters: S samples, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from fedkg.errors import JobError

PAIRS_AT_ONCE = 1 << 22
"""Pairs of samples that are compared at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """How well the positive class is found: counts, and the usual ratios (0 where nothing was
    predicted or nothing was there).
    """

    true_positive: int
    false_positive: int
    false_negative: int
    true_negative: int

    @classmethod
    def of(cls, counts: Sequence[int]) -> Self:
        """The counts in the order of the attributes."""
        hits, alarms, misses, quiet = counts
        return cls(
            true_positive=hits, false_positive=alarms, false_negative=misses, true_negative=quiet
        )

    @property
    def samples(self) -> int:
        """S."""
        return self.true_positive + self.false_positive + self.false_negative + self.true_negative

    @property
    def precision(self) -> float:
        """Share of the predicted positives that are positive."""
        return _ratio(self.true_positive, self.true_positive + self.false_positive)

    @property
    def recall(self) -> float:
        """Share of the positives that are predicted."""
        return _ratio(self.true_positive, self.true_positive + self.false_negative)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return _ratio(
            2 * self.true_positive,
            2 * self.true_positive + self.false_positive + self.false_negative,
        )


def detection(score: Tensor, target: Tensor, threshold: float) -> Detection:
    """Counts at a threshold: predicted positive where the score [S] is at least the threshold,
    positive where the target [S] is above 0.5.

    A score that is NaN is never at least the threshold: it counts as a negative.
    """
    score, target = score.flatten(), target.flatten()
    if score.shape != target.shape:
        raise JobError(
            "there must be one score for each target",
            received=f"{score.shape[0]} scores and {target.shape[0]} targets",
        )
    said, true = score >= threshold, target > 0.5
    return Detection(
        true_positive=int((said & true).sum()),
        false_positive=int((said & ~true).sum()),
        false_negative=int((~said & true).sum()),
        true_negative=int((~said & ~true).sum()),
    )


def concordant_pairs(risk: Tensor, time: Tensor, event: Tensor) -> tuple[int, float]:
    """Count the pairs of Harrell's concordance index (Harrell et al. 1982), for scores, times and
    events [S].

    A pair is comparable if one sample has an event before the time of the other, or at the time
    at which the other is censored. It is concordant if the sample with the earlier event has the
    higher score; equal scores count one half.

    Returns:
        The comparable and the concordant pairs.
    """
    comparable, concordant = 0, 0.0
    step = max(1, PAIRS_AT_ONCE // max(1, len(time)))
    for events in torch.split(torch.nonzero(event > 0).flatten(), step):
        when, score = time[events][:, None], risk[events][:, None]
        pairs = (time > when) | ((time == when) & ~(event > 0))
        comparable += int(pairs.sum())
        concordant += float((pairs & (score > risk)).sum() + 0.5 * (pairs & (score == risk)).sum())
    return comparable, concordant


def best_threshold(score: Tensor, target: Tensor) -> float:
    """The threshold with the highest F1 on scores [S] and targets [S] (use rows that are not judged
    later); the lowest of several.
    """
    candidates, order = score.flatten().to(torch.float64).sort()
    hits = (target.flatten()[order] > 0.5).to(torch.float64)
    positive = hits.flip(0).cumsum(0).flip(0)
    said = torch.arange(len(hits), 0, -1, dtype=torch.float64)
    f1 = 2 * positive / (said + hits.sum()).clamp(min=1)
    first = torch.ones(len(candidates), dtype=torch.bool)
    first[1:] = candidates[1:] > candidates[:-1]
    return float(candidates[torch.where(first, f1, -1.0).argmax()])


def rounds_to(values: Sequence[float], target: float) -> int | None:
    """Return the first round (1, 2, ...) that reaches the target value, or None."""
    return next((number for number, value in enumerate(values, 1) if value >= target), None)


def rounds_to_own_share(values: Sequence[float], share: float = 0.9) -> int | None:
    """The first round that reaches a share of the run's own last value; rewards a bad last value,
    so give `rounds_to` beside it.
    """
    return rounds_to(values, share * values[-1]) if values else None


def rounds_to_lower_error(errors: Sequence[float], share: float = 0.9) -> int | None:
    """The first round that reaches a share of the fall from the first error to the lowest one.

    None if no error is below the first. Errors have no natural worst value, so the first one takes
    the place of 0 in `rounds_to_own_share`.
    """
    if not errors or not min(errors) < errors[0]:
        return None
    return rounds_to([errors[0] - error for error in errors], share * (errors[0] - min(errors)))


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
