"""Literals of a formula at single steps: bounds on linear combinations of predicted values.

Letters: C clients (each with separate parameters), V channels, T steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedkg.constraints.engine.evaluation import compare_margin, evaluate_term
from fedkg.constraints.engine.evaluation_inputs import Reading
from fedkg.errors import SetError
from fedkg.pack.formulas import (
    Compare,
    Negate,
    Param,
    Product,
    Quotient,
    Slot,
    Sum,
    Term,
    everywhere,
    is_temporal,
    sides,
)
from fedkg.pack.term_linearity import linear_in_slots, reads_slots

STRICT_MARGIN = 1e-6
"""Distance from a strict bound, as a share of the comparison's scale (specification, section 5)."""
RELATIVE_MARGIN = 4 * torch.finfo(torch.float32).eps
"""Distance from a strict bound, as a share of the compared numbers: more than the rounding error in
float32.
"""

Form = tuple[tuple[int, float], ...]
"""A linear combination: channels with their coefficients; the first is positive, the largest has
magnitude 1.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Literal:
    """``form >= bound`` (`lower`) or ``form <= bound``, with a bound for each client, float64 [C].

    Attributes:
        size: magnitude of the numbers in its comparison besides channels, in the form's units,
            float64 [C], for the rounding error. None for the comparison of one channel with one
            number, which is exact.
        atom: the comparison that the literal belongs to.
        positive: whether the literal belongs to the comparison itself, not to its negation.
        params: the formula's parameters.
    """

    form: Form
    lower: bool
    bound: Tensor
    size: Tensor | None
    atom: Compare
    positive: bool
    params: Sequence[Tensor]

    def holds(self, values: Tensor, client: Tensor, dtype: torch.dtype) -> Tensor:
        """Whether values [B, V] satisfy the comparison when computed in a dtype, bool [B]; client:
        int64 [B].
        """
        slots = {i: channel.to(dtype)[None] for i, channel in enumerate(values.unbind(-1))}
        params = [
            number.to(values.device)[client.clamp(max=len(number) - 1)].to(dtype)[None]
            for number in self.params
        ]
        margin = compare_margin(
            self.atom, self.positive, Reading(slots=slots, params=params, careful=False)
        )[0]
        return (margin > 0) if _strict(self.atom, self.positive) else (margin >= 0)


@dataclass(slots=True)
class Literals:
    """The literals of a formula, once each.

    Attributes:
        channels: the number of channels.
        params: the formula's parameters, one [C] or [1] for each.
    """

    channels: int
    params: Sequence[Tensor]
    found: list[Literal] = field(default_factory=list)
    _known: dict[tuple[Compare, bool], tuple[str, tuple[int, ...]]] = field(default_factory=dict)

    def literals_of(self, atom: Compare, positive: bool) -> tuple[str, tuple[int, ...]]:
        """The numbers of the literals of a comparison, or of its negation: all (``and``) or any
        (``or``) of them.

        Raises:
            SetError: the comparison is not linear in the predicted values of its step.
        """
        if (atom, positive) not in self._known:
            self._known[atom, positive] = self._made(atom, positive)
        return self._known[atom, positive]

    def _made(self, atom: Compare, positive: bool) -> tuple[str, tuple[int, ...]]:
        if is_temporal(atom):
            raise SetError(
                "the rule compares an earlier value or a number over time, and the "
                "teacher corrects each step separately; to include the rule, limit the "
                "values of the steps themselves"
            )
        if not all(linear_in_slots(side) for side in sides(atom)):
            raise SetError(
                "the teacher supports only linear comparisons, and this comparison is not linear",
                help="compare sums of signals with constant factors",
            )
        if atom.op in ("le", "lt"):
            return "and", (self._added(atom, 1.0 if positive else -1.0, atom, positive),)
        within = (atom.op == "eq") == positive
        one_sided = atom.model_copy(
            update={"op": "le"}
        )  # left - tolerance <= right, and the same with exchanged sides
        other_sided = one_sided.model_copy(update={"left": atom.right, "right": atom.left})
        sign = 1.0 if within else -1.0
        pair = (
            self._added(one_sided, sign, atom, positive),
            self._added(other_sided, sign, atom, positive),
        )
        return ("and" if within else "or"), pair

    def _added(self, atom: Compare, sign: float, origin: Compare, positive: bool) -> int:
        """The number of the literal ``sign * (margin of the comparison) >= 0``, or ``> 0``, for a
        comparison, negation or side of it.
        """
        none = torch.zeros((1, 1), dtype=torch.float64)
        constant = sign * self._margin(atom, dict.fromkeys(range(self.channels), none))
        coefficients = [0.0] * self.channels
        for side, turn in ((atom.right, sign), (atom.left, -sign)):
            for channel, slope in self._slopes(side, turn):
                coefficients[channel] += slope
        scale = max((abs(c) for c in coefficients), default=0.0)
        if not scale:
            raise SetError(
                "a comparison reads no predicted value", help="leave it out of the projected rules"
            )
        leading = next(c for c in coefficients if c)
        turned = scale if leading > 0 else -scale
        form = tuple((channel, c / turned) for channel, c in enumerate(coefficients) if c)
        size = constant.abs() + torch.stack(
            [number.double().abs().expand_as(constant) for number in self._numbers(atom)]
        ).sum(0)
        scaled = self.params[atom.scale].double() * STRICT_MARGIN
        kept = (
            torch.maximum(scaled, size * RELATIVE_MARGIN)
            if _strict(origin, positive)
            else torch.zeros_like(constant)
        )
        bound = ((kept - constant) / turned).flatten()
        lost = None if _plain(atom) else (size / scale).expand_as(bound)
        self.found.append(
            Literal(
                form=form,
                lower=turned > 0,
                bound=bound,
                size=lost,
                atom=origin,
                positive=positive,
                params=self.params,
            )
        )
        return len(self.found) - 1

    def _numbers(self, atom: Compare) -> list[Tensor]:
        """The parameters in a comparison; a single 0 if there are none."""
        found = {
            part.index
            for side in sides(atom)
            for _, part in everywhere(side)
            if isinstance(part, Param)
        }
        return [self.params[place] for place in sorted(found)] or [
            torch.zeros(1, dtype=torch.float64)
        ]

    def _slopes(self, term: Term, factor: float) -> Iterator[tuple[int, float]]:
        """The channels of a linear term with their coefficients, exact unless numbers are
        multiplied; of the first client.

        Differences of margins would round, so comparisons of one combination with different numbers
        would seem to have different combinations.
        """
        if not reads_slots(term):
            return
        match term:
            case Slot():
                yield term.index, factor
            case Negate():
                yield from self._slopes(term.arg, -factor)
            case Sum():
                for arg in term.args:
                    yield from self._slopes(arg, factor)
            case Product():
                for arg in term.args:
                    factor = factor if reads_slots(arg) else factor * self._number(arg)
                for arg in term.args:
                    yield from self._slopes(arg, factor)
            case Quotient():
                yield from self._slopes(term.numerator, factor / self._number(term.denominator))
            case _:
                raise AssertionError(term.kind)  # not linear: rejected before

    def _number(self, term: Term) -> float:
        """The value of a term without channels, for the first client."""
        params = [number.double()[None] for number in self.params]
        reading = Reading(slots={}, params=params, careful=False)
        return float(evaluate_term(term, reading).flatten()[0])

    def _margin(self, atom: Compare, slots: dict[int, Tensor]) -> Tensor:
        return compare_margin(
            atom,
            True,
            Reading(slots=slots, params=[p.double()[None] for p in self.params], careful=False),
        ).flatten()


def _strict(atom: Compare, positive: bool) -> bool:
    """Whether the bound itself is excluded."""
    return (atom.op in ("lt", "ne")) == positive


def _plain(atom: Compare) -> bool:
    """Whether a channel is compared directly with a number."""
    return atom.tolerance is None and {type(atom.left), type(atom.right)} == {Slot, Param}
