"""Three-valued verdicts over whole arrays: an interval in which the robustness lies, and a truth
value that may be unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Robustness somewhere in [low, high], and the truth value: holds, fails, or neither (unknown).

    Arrays of one shape.
    """

    low: Float
    high: Float
    holds: Bool
    fails: Bool


def opposite(verdict: Verdict) -> Verdict:
    """The negation."""
    return Verdict(-verdict.high, -verdict.low, verdict.fails, verdict.holds)


def either(verdicts: tuple[Verdict, ...]) -> Verdict:
    """Kleene's disjunction: holds when one holds, fails when all fail; the largest of intervals."""
    low, high, holds, fails = (
        verdicts[0].low,
        verdicts[0].high,
        verdicts[0].holds,
        verdicts[0].fails,
    )
    for other in verdicts[1:]:
        low, high = np.maximum(low, other.low), np.maximum(high, other.high)
        holds, fails = holds | other.holds, fails & other.fails
    return Verdict(low, high, holds, fails)


def atom(margin: Float, *, strict: bool, shape: tuple[int, ...]) -> Verdict:
    """An atomic formula that holds when its margin is at least (strict: above) zero.

    A margin of NaN is unknown.
    """
    margin = np.broadcast_to(margin, shape)
    known = ~np.isnan(margin)
    holds = margin > 0 if strict else margin >= 0
    return Verdict(
        np.where(known, margin, -np.inf), np.where(known, margin, np.inf), holds, known & ~holds
    )


def finite(array: Float) -> Float:
    """The array with NaN in place of infinite numbers."""
    return np.where(np.isfinite(array), array, np.nan)


def are_whole(array: Float) -> bool:
    """Whether all numbers are whole and finite."""
    return bool(np.isfinite(array).all() and (array == np.floor(array)).all())
