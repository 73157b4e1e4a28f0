"""Disjunction of the rows of two formulas, for shapes with focus nodes that depend on the table.

Letters: R rows of the first formula, S rows of the second.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedkg.pack import Formula, Or, RuleRecord
from fedkg.pack.walk import ROWS, Renumbering, renumbered
from fedkg_compiler.frontends.shacl.shape_conditions import Refused
from fedkg_compiler.frontends.sparql.branch_rows import take_rows
from fedkg_compiler.frontends.sparql.slot_numbering import compact
from fedkg_compiler.ir import BoundRows, Rows


def either(one: BoundRows, other: BoundRows, record: RuleRecord) -> BoundRows:
    """R x S rows, one for each pair: at least one row of the pair holds.

    Raises:
        Refused: two of them are about different table rows.
    """
    many, more = one.rows.count, other.rows.count
    left, right = np.repeat(np.arange(many), more), np.tile(np.arange(more), many)
    rows = Rows(count=many * more)
    parts = []
    for bound, at in ((one, left), (other, right)):
        parts.append(_shifted(bound.formula, rows))
        rows = _appended(rows, take_rows(bound.rows, at.astype(np.int64)))
    keys = []
    for i, j in zip(left.tolist(), right.tolist(), strict=True):
        key = dict(one.keys[i])
        for header, text in other.keys[j]:
            if key.setdefault(header, text) != text:
                raise Refused(
                    f"no table row is about both {key[header]} and {text}: column "
                    f"`{header}` has one of them"
                )
        keys.append(tuple(sorted(key.items())))
    formula, rows = compact(Or(args=tuple(parts)), rows)
    entities = tuple(one.entities[i] for i in left.tolist())
    return replace(
        one, rule=record, formula=formula, rows=rows, keys=tuple(keys), entities=entities, unit=""
    )


def _appended(rows: Rows, more: Rows) -> Rows:
    """The slots, parameters and members of `more` behind those of `rows`."""
    shift = len(rows.members)
    moved = (
        table if table.parent == ROWS else replace(table, parent=table.parent + shift)
        for table in more.members
    )
    return replace(
        rows,
        slots=rows.slots + more.slots,
        params=rows.params + more.params,
        members=(*rows.members, *moved),
    )


def _shifted(formula: Formula, before: Rows) -> Formula:
    """A formula with the slot, parameter and table numbers that it has behind some rows.

    Member sets have separate numbers.
    """
    slots, params, tables = len(before.slots), len(before.params), len(before.members)
    new = Renumbering(
        slot=lambda table, old: old + slots if table == ROWS else old,
        param=lambda table, old: old + params if table == ROWS else old,
        members=lambda old: old + tables,
    )
    return renumbered(formula, new)
