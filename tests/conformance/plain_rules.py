"""Rules about a model's answers, as text of the rule language and as comparisons in NumPy.

Letters: B probe rows, M constraints: each row of a rule's sheet is one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Array = NDArray[np.float64]
OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """``require if GUARD then BODY``, for one limit or for each in a sheet.

    Attributes:
        guard: column or answer, comparison and limit; None: the rule applies to all rows.
        body: likewise, without limit.
        limits: of the body, one constraint for each. They share the rule's weight.
    """

    kind: str
    weight: float
    hard: bool
    guard: tuple[str, str, float] | None
    body: tuple[str, str]
    limits: tuple[float, ...]

    def text(self, name: str, folder: Path) -> str:
        """The rule in the rule language; writes its sheet into the folder."""
        limit, over = f"{self.limits[0]:g}", ""
        if len(self.limits) > 1:
            sheet = folder / f"{name}.csv"
            sheet.write_text("limit\n" + "".join(f"{one:g}\n" for one in self.limits))
            limit, over = "?limit", f'for ?limit in table "{sheet}" '
        guard = "" if self.guard is None else "if {} {} {:g} then ".format(*self.guard)
        hard = "hard " if self.hard else ""
        return (
            f"rule {name} kind {self.kind} weight {self.weight:g} {hard}{over}"
            f"require {guard}{' '.join(self.body)} {limit}\n"
        )

    def shares(self, columns: Mapping[str, Array]) -> list[float]:
        """Violated rows as a share of those to which each constraint applies; NaN if there are
        none.
        """
        applies = np.ones(len(next(iter(columns.values()))), dtype=bool)
        if self.guard is not None:
            name, comparison, limit = self.guard
            applies = OPERATORS[comparison](columns[name], limit)
        name, comparison = self.body
        kept = [OPERATORS[comparison](columns[name], limit) for limit in self.limits]
        count = applies.sum()
        return [float((applies & ~one).sum() / count) if count else float("nan") for one in kept]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Rules on the probe rows of a server.

    Attributes:
        columns: of the rows, by name, each [B].
        answer: the name of the answers [B], and the answers of a model [P].
    """

    rules: tuple[Rule, ...]
    columns: Mapping[str, Array]
    answer: tuple[str, Callable[[Array], Array]]

    def shares(self, w: Array) -> Array:
        """The violation shares [M] of a model [P]."""
        name, answers = self.answer
        columns = {**self.columns, name: answers(w)}
        return np.array([share for rule in self.rules for share in rule.shares(columns)])

    @property
    def weight(self) -> Array:
        """Weights of the constraints, [M]."""
        return np.array([r.weight / len(r.limits) for r in self.rules for _ in r.limits])

    @property
    def hard(self) -> NDArray[np.bool_]:
        """Whether each constraint is hard, [M]."""
        return np.array([r.hard for r in self.rules for _ in r.limits])

    @property
    def family(self) -> NDArray[np.str_]:
        """Family of each constraint, [M]."""
        return np.array([r.kind for r in self.rules for _ in r.limits])


def validity(v: Array, weight: Array) -> float:
    """The weighted mean of the values that are not NaN.

    NaN if all are NaN, 1 if no value has a weight.
    """
    known = ~np.isnan(v)
    if not known.any():
        return float("nan")
    total = weight[known].sum()
    return float((weight[known] * v[known]).sum() / total) if total > 0 else 1.0


@st.composite
def rule_sets(
    draw: st.DrawFn,
    *,
    answer: str,
    limits: tuple[float, ...],
    inputs: Mapping[str, tuple[float, ...]],
) -> tuple[Rule, ...]:
    """Rules of unequal weight about an answer.

    Args:
        limits: of the answer.
        inputs: limits of guards by the name of a column: values that occur in the column, and
            finally one beyond all of them.
    """
    dice = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    first = next(iter(inputs))

    def one_of(*choices: Any) -> Any:
        return choices[dice.integers(len(choices))]

    def rule() -> Rule:
        common: dict[str, Any] = {
            "kind": one_of("capacity", "capacity", "capacity", "causal", "causal", "temporal"),
            "weight": one_of(1, 2, 5),
            "hard": one_of(True, False),
        }
        if dice.random() < 0.2:  # the answer decides whether the rule applies
            guard = (answer, one_of(*OPERATORS), one_of(*limits))
            body = (first, one_of(*OPERATORS))
            return Rule(guard=guard, body=body, limits=inputs[first][:1], **common)
        guards: list[tuple[str, str, float] | None] = [None]
        for name, own in inputs.items():
            guards += [(name, sign, limit) for limit in own[:-1] for sign in OPERATORS]
            guards.append((name, ">", own[-1]))
        several = dice.choice(limits, one_of(1, 1, 2, 3), replace=False)
        body = (answer, one_of(*OPERATORS))
        bounds = tuple(float(limit) for limit in several)
        return Rule(guard=one_of(*guards), body=body, limits=bounds, **common)

    return tuple(rule() for _ in range(draw(st.integers(1, 12))))
