"""Comparisons that are linear in the outputs: which they are, and their coefficients and ends for
each sample.

Letters: R rows of a bank, B batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.constraints.engine.evaluation import evaluate, evaluate_term
from fedkg.constraints.engine.evaluation_inputs import Reading
from fedkg.constraints.engine.skeleton_properties import reads_output, term_reads_output
from fedkg.pack.formulas import (
    And,
    Compare,
    Formula,
    Implies,
    Negate,
    Not,
    Or,
    Param,
    Power,
    Product,
    Quotient,
    Slot,
    Sum,
    Term,
    everywhere,
    sides,
)


@dataclass(frozen=True, slots=True)
class Linear:
    """A comparison (or its negation) that keeps a sum of outputs between two ends wherever all
    guards, over inputs, hold.

    Attributes:
        slots: the output slots that it reads, one for each place where it does.
    """

    atom: Compare
    positive: bool
    slots: tuple[int, ...]
    guards: tuple[Formula, ...]

    @property
    def strict(self) -> bool:
        """Whether the ends themselves are forbidden."""
        return (self.atom.op in ("lt", "ne")) == self.positive


def linear_parts(
    formula: Formula, found: list[Linear], positive: bool = True, guards: tuple[Formula, ...] = ()
) -> bool:
    """Add the comparisons that the formula (or its negation) is a conjunction of.

    False when a part of it is something else.
    """
    match formula:
        case Compare():
            slots = _slots(formula, positive)
            if slots is not None:
                found.append(Linear(formula, positive, slots, guards))
            return slots is not None
        case Not():
            return linear_parts(formula.arg, found, not positive, guards)
        case And() | Or():
            if isinstance(formula, And) == positive:
                parts = [
                    linear_parts(arg, found, positive, guards)
                    for arg in formula.args
                    if reads_output(arg)
                ]
                return all(parts)
            inputs = tuple(arg for arg in formula.args if not reads_output(arg))
            others = [arg for arg in formula.args if reads_output(arg)]
            opened = tuple(arg if formula.kind == "and" else Not(arg=arg) for arg in inputs)
            return len(others) == 1 and linear_parts(others[0], found, positive, guards + opened)
        case Implies():
            if positive and not reads_output(formula.antecedent):
                return linear_parts(formula.consequent, found, True, (*guards, formula.antecedent))
            if positive and not reads_output(formula.consequent):
                return linear_parts(
                    formula.antecedent, found, False, (*guards, Not(arg=formula.consequent))
                )
            if not positive:
                signed = ((formula.antecedent, True), (formula.consequent, False))
                parts = [
                    linear_parts(part, found, sign, guards)
                    for part, sign in signed
                    if reads_output(part)
                ]
                return all(parts)
            return False
        case _:
            return False


def _slots(atom: Compare, positive: bool) -> tuple[int, ...] | None:
    """The output slots of a comparison that allows an interval of a sum of them.

    None for any other.
    """
    parts = [part for side in sides(atom) for _, part in everywhere(side)]
    slots = tuple(part.index for part in parts if isinstance(part, Slot) and part.role == "output")
    convex = atom.op in ("le", "lt") or (atom.op == "eq") == positive
    affine = all(_affine_in_output(side) for side in sides(atom))
    on_a_side = atom.tolerance is None or not term_reads_output(atom.tolerance)
    return slots if slots and convex and affine and on_a_side else None


def _affine_in_output(term: Term) -> bool:
    if not term_reads_output(term):
        return True
    match term:
        case Slot():
            return True
        case Sum():
            return all(_affine_in_output(arg) for arg in term.args)
        case Product():
            return (
                all(_affine_in_output(arg) for arg in term.args)
                and sum(term_reads_output(arg) for arg in term.args) == 1
            )
        case Negate():
            return _affine_in_output(term.arg)
        case Quotient():
            return _affine_in_output(term.numerator) and not term_reads_output(term.denominator)
        case _:
            return False


def same_factors(part: Linear) -> bool:
    """Whether the factors of the outputs are made of parameters alone.

    Where that is not plain, False.
    """
    return all(_same_factors(side) for side in sides(part.atom))


def _same_factors(term: Term) -> bool:
    if not term_reads_output(term):
        return True
    match term:
        case Slot():
            return True
        case Sum():
            return all(_same_factors(arg) for arg in term.args)
        case Product():
            return all(
                _same_factors(arg) if term_reads_output(arg) else _of_parameters(arg)
                for arg in term.args
            )
        case Negate():
            return _same_factors(term.arg)
        case Quotient():
            return _same_factors(term.numerator) and _of_parameters(term.denominator)
        case _:
            return False


def same_ends(part: Linear) -> bool:
    """Whether factors and ends are made of parameters alone, without guards.

    Where that is not plain, False.
    """
    tolerance = part.atom.tolerance
    return (
        same_factors(part)
        and not part.guards
        and all(map(_of_parameters, [*sides(part.atom), *([tolerance] if tolerance else [])]))
    )


def _of_parameters(term: Term) -> bool:
    """Whether a term has no parts but parameters, outputs and what is computed from them."""
    plain = (Param, Sum, Product, Negate, Quotient, Power)
    return all(
        isinstance(part, plain) or (isinstance(part, Slot) and part.role == "output")
        for _, part in everywhere(term)
    )


def factors(atom: Compare, reading: Reading) -> Iterator[tuple[int, Tensor]]:
    """The output slots in ``left - right`` of a comparison, each time with its factor, [R, B] or
    broadcast to it.
    """
    like = reading.slots[next(iter(reading.slots))]
    one = torch.ones(
        1, 1, dtype=like.dtype, device=like.device
    )  # not of the samples, which a transform may hold
    yield from _factors(atom.left, one, reading)
    yield from _factors(atom.right, -one, reading)


def _factors(term: Term, factor: Tensor, reading: Reading) -> Iterator[tuple[int, Tensor]]:
    if not term_reads_output(term):
        return
    match term:
        case Slot():
            yield term.index, factor
        case Negate():
            yield from _factors(term.arg, -factor, reading)
        case Sum():
            for arg in term.args:
                yield from _factors(arg, factor, reading)
        case Product():
            for arg in term.args:
                factor = factor if term_reads_output(arg) else factor * evaluate_term(arg, reading)
            [inner] = (arg for arg in term.args if term_reads_output(arg))
            yield from _factors(inner, factor, reading)
        case Quotient():
            yield from _factors(
                term.numerator, factor / evaluate_term(term.denominator, reading), reading
            )
        case _:
            raise AssertionError(term.kind)


def ends(part: Linear, reading: Reading, applies: Tensor | None) -> tuple[Tensor, Tensor]:
    """Between which ends the sum ``left - right`` of the output terms alone must lie, [R, B] or
    broadcast to it; infinite where the comparison does not apply or is unknown.

    The reading has 0 for all outputs, so that a side's value is its part without them.
    """
    atom = part.atom
    left, right = evaluate_term(atom.left, reading), evaluate_term(atom.right, reading)
    tolerance = (
        torch.zeros_like(left) if atom.tolerance is None else evaluate_term(atom.tolerance, reading)
    )
    room = right - left
    two_sided = atom.op in ("eq", "ne")
    upper, lower = two_sided or part.positive, two_sided or not part.positive
    high = room + tolerance if upper else torch.full_like(room, math.inf)
    low = (
        room - tolerance
        if two_sided
        else room + tolerance
        if lower
        else torch.full_like(room, -math.inf)
    )
    on = torch.isfinite(room + tolerance)
    for guard in part.guards:
        on = on & (evaluate(guard, reading) >= 0)
    if applies is not None:
        on = on & applies
    return torch.where(on, low, -math.inf), torch.where(on, high, math.inf)
