"""One skeleton evaluated at once for all rows of its bank: pure tensor functions, differentiable,
usable under `torch.func` transforms.

Letters: R rows, B batch, s slots, p parameters. Everything is [R, B]: a bank row is one contiguous
run of the batch, so that gathering is copying.

One number carries robustness and three-valued truth. Formulas are taken in negation normal form
(the polarity travels down, no negation is ever computed); a strict comparison with a margin of
exactly 0 is moved to `strict_step` below it. Then *satisfied* is ``>= 0``, *violated* is ``< 0``
and *unknown* a number between the two (`unknown`), so that plain minima and maxima are Kleene's
connectives and the interval semantics of the interpreter at once. What leaves this module has NaN
for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedkg._internal.torch_compat import being_traced
from fedkg.constraints.engine.device_constants import constant
from fedkg.constraints.engine.evaluation_inputs import Reading
from fedkg.constraints.engine.exact_square_root import root
from fedkg.constraints.engine.member_reductions import reduce_members
from fedkg.constraints.engine.nan_gradient_guard import shield
from fedkg.constraints.engine.pairwise_extremes import lower, soft_extreme, upper
from fedkg.constraints.engine.precomputed_subformula import InputFormula
from fedkg.constraints.engine.skeleton_properties import has_constant_slope, has_strict
from fedkg.constraints.engine.temporal_and_member_formulas import compound, over_members, steps_of
from fedkg.constraints.engine.unknown_value_encoding import marked, strict_step, unmarked
from fedkg.constraints.engine.window_operators import ROBUSTNESS, Truth, settle
from fedkg.constraints.engine.window_values import over_steps, since_event
from fedkg.pack.formulas import (
    VARIADIC,
    And,
    Call,
    CategoryIs,
    Choose,
    ClassIn,
    Coalesce,
    Compare,
    Formula,
    Implies,
    Known,
    Lag,
    Negate,
    Not,
    Or,
    Param,
    Power,
    Product,
    Quotient,
    Reduce,
    Slot,
    Sum,
    Term,
    TermPart,
    WindowReduce,
)
from fedkg.pack.numeric.reproducible_powers import is_multiplication, multiplied

HAIR = 1e-30
"""Below any margin of practical data, and a normal number in float32."""

UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "abs": torch.abs,
    "sqrt": root,
    "exp": torch.exp,
    "log": torch.log,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "tanh": torch.tanh,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
}


def evaluate(skeleton: Formula, reading: Reading, *, positive: bool = True) -> Tensor:
    """Robustness of a formula or (not `positive`) of its negation, with strictness nudged; [R, B]
    or broadcast to it.

    ``>= 0`` where satisfied, ``< 0`` where violated, NaN where unknown.
    """
    return _shown(_formula(skeleton, positive, reading), reading)


def holds(skeleton: Formula, reading: Reading) -> Tensor:
    """1 where a formula is satisfied, 0 where it is violated or unknown; [R, B] or broadcast to it.

    The reading must be `offset`.
    """
    return _as_gate(_formula(skeleton, True, reading))


def holds_or_not(skeleton: Formula, reading: Reading) -> tuple[Tensor, Tensor]:
    """`holds`, and bool where the formula is violated."""
    found = _formula(skeleton, True, reading)
    return _as_gate(found), found < ROBUSTNESS.unknown(found.dtype)


def _as_gate(robustness: Tensor) -> Tensor:
    return (robustness * math.inf).clamp(0.0, 1.0)


def evaluate_implication(skeleton: Implies, reading: Reading) -> tuple[Tensor, Tensor]:
    """Robustness as `evaluate` gives it, and bool where the antecedent holds.

    Both [R, B] or broadcast to it.
    """
    refuted = _formula(skeleton.antecedent, False, reading)
    fired = refuted < ROBUSTNESS.unknown(refuted.dtype)
    return (
        _shown(extreme_of((refuted, _formula(skeleton.consequent, True, reading)), False), reading),
        fired,
    )


def _shown(robustness: Tensor, reading: Reading) -> Tensor:
    """Robustness with NaN where it is unknown."""
    ends = reading.steps is not None and not reading.steps.clip
    return (
        unmarked(robustness, ROBUSTNESS.unknown(robustness.dtype))
        if reading.careful or ends
        else robustness
    )


def evaluate_term(term: Term, reading: Reading, *, guarded: bool = True) -> Tensor:
    """The value of a term, [R, B] or broadcast to it.

    NaN where it or any part of it is not a finite number, as far as `guarded`.
    """
    return _term(term, reading, guarded)


def reported(skeleton: Formula, robustness: Tensor) -> Tensor:
    """Robustness without the nudge: exactly 0 where a strict comparison misses by nothing, as the
    interpreter reports it.
    """
    if not has_strict(skeleton):
        return robustness
    step = strict_step(robustness.dtype)
    return _lowered_at(robustness, -step, -step)


def _lowered_at(value: Tensor, at: float, by: float) -> Tensor:
    """`value`, lowered where it is exactly `at`.

    By arithmetic, which costs half of what masks do.
    """
    elsewhere = torch.sign(value.detach() - at if at else value.detach()).abs_()
    return torch.add(value, elsewhere.sub_(1.0), alpha=by)


def _formula(formula: Formula, positive: bool, reading: Reading) -> Tensor:
    """The formula's robustness, or that of its negation; what is unknown as a number."""
    match formula:
        case Compare():
            margin = _strictly(
                compare_margin(formula, positive, reading),
                (formula.op in ("lt", "ne")) == positive,
                reading,
            )
            return _marked(
                margin, reading, infinite=True, mirror=mirrored(formula, positive, reading)
            )
        case ClassIn():
            margin = _strictly(
                class_margin(formula, positive, reading), formula.strict == positive, reading
            )
            return _marked(margin, reading, infinite=False)
        case CategoryIs():
            return _marked(_category_is(formula, positive, reading), reading, infinite=False)
        case Not():
            return _formula(formula.arg, not positive, reading)
        case And():
            return extreme_of([_formula(arg, positive, reading) for arg in formula.args], positive)
        case Or():
            return extreme_of(
                [_formula(arg, positive, reading) for arg in formula.args], not positive
            )
        case Implies():
            parts = (
                _formula(formula.antecedent, not positive, reading),
                _formula(formula.consequent, positive, reading),
            )
            return extreme_of(parts, not positive)
        case InputFormula():
            return _input_formula(formula, positive, reading)
        case Known():
            slot = reading.slots[formula.slot]
            return torch.where(torch.isnan(slot) == positive, -math.inf, math.inf).to(slot.dtype)
        case _:
            return compound(formula, positive, reading, ROBUSTNESS, _formula)


