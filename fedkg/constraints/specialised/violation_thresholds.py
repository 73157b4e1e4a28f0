"""Which of many clients violate a row, as thresholds on what they answer.

On fixed inputs a comparison that rises or falls with one predicted number is decided by that
number's place beside one threshold, for each row and each sample. Rounding keeps the order, so a
verdict that rises or falls with a number before rounding does so after it, too. Bisection with the
verdict as it is evaluated finds the one number where it turns, and a comparison with that number
says the same for every value, to the last bit.

Letters: R rows of a bank, P samples (rows, or steps of windows), U distinct predicted numbers
("cores") of a bank, K clients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.constraints.engine.evaluation import evaluate, evaluate_term
from fedkg.constraints.engine.evaluation_inputs import Reading
from fedkg.constraints.engine.precomputed_subformula import InputFormula
from fedkg.constraints.engine.skeleton_properties import largest
from fedkg.constraints.specialised.client_threshold_membership import Clients, Fixed, Reach, joined
from fedkg.constraints.specialised.input_folding import Folded
from fedkg.pack.formulas import (
    And,
    Call,
    ClassIn,
    Compare,
    Formula,
    Implies,
    Negate,
    Not,
    Or,
    Param,
    Product,
    Slot,
    Sum,
    Term,
    everywhere,
    reads_output,
    used_slots,
)


def turning_points(verdict: Callable[[Tensor], Tensor], low: Tensor) -> tuple[Tensor, Tensor]:
    """Where a verdict turns as its number rises from `low` (negative) to `-low`.

    Returns:
        The first number at which it has turned, -inf where it does not, and the verdict from there
            on; both in the shape of `low`.
    """
    below, above = _rank(low), _rank(-low)
    first, last = verdict(low), verdict(-low)
    for _ in range(8 * low.element_size()):
        middle = (below >> 1) + (above >> 1) + (below & above & 1)
        turned = verdict(_of_rank(middle, low.dtype)) == last
        below, above = torch.where(turned, below, middle), torch.where(turned, middle, above)
    return torch.where(first == last, -math.inf, _of_rank(above, low.dtype)), last


def _rank(values: Tensor) -> Tensor:
    """The place of floating-point numbers among all of their kind, int64: 0 for zero, 1 for the
    next one.
    """
    bits = values.view(torch.int32 if values.dtype == torch.float32 else torch.int64)
    return torch.where(bits >= 0, bits, torch.iinfo(bits.dtype).min - bits).to(torch.int64)


def _of_rank(ranks: Tensor, dtype: torch.dtype) -> Tensor:
    bits = ranks.to(torch.int32 if dtype == torch.float32 else torch.int64)
    return torch.where(bits >= 0, bits, torch.iinfo(bits.dtype).min - bits).view(dtype)


SHARED = 4
"""A number computed from predictions becomes a core if at least this number of rows share it on
average."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Derived:
    """Numbers computed from predictions: a term, or the robustness of a formula, of some rows [U]
    of a bank.
    """

    folded: Folded
    node: Term | Compare | ClassIn
    rows: Tensor

    def values(self, outputs: Tensor, numbers: Tensor) -> Tensor:
        """[U, K, P] of outputs [N', K, P] and the `numbers` [N, P] of the folded bank, or of both
        in another order of the samples.

        They are finite where the outputs are within the bank's limit and all numbers are known.
        """
        bank, used = (
            self.folded.bank,
            used_slots(self.node)
            if isinstance(self.node, Compare | ClassIn)
            else _slots(self.node),
        )
        given = (
            (bank.inputs, bank.input_index, numbers[:, None]),
            (bank.outputs, bank.output_index, outputs),
        )
        slots = {
            slot: whole.index_select(0, index[self.rows]).expand(-1, *outputs.shape[1:]).flatten(1)
            for names, where, whole in given
            for slot, index in zip(names, where, strict=True)
            if slot in used
        }
        reading = Reading(
            slots=slots, params=bank.params[:, self.rows].to(outputs.dtype), careful=False
        )
        value = (
            evaluate(self.node, reading)
            if isinstance(self.node, Compare | ClassIn)
            else evaluate_term(self.node, reading, guarded=False)
        )
        return value.expand(self.rows.shape[0], -1).view(self.rows.shape[0], *outputs.shape[1:])


