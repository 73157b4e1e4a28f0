"""Which parts of a skeleton read inputs alone, and the skeleton with slots in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fedkg.constraints.engine.input_formula import InputFormula
from fedkg.constraints.engine.skeleton_properties import has_strict
from fedkg.pack.formulas import (
    ROWS,
    And,
    AtLeast,
    Call,
    CategoryIs,
    Choose,
    ClassIn,
    Coalesce,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    Negate,
    Not,
    Or,
    Power,
    Product,
    Quotient,
    Reduce,
    Slot,
    Sum,
    Temporal,
    Term,
    Until,
    everywhere,
    is_temporal,
)


class TermPart(NamedTuple):
    """A term that becomes the value of a slot, in the slots of its member table."""

    table: int
    slot: int
    term: Term


class FormulaPart(NamedTuple):
    """A formula (negated unless `positive`) with a robustness that becomes the value of a slot.

    `temporal`: it looks at other steps.
    """

    table: int
    slot: int
    formula: Formula
    positive: bool
    temporal: bool


Part = TermPart | FormulaPart


class Parts:
    """Replaces the parts of a skeleton that read only inputs by slots, and lists them in `found`.

    Args:
        slots: by table (-1: the bank's rows), how many slot indices are in use.
        outputs: by table, the slots that read predictions.
        traced: whether the batch has traces, so that formulas over time can be evaluated.
    """

    def __init__(
        self, slots: Mapping[int, int], outputs: Mapping[int, tuple[int, ...]], *, traced: bool
    ) -> None:
        self.found: list[Part] = []
        self._next, self._outputs, self._traced = dict(slots), outputs, traced

    def of_skeleton(self, skeleton: Formula) -> Formula:
        """The skeleton without these parts.

        What its top says about where it applies stays: `initially`, and an implication.
        """
        match skeleton:
            case Initially():
                return skeleton.model_copy(update={"arg": self._formula(skeleton.arg, ROWS, True)})
            case Implies():
                return self._implies(skeleton, ROWS, True)
            case _:
                return self._formula(skeleton, ROWS, True)

    def _fixed(self, part: Formula | Term, table: int) -> bool:
        """Whether no prediction is read anywhere inside."""
        return not any(
            isinstance(one, ClassIn)
            or (isinstance(one, Slot) and one.role == "output")
            or (isinstance(one, Known) and one.slot in self._outputs[at])
            for at, one in everywhere(part, table)
        )

    def _slot(self, table: int) -> int:
        self._next[table] += 1
        return self._next[table] - 1

    def _formula(self, formula: Formula, table: int, positive: bool) -> Formula:
        temporal = is_temporal(formula)
        if self._fixed(formula, table) and (not temporal or (self._traced and table == ROWS)):
            part = FormulaPart(table, self._slot(table), formula, positive, temporal)
            self.found.append(part)
            return InputFormula(
                slot=part.slot, positive=positive, strict=has_strict(formula, positive)
            )
        match formula:
            case Compare():
                names = (
                    ("left", "right")
                    if formula.tolerance is None
                    else ("left", "right", "tolerance")
                )
                return formula.model_copy(
                    update={name: self._term(getattr(formula, name), table) for name in names}
                )
            case Not():
                return formula.model_copy(
                    update={"arg": self._formula(formula.arg, table, not positive)}
                )
            case And() | Or():
                return formula.model_copy(
                    update={
                        "args": tuple(self._formula(arg, table, positive) for arg in formula.args)
                    }
                )
            case Implies():
                return self._implies(formula, table, positive)
            case AtLeast():
                return formula.model_copy(
                    update={"arg": self._formula(formula.arg, formula.members, positive)}
                )
            case Temporal() | Initially():
                return formula.model_copy(
                    update={"arg": self._formula(formula.arg, table, positive)}
                )
            case Until():
                parts = {
                    name: self._formula(getattr(formula, name), table, positive)
                    for name in ("left", "right")
                }
                return formula.model_copy(update=parts)
            case _:
                return formula

    def _implies(self, formula: Implies, table: int, positive: bool) -> Implies:
        parts = {
            "antecedent": self._formula(formula.antecedent, table, not positive),
            "consequent": self._formula(formula.consequent, table, positive),
        }
        return formula.model_copy(update=parts)

    def _term(self, term: Term, table: int) -> Term:
        if (
            self._fixed(term, table)
            and not is_temporal(term)
            and not isinstance(term, Slot)
            and _reads(term)
        ):
            part = TermPart(table, self._slot(table), term)
            self.found.append(part)
            return Slot(index=part.slot)
        match term:
            case Sum() | Product() | Call() | Coalesce():
                return term.model_copy(
                    update={"args": tuple(self._term(arg, table) for arg in term.args)}
                )
            case Negate():
                return term.model_copy(update={"arg": self._term(term.arg, table)})
            case Quotient():
                return term.model_copy(
                    update={
                        name: self._term(getattr(term, name), table)
                        for name in ("numerator", "denominator")
                    }
                )
            case Power():
                return term.model_copy(update={"base": self._term(term.base, table)})
            case Reduce():
                return term.model_copy(update={"arg": self._term(term.arg, term.members)})
            case Choose():
                branches = {
                    name: self._term(getattr(term, name), table) for name in ("then", "otherwise")
                }
                return term.model_copy(
                    update={"condition": self._formula(term.condition, table, True), **branches}
                )
            case _:
                return term


def _reads(term: Term) -> bool:
    """Whether the term has anything of the batch in it, not the row's numbers alone."""
    return any(
        isinstance(one, Slot | CategoryIs | Known | AtLeast | Reduce) for _, one in everywhere(term)
    )
