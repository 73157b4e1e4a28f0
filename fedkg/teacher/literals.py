"""What a formula asks of single steps: bounds on linear combinations of what is predicted.

Letters: C clients (each with parameters of its own), V channels, T steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedkg.constraints.evaluation import compare_margin
from fedkg.constraints.reading import Reading
from fedkg.errors import SetError
from fedkg.pack.formulas import Compare
from fedkg.pack.terms import Negate, Param, Product, Quotient, Slot, Sum, Term
from fedkg.pack.walk import everywhere, sides, term_children

MARGIN = 1e-6
"""How far a strict bound is kept, as a share of the comparison's scale (specification, section 5)."""
ROUNDING = 1e-12
"""The same for bounds on sums, whose channels are moved one by one."""

Form = tuple[tuple[int, float], ...]
"""A linear combination: channels with their coefficients, the first of which is positive, the largest 1 in size."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Literal:
    """``form >= bound`` (`lower`) or ``form <= bound``, with a bound for each client, float64 [C]."""

    form: Form
    lower: bool
    bound: Tensor


@dataclass(slots=True)
class Literals:
    """The literals of a formula, each once.

    Attributes:
        channels: the number of channels. params: the formula's parameters, one [C] or [1] for each.
    """

    channels: int
    params: Sequence[Tensor]
    found: list[Literal] = field(default_factory=list)
    _known: dict[tuple[Compare, bool], tuple[str, tuple[int, ...]]] = field(default_factory=dict)

    def of(self, atom: Compare, positive: bool) -> tuple[str, tuple[int, ...]]:
        """The literals that a comparison, or its negation, is made of: all (``and``) or any (``or``) of them, by number.

        Raises:
            SetError: the comparison is not linear in what is predicted.
        """
        if (atom, positive) not in self._known:
            self._known[atom, positive] = self._made(atom, positive)
        return self._known[atom, positive]

    def _made(self, atom: Compare, positive: bool) -> tuple[str, tuple[int, ...]]:
        if not all(_linear(side) for side in sides(atom)):
            raise SetError("the nearest trace is found for bounds on linear combinations", received="a comparison that is not linear")
        if atom.op in ("le", "lt"):
            strict = (atom.op == "lt") == positive
            return "and", (self._added(atom, 1.0 if positive else -1.0, strict),)
        within = (atom.op == "eq") == positive
        one_sided = atom.model_copy(update={"op": "le"})  # left - tolerance <= right, and the same with its sides exchanged
        other_sided = one_sided.model_copy(update={"left": atom.right, "right": atom.left})
        pair = (self._added(one_sided, 1.0 if within else -1.0, not within), self._added(other_sided, 1.0 if within else -1.0, not within))
        return ("and" if within else "or"), pair

    def _added(self, atom: Compare, sign: float, strict: bool) -> int:
        """The number of the literal ``sign * (margin of the comparison) >= 0``, or ``> 0``."""
        none = torch.zeros((1, 1), dtype=torch.float64)
        constant = sign * self._margin(atom, dict.fromkeys(range(self.channels), none))
        coefficients = []
        for channel in range(self.channels):
            there = {slot: torch.ones_like(none) if slot == channel else none for slot in range(self.channels)}
            slope = sign * self._margin(atom, there) - constant
            coefficients.append(float(slope.flatten()[0]))
        scale = max((abs(c) for c in coefficients), default=0.0)
        if not scale:
            raise SetError("a comparison reads nothing that is predicted", help="leave it out of what is projected onto")
        leading = next(c for c in coefficients if c)
        turned = scale if leading > 0 else -scale
        form = tuple((channel, c / turned) for channel, c in enumerate(coefficients) if c)
        kept = self.params[atom.scale].double() * (MARGIN if strict else ROUNDING if len(form) > 1 else 0.0)
        bound = (kept - constant) / turned
        self.found.append(Literal(form=form, lower=turned > 0, bound=bound.flatten()))
        return len(self.found) - 1

    def _margin(self, atom: Compare, slots: dict[int, Tensor]) -> Tensor:
        return compare_margin(atom, True, Reading(slots=slots, params=[p.double()[None] for p in self.params], careful=False)).flatten()


def _linear(term: Term) -> bool:
    """Whether a term is linear in its slots."""
    match term:
        case Slot() | Param():
            return True
        case Sum() | Negate():
            return all(_linear(part) for part in term_children(term))
        case Product():
            reading = [part for part in term.args if _reads_slots(part)]
            return len(reading) <= 1 and all(_linear(part) for part in reading)
        case Quotient():
            return _linear(term.numerator) and not _reads_slots(term.denominator)
        case _:
            return not _reads_slots(term)


def _reads_slots(term: Term) -> bool:
    return any(isinstance(part, Slot) for _, part in everywhere(term))
