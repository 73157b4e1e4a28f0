"""Walks through formulas and terms: their parts, and which slots and parameters they read.

Indices of slots and parameters mean something in one table alone: that of the bank's rows (-1), or a member table (its position in
`Bank.members`). `terms_of`, `atoms`, `subterms`, `used_slots` and `used_params` stay in the table where they begin; `everywhere` enters the
members' terms too and says in which table each part stands, and `renumbered` gives all of them new indices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import assert_never

from fedkg.pack.formulas import (
    And,
    AtLeast,
    CategoryIs,
    ClassIn,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    Not,
    Or,
    Temporal,
    Until,
)
from fedkg.pack.terms import (
    Call,
    Choose,
    Coalesce,
    Negate,
    Param,
    Power,
    Product,
    Quotient,
    Reduce,
    Slot,
    Sum,
    Term,
)

Atom = Compare | ClassIn | CategoryIs | Known
ROWS = -1
"""The table of the bank's own rows."""


def term_children(term: Term) -> tuple[Term, ...]:
    """The direct sub-terms of a term, in its own table: none of a `Reduce`; of a `Choose` the two results."""
    match term:
        case Slot() | Param() | Reduce():
            return ()
        case Sum() | Product() | Call() | Coalesce():
            return term.args
        case Negate():
            return (term.arg,)
        case Quotient():
            return (term.numerator, term.denominator)
        case Power():
            return (term.base,)
        case Choose():
            return (term.then, term.otherwise)
    assert_never(term)


def subterms(term: Term) -> Iterator[Term]:
    """The term and every term inside it in its own table, outermost first; the terms of a `Choose`'s condition are among them."""
    yield term
    if isinstance(term, Choose):
        for side in terms_of(term.condition):
            yield from subterms(side)
    for child in term_children(term):
        yield from subterms(child)


def formula_children(formula: Formula) -> tuple[Formula, ...]:
    """The direct sub-formulas of a formula, in its own table: none of an `AtLeast`."""
    match formula:
        case Compare() | ClassIn() | CategoryIs() | Known() | AtLeast():
            return ()
        case Not() | Temporal() | Initially():
            return (formula.arg,)
        case And() | Or():
            return formula.args
        case Implies():
            return (formula.antecedent, formula.consequent)
        case Until():
            return (formula.left, formula.right)
    assert_never(formula)


def subformulas(formula: Formula) -> Iterator[Formula]:
    """The formula and every formula inside it in its own table, outermost first, left to right; not those inside terms."""
    yield formula
    for child in formula_children(formula):
        yield from subformulas(child)


def atoms(formula: Formula) -> Iterator[Atom]:
    """The atomic formulas of a formula in its own table, left to right; not those inside terms."""
    return (part for part in subformulas(formula) if isinstance(part, Atom))


def sides(atom: Compare) -> tuple[Term, ...]:
    """The terms of a comparison: left, right and, where there is one, the tolerance."""
    return (atom.left, atom.right, *(() if atom.tolerance is None else (atom.tolerance,)))


def terms_of(formula: Formula) -> Iterator[Term]:
    """The outermost terms of the comparisons in a formula's own table."""
    for atom in atoms(formula):
        if isinstance(atom, Compare):
            yield from sides(atom)


def everywhere(part: Formula | Term, table: int = ROWS) -> Iterator[tuple[int, Formula | Term]]:
    """Every formula and term inside `part`, itself first, each with the table whose slots and parameters it speaks of."""
    yield table, part
    match part:
        case Compare():
            inner: tuple[Formula | Term, ...] = sides(part)
        case Choose():
            inner = (part.condition, part.then, part.otherwise)
        case AtLeast() | Reduce():
            yield from everywhere(part.arg, part.members)
            return
        case (
            ClassIn()
            | CategoryIs()
            | Known()
            | Not()
            | And()
            | Or()
            | Implies()
            | Temporal()
            | Until()
            | Initially()
        ):
            inner = formula_children(part)
        case _:
            inner = term_children(part)
    for child in inner:
        yield from everywhere(child, table)


def reads_output(part: Formula | Term) -> bool:
    """Whether a prediction is read anywhere inside, by members too."""
    return any(
        (isinstance(one, Slot) and one.role == "output") or isinstance(one, ClassIn)
        for _, one in everywhere(part)
    )


def is_temporal(formula: Formula) -> bool:
    """Whether a verdict depends on other steps than its own."""
    return any(isinstance(one, Temporal | Until | Initially) for _, one in everywhere(formula))


def used_slots(formula: Formula, table: int = ROWS) -> frozenset[int]:
    """Indices of all slots a formula reads in a table: that of the bank's rows, or a member table."""
    return indices(formula)[0].get(table, frozenset())


