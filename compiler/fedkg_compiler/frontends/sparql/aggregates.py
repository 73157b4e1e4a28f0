"""Aggregates over observed values as numbers: reductions of sets of members, one set for each
group.

Letters: P rows of the part outside (groups), M members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedkg.pack import Call, Choose, Coalesce, Known, Quotient, Reduce, Slot, Term
from fedkg.units.unit import Unit, same_dimension, same_scale
from fedkg_compiler.formulas.formula_algebra import (
    Truth,
    all_of,
    any_of,
    certainly,
    known_formula,
    none,
    strict_slots,
    sufficient_slots,
)
from fedkg_compiler.frontends.fkg.binding.scope import in_which_unit
from fedkg_compiler.frontends.sparql import exists_members
from fedkg_compiler.frontends.sparql.answer_frames import (
    Answer,
    Frame,
    Ids,
    column_of,
    keyed_subjects,
)
from fedkg_compiler.frontends.sparql.branch_tree import Reduced
from fedkg_compiler.frontends.sparql.numeric_terms import (
    Float,
    Number,
    in_rule_unit,
    sum_terms,
    unknown_term,
)
from fedkg_compiler.frontends.sparql.shared_formula_rows import Part
from fedkg_compiler.frontends.sparql.slot_lowering import Lowering
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tree import Expr, Var
from fedkg_compiler.ir import RowBuilder

_MISSING = "a value that may be missing makes the whole aggregate an error"


def any_member(expr: Reduced, part: Part, state: Lowering) -> Truth:
    """Whether a group has a solution at all."""
    _note_entity(expr, part)
    branch = expr.over[0].branch
    if len(expr.over) == 1 and not (
        branch.conditions or any(item.required for item in branch.observed)
    ):
        return True  # the graph has a solution of each group
    return any_of(
        exists_members.has_matching_member(inner, part, state)
        for item in expr.over
        for inner in exists_members.tables(item.branch, part)
    )


def _note_entity(expr: Reduced, part: Part) -> None:
    """Let a group about one entity select the table rows of that entity, in which its verdict is
    reported.
    """
    frames = [part.frame.inside[id(item.branch)] for item in expr.over]
    about = frozenset().union(*(keyed_subjects(frame) for frame in frames))
    if part.outer is not None or len(about) != 1 or not about <= set(expr.keys):
        return
    for frame in frames:
        for rows, owner in exists_members.owned(frame, part):
            for i, keys in zip(owner.tolist(), exists_members.keys_read(frame, rows), strict=True):
                part.gathered.setdefault(i, {}).update(keys)


def aggregate_number(expr: Reduced, part: Part, state: Lowering) -> Number | None:
    """Return an aggregate as a number.

    Members without a value and members that fail the conditions are left out.
    """
    op = {"avg": "mean"}.get(expr.op, expr.op)
    found, wrong = (
        (_distinct(expr, part, state), False) if expr.distinct else _values(expr, part, state)
    )
    if wrong is True:
        return None
    if not found and not (op == "count" or (expr.total and op in ("sum", "mean"))):
        return None
    if not found and wrong is False:
        return Number(at=expr.at, values=np.zeros(part.at.shape[0]))
    unit: Unit | None = None
    others: tuple[str, ...] = ()
    if op != "count":
        unit = next((item.unit for item in found if item.unit is not None), None)
        others = tuple(
            dict.fromkeys(
                item.unit.text
                for item in found
                if unit and item.unit and not same_scale(item.unit, unit)
            )
        )
        found = [replace(item, arg=_in_unit(item, unit, expr)) for item in found]
    nothing = part.rows.param(np.array(0.0))
    term = _combine_tables(op, found, expr) if found else nothing
    if found and op == "mean" and expr.total:
        term = Coalesce(args=(term, nothing))
    if wrong is not False:
        term = Choose(condition=wrong, then=unknown_term(part.rows), otherwise=term)
    stated = op != "count" and bool(found) and all(item.stated for item in found)
    return Number(at=expr.at, term=term, unit=unit, others=others, stated=stated)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """One table of members, and what an aggregate takes of each; with `skip` members without it are
    left out; `stated` as of numbers.
    """

    table: int
    rows: RowBuilder
    arg: Term
    skip: bool
    unit: Unit | None
    stated: bool

    def reduce(self, op: str) -> Reduce:
        """Its number."""
        return Reduce.model_validate(
            {"op": op, "members": self.table, "arg": self.arg, "skip": self.skip}
        )


def _values(expr: Reduced, part: Part, state: Lowering) -> tuple[list[_Table], Truth]:
    """What the aggregate takes of the members, table by table; and when that is an error, since a
    member has no value.
    """
    found: list[_Table] = []
    wrong: list[Truth] = []
    for item in expr.over:
        for inner in exists_members.tables(item.branch, part):
            truth = exists_members.conditions(inner, item.branch, state)
            counts = expr.op == "count"
            if counts and item.arg is not None and truth is not False:
                truth = all_of([truth, state.bound(item.arg, inner, state)])
            if truth is False:
                continue
            exists_members.same_rows(inner)
            argument, error = _argument(None if counts else item.arg, inner, truth, state)
            if argument is not None:
                found.append(argument)
            if error is not False:
                wrong.append(exists_members.at_least_one(error, inner, part))
    return found, any_of(wrong)


def _distinct(expr: Reduced, part: Part, state: Lowering) -> list[_Table]:
    """The same of the different values of what the graph knows: each is there where one of its
    members is.
    """
    inside = [
        (frame, rows, owner, _terms(item.arg, frame, rows))
        for item in expr.over
        for frame in [part.frame.inside[id(item.branch)]]
        for rows, owner in exists_members.owned(frame, part)
    ]
    pairs = dict.fromkeys(
        pair
        for _, _, owner, terms in inside
        for pair in zip(owner.tolist(), terms, strict=True)
        if pair[1] is not None
    )
    ordered = sorted(pairs, key=lambda pair: pair[0])
    if not ordered:
        return []
    place = {pair: i for i, pair in enumerate(ordered)}
    owners = np.array([i for i, _ in ordered], dtype=np.int64)
    values = exists_members.table(part.frame, part.at[owners], owners, part)
    truths: list[Truth] = []
    for frame, rows, owner, terms in inside:
        where = np.array(
            [place.get(pair, -1) for pair in zip(owner.tolist(), terms, strict=True)],
            dtype=np.int64,
        )
        if (where >= 0).any():
            truths += [
                exists_members.has_matching_member(inner, values, state)
                for inner in exists_members.with_and_without_rows(
                    frame, rows[where >= 0], where[where >= 0], values
                )
            ]
    there = any_of(truths)
    if there is False:
        return []
    exists_members.same_rows(values)
    taken: Term = values.rows.param(_plain([term for _, term in ordered], expr, part))
    if not isinstance(there, bool):
        taken = Choose(condition=there, then=taken, otherwise=unknown_term(values.rows))
    return [
        _Table(table=values.table, rows=values.rows, arg=taken, skip=True, unit=None, stated=True)
    ]


def _terms(arg: Expr | None, frame: Frame, rows: Ids) -> list[Answer]:
    """The value of a static expression in some rows of a frame."""
    name = arg.name if isinstance(arg, Var) else None if arg is None else frame.exprs.get(arg)
    column = None if name is None else column_of(name, frame)
    if column is None:
        raise SparqlProblem(
            "FKG351",
            (0, 0) if arg is None else arg.at,
            "DISTINCT has no effect on a value that is the same in all solutions",
            "leave DISTINCT out",
        )
    return [column[i] for i in rows.tolist()]


def _plain(terms: Sequence[Answer], expr: Reduced, part: Part) -> Float:
    """What different values count for: one each, or the numbers that they are."""
    if expr.op == "count":
        return np.ones(len(terms))
    numbers = [part.frame.batch.observations.number(term) for term in terms]
    plain = [item for item in numbers if isinstance(item, float)]
    if len(plain) < len(numbers):
        raise SparqlProblem(
            "FKG351",
            expr.at,
            f"DISTINCT inside {expr.op.upper()} needs plain numbers",
            "leave DISTINCT out",
        )
    return np.array(plain)


def _in_unit(item: _Table, unit: Unit | None, expr: Reduced) -> Term:
    """What a table gives, in the unit of the first."""
    if item.unit is None or unit is None or same_scale(item.unit, unit):
        return item.arg
    if not same_dimension(item.unit, unit):
        message = (
            f"members {in_which_unit(item.unit)} and {in_which_unit(unit)} are reduced together"
        )
        raise SparqlProblem("FKG347", expr.at, message, "aggregate values of one kind")
    return in_rule_unit(item.arg, item.unit, unit, item.rows)


def _combine_tables(op: str, found: list[_Table], expr: Reduced) -> Term:
    """One number over several tables of members."""
    each: list[Term] = [item.reduce(op) for item in found]
    if len(each) == 1:
        return each[0]
    if op in ("sum", "count"):
        return sum_terms(each)
    if op == "mean":
        sums, counts = ([item.reduce(name) for item in found] for name in ("sum", "count"))
        return Quotient(numerator=sum_terms(list(sums)), denominator=sum_terms(list(counts)))
    if not all(item.skip for item in found):
        raise SparqlProblem("FKG351", expr.at, _MISSING, "ask for it outside OPTIONAL")
    term = each[0]
    for other in each[1:]:
        both = Call.model_validate({"function": op, "args": (term, other)})
        term = Coalesce(args=(both, term, other))
    return term


def _argument(
    arg: Expr | None, inner: Part, truth: Truth, state: Lowering
) -> tuple[_Table | None, Truth]:
    """What is reduced, whether members without it are skipped, and its unit; and when a member that
    counts has none, an error.
    """
    number = (
        Number(at=(0, 0), values=np.ones(inner.at.shape[0]))
        if arg is None
        else state.number_term(arg, inner, state)
    )
    there = truth if isinstance(truth, bool) else certainly(truth)
    if number is None:
        return None, there
    term = number.as_term(inner.rows)
    has = known_formula(term)
    conditional = not isinstance(truth, bool)
    certain = has is True or (conditional and _implied(truth, term))
    error: Truth = False
    if conditional:
        assert not isinstance(truth, bool)
        if not certain:
            error = all_of([there, none(has)])
        if not (isinstance(term, Slot) and truth == Known(slot=term.index)):
            term = Choose(condition=truth, then=term, otherwise=unknown_term(inner.rows))
    table = _Table(
        table=inner.table,
        rows=inner.rows,
        arg=term,
        skip=conditional or certain,
        unit=number.unit,
        stated=number.stated,
    )
    return table, error


def _implied(truth: Truth, term: Term) -> bool:
    """Whether a condition makes sure that a term has a value, a division by zero apart."""
    if isinstance(truth, bool):
        return known_formula(term) is True
    slots = sufficient_slots(term)
    return slots is not None and slots <= strict_slots(truth)
