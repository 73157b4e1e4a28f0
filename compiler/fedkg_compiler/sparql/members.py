"""EXISTS and aggregates with observed values inside: sets of members, one for each row outside.

Letters: P rows of the part outside, M members.
"""

from __future__ import annotations

import numpy as np

from fedkg.pack import AtLeast, Choose, Coalesce, Formula, Known, Quotient, Reduce, Slot, Term
from fedkg.units.unit import Unit
from fedkg_compiler.binding.compare import compare
from fedkg_compiler.sparql import lower
from fedkg_compiler.sparql.branches import Branch, Reduced, Seen, Within
from fedkg_compiler.sparql.formulas import Truth, all_of, any_of, known, needed, strict_slots
from fedkg_compiler.sparql.numbers import Number, total, unknown_term
from fedkg_compiler.sparql.parts import Part, partition
from fedkg_compiler.sparql.reading import Lowering, slot_of
from fedkg_compiler.sparql.shape import SparqlProblem
from fedkg_compiler.sparql.tree import Expr


def conditions(part: Part, branch: Branch, state: Lowering) -> Truth:
    """What must hold in a row for its solution to be there: what is read has a value, and all conditions are true."""
    truth = all_of(lower.holds(expr, part, state) for expr in branch.conditions)
    if truth is False:
        return False
    strict = frozenset() if isinstance(truth, bool) else strict_slots(truth)
    there: list[Truth] = []
    for item in branch.observed:
        if not item.required:
            continue
        mode = state.modes.get(item.variable, "number")
        slot = slot_of(Seen(at=item.at, name=item.variable), part, state, mode=mode)
        if slot is None:
            return False
        if slot.index not in strict:
            there.append(Known(slot=slot.index))
    return all_of([*there, truth])


def within(expr: Within, part: Part, state: Lowering) -> Truth:
    """Whether some branch has a solution."""
    return any_of(_inside(branch, part, state) for branch in expr.branches)


def _inside(branch: Branch, part: Part, state: Lowering) -> Truth:
    frame = part.frame.inside[id(branch)]
    if frame.inline:
        if id(branch) not in part.inline:
            part.inline[id(branch)] = Part(
                frame=frame, at=part.at, rows=part.rows, outer=part, owner=np.arange(part.at.shape[0]), table=part.table
            )
        _same_rows(part.inline[id(branch)])
        return conditions(part.inline[id(branch)], branch, state)
    found: list[Truth] = []
    for inner in _tables(branch, part):
        truth = conditions(inner, branch, state)
        if truth is not False:
            _same_rows(inner)
            found.append(AtLeast(count=_one(inner, part), members=inner.table, arg=_formula(truth, inner)))
    return any_of(found)


def _one(inner: Part, part: Part) -> int:
    """The parameter of the rows outside that says: one is enough."""
    return part.rows.param(np.array(1.0)).index


def _formula(truth: Truth, part: Part) -> Formula:
    """The truth as a formula: what is always true as a comparison of a number with itself."""
    if isinstance(truth, bool):
        zero = part.rows.param(np.array(0.0))
        return compare("<=", zero, zero, None, part.rows)
    return truth


def _tables(branch: Branch, part: Part) -> list[Part]:
    """The members of each row, in tables whose members share a formula."""
    if id(branch) in part.members:
        return part.members[id(branch)]
    frame = part.frame.inside[id(branch)]
    place = np.full(part.frame.count, -1, dtype=np.int64)
    place[part.at] = np.arange(part.at.shape[0])
    found: list[Part] = []
    for rows in partition(frame):
        owner = place[frame.owner[rows]]
        rows, owner = rows[owner >= 0], owner[owner >= 0]
        if not rows.size:
            continue
        order = np.argsort(owner, kind="stable")
        rows, owner = rows[order], owner[order]
        sizes = np.bincount(owner, minlength=part.at.shape[0])
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        number, columns = part.rows.set_of_members(offsets)
        found.append(Part(frame=frame, at=rows, rows=columns, outer=part, owner=owner, table=number))
    part.members[id(branch)] = found
    return found


def _same_rows(inner: Part) -> None:
    """Refuse members that stand in other table rows than what they belong to."""
    if not any(place.key for reading in inner.frame.readings.values() for place in reading.places):
        return
    keys = own_keys(inner)
    outside: list[dict[str, str]] = [] if inner.outer is None else keys_of(inner.outer)
    assert inner.owner is not None
    for own, i in zip(keys, inner.owner.tolist(), strict=True):
        if any(outside[i].get(header) != text for header, text in own):
            item = inner.frame.branch.observed[0]
            raise SparqlProblem(
                "FKG346", item.at, "what is gathered here stands in different rows of the table", "give each entity a column of its own"
            )