def _strictly(margin: Tensor, strict: bool, reading: Reading) -> Tensor:
    if reading.offset:
        return margin - HAIR if strict else margin + HAIR
    if not strict:
        return margin
    return _lowered_at(margin, 0.0, strict_step(margin.dtype))


def _marked(
    margin: Tensor, reading: Reading, *, infinite: bool, mirror: Tensor | None = None
) -> Tensor:
    return (
        marked(margin, ROBUSTNESS.unknown(margin.dtype), infinite=infinite, mirror=mirror)
        if reading.careful
        else margin
    )


def mirrored(atom: Compare, positive: bool, reading: Reading) -> Tensor | None:
    """For `marked`, where it is worth it: the margin with the other sign."""
    if not (reading.careful and being_traced()):
        return None
    with torch.no_grad():
        return compare_margin(atom, not positive, reading)


def smooth_extreme(parts: Sequence[Tensor], truth: Truth, *, lowest: bool, careful: bool) -> Tensor:
    """The log-sum-exp bound of the maximum or minimum of some parts, [R, B].

    The result is NaN where unknown parts (NaN) could still change the verdict.

    Args:
        parts: the numbers to combine, each [R, B] or broadcast to it.
        truth: the encoding of verdicts, with a temperature.
        lowest: whether to compute the minimum instead of the maximum.
        careful: whether a part may contain unknown numbers.
    """
    assert truth.temperature is not None, "smooth"
    if len(parts) == 1:
        return parts[0]
    sign, ends = -1.0 if lowest else 1.0, []
    for anything in (-truth.edge, truth.edge) if careful else (0.0,):
        filled = (
            [torch.where(torch.isnan(part), anything, part) for part in parts] if careful else parts
        )
        if len(filled) == 2:
            ends.append(soft_extreme(filled[0], filled[1], sign * truth.temperature))
        else:
            ends.append(
                sign
                * truth.temperature
                * torch.logsumexp(sign * _stacked(filled) / truth.temperature, dim=0)
            )
    return settle(ends[0], ends[1], truth) if careful else ends[0]


