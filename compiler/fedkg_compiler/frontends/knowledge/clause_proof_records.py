"""The clauses that a proof about knowledge models asks about, and its results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedkg.pack.knowledge_models import Clause


@dataclass(frozen=True, slots=True)
class ClauseRow:
    """One bound clause: the model that it is of, its number among all conditions' rows, and those
    before it in a list of predictions.
    """

    model: str
    number: int
    clause: Clause
    earlier: tuple[int, ...] = ()


Verdict = tuple[Literal["proven", "broken", "open"], str]
"""The results, and for ``broken`` the values of a counterexample."""
