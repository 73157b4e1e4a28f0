"""Formulas put together: negation pushed inwards, constants folded, and what it takes that one is
true for certain.
"""

from __future__ import annotations

from collections.abc import Iterable

from fedkg.pack import (
    And,
    AtLeast,
    Call,
    CategoryIs,
    Choose,
    Coalesce,
    Compare,
    Formula,
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
    Term,
)
from fedkg.pack.walk import everywhere
from fedkg_compiler.formulas.connective_folding import joined

Truth = Formula | bool
"""A formula, or a truth value that does not depend on the table; False if never true."""


def all_of(parts: Iterable[Truth]) -> Truth:
    """The conjunction."""
    return joined(parts, And, neutral=True)


def any_of(parts: Iterable[Truth]) -> Truth:
    """The disjunction."""
    return joined(parts, Or, neutral=False)


def opposite(formula: Formula) -> Formula:
    """The negation, pushed inwards: comparisons turn round, so that a limit stays a limit.

    Unknown stays unknown.
    """
    match formula:
        case Compare():
            if formula.tolerance is None:
                turned = {"le": "lt", "lt": "le", "eq": "ne", "ne": "eq"}[formula.op]
                swap = formula.op in ("le", "lt")
                left, right = (
                    (formula.right, formula.left) if swap else (formula.left, formula.right)
                )
                return Compare.model_construct(
                    op=turned, left=left, right=right, tolerance=None, scale=formula.scale
                )
            return Not(arg=formula)
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
