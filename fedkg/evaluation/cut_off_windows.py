"""Verdicts that stay open because the table begins or ends before they are decided.

Letters: B table rows, R rows of a bank, N rules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import BankValues, evaluate_bank
from fedkg.constraints.meaning.stl import Reach, reach
from fedkg.constraints.meaning.trace_grids import Timing
from fedkg.pack import Bank, DataContract, is_temporal
from fedkg.pack.formula_text import duration_text


@dataclass(slots=True, eq=False)
class Ends:
    """By rule, filled bank by bank: how many evaluations would be known if windows ended with the
    table, and how far they look.
    """

    cut: dict[int, int] = field(default_factory=dict)
    back: dict[int, float] = field(default_factory=dict)
    ahead: dict[int, float] = field(default_factory=dict)

    def add(
        self, bank: Bank, values: NDArray[np.float64], timing: Timing, found: BankValues
    ) -> None:
        """Add a bank's verdicts `found` on values [V, B, C]."""
        if timing.end == "clip" or not is_temporal(bank.skeleton) or not found.unknown.any():
            return
        rows = np.flatnonzero(found.unknown.any(axis=0))
        part = bank.take(rows)
        known = ~evaluate_bank(part, values, replace(timing, end="clip")).unknown
        counts = (found.unknown[:, rows] & known).sum(axis=0)
        for row, rule, count in zip(
            range(part.rows), part.rule.tolist(), counts.tolist(), strict=True
        ):
            if count:
                far: Reach = reach(part.skeleton, part.params[row].tolist())
                self.cut[rule] = self.cut.get(rule, 0) + count
                self.back[rule] = max(self.back.get(rule, 0.0), far.back)
                self.ahead[rule] = max(self.ahead.get(rule, 0.0), far.ahead)

    def note(self, rule: int, contract: DataContract) -> str:
        """``1,234 unknown: the table ends before 2 h have passed``; "" where none is."""
        if not self.cut.get(rule):
            return ""
        what = "its trace" if contract.trace else "the table"
        ahead, back = (_long(steps, contract.step) for steps in (self.ahead[rule], self.back[rule]))
        ends = f"ends before {ahead} have passed" if ahead else ""
        begins = f"begins less than {back} before" if back else ""
        why = " or ".join(filter(None, (ends, begins))) or "ends before the rule is decided"
        return f"{self.cut[rule]:,} unknown: {what} {why}"


def _long(steps: float, step: float | None) -> str:
    """A number of steps as a time if the step is known; "" for none and for unbounded windows."""
    if steps == 0 or math.isinf(steps):
        return ""
    return duration_text(steps * step) if step else f"{int(steps)} step{'s' * (steps != 1)}"
