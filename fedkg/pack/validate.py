"""What must be true of a pack's banks before anything evaluates them: every index points at something."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import PackError
from fedkg.pack.bank import Bank
from fedkg.pack.formulas import And, CategoryIs, ClassIn, Compare, Formula, Implies, Not, Or
from fedkg.pack.manifest import Manifest
from fedkg.pack.terms import Call, Negate, Param, Power, Product, Quotient, Slot, Sum, Term


def term_children(term: Term) -> tuple[Term, ...]:
    """The direct sub-terms of a term."""
    match term:
        case Slot() | Param():
            return ()
        case Sum() | Product() | Call():
            return term.args
        case Negate():
            return (term.arg,)
        case Quotient():
            return (term.numerator, term.denominator)
        case Power():
            return (term.base,)


def subterms(term: Term) -> Iterator[Term]:
    """The term and every term inside it, outermost first."""
    yield term
    for child in term_children(term):
        yield from subterms(child)


def atoms(formula: Formula) -> Iterator[Compare | ClassIn | CategoryIs]:
    """The atomic formulas of a formula, left to right."""
    match formula:
        case Compare() | ClassIn() | CategoryIs():
            yield formula
        case Not():
            yield from atoms(formula.arg)
        case And() | Or():
            for arg in formula.args:
                yield from atoms(arg)
        case Implies():
            yield from atoms(formula.antecedent)
            yield from atoms(formula.consequent)


def used_slots(formula: Formula) -> frozenset[int]:
    """Indices of all slots a formula reads."""
    return frozenset(_indices(formula)[0])


def _indices(formula: Formula) -> tuple[set[int], set[int]]:
    slots: set[int] = set()
    params: set[int] = set()
    for atom in atoms(formula):
        match atom:
            case ClassIn():
                slots.update(atom.inside, atom.outside)
            case CategoryIs():
                slots.add(atom.slot)
                params.add(atom.param)
            case Compare():
                params.add(atom.scale)
                for side in (atom.left, atom.right, *(() if atom.tolerance is None else (atom.tolerance,))):
                    for term in subterms(side):
                        if isinstance(term, Slot):
                            slots.add(term.index)
                        elif isinstance(term, Param):
                            params.add(term.index)
    return slots, params


def check_banks(manifest: Manifest, banks: Iterable[Bank], name: str) -> None:
    """Raise PackError, naming the tensor, where a bank's index points at nothing or its columns differ in length."""
    columns, views = len(manifest.contract.columns), len(manifest.contract.views)
    for i, bank in enumerate(banks):
        if any(array.shape[0] != bank.rows for array in bank.tensors().values()):
            raise PackError(f"{name}: the columns of bank {i} differ in length", help="compile it again")
        slots, params = _indices(bank.skeleton)
        checks = (
            ("slots", bank.slots, 0, columns),
            ("views", bank.views, 0, views),
            ("keys", bank.keys, -1, columns),
            ("rule", bank.rule, 0, len(manifest.rules)),
            ("entity", bank.entity, 0, len(manifest.entities)),
            ("unit", bank.unit, 0, len(manifest.units)),
            ("slots", np.array(sorted(slots)), 0, bank.slots.shape[1]),
            ("params", np.array(sorted(params)), 0, bank.params.shape[1]),
        )
        for column, array, low, high in checks:
            if not _within(array, low, high):
                raise PackError(f"{name}: tensor bank.{i}.{column} points outside the pack", help="compile it again")
        if bank.views.shape != bank.slots.shape or bank.codes.shape != bank.keys.shape:
            raise PackError(f"{name}: bank {i} has columns of unequal width", help="compile it again")


def _within(array: NDArray[np.generic], low: int, high: int) -> bool:
    return array.size == 0 or bool(array.min() >= low and array.max() < high)