def own_keys(part: Part) -> list[list[tuple[str, str]]]:
    """For each row, the keys of what it reads itself."""
    found: list[list[tuple[str, str]]] = [[] for _ in range(part.at.shape[0])]
    for reading in part.frame.readings.values():
        for row, where in zip(found, reading.at[part.at].tolist(), strict=True):
            key = reading.places[where].key if where >= 0 else None
            if key is not None:
                row.append(key)
    return found


def keys_of(part: Part) -> list[dict[str, str]]:
    """For each row, the headers and texts that select its table rows, those outside included."""
    found: list[dict[str, str]] = [{} for _ in range(part.at.shape[0])]
    if part.outer is not None and part.owner is not None:
        around = keys_of(part.outer)
        found = [dict(around[i]) for i in part.owner.tolist()]
    for reading in part.frame.readings.values():
        places, at = reading.places, reading.at[part.at]
        if not any(place.key for place in places):
            continue
        for row, where in zip(found, at.tolist(), strict=True):
            key = places[where].key if where >= 0 else None
            if key is not None:
                row.setdefault(*key)
    return found


# ---- aggregates


def some(expr: Reduced, part: Part, state: Lowering) -> Truth:
    """Whether a group has a solution at all."""
    found: list[Truth] = []
    for inner in _tables(expr.branch, part):
        truth = conditions(inner, expr.branch, state)
        if truth is not False:
            _same_rows(inner)
            found.append(AtLeast(count=_one(inner, part), members=inner.table, arg=_formula(truth, inner)))
    return any_of(found)


def reduced(expr: Reduced, part: Part, state: Lowering) -> Number | None:
    """An aggregate as a number: members without a value, or whose conditions do not hold, are left out."""
    op = {"avg": "mean"}.get(expr.op, expr.op)
    terms: list[Term] = []
    counts: list[Term] = []
    unit: Unit | None = None
    for inner in _tables(expr.branch, part):
        truth = conditions(inner, expr.branch, state)
        if truth is False:
            continue
        _same_rows(inner)
        found = _argument(expr.arg, inner, truth, state)
        if found is None:
            if op == "count":
                continue
            return None
        arg, skip, own = found
        if own is not None and unit is not None and own.text != unit.text:
            raise SparqlProblem("FKG347", expr.at, f"members in `{own.text}` and in `{unit.text}` are reduced together", "declare one unit")
        unit = own or unit
        ops = ("sum", "count") if op == "mean" else (op,)
        made = [Reduce.model_validate({"op": name, "members": inner.table, "arg": arg, "skip": skip}) for name in ops]
        terms.append(Reduce.model_validate({"op": op, "members": inner.table, "arg": arg, "skip": skip}) if op == "mean" else made[0])
        counts.append(made[-1])
    if not terms:
        empty = op in ("sum", "count", "mean") and (expr.total or op == "count")
        return Number(at=expr.at, values=np.zeros(part.at.shape[0])) if empty else None
    term = _together(op, terms, counts, expr)
    if op == "mean" and expr.total:
        term = Coalesce(args=(term, part.rows.param(np.array(0.0))))
    return Number(at=expr.at, term=term, unit=None if op == "count" else unit)


def _together(op: str, terms: list[Term], counts: list[Term], expr: Reduced) -> Term:
    """One number over several tables of members."""
    if len(terms) == 1:
        return terms[0]
    if op in ("sum", "count"):
        return total(terms)
    if op == "mean":
        sums = [term.model_copy(update={"op": "sum"}) for term in terms]
        return Quotient(numerator=total(sums), denominator=total(counts))
    raise SparqlProblem(
        "FKG351", expr.at, f"the members of {expr.op.upper()} have values of different kinds", "give all the same properties and units"
    )


def _argument(arg: Expr | None, inner: Part, truth: Truth, state: Lowering) -> tuple[Term, bool, Unit | None] | None:
    """What is reduced, whether members without it are skipped, and its unit."""
    number = Number(at=(0, 0), values=np.ones(inner.at.shape[0])) if arg is None else lower.number_term(arg, inner, state)
    if number is None:
        return None
    term = number.as_term(inner.rows)
    conditional = not isinstance(truth, bool)
    certain = known(term) is True or (conditional and _implied(truth, term))
    if conditional:
        assert not isinstance(truth, bool)
        if not certain and arg is not None:
            raise SparqlProblem(
                "FKG351", arg.at, "a value that may be missing makes the whole aggregate an error", "ask for it outside OPTIONAL"
            )
        if not (isinstance(term, Slot) and truth == Known(slot=term.index)):
            term = Choose(condition=truth, then=term, otherwise=unknown_term(inner.rows))
    return term, conditional or certain, number.unit


def _implied(truth: Truth, term: Term) -> bool:
    """Whether a condition makes sure that a term has a value."""
    slots = known(term)
    if isinstance(slots, bool) or isinstance(truth, bool):
        return slots is True
    wanted = strict_slots(slots)
    return wanted <= strict_slots(truth) and wanted == needed(term)
