"""How far a parameter may go: the value at which a formula that is monotone in it turns, for all traces at once, without a search.

A formula is minima and maxima over its comparisons. Let q be the parameter, turned so that the formula gets easier as q falls. A comparison
``m0 + k q >= 0`` with the parameter holds for q up to its level ``m0 / |k|``; everything else holds for every q or for none. So the formula
holds exactly for q up to the minima and maxima of these levels, with "every" and "none" as very large and very small ones: one evaluation
gives the tightest value. The closed forms of An, Johnson and Ma 2024 (table 1) are special cases of it.

Letters: B = C * S * T places: clients, traces, steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fedkg.constraints.evaluation import compare_margin, evaluate
from fedkg.constraints.reading import Reading
from fedkg.pack.formulas import And, AtLeast, CategoryIs, ClassIn, Compare, Formula, Implies, Initially, Known, Not, Or, Temporal, Until
from fedkg.pack.terms import Negate, Param, Product, Quotient, Slot, Sum, Term
from fedkg.pack.walk import everywhere, sides, term_children, used_params

ALWAYS = 1e300
"""The level of what holds for every value; its negative of what holds for none."""


class NoLevel(Exception):
    """The parameter stands where its level cannot be read off: in a window, in a product with data, among members."""


@dataclass(slots=True)
class _Rewriting:
    """A formula being rewritten over channels of levels."""

    reading: Reading
    target: int
    found: dict[int, Tensor] = field(default_factory=dict)

    def leaf(self, level: Tensor) -> Formula:
        """``0 <= level``, a comparison whose robustness is the level."""
        slot = len(self.found)
        self.found[slot] = level
        return Compare(op="le", left=Param(index=0), right=Slot(index=slot), scale=0)


def levels(formula: Formula, reading: Reading, target: int) -> Tensor:
    """The largest q for which the formula holds at each place, [R, B]; `ALWAYS` or more where any does, the negative where none does.

    Args:
        reading: channels [1, B] without unknown values, windows of R rows; the target's own value does not matter.
        target: the parameter (q is the parameter itself, or its negative where the formula gets easier as it rises).

    Raises:
        NoLevel: see there.
    """
    rewriting = _Rewriting(reading, target)
    skeleton = _rewritten(formula, rewriting)
    slots = dict(rewriting.found)
    zero = torch.zeros((1, 1), dtype=torch.float64)  # what leaves compare with; windows are read off `Reading.numbers`
    return evaluate(skeleton, replace(reading, slots=slots, params=[zero], careful=False))


def _rewritten(formula: Formula, into: _Rewriting) -> Formula:
    """The formula with every part that has a level of its own, or holds always or never, replaced by a leaf."""
    if into.target not in used_params(formula):
        holds = evaluate(formula, into.reading) >= 0
        return into.leaf((2 * holds.double() - 1) * ALWAYS)

    def inner(part: Formula) -> Formula:
        return _rewritten(part, into)

    match formula:
        case Compare():
            return into.leaf(_level(formula, into))
        case Not() | Initially():
            return formula.model_copy(update={"arg": inner(formula.arg)})
        case And() | Or():
            return formula.model_copy(update={"args": tuple(inner(arg) for arg in formula.args)})
        case Implies():
            return formula.model_copy(update={"antecedent": inner(formula.antecedent), "consequent": inner(formula.consequent)})
        case Temporal() | Until():
            if into.target in (formula.low, formula.high):
                raise NoLevel
            if isinstance(formula, Temporal):
                return formula.model_copy(update={"arg": inner(formula.arg)})
            return formula.model_copy(update={"left": inner(formula.left), "right": inner(formula.right)})
        case AtLeast() | ClassIn() | CategoryIs() | Known():
            raise NoLevel


def _level(atom: Compare, into: _Rewriting) -> Tensor:
    """The level of a comparison with the target."""
    if atom.op in ("eq", "ne"):
        raise NoLevel
    base, slope = _line(atom, into.target, into.reading)
    return base / slope.abs()


def compared_with(formula: Formula, reading: Reading, param: int) -> Tensor | None:
    """What the one comparison with a parameter compares it with, [1, B]; None where there is none, or several."""
    atoms = [atom for atom in _comparisons(formula) if param in used_params(atom)]
    if len(atoms) != 1 or atoms[0].op in ("eq", "ne"):
        return None
    try:
        base, slope = _line(atoms[0], param, reading)
    except NoLevel:
        return None
    return -base / slope


def _comparisons(formula: Formula) -> list[Compare]:
    return [part for _, part in everywhere(formula) if isinstance(part, Compare)]


def _line(atom: Compare, param: int, reading: Reading) -> tuple[Tensor, Tensor]:
    """The margin ``base + slope * parameter``, [1, B] and [1, 1]. Raises NoLevel where it is no such line for all data alike."""
    containing = [side for side in sides(atom) if _reads(side, param)]
    if len(containing) != 1 or not _linear(containing[0], param):
        raise NoLevel

    def at(value: float, on: Reading) -> Tensor:
        params = [*on.params]
        params[param] = torch.full((1, 1), value, dtype=torch.float64)
        return compare_margin(atom, True, replace(on, params=params, careful=False))

    anywhere = replace(reading, slots={slot: torch.zeros((1, 1), dtype=torch.float64) for slot in reading.slots})
    slope = at(1.0, anywhere) - at(0.0, anywhere)
    slope = slope.flatten()[:1].reshape(1, 1)
    if not bool(slope != 0):
        raise NoLevel
    return at(0.0, reading), slope


def _linear(term: Term, param: int) -> bool:
    """Whether a term is a line in the parameter, with a slope that is the same for all data."""
    match term:
        case Param():
            return True
        case Negate():
            return _linear(term.arg, param)
        case Sum():
            inside = [arg for arg in term.args if _reads(arg, param)]
            return len(inside) == 1 and _linear(inside[0], param)
        case Product() | Quotient():
            inside = [part for part in term_children(term) if _reads(part, param)]
            others = [part for part in term_children(term) if not _reads(part, param)]
            numerator = not isinstance(term, Quotient) or inside == [term.numerator]
            return len(inside) == 1 and numerator and _linear(inside[0], param) and not any(_reads_data(part) for part in others)
        case _:
            return False


def _reads(term: Term, param: int) -> bool:
    return any(isinstance(part, Param) and part.index == param for _, part in everywhere(term))


def _reads_data(term: Term) -> bool:
    return any(isinstance(part, Slot) for _, part in everywhere(term))
