"""Bounds: the part of the rules that says, for each row by itself, between which numbers one output must lie.

Letters: R rows of a bank, B batch, H outputs, N numbers read per sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import torch
from torch import Tensor

from fedkg.constraints.banks import BankTensors
from fedkg.constraints.evaluation import evaluate, evaluate_term
from fedkg.constraints.numbers import InputNumbers, percent
from fedkg.constraints.plan import Plan
from fedkg.constraints.reading import Reading
from fedkg.constraints.structure import reads_output, term_reads_output
from fedkg.pack.formulas import And, AtLeast, CategoryIs, ClassIn, Compare, Formula, Implies, Initially, Known, Not, Or, Temporal, Until
from fedkg.pack.terms import Call, Choose, Coalesce, Negate, Param, Power, Product, Quotient, Reduce, Slot, Sum, Term
from fedkg.pack.walk import everywhere, sides


@dataclass(frozen=True, slots=True)
class Bound:
    """A comparison (or its negation) that bounds the output in slot `slot` wherever all guards, over inputs, hold."""

    atom: Compare
    positive: bool
    slot: int
    guards: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds in each bank, and the rules on outputs with a part that is no bound."""

    of_bank: tuple[tuple[Bound, ...], ...]
    not_projected: tuple[str, ...]


def find_bounds(plan: Plan) -> Bounds:
    """All bounds that the banks of a plan consist of."""
    found: list[tuple[Bound, ...]] = []
    left_out: set[int] = set()
    for planned, bank in zip(plan.banks, plan.pack.banks, strict=True):
        bounds: list[Bound] = []
        whole = not planned.touches_output or (not planned.temporal and _collect(planned.skeleton, True, (), bounds))
        own = all(plan.runs[plan.output_reads[i].run] == 0 for i in planned.output_index.ravel().tolist())
        found.append(tuple(bounds) if own else ())
        if planned.touches_output and not (whole and own):
            left_out |= set(bank.rule.tolist())
    return Bounds(tuple(found), tuple(plan.pack.manifest.rules[rule].name for rule in sorted(left_out)))


def project(plan: Plan, bounds: Bounds, banks: Sequence[BankTensors], inputs: InputNumbers, answers: Tensor) -> Tensor:
    """Answers [B, H] moved into the intersection of all bounds; each entry by itself, in its own layout. Differentiable in `answers`."""
    numbers = inputs.numbers
    shape = (len(plan.output_reads), numbers.shape[1])
    low, high = numbers.new_full(shape, -math.inf), numbers.new_full(shape, math.inf)
    outputs = numbers.new_zeros(shape)
    with torch.no_grad():
        for bank, own in zip(banks, bounds.of_bank, strict=True):
            for rows in bank.chunks(numbers.shape[1]) if own else ():
                reading = bank.reading(rows, numbers, outputs, careful=True)
                applies = bank.applies(rows, inputs.met)
                for bound in own:
                    least, most = _interval(bound, reading, applies)
                    index = bank.output_index[bank.outputs.index(bound.slot), rows][:, None].expand(-1, shape[1])
                    low.scatter_reduce_(0, index, least, "amax")
                    high.scatter_reduce_(0, index, most, "amin")
        middle = (low + high) / 2
        low, high = torch.where(low > high, middle, low), torch.where(low > high, middle, high)
    columns = list(answers.to(numbers.dtype).unbind(1))
    for i, read in enumerate(plan.output_reads):
        if read.run == 0:
            least, most = _in_layout(plan, read.entry, low[i], high[i])
            columns[read.entry] = torch.minimum(torch.maximum(columns[read.entry], least), most)
    return torch.stack(columns, dim=1).to(answers.dtype) if columns else answers


def _collect(formula: Formula, positive: bool, guards: tuple[Formula, ...], found: list[Bound]) -> bool:
    """Add the bounds that the formula (or its negation) is a conjunction of; False when a part of it is something else."""
    match formula:
        case Compare():
            slot = _bounded_slot(formula, positive)
            if slot is not None:
                found.append(Bound(formula, positive, slot, guards))
            return slot is not None
        case ClassIn() | CategoryIs() | Known() | AtLeast() | Temporal() | Until() | Initially():
            return False
        case Not():
            return _collect(formula.arg, not positive, guards, found)
        case And() | Or():
            if isinstance(formula, And) == positive:
                parts = [_collect(arg, positive, guards, found) for arg in formula.args if reads_output(arg)]
                return all(parts)
            inputs = tuple(arg for arg in formula.args if not reads_output(arg))
            others = [arg for arg in formula.args if reads_output(arg)]
            opened = tuple(arg if formula.kind == "and" else Not(arg=arg) for arg in inputs)
            return len(others) == 1 and _collect(others[0], positive, guards + opened, found)
        case Implies():
            if positive and not reads_output(formula.antecedent):
                return _collect(formula.consequent, True, (*guards, formula.antecedent), found)
            if positive and not reads_output(formula.consequent):
                return _collect(formula.antecedent, False, (*guards, Not(arg=formula.consequent)), found)
            if not positive:
                signed = ((formula.antecedent, True), (formula.consequent, False))
                parts = [_collect(part, sign, guards, found) for part, sign in signed if reads_output(part)]
                return all(parts)
            return False
    assert_never(formula)


