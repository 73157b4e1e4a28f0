"""Evaluation of a formula at the first step of many traces, at the steps that the verdict depends
on.

Letters: N traces, T steps, k steps of a range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from fedkg.constraints.engine.sliding import extreme
from fedkg.constraints.meaning.trace_robustness import window_at
from fedkg.errors import KnowledgeError
from fedkg.pack.formulas import (
    And,
    CategoryIs,
    ClassIn,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    Not,
    Or,
    Temporal,
    Until,
)

Atom = Compare | ClassIn | CategoryIs | Known
Leaf = Callable[[Atom, bool, int, int], Tensor]
"""Computes the value of a comparison, or of its negation, at the steps first..last of every trace:
[N, k] or broadcast to it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The windows of a formula in traces.

    Attributes:
        count: T.
        numbers: values of the formula's parameters, of which those are read that are bounds of
            windows. A window ends with its trace.
        param: position of a parameter; every subformula with this parameter as a bound of its
            window has the value `number`. None: all subformulas are evaluated.
        number: this value; under a negation it changes its sign.
        device: the device of the traces.
    """

    count: int
    numbers: Sequence[float]
    param: int | None = None
    number: float = math.nan
    device: torch.device | None = None

    def window(self, formula: Temporal | Until, step: int) -> tuple[int, int]:
        """First and last step of a window seen from a step, within the trace; empty if the first
        exceeds the last.
        """
        first, last = window_at(formula, self.numbers, step, self.count)
        return max(first, 0), min(last, self.count - 1)


def evaluate_first_step(formula: Formula, leaf: Leaf, steps: Steps) -> Tensor:
    """The formula's value at the first step of every trace, [N]: minima and maxima over its
    comparisons.

    Raises:
        KnowledgeError: a part over members.
    """
    return _value(formula, True, 0, 0, leaf, steps)[..., 0]


def _value(
    formula: Formula, positive: bool, first: int, last: int, leaf: Leaf, steps: Steps
) -> Tensor:
    """The value of a formula, or of its negation, at steps first..last: [N, k]."""

    def inner(part: Formula, sign: bool = positive) -> Tensor:
        return _value(part, sign, first, last, leaf, steps)

    match formula:
        case Temporal() | Until() if steps.param in (formula.low, formula.high):
            given = steps.number if positive else -steps.number
            return torch.full(
                (1, last - first + 1), given, dtype=torch.float64, device=steps.device
            )
        case Compare() | ClassIn() | CategoryIs() | Known():
            return leaf(formula, positive, first, last)
        case Not():
            return inner(formula.arg, not positive)
        case And():
            return _extreme((inner(arg) for arg in formula.args), lowest=positive)
        case Or():
            return _extreme((inner(arg) for arg in formula.args), lowest=not positive)
        case Implies():
            return _extreme(
                (inner(formula.antecedent, not positive), inner(formula.consequent)),
                lowest=not positive,
            )
        case Initially():
            return _value(formula.arg, positive, 0, 0, leaf, steps).expand(-1, last - first + 1)
        case Temporal():
            lowest = (formula.op in ("always", "historically")) == positive
            return _over_window(formula, positive, first, last, leaf, steps, lowest=lowest)
        case Until():
            each = [_until(formula, positive, step, leaf, steps) for step in range(first, last + 1)]
            traces = max(one.shape[0] for one in each)
            return torch.cat([one.expand(traces, -1) for one in each], dim=-1)
        case _:
            raise KnowledgeError(
                "a template for mining has a part that mining does not support",
                expected="comparisons, `and`, `or`, `not`, `if`, and operators over time",
                received=f"a part of the kind `{formula.kind}`",
                help="write the condition without members (`all of`, `at least 2 of`)",
            )


def _extreme(parts: Iterable[Tensor], *, lowest: bool) -> Tensor:
    result: Tensor | None = None
    for part in parts:
        result = (
            part
            if result is None
            else (torch.minimum(result, part) if lowest else torch.maximum(result, part))
        )
    assert result is not None, "a conjunction has parts"
    return result


def _over_window(
    formula: Temporal,
    positive: bool,
    first: int,
    last: int,
    leaf: Leaf,
    steps: Steps,
    *,
    lowest: bool,
) -> Tensor:
    """Minimum or maximum over the window of each step."""
    windows = [steps.window(formula, step) for step in range(first, last + 1)]
    begin, end = max(0, min(window[0] for window in windows)), max(window[1] for window in windows)
    neutral = math.inf if lowest else -math.inf
    if begin > end:
        return torch.full((1, len(windows)), neutral, dtype=torch.float64, device=steps.device)
    values = _value(formula.arg, positive, begin, end, leaf, steps).expand(-1, end - begin + 1)
    if len(windows) == 1:
        return values.amin(-1, keepdim=True) if lowest else values.amax(-1, keepdim=True)
    width = max(window[1] - window[0] for window in windows) + 1
    if formula.op in (
        "always",
        "eventually",
    ):  # windows shift by one step each; late ones end with the trace, the last are beyond it
        found = extreme(values[None], 0, width - 1, neutral, lowest=lowest)[0][..., : len(windows)]
        return functional.pad(found, (0, len(windows) - found.shape[-1]), value=neutral)
    back = extreme(values.flip(-1)[None], 0, width - 1, neutral, lowest=lowest)[0].flip(-1)
    before = windows[0][1] - begin  # last step of the first window; negative before the trace
    found = back[..., max(before, 0) : before + len(windows)]
    return functional.pad(found, (len(windows) - found.shape[-1], 0), value=neutral)


def _until(formula: Until, positive: bool, step: int, leaf: Leaf, steps: Steps) -> Tensor:
    """Until, or since, at one step, from the far end of its window: there, or here and later."""
    begin, end = steps.window(formula, step)
    forward = formula.op == "until"
    nothing = -math.inf if positive else math.inf
    if begin > end:
        return torch.full((1, 1), nothing, dtype=torch.float64, device=steps.device)
    low, high = (step, end) if forward else (begin, step)
    left = _value(formula.left, positive, low, high, leaf, steps).expand(-1, high - low + 1)
    right = _value(formula.right, positive, begin, end, leaf, steps).expand(-1, end - begin + 1)
    order = range(end, step - 1, -1) if forward else range(begin, step + 1)
    result = torch.full((1,), nothing, dtype=torch.float64, device=left.device)
    for other in order:
        here = left[..., other - low]
        there = (
            right[..., other - begin] if begin <= other <= end else torch.full_like(result, nothing)
        )
        if formula.closed:
            result = _extreme(
                (here, _extreme((there, result), lowest=not positive)), lowest=positive
            )
        else:
            result = _extreme(
                (there, _extreme((here, result), lowest=positive)), lowest=not positive
            )
    return result[..., None]
