"""Questions about a skeleton that its structure alone answers.

Skeletons are frozen, so answers are kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from fedkg.pack import formulas
from fedkg.pack.formulas import (
    And,
    AtLeast,
    Call,
    Choose,
    Coalesce,
    Compare,
    Formula,
    FormulaPart,
    Implies,
    Negate,
    Param,
    Power,
    Product,
    Reduce,
    Slot,
    Sum,
    Term,
    atoms,
    children,
    everywhere,
    sides,
    subterms,
    term_children,
)
from fedkg.pack.numeric.reproducible_powers import is_multiplication


def term_reads_output(term: Term) -> bool:
    """Whether an output slot occurs in the term, or in a term over members inside it."""
    return formulas.reads_output(term)


@lru_cache(maxsize=4096)
def reads_output(formula: Formula) -> bool:
    """Whether an output slot occurs anywhere in the formula: only then can a model change its
    verdict.
    """
    return formulas.reads_output(formula)


@lru_cache(maxsize=4096)
def is_temporal(formula: Formula) -> bool:
    """Whether the verdict on a row depends on other steps of its trace."""
    return formulas.is_temporal(formula)


@lru_cache(maxsize=4096)
def reads_inputs_alone_somewhere(formula: Formula) -> bool:
    """Whether some atom of the formula reads inputs alone."""
    return any(not reads_output(atom) for atom in atoms(formula))


@lru_cache(maxsize=4096)
def split_guards(skeleton: Formula) -> tuple[tuple[Formula, ...], Formula]:
    """Guards over inputs and the rest: the skeleton is violated exactly where all guards hold and
    the rest is violated.
    """
    if not isinstance(skeleton, Implies):
        return (), skeleton
    if not reads_output(skeleton.antecedent):
        guards, rest = split_guards(skeleton.consequent)
        return (skeleton.antecedent, *guards), rest
    if isinstance(skeleton.antecedent, And):
        guards = tuple(arg for arg in skeleton.antecedent.args if not reads_output(arg))
        others = tuple(arg for arg in skeleton.antecedent.args if reads_output(arg))
        if guards:
            antecedent = others[0] if len(others) == 1 else And(args=others)
            return guards, Implies(antecedent=antecedent, consequent=skeleton.consequent)
    return (), skeleton


@lru_cache(maxsize=4096)
def has_constant_slope(atom: Compare) -> bool:
    """Whether the margin is a sum of slots times parameters, so that no derivative depends on a
    slot (and an unknown one does no harm).
    """
    return atom.op in ("le", "lt") and all(_affine(side) for side in sides(atom))


def _reads_slot(term: Term) -> bool:
    return any(isinstance(part, Slot | Reduce) for part in subterms(term))


def _affine(term: Term) -> bool:
    match term:
        case Slot() | Param():
            return True
        case Sum() | Negate():
            return all(_affine(child) for child in term_children(term))
        case Product():
            return (
                all(_affine(arg) for arg in term.args)
                and sum(_reads_slot(arg) for arg in term.args) <= 1
            )
        case _:
            return False


@lru_cache(maxsize=4096)
def has_strict(formula: Formula, positive: bool = True) -> bool:
    """Whether a strict comparison occurs in the formula's negation normal form."""
    if formula.is_strict(positive):
        return True
    parts = [part for part in children(formula) if isinstance(part, FormulaPart)]
    return any(
        has_strict(part, (way > 0) == positive)
        for way, part in zip(formula.polarity(), parts, strict=True)
    )


def largest(formula: Formula, slot: float, params: Mapping[int, float]) -> float:
    """A bound on the absolute value of every number met in evaluating the formula.

    Infinite where a term has an edge to its domain, and where something may be unknown though all
    slots are known: of an empty set. (What values beyond the end of a trace do not count.)

    Args:
        formula: a skeleton.
        slot: bound on the absolute value of all slots.
        params: bound on the absolute value of each parameter over all rows; NaN or infinite where
            one of them is.
    """
    worst = slot
    for _, part in everywhere(formula):
        if isinstance(part, AtLeast | Reduce):
            return math.inf
        if isinstance(part, Compare):
            bounds = [_largest(side, slot, params) for side in sides(part)]
            worst = max(worst, sum(bounds))
    return worst if math.isfinite(worst) else math.inf


def _largest(term: Term, slot: float, params: Mapping[int, float]) -> float:
    bounds = [_largest(child, slot, params) for child in term_children(term)]
    if not all(math.isfinite(bound) for bound in bounds):
        return math.inf
    match term:
        case Slot():
            return slot
        case Param():
            return params[term.index] if math.isfinite(params[term.index]) else math.inf
        case Sum():
            return sum(bounds)
        case Product():
            return math.prod(max(1.0, bound) for bound in bounds)
        case Negate():
            return bounds[0]
        case Power():
            whole = is_multiplication(term.exponent) and term.exponent >= 0
            return max(1.0, bounds[0]) ** term.exponent if whole and bounds[0] < 1e30 else math.inf
        case Call():
            return max(1.0, *bounds) + 1.0 if term.function in SMOOTH else math.inf
        case Choose() | Coalesce():
            return max(bounds)
        case _:  # it has an edge to its domain, or may be unknown though its parts are known
            return math.inf


SMOOTH = frozenset({"min", "max", "abs", "sin", "cos", "tanh", "floor", "ceil", "round"})
"""Total functions with finite derivatives and values at most 1 above the larger of 1 and the
arguments."""
