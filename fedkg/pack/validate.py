"""What must be true of a pack's banks before anything evaluates them: every index points at something."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import PackError
from fedkg.pack.bank import Bank
from fedkg.pack.contract import Column
from fedkg.pack.formulas import And, CategoryIs, ClassIn, Compare, Formula, Implies, Not, Or
from fedkg.pack.manifest import Manifest
from fedkg.pack.terms import Call, Negate, Param, Power, Product, Quotient, Role, Slot, Sum, Term


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


def used_params(formula: Formula) -> frozenset[int]:
    """Indices of all parameters a formula reads, scales included."""
    return frozenset(_indices(formula)[1])


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
    """Raise PackError, naming the tensor, where a bank's index points at nothing or at a column of another kind, or its columns differ."""
    columns, views = len(manifest.contract.columns), len(manifest.contract.views)
    _check_views(manifest, name)
    for i, bank in enumerate(banks):
        _check_skeleton(bank.skeleton, f"{name}: skeleton {i}")
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
        scales = [atom.scale for atom in atoms(bank.skeleton) if isinstance(atom, Compare)]
        if not (bank.params[:, scales] > 0).all() or not (bank.weight >= 0).all() or not np.isfinite(bank.weight).all():
            raise PackError(f"{name}: bank {i} has a scale that is not positive or a weight that is negative", help="compile it again")
        for slot, fits, wanted in _slot_kinds(bank.skeleton):
            if not all(fits(manifest.contract.columns[column]) for column in np.unique(bank.slots[:, slot]).tolist()):
                raise PackError(f"{name}: tensor bank.{i}.slots has a column that is no {wanted} in slot {slot}", help="compile it again")


def _check_views(manifest: Manifest, name: str) -> None:
    views, columns = manifest.contract.views, manifest.contract.columns
    for i, view in enumerate(views):
        raised = view.kind == "raised"
        fits = view.column is not None and 0 <= view.column < len(columns) and columns[view.column].role == "input"
        if (raised and not fits) or (i == 0 and view.kind != "base"):
            raise PackError(f"{name}: view {i} of the contract is wrong", help="compile it again")
    if not views:
        raise PackError(f"{name}: the contract has no view", help="compile it again")


def _check_skeleton(formula: Formula, what: str) -> None:
    """Raise PackError where a connective, sum or function has too few or too many parts."""
    match formula:
        case And() | Or():
            parts: tuple[Formula, ...] = formula.args
        case Not():
            parts = (formula.arg,)
        case Implies():
            parts = (formula.antecedent, formula.consequent)
        case Compare() | ClassIn() | CategoryIs():
            parts = ()
    if isinstance(formula, And | Or) and not parts:
        raise PackError(f"{what} has a connective of nothing", help="compile it again")
    for part in parts:
        _check_skeleton(part, what)
    if isinstance(formula, Compare):
        for side in (formula.left, formula.right, *(() if formula.tolerance is None else (formula.tolerance,))):
            for term in subterms(side):
                variadic = isinstance(term, Sum | Product) or (isinstance(term, Call) and term.function in ("min", "max"))
                if (variadic and not term_children(term)) or (isinstance(term, Call) and not variadic and len(term.args) != 1):
                    raise PackError(f"{what} has a {term.kind} with {len(term_children(term))} parts", help="compile it again")
                if isinstance(term, Power) and not np.isfinite(term.exponent):
                    raise PackError(f"{what} has a power that is not finite", help="compile it again")


def _slot_kinds(skeleton: Formula) -> Iterator[tuple[int, Callable[[Column], bool], str]]:
    """What the column in each slot must be."""
    for atom in atoms(skeleton):
        match atom:
            case ClassIn():
                for slot in (*atom.inside, *atom.outside):
                    yield slot, lambda column: column.type == "score" and column.role == "output", "class score"
            case CategoryIs():
                yield atom.slot, lambda column: column.type == "category", "category"
            case Compare():
                for side in (atom.left, atom.right, *(() if atom.tolerance is None else (atom.tolerance,))):
                    for term in subterms(side):
                        if isinstance(term, Slot):
                            yield term.index, _has_role(term.role), term.role


def _has_role(role: Role) -> Callable[[Column], bool]:
    return lambda column: column.role == role


def _within(array: NDArray[np.generic], low: int, high: int) -> bool:
    return array.size == 0 or bool(array.min() >= low and array.max() < high)
