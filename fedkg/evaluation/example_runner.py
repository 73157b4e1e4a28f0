"""Runs the examples of rule files: does the rule say of a trace what its author expects?

Letter: T steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.safe_text import list_first
from fedkg.constraints.meaning.interpreter import Timing, evaluate_bank
from fedkg.evaluation.result import least_margin, without_constants
from fedkg.evaluation.table_readings import Readings
from fedkg.pack.bank import reads
from fedkg.pack.formulas import TermPart, everywhere, reach
from fedkg.pack.rule_example_trace import RuleExample

NAMED = 3
"""At most this number of columns without a value is named."""

Verdict = Literal["holds", "fails", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleResult:
    """The result of one example.

    Attributes:
        expected: the verdict that the author expects, ``holds`` or ``fails``.
        got: the verdict of the rule: ``fails`` if a step violates it, ``unknown`` if it is unknown
            at a step or says nothing about any, else ``holds``.
        step: the step (from 1) that decides: the first violated one, else the first unknown one,
            else the one that is nearest to violation; 0 if no step decides.
        robustness: robustness of the rule at this step; NaN if unknown, infinite if no number
            decides.
        unit: unit of the robustness; "" for none.
        reason: why the verdict is unknown; "" for other verdicts.
    """

    rule: str
    text: str
    file: str
    line: int
    column: int
    expected: Verdict
    got: Verdict
    step: int
    robustness: float
    unit: str
    reason: str = ""

    @property
    def passed(self) -> bool:
        """Whether the rule says what its author expects."""
        return self.expected == self.got

    def to_json(self) -> dict[str, Any]:
        """The result as `fedkg test --json` prints it; non-finite robustness becomes null.

        `Any`: JSON.
        """
        return {
            "rule": self.rule,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "text": self.text,
            "expected": self.expected,
            "got": self.got,
            "passed": self.passed,
            "step": self.step,
            "robustness": self.robustness if math.isfinite(self.robustness) else None,
            "unit": self.unit,
            "reason": self.reason,
        }


def run_example(example: RuleExample) -> ExampleResult:
    """The rule's verdict on an example: a complete trace, where windows end with the trace.

    A rule that compares a step with earlier ones may say nothing about the first of several steps,
    and a rule with a window ahead nothing about the last.
    """
    steps = example.base.shape[0]
    earlier = np.arange(steps, dtype=np.int64) - 1
    readings = Readings(
        contract=example.contract,
        base=example.base,
        before=tuple(
            earlier if view.kind == "previous" else None for view in example.contract.views
        ),
        times=None,
        missing=frozenset(),
        notes=(),
    )
    values = evaluate_bank(example.bank, readings.values, Timing.rows(steps, end="clip"))
    here = values.applicable[:, 0].copy()
    here[0] &= not (values.unknown[0, 0] and here[1:].any() and _looks_back(example))
    incomplete = values.unknown[:, 0] & _at_ends(example, values.unknown[:, 0])
    if (here & ~incomplete).any():
        here &= ~incomplete
    violated, unknown = values.violated[:, 0], values.unknown[:, 0] & here
    robustness = without_constants(values.robustness)
    got: Verdict = (
        "fails" if violated.any() else "unknown" if unknown.any() or not here.any() else "holds"
    )
    telling = violated if violated.any() else unknown if unknown.any() else here
    at = int(np.flatnonzero(telling)[0]) if telling.any() else -1
    if got == "holds":
        at = int(least_margin(robustness, here[:, None])[0])
    return ExampleResult(
        rule=example.rule,
        text=example.text,
        file=example.file,
        line=example.line,
        column=example.column,
        expected="holds" if example.holds else "fails",
        got=got,
        step=at + 1,
        robustness=float(robustness[at, 0]) if at >= 0 else math.nan,
        unit=example.unit,
        reason=_reason(example, at) if got == "unknown" else "",
    )


def _reason(example: RuleExample, step: int) -> str:
    """Why a rule's verdict on a step (from 0; below it: on none) is unknown: what it reads and has
    no value of there.
    """
    columns, kinds = example.contract.columns, {view.kind for view in example.contract.views}
    if "raised" in kinds and any(column.role == "output" for column in columns):
        return "the rule compares what a model says of changed inputs, which no example can give"
    lacking = list(
        dict.fromkeys(
            column.label or column.name for column in columns if column.name not in example.given
        )
    )
    if lacking:
        return f"the example gives no values of {_listed(lacking)}"
    there = example.base[step] if step >= 0 else example.base.T
    empty = list(
        dict.fromkeys(
            column.label or column.name
            for column, value in zip(columns, there, strict=True)
            if np.isnan(value).any()
        )
    )
    if empty:
        return f"{_listed(empty)} has no value there"
    if _terms_over_time(example):
        return "it looks at more steps than the example has: give more values"
    return "the first step has none before it: give more values" if "previous" in kinds else ""


def _listed(names: Sequence[str]) -> str:
    """```a`, `b`, `c` and 2 more``."""
    return list_first([f"`{name}`" for name in names], NAMED)


def _at_ends(example: RuleExample, unknown: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The unknown steps at the two ends of the trace where a window of a term is not complete.

    Bool [T].
    """
    found = np.zeros_like(unknown)
    if not _terms_over_time(example):
        return found
    far = reach(example.bank.skeleton, example.bank.params[0].tolist())
    known = np.flatnonzero(~unknown)
    first, last = (known[0], known[-1]) if known.size else (0, unknown.size - 1)
    # How far it looks is not known for windows of members and for those that begin at an event.
    back = far.back if 0 < far.back < math.inf or far.ahead else math.inf
    found[: int(min(first, back))] = True
    found[int(max(last + 1, unknown.size - far.ahead)) :] = True
    return found


def _terms_over_time(example: RuleExample) -> bool:
    """Whether a number of the rule is made of several steps."""
    parts = everywhere(example.bank.skeleton)
    return any(isinstance(part, TermPart) and part.over_time for _, part in parts)


def _looks_back(example: RuleExample) -> bool:
    """Whether the rule reads the values of the step before."""
    views = example.contract.views
    return any(
        views[view].kind == "previous"
        for _, read, _ in reads(example.bank)
        for view in np.unique(read).tolist()
    )