def used_params(formula: Formula, table: int = ROWS) -> frozenset[int]:
    """Indices of all parameters a formula reads in a table, scales, windows and counts included."""
    return indices(formula)[1].get(table, frozenset())


def indices(formula: Formula) -> tuple[dict[int, frozenset[int]], dict[int, frozenset[int]]]:
    """Which slots and which parameters are read, by table; a table that only holds members to count stands there with none."""
    slots: dict[int, set[int]] = {ROWS: set()}
    params: dict[int, set[int]] = {ROWS: set()}
    for table, part in everywhere(formula):
        here, numbers = slots.setdefault(table, set()), params.setdefault(table, set())
        match part:
            case Slot():
                here.add(part.index)
            case Param():
                numbers.add(part.index)
            case ClassIn():
                here.update(part.inside, part.outside)
            case CategoryIs():
                here.add(part.slot)
                numbers.add(part.param)
            case Known():
                here.add(part.slot)
            case Compare():
                numbers.add(part.scale)
            case Temporal() | Until():
                numbers.update((part.low, part.high))
            case AtLeast() if part.count is not None:
                numbers.add(part.count)
            case _:
                pass
    return {table: frozenset(found) for table, found in slots.items()}, {
        table: frozenset(found) for table, found in params.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Renumbering:
    """New indices: `slot` and `param` are given a table, by its old position, and an old index; `members` the old position of a table."""

    slot: Callable[[int, int], int]
    param: Callable[[int, int], int]
    members: Callable[[int], int]


def renumbered(formula: Formula, new: Renumbering, table: int = ROWS) -> Formula:
    """The formula with other indices, asked for in the order in which it is read: of a comparison left, right, tolerance, scale."""
    match formula:
        case Compare():
            terms = {
                side: _term_renumbered(getattr(formula, side), new, table)
                for side in ("left", "right")
            }
            tolerance = (
                None
                if formula.tolerance is None
                else _term_renumbered(formula.tolerance, new, table)
            )
            return formula.model_copy(
                update={**terms, "tolerance": tolerance, "scale": new.param(table, formula.scale)}
            )
        case ClassIn():
            inside = tuple(new.slot(table, index) for index in formula.inside)
            return formula.model_copy(
                update={
                    "inside": inside,
                    "outside": tuple(new.slot(table, index) for index in formula.outside),
                }
            )
        case CategoryIs():
            return formula.model_copy(
                update={
                    "slot": new.slot(table, formula.slot),
                    "param": new.param(table, formula.param),
                }
            )
        case Known():
            return formula.model_copy(update={"slot": new.slot(table, formula.slot)})
        case Not() | Initially():
            return formula.model_copy(update={"arg": renumbered(formula.arg, new, table)})
        case And() | Or():
            return formula.model_copy(
                update={"args": tuple(renumbered(arg, new, table) for arg in formula.args)}
            )
        case Implies():
            sides = {
                side: renumbered(getattr(formula, side), new, table)
                for side in ("antecedent", "consequent")
            }
            return formula.model_copy(update=sides)
        case AtLeast():
            count = None if formula.count is None else new.param(table, formula.count)
            members = new.members(formula.members)
            return formula.model_copy(
                update={
                    "count": count,
                    "members": members,
                    "arg": renumbered(formula.arg, new, formula.members),
                }
            )
        case Temporal() | Until():
            window = {"low": new.param(table, formula.low), "high": new.param(table, formula.high)}
            names = ("arg",) if isinstance(formula, Temporal) else ("left", "right")
            return formula.model_copy(
                update={
                    **window,
                    **{name: renumbered(getattr(formula, name), new, table) for name in names},
                }
            )
    assert_never(formula)


def _term_renumbered(term: Term, new: Renumbering, table: int) -> Term:
    match term:
        case Slot():
            return term.model_copy(update={"index": new.slot(table, term.index)})
        case Param():
            return term.model_copy(update={"index": new.param(table, term.index)})
        case Sum() | Product() | Call() | Coalesce():
            return term.model_copy(
                update={"args": tuple(_term_renumbered(arg, new, table) for arg in term.args)}
            )
        case Negate():
            return term.model_copy(update={"arg": _term_renumbered(term.arg, new, table)})
        case Quotient():
            sides = {
                side: _term_renumbered(getattr(term, side), new, table)
                for side in ("numerator", "denominator")
            }
            return term.model_copy(update=sides)
        case Power():
            return term.model_copy(update={"base": _term_renumbered(term.base, new, table)})
        case Reduce():
            members = new.members(term.members)
            return term.model_copy(
                update={"members": members, "arg": _term_renumbered(term.arg, new, term.members)}
            )
        case Choose():
            condition = renumbered(term.condition, new, table)
            sides = {
                side: _term_renumbered(getattr(term, side), new, table)
                for side in ("then", "otherwise")
            }
            return term.model_copy(update={"condition": condition, **sides})
    assert_never(term)
