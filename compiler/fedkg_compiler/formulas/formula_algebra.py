"""Three-valued conditions put together: constants folded, negation pushed inwards, and what it
takes that one is true for certain; then formulas taken apart into their top-level parts.

`Connectives` serves every kind of condition; `all_of`, `any_of`, `negate` and `implies` are those
of the pack's formulas. A condition is a formula, or a truth value that nothing of the table
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from fedkg.pack import (
    And,
    AtLeast,
    Call,
    CategoryIs,
    Choose,
    Coalesce,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
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
    Temporal,
    Term,
)
from fedkg.pack.node import TermPart
from fedkg.pack.walk import everywhere, is_temporal
from fedkg_compiler.ir import RowBuilder, Rows

Truth = Formula | bool
"""A formula, or a truth value that does not depend on the table; False if never true."""
Part = TypeVar("Part", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Connectives(Generic[Part]):
    """Connectives of one kind of condition. Conditions that occur twice occur once, in order.

    Attributes:
        conjunction: the class of a conjunction, with its parts in `args`.
        disjunction: the class of a disjunction, with its parts in `args`.
        negation: the class of a negation, with its part in `arg`.
    """

    # Any: the classes are conditions of the kind `Part`, which a type variable cannot say
    conjunction: type[Any]
    disjunction: type[Any]
    negation: type[Any]

    def all_of(self, parts: Iterable[Part | bool]) -> Part | bool:
        """The conjunction; True of nothing."""
        return self._joined(parts, self.conjunction, neutral=True)

    def any_of(self, parts: Iterable[Part | bool]) -> Part | bool:
        """The disjunction; False of nothing."""
        return self._joined(parts, self.disjunction, neutral=False)

    def negate(self, part: Part | bool) -> Part | bool:
        """The negation; a second one takes the first away."""
        if isinstance(part, bool):
            return not part
        if isinstance(part, self.negation):
            inner: Part = part.arg
            return inner
        whole: Part = self.negation(arg=part)
        return whole

    def implies(self, condition: Part | bool, consequence: Part | bool) -> Part | bool:
        """The consequence, where the condition is not false."""
        return self.any_of((self.negate(condition), consequence))

    def exactly_one(self, parts: Sequence[Part | bool]) -> Part | bool:
        """One of the conditions is true, the others are false."""
        return self.any_of(
            self.all_of((part, *(self.negate(other) for j, other in enumerate(parts) if j != i)))
            for i, part in enumerate(parts)
        )

    def _joined(
        self, parts: Iterable[Part | bool], kind: type[Any], *, neutral: bool
    ) -> Part | bool:
        """The parts put together; `neutral` changes nothing, its opposite decides all."""
        kept: dict[Part, None] = {}
        for part in parts:
            if isinstance(part, bool):
                if part is not neutral:
                    return part
            else:
                kept.update(dict.fromkeys(part.args if isinstance(part, kind) else (part,)))
        if len(kept) > 1:
            whole: Part = kind(args=tuple(kept))
            return whole
        return next(iter(kept), neutral)


_FORMULAS: Connectives[Formula] = Connectives(And, Or, Not)
all_of, any_of = _FORMULAS.all_of, _FORMULAS.any_of
negate, implies = _FORMULAS.negate, _FORMULAS.implies


def always(rows: RowBuilder) -> Compare:
    """``0 <= 0``: a formula that holds in every row."""
    zero = rows.param(np.array(0.0))
    return Compare(op="le", left=zero, right=zero, scale=rows.param(np.array(1.0)).index)


def with_always(rows: Rows) -> tuple[Compare, Rows]:
    """``0 <= 0``, and the rows with its parameters."""
    first = len(rows.params)
    zero = Param(index=first)
    formula = Compare(op="le", left=zero, right=zero, scale=first + 1)
    added = (np.zeros(rows.count), np.ones(rows.count))
    return formula, replace(rows, params=(*rows.params, *added))


_OPPOSITE: dict[str, Literal["le", "lt", "eq", "ne"]] = {
    "le": "lt",
    "lt": "le",
    "eq": "ne",
    "ne": "eq",
}


def opposite_comparison(compare: Compare) -> Compare:
    """The comparison that holds exactly where this one fails: not (a <= b + t) is b < a - t."""
    swap, tolerance = compare.op in ("le", "lt"), compare.tolerance
    return Compare.model_construct(
        op=_OPPOSITE[compare.op],
        left=compare.right if swap else compare.left,
        right=compare.left if swap else compare.right,
        tolerance=Negate(arg=tolerance) if swap and tolerance is not None else tolerance,
        scale=compare.scale,
    )


def opposite(formula: Formula) -> Formula:
    """The negation, pushed inwards: comparisons turn round, so that a limit stays a limit.

    Unknown stays unknown.
    """
    match formula:
        case Compare():
            return opposite_comparison(formula)
        case And():
            return Or(args=tuple(opposite(arg) for arg in formula.args))
        case Or():
            return And(args=tuple(opposite(arg) for arg in formula.args))
        case Not():
            return formula.arg
        case _:
            return Not(arg=formula)


def strict_slots(formula: Formula) -> frozenset[int]:
    """Return the slots that need a value for the formula to be true."""
    match formula:
        case Compare():
            return needed(formula.left) | needed(formula.right)
        case CategoryIs() | Known():
            return frozenset({formula.slot})
        case And():
            return frozenset().union(*(strict_slots(arg) for arg in formula.args))
        case Or():
            return frozenset.intersection(*(strict_slots(arg) for arg in formula.args))
        case Not(arg=CategoryIs() as atom):
            return frozenset({atom.slot})
        case _:
            return frozenset()


def needed(term: Term) -> frozenset[int]:
    """The slots without which a term has no value."""
    match term:
        case Slot():
            return frozenset({term.index})
        case Sum() | Product() | Call():
            return frozenset().union(*(needed(arg) for arg in term.args))
        case Negate():
            return needed(term.arg)
        case Quotient():
            return needed(term.numerator) | needed(term.denominator)
        case Power():
            return needed(term.base)
        case _:
            return frozenset()


def sufficient_slots(term: Term) -> frozenset[int] | None:
    """Return the slots that give a term a value, except for divisions by zero.

    None if values of slots are not sufficient.
    """
    slots: set[int] = set()
    for _, node in everywhere(term):
        match node:
            case Slot():
                slots.add(node.index)
            case CategoryIs():
                slots.add(node.slot)
            case Quotient() if _is_unknown(node):
                return None
            case (
                Param() | Sum() | Product() | Call() | Negate() | Quotient() | Power() | Choose()
            ) | (Compare() | And() | Or() | Not()):
                pass
            case _:
                return None
    return frozenset(slots)


def _is_unknown(term: Quotient) -> bool:
    """Whether a term never has a value: zero by zero, as `numbers.unknown_term` writes it."""
    return isinstance(term.numerator, Param) and term.numerator == term.denominator


def certainly(formula: Formula) -> Truth:
    """Return a formula that is true where this one is, and false (never unknown) elsewhere.

    It is False for a comparison of a term that never has a value.
    """
    match formula:
        case Compare():
            return all_of([known_formula(formula.left), known_formula(formula.right), formula])
        case CategoryIs():
            return all_of([Known(slot=formula.slot), formula])
        case Not(arg=CategoryIs() as atom):
            return all_of([Known(slot=atom.slot), formula])
        case And():
            return all_of(certainly(arg) for arg in formula.args)
        case Or():
            return any_of(certainly(arg) for arg in formula.args)
        case AtLeast():
            arg = certainly(formula.arg)
            if isinstance(arg, bool):  # a group has at least one member
                return arg
            return AtLeast(count=formula.count, members=formula.members, arg=arg)
        case Not(arg=AtLeast() as atoms):
            certain = certainly(atoms)
            return not certain if isinstance(certain, bool) else Not(arg=certain)
        case _:
            return formula


def known_formula(term: Term) -> Truth:
    """The formula that says whether a term has a value; a division by zero apart, which has
    none.
    """
    match term:
        case Slot():
            return Known(slot=term.index)
        case Param():
            return True
        case Sum() | Product() | Call():
            return all_of(known_formula(arg) for arg in term.args)
        case Negate():
            return known_formula(term.arg)
        case Quotient() if _is_unknown(term):
            return False
        case Quotient():
            return all_of([known_formula(term.numerator), known_formula(term.denominator)])
        case Power():
            return known_formula(term.base)
        case Coalesce():
            return any_of(known_formula(arg) for arg in term.args)
        case Choose():
            yes, no = certainly(term.condition), certainly(opposite(term.condition))
            return any_of(
                [
                    all_of([yes, known_formula(term.then)]),
                    all_of([no, known_formula(term.otherwise)]),
                ]
            )
        case Reduce():
            inner = known_formula(term.arg)
            if term.op in ("sum", "count") and (term.skip or inner is True):
                return True
            return any_of(
                [
                    (
                        inner
                        if isinstance(inner, bool)
                        else AtLeast(count=None, members=term.members, arg=inner)
                    )
                ]
            )
        case _:
            raise AssertionError(f"queries make no {term.kind}")


def none(found: Truth) -> Truth:
    """Negation of something that is never an error."""
    certain = found if isinstance(found, bool) else certainly(found)
    return not certain if isinstance(certain, bool) else opposite(certain)


def at_any_step(
    formula: Formula, starts_now: Callable[[Temporal], bool] = lambda _: True
) -> Formula:
    """What the formula says of a single step: a rule holds at every step anyway, so `always` at its
    top goes.

    `starts_now`: whether a window begins at the step itself. One that begins later says nothing of
    the first steps of a trace.
    """
    while (
        isinstance(formula, Temporal)
        and formula.op in ("always", "historically")
        and starts_now(formula)
    ):
        formula = formula.arg
    return formula


def without_time(formula: Formula) -> Formula | None:
    """What the formula says of a trace on which nothing changes and which has no ends.

    None where that takes more than its shape.
    """
    if not is_temporal(formula):
        return formula
    still = _still(formula)
    return None if is_temporal(still) else still


def _still(formula: Formula) -> Formula:
    match formula:
        case Temporal() | Initially():
            return _still(formula.arg)
        case Not() | AtLeast():
            return formula.model_copy(update={"arg": _still(formula.arg)})
        case And() | Or():
            return formula.model_copy(update={"args": tuple(_still(arg) for arg in formula.args)})
        case Implies():
            return formula.model_copy(
                update={
                    "antecedent": _still(formula.antecedent),
                    "consequent": _still(formula.consequent),
                }
            )
        case _:
            return formula


def conjunction(formula: Formula, positive: bool = True) -> Iterator[tuple[Formula, bool]]:
    """The parts that must all hold, each positive (True) or negated (False)."""
    if isinstance(formula, Not):
        yield from conjunction(formula.arg, not positive)
    elif isinstance(formula, And if positive else Or):
        for arg in formula.args:
            yield from conjunction(arg, positive)
    elif isinstance(formula, Implies) and not positive:
        yield from conjunction(formula.antecedent)
        yield from conjunction(formula.consequent, False)
    elif positive and isinstance(formula, Temporal) and formula.op in ("always", "historically"):
        yield from conjunction(formula.arg)
    else:
        yield formula, positive


def comparisons(formula: Formula, *, positive: bool = True) -> tuple[Compare, ...] | None:
    """The comparisons that the formula, or (not `positive`) its negation, is a conjunction of, else
    None.

    That of windows at its top which begin at the step itself: see `at_any_step`.
    """
    parts = []
    for part, holds in conjunction(at_any_step(formula), positive):
        if not isinstance(part, Compare):
            return None
        compare = part if holds else opposite_comparison(part)
        if compare.op == "ne":
            return None
        parts.append(compare)
    return tuple(parts)


def implications(formula: Formula) -> tuple[Implies, ...]:
    """The top-level `if ... then ...` parts of a rule."""
    top = at_any_step(formula)
    if isinstance(top, Initially):
        top = top.arg
    return tuple(
        part for part, positive in conjunction(top) if positive and isinstance(part, Implies)
    )


def sure(formula: Formula) -> bool:
    """Whether the formula has a truth value wherever all that it reads is known: it divides by
    nothing, takes no root, reads no other step.
    """
    return not any(
        isinstance(part, Quotient | Power | Reduce)
        or (isinstance(part, TermPart) and part.over_time)
        or (isinstance(part, Call) and part.function in ("log", "sqrt", "tan"))
        for _, part in everywhere(formula)
    )


def looks_for_gaps(formula: Formula) -> bool:
    """Whether a missing value can decide the formula: it asks what is known, or passes over what is
    not.
    """
    return any(
        isinstance(part, Known | Coalesce) or (isinstance(part, Reduce) and part.skip)
        for _, part in everywhere(formula)
    )
