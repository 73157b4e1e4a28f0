"""EXISTS with observed values inside, and the sets of members that aggregates range over: one for
each row outside.

Letters: P rows of the part outside, M members.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedkg.pack import AtLeast, Formula, Known, Not
from fedkg.pack.numeric.members import member_offsets
from fedkg_compiler.formulas.formula_algebra import Truth, all_of, always, any_of, strict_slots
from fedkg_compiler.frontends.sparql.answer_frames import Frame, Ids
from fedkg_compiler.frontends.sparql.branch_tree import Branch, Seen, Within
from fedkg_compiler.frontends.sparql.shared_formula_rows import Part, partition
from fedkg_compiler.frontends.sparql.slot_lowering import Lowering, slot_of
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.ir import RowKeys


def conditions(part: Part, branch: Branch, state: Lowering) -> Truth:
    """What must hold in a row for its solution to be there: what is read has a value, and all
    conditions are true.
    """
    truth = all_of(
        [
            True if part.without_row is None else part.without_row,
            *(state.holds(expr, part, state) for expr in branch.conditions),
        ]
    )
    if truth is False:
        return False
    strict = frozenset() if isinstance(truth, bool) else strict_slots(truth)
    there: list[Truth] = []
    for item in branch.observed:
        if not item.required:
            continue
        slot = slot_of(Seen(at=item.at, name=item.variable), part, state, mode=None)
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
                frame=frame,
                at=part.at,
                rows=part.rows,
                outer=part,
                owner=np.arange(part.at.shape[0]),
                table=part.table,
                depth=part.depth,
            )
        same_rows(part.inline[id(branch)])
        return conditions(part.inline[id(branch)], branch, state)
    return any_of(has_matching_member(inner, part, state) for inner in tables(branch, part))


def has_matching_member(inner: Part, part: Part, state: Lowering) -> Truth:
    """Whether a row of `part` has a member for which all conditions hold."""
    truth = conditions(inner, inner.frame.branch, state)
    return False if truth is False else at_least_one(truth, inner, part)


def at_least_one(truth: Truth, inner: Part, part: Part) -> Truth:
    """Return a formula that is true if some member of a row satisfies the parts.

    Members are read from the table row of `part`.
    """
    same_rows(inner)
    return AtLeast(
        count=part.rows.param(np.array(1.0)).index, members=inner.table, arg=_formula(truth, inner)
    )


def _formula(truth: Truth, part: Part) -> Formula:
    """The truth as a formula: what is always true as a comparison of a number with itself."""
    return always(part.rows) if isinstance(truth, bool) else truth


def tables(branch: Branch, part: Part) -> list[Part]:
    """Return the members of each row, in tables with one formula each."""
    if id(branch) not in part.members:
        frame = part.frame.inside[id(branch)]
        part.members[id(branch)] = [
            inner
            for rows, owner in owned(frame, part)
            for inner in with_and_without_rows(frame, rows, owner, part)
        ]
    return part.members[id(branch)]


def with_and_without_rows(frame: Frame, rows: Ids, owner: Ids, part: Part) -> list[Part]:
    """A table of members, and another one of those without a table row.

    Members without a table row exist if all that they read is optional.
    """
    inner = table(frame, rows, owner, part)
    if not inner.other_rows or any(item.required for item in frame.branch.observed):
        return [inner]
    return [inner, _without_row(inner, part)]


def _without_row(inner: Part, part: Part) -> Part:
    """The members of a table again, with no values, and only while no table row has their keys."""
    assert inner.owner is not None, "members belong to something"
    number, columns = part.rows.set_of_members(member_offsets(inner.owner, part.at.shape[0]))
    each = member_offsets(np.arange(columns.count), columns.count)
    found, row = columns.set_of_members(each, keys=keys_read(inner.frame, inner.at))
    one = columns.param(np.array(1.0)).index
    return replace(
        inner,
        frame=_without_values(inner.frame),
        rows=columns,
        table=number,
        members={},
        inline={},
        depth=part.depth,
        without_row=Not(arg=AtLeast(count=one, members=found, arg=always(row))),
    )


def _without_values(frame: Frame) -> Frame:
    """A frame that reads nothing from the table row of its entities."""
    nothing = np.full(frame.count, -1, dtype=np.int64)
    return replace(
        frame,
        readings={
            name: replace(reading, at=nothing, keys=(None,) * frame.count)
            for name, reading in frame.readings.items()
        },
        inside={
            branch: inner if inner.other_rows else _without_values(inner)
            for branch, inner in frame.inside.items()
        },
    )


def owned(frame: Frame, part: Part) -> list[tuple[Ids, Ids]]:
    """The rows of a frame inside that can share a formula, and the row of `part` that owns each."""
    place = np.full(part.frame.count, -1, dtype=np.int64)
    place[part.at] = np.arange(part.at.shape[0])
    found = [(rows, place[frame.owner[rows]]) for rows in partition(frame)]
    return [(rows[owner >= 0], owner[owner >= 0]) for rows, owner in found if (owner >= 0).any()]


def table(frame: Frame, rows: Ids, owner: Ids, part: Part) -> Part:
    """A new table of members of the rows of `part`."""
    order = np.argsort(owner, kind="stable")
    rows, owner = rows[order], owner[order]
    other_rows = frame.other_rows and frame is not part.frame
    number, columns = part.rows.set_of_members(
        member_offsets(owner, part.at.shape[0]), keys=keys_read(frame, rows) if other_rows else None
    )
    return Part(
        frame=frame,
        at=rows,
        rows=columns,
        outer=part,
        owner=owner,
        table=number,
        depth=part.depth + other_rows,
    )


def keys_read(frame: Frame, rows: Ids) -> tuple[RowKeys, ...]:
    """The headers and texts that select the table rows of some rows of a frame.

    Raises:
        SparqlProblem: a row reads different table rows.
    """
    found: list[RowKeys] = []
    keyed = [reading for reading in frame.readings.values() if reading.keyed]
    for i in rows.tolist():
        keys: dict[str, str] = {}
        for reading in keyed:
            key = reading.keys[i]
            if key is not None and keys.setdefault(*key) != key[1]:
                raise SparqlProblem(
                    "FKG346",
                    reading.observed.at,
                    "one solution inside EXISTS or a group reads several rows of the table",
                    "give each entity a separate column",
                )
        found.append(tuple(sorted(keys.items())))
    return tuple(found)


def same_rows(inner: Part) -> None:
    """Reject members that are in different table rows, unless their table says so."""
    if inner.other_rows:
        return
    keys = own_keys(inner)
    if not any(keys):
        return
    assert inner.outer is not None, "members belong to something"
    assert inner.owner is not None, "members belong to something"
    outside = keys_of(inner.outer)
    for own, i in zip(keys, inner.owner.tolist(), strict=True):
        for header, text in own:
            if outside[i].setdefault(header, text) != text:
                item = (
                    inner.frame.branch.observed[0]
                    if inner.frame.branch.observed
                    else inner.outer.frame.branch.observed[0]
                )
                raise SparqlProblem(
                    "FKG346",
                    item.at,
                    "the values that are aggregated here are in different rows of the table",
                    "give each entity a separate column",
                )
            inner.outer.gathered.setdefault(i, {})[header] = text


def own_keys(part: Part) -> list[list[tuple[str, str]]]:
    """For each row, the keys of what it reads itself, and of its members."""
    found: list[list[tuple[str, str]]] = [
        list(part.gathered.get(i, {}).items()) for i in range(part.at.shape[0])
    ]
    for reading in part.frame.readings.values():
        if reading.keyed:
            for row, i in zip(found, part.at.tolist(), strict=True):
                key = reading.keys[i]
                if key is not None:
                    row.append(key)
    return found


def keys_of(part: Part) -> list[dict[str, str]]:
    """For each row, the headers and texts that select its table rows, those outside included."""
    found: list[dict[str, str]] = [{} for _ in range(part.at.shape[0])]
    if part.outer is not None and part.owner is not None and not part.other_rows:
        around = keys_of(part.outer)
        found = [dict(around[i]) for i in part.owner.tolist()]
    for row, own in zip(found, own_keys(part), strict=True):
        for header, text in own:
            row.setdefault(header, text)
    return found
