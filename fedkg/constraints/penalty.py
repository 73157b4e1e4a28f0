"""What a model is to be punished for: how much of a formula is missing, as far as its answers can mend it.

Three things differ from robustness (`evaluation`): margins are divided by the scale of their comparison; what reads inputs alone is true
or false and nothing between, so that the gradient reaches the model even where a guard over sensor data holds by a hair; and the sign is
turned, so that *missing* is positive where violated. Letters: R rows, B batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import torch
from torch import Tensor
from torch.nn.functional import softplus, threshold

from fedkg.constraints.compound import compound
from fedkg.constraints.evaluation import HAIR, class_margin, compare_margin, evaluate, extreme_of, finite, holds, smooth_extreme
from fedkg.constraints.reading import Reading
from fedkg.constraints.structure import reads_inputs_alone_somewhere, reads_output, split_guards
from fedkg.constraints.unknown import between, marked
from fedkg.constraints.windows import Truth
from fedkg.pack.formulas import And, AtLeast, CategoryIs, ClassIn, Compare, Formula, Implies, Initially, Known, Not, Or, Temporal, Until

UNREACHABLE = 1e30
"""Missing where inputs alone decide (negative: where they already satisfy): far beyond any margin, finite in float32."""


def penalties(
    skeleton: Formula, reading: Reading, gate: Tensor | None = None, temperature: float | None = None, *, divided: bool = True
) -> Tensor:
    """The hinge of what is missing, >= 0; 0 where satisfied or unknown, and where inputs alone decide so that no output can help.

    ``max(0, missing)``, or with a temperature its smooth form ``t * softplus(missing / t)`` and log-sum-exp for minima and maxima.
    Guards and gates are factors 0 and 1: selecting by an irregular mask costs ten times as much as a product, forward and backward.

    Args:
        skeleton: a formula that reads an output.
        reading: its numbers; must be `offset`.
        gate: 1 where the row applies, 0 where it does not; [R, B] or None.
        temperature: in units of scales; None for exact.
        divided: False to leave out the division by the scale, where `late_scale` says that it can be made up for.

    Returns:
        [R, B], or broadcast to it.
    """
    guards, rest = split_guards(skeleton)
    missing = _missing(rest, True, reading, Truth(edge=UNREACHABLE, zero_is_low=True, temperature=temperature), divided)
    decided = reading.careful or reading.steps is not None or reads_inputs_alone_somewhere(rest)
    with torch.no_grad():
        for guard in guards:
            opened = holds(guard, reading)
            gate = opened if gate is None else gate * opened
    missing = _hinge(missing, decided) if temperature is None else _soft_hinge(missing, decided, temperature)
    return missing if gate is None else missing * gate


def _hinge(missing: Tensor, decided: bool) -> Tensor:
    """What is missing where it is positive, known and in reach, else 0."""
    if decided:
        missing = -threshold(-missing, -UNREACHABLE / 2, 0.0)
    return threshold(missing, between(missing.dtype), 0.0)


def _soft_hinge(missing: Tensor, decided: bool, temperature: float) -> Tensor:
    if decided:
        missing = torch.where(missing < UNREACHABLE / 2, missing, -UNREACHABLE)
    return temperature * softplus(missing / temperature)


def late_scale(skeleton: Formula, temperature: float | None = None) -> int | None:
    """The parameter by which sums of undivided penalties over the batch may be divided instead of each; None when they may not."""
    rest = split_guards(skeleton)[1]
    return rest.scale if isinstance(rest, Compare) and temperature is None else None


def _missing(formula: Formula, positive: bool, reading: Reading, truth: Truth, divided: bool = True) -> Tensor:
    """How much is missing of the formula or of its negation: positive where violated; where unknown, what `truth` has for it."""
    if not reads_output(formula):
        return _decided(formula, positive, reading, truth)
    match formula:
        case Compare():
            missing = compare_margin(formula, not positive, reading)
            missing = missing / reading.params[formula.scale] if divided else missing
            return _marked(missing + HAIR if (formula.op in ("lt", "ne")) == positive else missing, reading, truth)
        case ClassIn():
            missing = class_margin(formula, not positive, reading, truth.temperature).clamp(-UNREACHABLE, UNREACHABLE)
            return _marked(missing + HAIR if formula.strict == positive else missing, reading, truth)
        case Not():
            return _missing(formula.arg, not positive, reading, truth)
        case And():
            return _joined([(arg, positive) for arg in formula.args], positive, reading, truth)
        case Or():
            return _joined([(arg, positive) for arg in formula.args], not positive, reading, truth)
        case Implies():
            parts = [(formula.antecedent, not positive), (formula.consequent, positive)]
            return _joined(parts, not positive, reading, truth)
        case AtLeast() | Temporal() | Until() | Initially():
            return compound(formula, positive, reading, truth, lambda arg, sign, own: _missing(arg, sign, own, truth))
        case CategoryIs() | Known():
            raise AssertionError("no output is read here")
    assert_never(formula)


def _joined(parts: Sequence[tuple[Formula, bool]], conjunction: bool, reading: Reading, truth: Truth) -> Tensor:
    values = [_missing(part, positive, reading, truth) for part, positive in parts]
    if truth.temperature is None:
        return extreme_of(values, lowest=not conjunction)
    return smooth_extreme(values, truth, lowest=not conjunction, careful=reading.careful or reading.steps is not None)


def _decided(formula: Formula, positive: bool, reading: Reading, truth: Truth) -> Tensor:
    robustness = evaluate(formula, reading, positive=positive)
    decided = torch.where(robustness >= 0, -UNREACHABLE, UNREACHABLE).to(robustness.dtype)
    unknown = truth.unknown(robustness.dtype)
    return torch.where(torch.isnan(robustness), unknown, decided) if reading.careful or reading.steps is not None else decided


def _marked(missing: Tensor, reading: Reading, truth: Truth) -> Tensor:
    if not reading.careful:
        return missing
    return marked(missing, truth.unknown(missing.dtype)) if truth.temperature is None else finite(missing)