def _bounded_slot(atom: Compare, positive: bool) -> int | None:
    """The one output slot that the comparison is affine in and bounds to an interval."""
    parts = [part for side in sides(atom) for _, part in everywhere(side)]
    slots = [part for part in parts if isinstance(part, Slot) and part.role == "output"]
    convex = atom.op in ("le", "lt") or (atom.op == "eq") == positive
    affine = all(_affine_in_output(side) for side in sides(atom))
    on_a_side = atom.tolerance is None or not term_reads_output(atom.tolerance)
    return slots[0].index if len(slots) == 1 and convex and affine and on_a_side else None


def _affine_in_output(term: Term) -> bool:
    if not term_reads_output(term):
        return True
    match term:
        case Slot():
            return True
        case Sum() | Product():
            return all(_affine_in_output(arg) for arg in term.args)
        case Negate():
            return _affine_in_output(term.arg)
        case Quotient():
            return _affine_in_output(term.numerator) and not term_reads_output(term.denominator)
        case Param() | Power() | Call() | Reduce() | Choose() | Coalesce():
            return False
    assert_never(term)


def _slope(term: Term, reading: Reading) -> Tensor | float:
    """The factor of the output in a term that is affine in it."""
    match term:
        case Slot():
            return 1.0
        case Negate():
            return -_slope(term.arg, reading)
        case Sum():
            return next(_slope(arg, reading) for arg in term.args if term_reads_output(arg))
        case Product():
            slope: Tensor | float = 1.0
            for arg in term.args:
                slope = slope * (_slope(arg, reading) if term_reads_output(arg) else evaluate_term(arg, reading))
            return slope
        case Quotient():
            return _slope(term.numerator, reading) / evaluate_term(term.denominator, reading)
        case Param() | Power() | Call() | Reduce() | Choose() | Coalesce():
            raise AssertionError(term.kind)
    assert_never(term)


def _interval(bound: Bound, reading: Reading, applies: Tensor | None) -> tuple[Tensor, Tensor]:
    """Least and most that the bound allows its output, [R, B]; infinite where it does not apply or is unknown.

    The reading has 0 for all outputs, so that a side's value is its part without the output.
    """
    atom = bound.atom
    shape = reading.slots[bound.slot].shape
    left, right = evaluate_term(atom.left, reading), evaluate_term(atom.right, reading)
    slope = _slope(atom.left, reading) if term_reads_output(atom.left) else -1.0 * _slope(atom.right, reading)
    tolerance = 0.0 if atom.tolerance is None else evaluate_term(atom.tolerance, reading)
    slope = torch.as_tensor(slope, dtype=left.dtype, device=left.device).expand(shape)
    least, most = left.new_full(shape, -math.inf), left.new_full(shape, math.inf)
    # slope * output <= room, and for the other direction slope * output >= -back
    room, back = (right - left + tolerance).expand(shape), (left - right + tolerance).expand(shape)
    two_sided = atom.op in ("eq", "ne")
    upper = two_sided or bound.positive
    lower = two_sided or not bound.positive
    if lower and not two_sided:
        back = (left - right - tolerance).expand(shape)
    strict = (atom.op in ("lt", "ne")) == bound.positive
    for active, limit, direction in ((upper, room / slope, 1.0), (lower, -back / slope, -1.0)):
        if not active:
            continue
        if strict:
            limit = limit - direction * torch.sign(slope) * _hair(limit, room)
        above = slope * direction > 0
        most = torch.where(above, torch.minimum(most, limit), most)
        least = torch.where((slope * direction < 0), torch.maximum(least, limit), least)
    ok = torch.isfinite(room) & (slope != 0)
    for guard in bound.guards:
        ok = ok & (evaluate(guard, reading) >= 0)
    if applies is not None:
        ok = ok & applies
    return torch.where(ok, least, -math.inf), torch.where(ok, most, math.inf)


def _hair(limit: Tensor, room: Tensor) -> Tensor:
    """A step that a strict comparison keeps off its limit: a few units in the last place."""
    return torch.finfo(limit.dtype).eps * 4 * torch.maximum(limit.abs(), torch.ones_like(room))


def _in_layout(plan: Plan, entry: int, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Bounds in the rules' unit as bounds on the answer's entry."""
    layout = plan.y.entries[entry]
    match layout.kind:
        case "value":
            return (low - layout.mean) / layout.std, (high - layout.mean) / layout.std
        case "probability":
            return low / percent(plan, entry), high / percent(plan, entry)
        case "logit":
            edge = torch.finfo(low.dtype).eps
            low, high = (torch.where(b.isfinite(), (b / percent(plan, entry)).clamp(edge, 1 - edge), b) for b in (low, high))
            return torch.where(low.isfinite(), torch.logit(low), low), torch.where(high.isfinite(), torch.logit(high), high)
        case "score":
            return low, high
    assert_never(layout.kind)