class Sets:
    """The sets of clients for the formulas of one bank.

    Args:
        known: bool [N', P], which output numbers are known whatever a model answers.
        first: the number of cores that there are already, the N' output numbers first.

    Attributes:
        derived: the cores that it adds.
    """

    def __init__(self, folded: Folded, known: Tensor, first: int) -> None:
        self.derived: list[Derived] = []
        self._folded, self._known, self._first = folded, known, first
        self._limit = folded.bank.quick

    def of(self, formula: Formula, positive: bool, *, satisfied: bool) -> Clients | None:
        """Those for whom a formula (or, unless `positive`, its negation) is satisfied, or violated.

        None where that is no such set.
        """
        match formula:
            case InputFormula():
                bank = self._folded.bank
                value = self._folded.numbers.index_select(
                    0, bank.input_index[bank.inputs.index(formula.slot)]
                )
                return Fixed(mask=value >= 0 if satisfied else value < 0)
            case Not():
                return self.of(formula.arg, not positive, satisfied=satisfied)
            case And() | Or():
                parts = [self.of(arg, positive, satisfied=satisfied) for arg in formula.args]
                return _join(parts, (isinstance(formula, And) == positive) == satisfied)
            case Implies():
                pairs = ((formula.antecedent, not positive), (formula.consequent, positive))
                return _join(
                    [self.of(part, sign, satisfied=satisfied) for part, sign in pairs],
                    positive != satisfied,
                )
            case Compare():
                return self._compared(formula, positive, satisfied)
            case ClassIn():
                return self._signed(formula, positive, satisfied)
            case _:
                return None

    def decided(self, formula: Formula, positive: bool = True) -> Clients | None:
        """Those for whom the verdict of a formula is known; None where that is no such set.

        `positive` is False below an odd number of negations: there folded parts hold the values of
        their negations.
        """
        match formula:
            case Not():
                return self.decided(formula.arg, not positive)
            case InputFormula():
                bank = self._folded.bank
                index = bank.input_index[bank.inputs.index(formula.slot)]
                return Fixed(mask=~torch.isnan(self._folded.numbers.index_select(0, index)))
            case Compare() | ClassIn():
                return Fixed(mask=self._all_known(formula))
        pairs: tuple[tuple[Formula, bool], ...]
        if isinstance(formula, Implies):
            pairs = (formula.antecedent, not positive), (formula.consequent, positive)
        else:
            args = formula.args if isinstance(formula, And | Or) else ()
            pairs = tuple((arg, positive) for arg in args)
        parts = [self.decided(arg, sign) for arg, sign in pairs]
        if parts and all(isinstance(part, Fixed) and bool(part.mask.all()) for part in parts):
            return parts[0]
        sets = [self.of(formula, positive, satisfied=satisfied) for satisfied in (True, False)]
        return _join(sets, False)

    def _compared(self, atom: Compare, positive: bool, satisfied: bool) -> Clients | None:
        """Of a comparison that rises or falls with one term over predictions: a threshold on that
        term.
        """
        sides = [name for name in ("left", "right") if reads_output(getattr(atom, name))]
        if (
            atom.op not in ("le", "lt")
            or len(sides) != 1
            or (atom.tolerance is not None and reads_output(atom.tolerance))
        ):
            return self._signed(atom, positive, satisfied)
        bank = self._folded.bank
        place = Slot(index=max((-1, *bank.inputs, *bank.outputs)) + 1, role="output")
        core, side = _replaced(getattr(atom, sides[0]), place)
        rest = atom.model_copy(update={sides[0]: side})
        ids = self._core(core, rest)
        used = [slot for slot in used_slots(rest) if slot in bank.inputs]
        if ids is None or not self._plain(used):
            return None
        numbers = self._folded.numbers
        width = self._known.shape[1] if used else 1
        bound = largest(
            Compare(op="le", left=core, right=core, scale=atom.scale),
            self._limit,
            _bounds(self._folded),
        )
        parts = []
        for rows in bank.chunks(width):
            verdict = self._verdict(rest, place.index, rows, positive, satisfied)
            parts.append(
                turning_points(verdict, numbers.new_full((rows.stop - rows.start, width), -bound))
            )
        threshold, above = (torch.cat([part[i] for part in parts]) for i in (0, 1))
        return self._where_known(atom, Reach(core=ids, threshold=threshold, above=above))

    def _signed(self, atom: Compare | ClassIn, positive: bool, satisfied: bool) -> Clients | None:
        """Of any atom that many rows share: the sign of its robustness."""
        ids = self._core(atom, atom)
        if ids is None:
            return None
        zero = self._folded.numbers.new_zeros((self._folded.bank.rows, 1))
        above = torch.full_like(zero, satisfied == positive, dtype=torch.bool)
        return self._where_known(atom, Reach(core=ids, threshold=zero, above=above))

    def _where_known(self, atom: Compare | ClassIn, clients: Reach) -> Clients:
        """Nobody where a number that the atom reads is unknown to all: no row before it, say."""
        known = self._all_known(atom)
        return clients if bool(known.all()) else joined([clients, Fixed(mask=known)], every=True)

    def _all_known(self, atom: Compare | ClassIn) -> Tensor:
        """Bool [R, P]: where every number that the atom reads is known, whatever a model
        answers.
        """
        bank, used = self._folded.bank, used_slots(atom)
        known = self._known[
            bank.output_index[[i for i, slot in enumerate(bank.outputs) if slot in used]]
        ].all(dim=0)
        numbers = self._folded.numbers[
            bank.input_index[[i for i, slot in enumerate(bank.inputs) if slot in used]]
        ]
        return known & ~torch.isnan(numbers).any(dim=0)

    def _core(self, core: Term | Compare | ClassIn, atom: Compare | ClassIn) -> Tensor | None:
        """The number of the core for each row, int64 [R].

        None where too few rows share it, or it may be unknown.
        """
        bank = self._folded.bank
        if bank.members or self._limit < 0:
            return None
        if isinstance(core, Slot):
            return bank.output_index[bank.outputs.index(core.index)]
        used = used_slots(core) if isinstance(core, Compare | ClassIn) else _slots(core)
        if not self._plain(used):
            return None
        key = torch.cat(
            [
                bank.input_index[
                    [i for i, slot in enumerate(bank.inputs) if slot in used]
                ].double(),
                bank.output_index[
                    [i for i, slot in enumerate(bank.outputs) if slot in used]
                ].double(),
                bank.params[sorted(_numbers_of(core)), :, 0],
            ]
        )
        _, member, sizes = torch.unique(key, dim=1, return_inverse=True, return_counts=True)
        if sizes.shape[0] * SHARED > bank.rows and sizes.shape[0] > 1:
            return None
        rows = torch.argsort(member, stable=True)[torch.cumsum(sizes, 0) - sizes]
        before = sum(int(one.rows.shape[0]) for one in self.derived)
        self.derived.append(Derived(folded=self._folded, node=core, rows=rows))
        ids: Tensor = member + self._first + before
        return ids

    def _plain(self, slots: Collection[int]) -> bool:
        """Whether the inputs in some slots, as far as they are known, are so small that nothing
        computed from them can overflow.
        """
        bank = self._folded.bank
        numbers = self._folded.numbers[
            bank.input_index[[i for i, slot in enumerate(bank.inputs) if slot in slots]].flatten()
        ]
        return bool((torch.nan_to_num(numbers, nan=0.0).abs() <= self._limit).all())

    def _verdict(
        self, atom: Compare, place: int, rows: slice, positive: bool, satisfied: bool
    ) -> Callable[[Tensor], Tensor]:
        """Whether rows of the bank are satisfied (or violated), bool, for values of the core in
        slot `place`.
        """
        folded = self._folded
        reading = folded.bank.reading(
            rows, folded.numbers, folded.numbers.new_zeros((self._known.shape[0], 1)), careful=True
        )

        def verdict(core: Tensor) -> Tensor:
            own = Reading(slots={**reading.slots, place: core}, params=reading.params)
            value = evaluate(atom, own, positive=positive)
            return (value >= 0 if satisfied else value < 0).expand(core.shape)

        return verdict


