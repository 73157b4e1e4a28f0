"""How much reasoning may cost: counted in steps of the solver, so that every machine gives the same
answers.
"""

from __future__ import annotations

from dataclasses import dataclass

EACH, TOTAL = 500_000, 4_000_000
"""Steps for one question to the solver, and for all of them; a machine of today does some millions
in a second."""
QUESTION, PART = 500, 100
"""Steps that a question, and a part of a formula that is written down for the solver, cost beside
those that the solver counts."""
STUCK_MS = 20_000
"""A question that takes so long has got stuck between two steps. No answer of a machine that works
ends here."""


@dataclass(slots=True)
class Budget:
    """Steps that may be taken, for one question and in all, and those that were."""

    each: int = EACH
    total: int = TOTAL
    taken: int = 0

    def steps(self) -> int:
        """How many the next question may take; 0 when all are spent."""
        return max(0, min(self.each, self.total - self.taken))

    def spend(self, steps: int) -> None:
        """Count a question that took this number of steps."""
        self.taken += steps + QUESTION

    def write(self, parts: int) -> None:
        """Count the parts of formulas that were written down."""
        self.taken += parts * PART

    @property
    def spent(self) -> bool:
        """Whether none is left."""
        return self.steps() <= 0
