"""What reasoning finds out about rules, with the proof that a test can replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import DataContract, Formula

Kind = Literal[
    "conflict",
    "outside",
    "conditional",
    "never_applies",
    "never_fails",
    "redundant",
    "duplicate",
    "undecided",
]
"""`conflict`: no value satisfies all rules. `outside`: no value inside the declared spans satisfies
one rule. `conditional`: where the first rule applies, no value keeps all. `never_applies`: the
antecedent of the first rule never holds, because of the spans or of hard rules. `never_fails`: no
value inside the spans violates the rule. `redundant`: the other rules imply the first. `duplicate`:
they say the same. `undecided`: time or power was not enough."""

UNKNOWN = "unknown"
"""The detail of a rule that never fails though it may not hold: where it does not, something in it
is unknown."""

Method = Literal["interval", "lp", "z3"]


@dataclass(frozen=True, slots=True)
class Condition:
    """What is asked beside rows: that a row, or this part of its formula, certainly holds, or (not
    `holds`) certainly fails.
    """

    row: int
    formula: Formula
    holds: bool


@dataclass(frozen=True, slots=True, order=True)
class RowRef:
    """A bound row: the bank's position in the pack, and the row in it."""

    bank: int
    row: int


@dataclass(frozen=True, slots=True, order=True)
class Reading:
    """One value of an assignment, in the column's unit (categories as codes).

    `step` counts from now, 0 in rules without time.
    """

    step: int
    view: int
    column: int
    value: float


@dataclass(frozen=True, slots=True)
class Witness:
    """An assignment that keeps, or breaks, what it is a witness of."""

    readings: tuple[Reading, ...]

    @property
    def now(self) -> int:
        """Which of the matrix's steps is now."""
        return -min([0, *(reading.step for reading in self.readings)])

    def matrix(self, contract: DataContract) -> NDArray[np.float64]:
        """The values as float64 [V, B, C] as `evaluate_bank` takes them.

        B is one step, or all from first to last.
        """
        steps = [0, *(reading.step for reading in self.readings)]
        first = min(steps)
        values = np.full(
            (len(contract.views), max(steps) - first + 1, len(contract.columns)), np.nan
        )
        for reading in self.readings:
            values[reading.view, reading.step - first, reading.column] = reading.value
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One finding about a set of rules.

    Attributes:
        kind: what was found; see `Kind`.
        rules: names of the rules; the rule that the verdict is about comes first, the others follow
            in the order of the pack.
        rows: the bound rows of one place with this finding, in the order of `rules` (a rule may
            have several).
        entities: the names of the places with this finding, each once, cut to the first few; "" is
            left out.
        places: the number of places with this finding; for undecided questions, the number of rules
            or places that they concern.
        of: the number of places that could have it.
        decided_by: interval arithmetic over single columns, linear programming, or the solver.
        keeps: for each of `rows`, an assignment that satisfies all the others, which shows that the
            set is minimal; in `conditional` and `never_applies` the antecedent of the first rule
            holds there too. None if there is nothing to show.
        spans: whether the declared spans are part of the proof.
        detail: a further remark, or "": `UNKNOWN`; for undecided questions, the exceeded limit
            (``time``, ``size`` or ``places``).
    """

    kind: Kind
    rules: tuple[str, ...]
    rows: tuple[RowRef, ...]
    entities: tuple[str, ...] = ()
    places: int = 1
    of: int = 1
    decided_by: Method = "interval"
    keeps: tuple[Witness | None, ...] = ()
    spans: bool = False
    detail: str = ""