def extreme_of(parts: Sequence[Tensor], lowest: bool) -> Tensor:
    """Minimum or maximum, ties sharing the gradient evenly."""
    if len(parts) == 1:
        return parts[0]
    if len(parts) == 2:
        return lower(*parts) if lowest else upper(*parts)
    return _stacked(parts).amin(dim=0) if lowest else _stacked(parts).amax(dim=0)


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    shape = np.broadcast_shapes(*(part.shape for part in parts))
    return torch.stack([part.expand(shape) for part in parts])


def _any(masks: Sequence[Tensor]) -> Tensor:
    result = masks[0]
    for mask in masks[1:]:
        result = result | mask
    return result


def compare_margin(atom: Compare, positive: bool, reading: Reading) -> Tensor:
    """Margin of the comparison or of its negation (the same number with the other sign, in IEEE
    arithmetic too); not finite: unknown.
    """
    guarded = reading.careful and not has_constant_slope(atom)
    left, right = _term(atom.left, reading, guarded), _term(atom.right, reading, guarded)
    tolerance = None if atom.tolerance is None else _term(atom.tolerance, reading, guarded)
    if atom.op in ("le", "lt"):
        margin = right - left if positive else left - right
        if tolerance is not None:
            margin = margin + tolerance if positive else margin - tolerance
    else:
        distance = torch.abs(left - right)
        if tolerance is None:
            margin = -distance if (atom.op == "eq") == positive else distance
        else:
            margin = tolerance - distance if (atom.op == "eq") == positive else distance - tolerance
    return margin


def class_margin(
    atom: ClassIn, positive: bool, reading: Reading, temperature: float | Tensor | None = None
) -> Tensor:
    """Best score inside the set minus best outside, or its negative.

    Infinite where one of the two is empty.
    """
    inside, outside = (
        [shield(reading.slots[i]) if reading.careful else reading.slots[i] for i in part]
        for part in (atom.inside, atom.outside)
    )
    if inside and outside:
        best, other = (_best(part, temperature) for part in (inside, outside))
        margin = best - other if positive else other - best
    else:
        margin = torch.full_like(
            (inside or outside)[0], math.inf if bool(inside) == positive else -math.inf
        )
    return (
        torch.where(_any([torch.isnan(s) for s in (*inside, *outside)]), math.nan, margin)
        if reading.careful
        else margin
    )


def _best(scores: Sequence[Tensor], temperature: float | Tensor | None) -> Tensor:
    if temperature is None:
        return extreme_of(scores, False)
    return temperature * torch.logsumexp(_stacked(scores) / temperature, dim=0)


def _category_is(atom: CategoryIs, positive: bool, reading: Reading) -> Tensor:
    code, wanted = reading.slots[atom.slot], reading.params[atom.param]
    margin = torch.where((code == wanted) == positive, math.inf, -math.inf).to(code.dtype)
    return torch.where(torch.isnan(code + wanted), math.nan, margin) if reading.careful else margin


def _input_formula(part: InputFormula, positive: bool, reading: Reading) -> Tensor:
    value = reading.slots[part.slot]
    if part.positive != positive:  # what holds by nothing is refuted by nothing
        value = torch.where(value >= 0, -value - strict_step(value.dtype), -value)
    return _marked(
        torch.where(value >= 0, value + HAIR, value) if reading.offset else value,
        reading,
        infinite=False,
    )


def finite(value: Tensor) -> Tensor:
    """`value` with NaN in place of infinite numbers, and no gradient there."""
    return torch.where(torch.isfinite(value), value, math.nan)


def _term(term: Term, reading: Reading, guarded: bool) -> Tensor:
    """The term's value, [R, B] or broadcast to it.

    Guarded: NaN where any part of it is not a finite number, and slots shielded.
    """
    return TERMS[type(term)](term, reading, guarded)


def _slot(term: Slot, reading: Reading, guarded: bool) -> Tensor:
    return shield(reading.slots[term.index]) if guarded else reading.slots[term.index]


def _param(term: Param, reading: Reading, guarded: bool) -> Tensor:
    return reading.params[term.index]


def _sum(term: Sum, reading: Reading, guarded: bool) -> Tensor:
    total = _term(term.args[0], reading, guarded)
    for arg in term.args[1:]:
        total = total + _term(arg, reading, guarded)
        total = finite(total) if guarded else total
    return total


def _product(term: Product, reading: Reading, guarded: bool) -> Tensor:
    product = _term(term.args[0], reading, guarded)
    for arg in term.args[1:]:
        product = product * _term(arg, reading, guarded)
        product = finite(product) if guarded else product
    return product


def _negate(term: Negate, reading: Reading, guarded: bool) -> Tensor:
    return -_term(term.arg, reading, guarded)


