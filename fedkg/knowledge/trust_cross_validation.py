"""Choice of the trust in predictions by cross-validation."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import KnowledgeError


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenTrust:
    """Result of the cross-validation.

    Attributes:
        trust: the chosen one.
        losses: mean loss of each candidate over the folds, in the order of `candidates`.
    """

    trust: float
    candidates: tuple[float, ...]
    losses: tuple[float, ...]

    def text(self) -> str:
        """``trust 0.3 (loss 0.212; 0: 0.245, 0.1: 0.220, 0.6: 0.301)``."""
        place = self.candidates.index(self.trust)
        others = ", ".join(
            f"{one:g}: {loss:.4g}"
            for i, (one, loss) in enumerate(zip(self.candidates, self.losses, strict=True))
            if i != place
        )
        return f"trust {self.trust:g} (loss {self.losses[place]:.4g}; {others})"


def folds(samples: int, count: int, stream: np.random.Generator) -> NDArray[np.int64]:
    """The fold that holds out each sample, int64 [samples]: `count` folds of nearly equal size, in
    random order.
    """
    return stream.permutation(np.arange(samples) % count)


def choose_trust(
    candidates: Sequence[float], count: int, loss: Callable[[float, int], float]
) -> ChosenTrust:
    """The candidate with the least mean loss over the folds.

    The smallest of equal candidates wins, because it leaves more to the model.

    Args:
        candidates: trusts in 0 .. 1, at least one.
        count: of folds.
        loss: of a model trained with this trust on all folds except one, on that one; NaN and
            infinity count as worst.

    Raises:
        KnowledgeError: no candidate, one outside 0 .. 1, or fewer than two folds.

    Examples:
        >>> choose_trust([0.0, 0.3, 0.6], 2, lambda trust, fold: (trust - 0.4) ** 2).trust
        0.3
    """
    if not candidates or not all(0 <= one <= 1 for one in candidates):
        raise KnowledgeError(
            "the candidates for `trust` must be numbers from 0 to 1", received=str(list(candidates))
        )
    if count < 2:
        raise KnowledgeError(
            "cross-validation needs at least two folds",
            expected="at least 2 folds",
            received=f"{count} fold{'' if count == 1 else 's'}",
        )
    means = []
    for trust in candidates:
        found = [loss(trust, fold) for fold in range(count)]
        means.append(
            statistics.fmean(found) if all(math.isfinite(one) for one in found) else math.inf
        )
    best = min(range(len(candidates)), key=lambda place: (means[place], candidates[place]))
    return ChosenTrust(trust=candidates[best], candidates=tuple(candidates), losses=tuple(means))