def _join(parts: Sequence[Clients | None], every: bool) -> Clients | None:
    found = [part for part in parts if part is not None]
    return joined(found, every) if len(found) == len(parts) else None


def _bounds(folded: Folded) -> dict[int, float]:
    return {i: float(abs(row).max(initial=0.0)) for i, row in enumerate(folded.bank.numbers)}


def _slots(term: Term) -> set[int]:
    """The slots that a term reads; it has no members and no conditions."""
    return {part.index for _, part in everywhere(term) if isinstance(part, Slot)}


def _numbers_of(core: Term | Compare | ClassIn) -> set[int]:
    """The parameters with an effect on the result: a scale has none."""
    return {part.index for _, part in everywhere(core) if isinstance(part, Param)}


def _replaced(term: Term, place: Slot) -> tuple[Term, Term]:
    """The smallest term over all predictions of a term that rises or falls with it, and the term
    with a slot in its place.
    """
    match term:
        case Negate():
            core, rest = _replaced(term.arg, place)
            return core, term.model_copy(update={"arg": rest})
        case Sum() | Product() | Call(function="min" | "max"):
            reading = [i for i, arg in enumerate(term.args) if reads_output(arg)]
            if len(reading) == 1:
                core, rest = _replaced(term.args[reading[0]], place)
                return core, term.model_copy(
                    update={"args": (*term.args[: reading[0]], rest, *term.args[reading[0] + 1 :])}
                )
    return term, place