def _quotient(term: Quotient, reading: Reading, guarded: bool) -> Tensor:
    above = _term(term.numerator, reading, guarded)
    quotient = above / _term(term.denominator, reading, guarded)
    return finite(quotient) if guarded else quotient


def _power(term: Power, reading: Reading, guarded: bool) -> Tensor:
    base = _term(term.base, reading, guarded)
    if is_multiplication(term.exponent):
        power = multiplied(base, int(term.exponent))
    else:
        power = root(base) if term.exponent == 0.5 else torch.pow(base, term.exponent)
    return finite(power) if guarded else power


def _call(term: Call, reading: Reading, guarded: bool) -> Tensor:
    args = [_term(arg, reading, guarded) for arg in term.args]
    if term.function not in VARIADIC:
        value = UNARY[term.function](args[0])
        return finite(value) if guarded else value
    pick = torch.minimum if term.function == "min" else torch.maximum
    result = args[0]
    for arg in args[1:]:
        result = pick(result, arg)
    return result


def _reduce(term: Reduce, reading: Reading, guarded: bool) -> Tensor:
    members = reading.members[term.members]
    values = over_members(_term(term.arg, members.reading, True), members)
    owners = members.offsets.shape[0] - 1
    return reduce_members(term.op, term.skip, values, members.owner, owners)


def _choose(term: Choose, reading: Reading, guarded: bool) -> Tensor:
    """One term or the other; no gradient goes through the condition."""
    with torch.no_grad():
        verdict = evaluate(
            term.condition, replace(reading, offset=False) if reading.offset else reading
        )
    then, otherwise = _term(term.then, reading, guarded), _term(term.otherwise, reading, guarded)
    value = torch.where(verdict >= 0, then, otherwise)
    return torch.where(torch.isnan(verdict), math.nan, value) if reading.careful else value


def _coalesce(term: Coalesce, reading: Reading, guarded: bool) -> Tensor:
    value = _term(term.args[0], reading, guarded)
    for arg in term.args[1:] if reading.careful else ():
        value = torch.where(torch.isnan(value), _term(arg, reading, guarded), value)
    return value


def _lag(term: Lag, reading: Reading, guarded: bool) -> Tensor:
    """Each place reads the place so many steps before it in its trace; no gradient goes to places
    that none reads.
    """
    assert reading.numbers is not None, "a reading over time has its numbers"
    steps = steps_of(reading)
    back = reading.numbers[term.steps].astype(np.int64)
    value = _term(term.arg, reading, guarded).expand(back.size, steps.places)
    source = torch.arange(steps.count, device=value.device) - constant(back[:, None], value.device)
    source = source[:, None].expand(-1, steps.places // max(1, steps.count), -1)  # [R, n, T]
    laid = value.reshape(source.shape)
    earlier = torch.where(source < 0, math.nan, laid.gather(2, source.clamp(min=0)))
    return earlier.reshape(value.shape)


def _window_reduce(term: WindowReduce, reading: Reading, guarded: bool) -> Tensor:
    """Each place combines the places of its window; no gradient goes through the event."""
    assert reading.numbers is not None, "a reading over time has its numbers"
    steps, rows = steps_of(reading), reading.numbers.shape[1]
    traces = steps.places // max(1, steps.count)
    value = _term(term.arg, reading, guarded).expand(rows, steps.places)
    laid = value.reshape(rows, traces, steps.count)
    if term.since is None:
        assert term.count is not None, "checked by wrong_shape"
        counts = reading.numbers[term.count].astype(np.int64)
        found = over_steps(term.op, laid, counts, steps.length, ahead=term.ahead)
        return found.reshape(value.shape)
    with torch.no_grad():
        event = evaluate(term.since, replace(reading, offset=False) if reading.offset else reading)
    event = event.expand(value.shape).reshape(laid.shape)
    return since_event(term.op, laid, event >= 0, event < 0).reshape(value.shape)


TERMS: dict[type[TermPart], Callable[[Any, Reading, bool], Tensor]] = {
    Slot: _slot,
    Param: _param,
    Sum: _sum,
    Product: _product,
    Negate: _negate,
    Quotient: _quotient,
    Power: _power,
    Call: _call,
    Reduce: _reduce,
    Choose: _choose,
    Coalesce: _coalesce,
    Lag: _lag,
    WindowReduce: _window_reduce,
}
"""The tensor form of each kind of term; gradients come from it. Kernels that do not know a kind
leave it to this form."""
