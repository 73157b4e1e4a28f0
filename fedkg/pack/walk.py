"""Walks through formulas and terms: their parts, and which slots and parameters they read.

Indices of slots and parameters mean something in one table alone: that of the bank's rows (-1), or
a member table (its position in `Bank.members`). `terms_of`, `atoms`, `subterms`, `used_slots` and
`used_params` stay in the table where they begin; `everywhere` enters the members' terms too and
gives the table of each part, and `renumbered` gives all of them new indices.

No kind of node is named here, except atoms: `node.layout` says which fields of a node are its parts
and indices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from fedkg.pack.formulas import CategoryIs, ClassIn, Compare, Formula, Known
from fedkg.pack.node import FieldRole, FormulaPart, Part, Reach, TermPart, layout, parts_of
from fedkg.pack.terms import Slot, Term

Atom = Compare | ClassIn | CategoryIs | Known
ROWS = -1
"""The table of the bank's own rows."""
AnyPart = TypeVar("AnyPart", bound=Part)


def children(part: Formula | Term) -> tuple[Formula | Term, ...]:
    """The direct parts of a formula or term, in the order in which they are read."""
    return cast(tuple[Formula | Term, ...], parts_of(part))


def with_parts(part: AnyPart, of: Callable[[Any], Any]) -> AnyPart:
    """The same node with `of(child)` in place of each direct part."""
    update: dict[str, Any] = {}
    for name, role in layout(type(part)):
        value = getattr(part, name)
        if role is FieldRole.PART and value is not None:
            update[name] = tuple(map(of, value)) if isinstance(value, tuple) else of(value)
    return part.model_copy(update=update) if update else part


def member_table(part: Formula | Term) -> int | None:
    """The member table that the parts of a node read; None if they read the table of the node."""
    names = (name for name, role in layout(type(part)) if role is FieldRole.MEMBERS)
    name = next(names, None)
    return None if name is None else cast(int, getattr(part, name))


def own_params(part: Formula | Term) -> frozenset[int]:
    """The parameters that a node reads itself, in its own table.

    Those of its parts are not among them.
    """
    names = (name for name, role in layout(type(part)) if role is FieldRole.PARAM)
    return frozenset(value for name in names if (value := getattr(part, name)) is not None)


def term_children(term: Term) -> tuple[Term, ...]:
    """The direct sub-terms of a term, in its own table: none of a `Reduce`.

    Of a `Choose` the two results.
    """
    return tuple(part for part in _in_own_table(term) if isinstance(part, TermPart))


def subterms(term: Term) -> Iterator[Term]:
    """The term and every term inside it in its own table, outermost first.

    The terms of a `Choose`'s condition are among them.
    """
    yield term
    for part in _in_own_table(term):
        for inner in (part,) if isinstance(part, TermPart) else terms_of(part):
            yield from subterms(inner)


def formula_children(formula: Formula) -> tuple[Formula, ...]:
    """The direct sub-formulas of a formula, in its own table: none of an `AtLeast`."""
    return tuple(part for part in _in_own_table(formula) if isinstance(part, FormulaPart))


def _in_own_table(part: Formula | Term) -> tuple[Formula | Term, ...]:
    return children(part) if member_table(part) is None else ()


def subformulas(formula: Formula) -> Iterator[Formula]:
    """The formula and every formula inside it in its own table, outermost first, left to right.

    Not those inside terms.
    """
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
    """The outermost terms of a formula, in its own table: the sides of its comparisons."""
    for part in subformulas(formula):
        yield from (side for side in _in_own_table(part) if isinstance(side, TermPart))


def everywhere(part: Formula | Term, table: int = ROWS) -> Iterator[tuple[int, Formula | Term]]:
    """Every formula and term inside `part`, itself first, each with the table of its slots and
    parameters.
    """
    yield table, part
    members = member_table(part)
    for child in children(part):
        yield from everywhere(child, table if members is None else members)


def reads_output(part: Formula | Term) -> bool:
    """Whether a prediction is read anywhere inside, by members too."""
    return any(
        (isinstance(one, Slot) and one.role == "output") or isinstance(one, ClassIn)
        for _, one in everywhere(part)
    )


def is_temporal(part: Formula | Term) -> bool:
    """Whether a verdict or a value depends on other steps than its own."""
    return any(one.over_time for _, one in everywhere(part))


def reach(part: Formula | Term, params: Sequence[float] = ()) -> Reach:
    """How far a formula or term looks in time, its windows being those of `params`.

    members' windows are not looked at.

    A window without an end ends with the trace: it adds nothing.
    """
    parts = [reach(child, params) for child in _in_own_table(part)]
    back = max((one.back for one in parts), default=0.0)
    ahead = max((one.ahead for one in parts), default=0.0)
    return part.reach(Reach(back=back, ahead=ahead), params)


def used_slots(formula: Formula, table: int = ROWS) -> frozenset[int]:
    """Indices of all slots a formula reads in a table: that of the bank's rows, or a member
    table.
    """
    return indices(formula)[0].get(table, frozenset())


def used_params(formula: Formula, table: int = ROWS) -> frozenset[int]:
    """Indices of all parameters a formula reads in a table, scales, windows and counts included."""
    return indices(formula)[1].get(table, frozenset())


def indices(formula: Formula) -> tuple[dict[int, frozenset[int]], dict[int, frozenset[int]]]:
    """The slots and parameters read, by table.

    A table that only holds members to count has none.
    """
    found: dict[FieldRole, dict[int, set[int]]] = {
        FieldRole.SLOT: {ROWS: set()},
        FieldRole.PARAM: {ROWS: set()},
    }
    for table, part in everywhere(formula):
        for of_tables in found.values():
            of_tables.setdefault(table, set())
        for name, role in layout(type(part)):
            value = getattr(part, name)
            if role in found and value is not None:
                found[role][table].update(value if isinstance(value, tuple) else (value,))
    slots, params = (
        {table: frozenset(used) for table, used in of_tables.items()}
        for of_tables in found.values()
    )
    return slots, params


@dataclass(frozen=True, slots=True, kw_only=True)
class Renumbering:
    """New indices: `slot` and `param` are given a table, by its old position, and an old index.

    `members` the old position of a table.
    """

    slot: Callable[[int, int], int]
    param: Callable[[int, int], int]
    members: Callable[[int], int]


def renumbered(part: AnyPart, new: Renumbering, table: int = ROWS) -> AnyPart:
    """The formula or term with other indices, asked for in the order in which it is read: of a
    comparison left, right, tolerance, scale.
    """
    members = member_table(cast(Any, part))
    inside = table if members is None else members

    def one(role: FieldRole, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(one(role, entry) for entry in value)
        if value is None:
            return None
        match role:
            case FieldRole.SLOT:
                return new.slot(table, value)
            case FieldRole.PARAM:
                return new.param(table, value)
            case FieldRole.MEMBERS:
                return new.members(value)
            case FieldRole.PART:
                return renumbered(value, new, inside)

    fields = layout(type(part))
    return part.model_copy(update={name: one(role, getattr(part, name)) for name, role in fields})
