"""The range a column keeps, or the way it goes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Literal

import numpy as np
from numpy.typing import NDArray

MARGIN = 0.1
"""How far beyond what was seen a drafted range reaches, as a share of the range seen."""

FEW = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Describe a column: a trend, a range, or a remark that explains why there is neither.

    Attributes:
        trend: `falls` for a column that never falls, `rises` for one that never rises; None for a
            column with a range or a remark.
        low: the lower end of the drafted range as the rule language writes it, or "".
        high: the upper end of the drafted range as the rule language writes it, or "".
        seen: the smallest and largest value of the column as text, such as ``1 .. 5``; "" if there
            is a remark.
        remark: why the column has neither a trend nor a range, or "".
    """

    trend: Literal["falls", "rises"] | None = None
    low: str = ""
    high: str = ""
    seen: str = ""
    remark: str = ""


def find_range(values: NDArray[np.float64]) -> Finding:
    """What a column keeps to: float64 [rows] with NaN where unknown."""
    known = values[~np.isnan(values)]
    if not known.size:
        return Finding(remark="no known value")
    least, most = float(known.min()), float(known.max())
    seen = f"{plain(Decimal(repr(least)))} .. {plain(Decimal(repr(most)))}"
    if least == most:
        return Finding(remark=f"always {plain(Decimal(repr(least)))}")
    steps = np.diff(known)
    if known.size > FEW and bool((steps == 1).all()):
        return Finding(remark="counts the rows")
    if set(np.unique(known[:10_000]).tolist()) <= {0.0, 1.0} and least >= 0 and most <= 1:
        return Finding(remark="0 or 1")
    if known.size > FEW and bool((steps >= 0).all()):
        return Finding(trend="falls", seen=seen)
    if known.size > FEW and bool((steps <= 0).all()):
        return Finding(trend="rises", seen=seen)
    low, high = widened(least, most)
    return Finding(low=low, high=high, seen=seen)


def widened(least: float, most: float) -> tuple[str, str]:
    """A range with a margin on both sides and round ends; one that has no negative number gets
    none.
    """
    width = most - least
    grain = Decimal(1).scaleb(math.floor(math.log10(width)) - 1)
    low = Decimal(repr(least)) - Decimal(repr(width)) * Decimal(repr(MARGIN))
    high = Decimal(repr(most)) + Decimal(repr(width)) * Decimal(repr(MARGIN))
    low = (low / grain).to_integral_value(ROUND_FLOOR) * grain
    high = (high / grain).to_integral_value(ROUND_CEILING) * grain
    return plain(max(low, Decimal(0)) if least >= 0 else low), plain(
        min(high, Decimal(0)) if most <= 0 else high
    )


def plain(number: Decimal) -> str:
    """Digits as the rule language writes them, without an exponent where that is readable."""
    number = number.normalize()
    if number == 0:
        return "0"
    return f"{number:f}" if -8 < number.adjusted() < 15 else f"{number:e}".replace("E", "e")
