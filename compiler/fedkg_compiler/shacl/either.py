"""Rows of two formulas joined: one holds or the other does, for a shape whose focus nodes depend on the table.

Letters: R rows of the one, S of the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedkg.pack import Or, RuleRecord
from fedkg.pack.node import Node
from fedkg_compiler.binding.rule import BoundRows
from fedkg_compiler.lowering.rows import Rows
from fedkg_compiler.shacl.logic import Refused
from fedkg_compiler.sparql.compact import compact
from fedkg_compiler.sparql.rows import take_rows

_SLOTS = {"slot": "index", "category_is": "slot", "known": "slot"}
_PARAMS = {"param": "index", "compare": "scale", "category_is": "param", "at_least": "count"}
"""Where a kind of node has the number of a slot or parameter."""


def either(one: BoundRows, other: BoundRows, record: RuleRecord) -> BoundRows:
    """R x S rows, one for each pair: the one row holds or the other does.

    Raises:
        Refused: two of them are about different table rows.
    """
    many, more = one.rows.count, other.rows.count
    left, right = np.repeat(np.arange(many), more), np.tile(np.arange(more), many)
    rows = Rows(many * more)
    shifts = (0, 0, 0)
    parts = []
    for bound, at in ((one, left), (other, right)):
        taken = take_rows(bound.rows, at.astype(np.int64))
        parts.append(_shifted(bound.formula, shifts, inside=False))
        _append(taken, rows, shifts[2])
        shifts = len(rows.slots), len(rows.params), len(rows.members)
    keys = []
    for i, j in zip(left.tolist(), right.tolist(), strict=True):
        key = dict(one.keys[i])
        for header, text in other.keys[j]:
            if key.setdefault(header, text) != text:
                raise Refused(f"no table row is about both {key[header]} and {text}: column `{header}` has one of them")
        keys.append(tuple(sorted(key.items())))
    formula, rows = compact(Or(args=tuple(parts)), rows)
    entities = tuple(one.entities[i] for i in left.tolist())
    return replace(one, rule=record, formula=formula, rows=rows, keys=tuple(keys), entities=entities, unit="")


def _append(taken: Rows, rows: Rows, shift: int) -> None:
    """The slots, parameters and members of some rows behind those that are there."""
    rows.slots += taken.slots
    rows.params += taken.params
    for table in taken.members:
        _, inner = rows.set_of_members(table.offsets, -1 if table.parent < 0 else table.parent + shift)
        inner.slots, inner.params = table.rows.slots, table.rows.params


def _shifted(node: Any, shifts: tuple[int, int, int], *, inside: bool) -> Any:  # Any: a node, a tuple, a value
    """A formula with its numbers moved; what stands inside a set of members has numbers of its own."""
    if isinstance(node, tuple):
        return tuple(_shifted(item, shifts, inside=inside) for item in node)
    if not isinstance(node, Node):
        return node
    kind, changed = getattr(node, "kind", ""), dict[str, Any]()
    for name in type(node).model_fields:
        value = getattr(node, name)
        if name == "members":
            changed[name] = value + shifts[2]
        elif value is not None and not inside and name in (_SLOTS.get(kind), _PARAMS.get(kind)):
            changed[name] = value + shifts[0 if name == _SLOTS.get(kind) else 1]
        elif isinstance(value, Node | tuple):
            changed[name] = _shifted(value, shifts, inside=inside or (hasattr(node, "members") and name == "arg"))
    return node.model_copy(update=changed)
