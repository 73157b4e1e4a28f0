"""Numbers slots, parameters and sets of members in the order in which a formula reads them; what it does not read falls away.

So formulas that mean the same become the same skeleton, however they came about.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fedkg.pack import Formula
from fedkg.pack.node import Node
from fedkg_compiler.lowering.rows import Rows

_PARAMS = {"compare": ("scale",), "category_is": ("param",), "at_least": ("count",)}
_SLOTS = {"category_is": ("slot",), "known": ("slot",)}
_ORDER = {
    "compare": ("left", "right", "tolerance", "scale"),
    "category_is": ("slot", "param"),
    "at_least": ("count", "members", "arg"),
    "reduce": ("members", "arg"),
}
"""In which order the parts of a node are read, where it is not that of its fields."""


@dataclass(slots=True)
class _Numbers:
    """New numbers of one table of rows, by old ones."""

    rows: Rows
    slots: dict[int, int] = field(default_factory=dict)
    params: dict[int, int] = field(default_factory=dict)

    def write(self, target: Rows) -> None:
        target.slots = [self.rows.slots[old] for old in self.slots]
        target.params = [self.rows.params[old] for old in self.params]


def compact(formula: Formula, rows: Rows) -> tuple[Formula, Rows]:
    """The formula renumbered, and the rows with what it reads alone."""
    tables = {-1: _Numbers(rows)}
    members: dict[int, int] = {}
    found: Formula = _node(formula, -1, tables, members, rows)
    fresh = Rows(rows.count)
    tables[-1].write(fresh)
    for old in members:
        table = rows.members[old]
        _, inner = fresh.set_of_members(table.offsets, -1 if table.parent < 0 else members[table.parent])
        tables[old].write(inner)
    return found, fresh


def _node(node: Any, table: int, tables: dict[int, _Numbers], members: dict[int, int], rows: Rows) -> Any:  # Any: a node, a tuple, a value
    if isinstance(node, tuple):
        return tuple(_node(item, table, tables, members, rows) for item in node)
    if not isinstance(node, Node):
        return node
    kind = getattr(node, "kind", "")
    here = tables[table]
    changed: dict[str, Any] = {}
    inside = table
    for name in _ORDER.get(kind, tuple(type(node).model_fields)):
        value = getattr(node, name)
        if kind == "slot" and name == "index":
            changed[name] = here.slots.setdefault(value, len(here.slots))
        elif kind == "param" and name == "index":
            changed[name] = here.params.setdefault(value, len(here.params))
        elif name in _SLOTS.get(kind, ()):
            changed[name] = here.slots.setdefault(value, len(here.slots))
        elif name in _PARAMS.get(kind, ()) and value is not None:
            changed[name] = here.params.setdefault(value, len(here.params))
        elif name == "members":
            members.setdefault(value, len(members))
            tables.setdefault(value, _Numbers(rows.members[value].rows))
            changed[name], inside = members[value], value
        elif isinstance(value, Node | tuple):
            changed[name] = _node(value, inside, tables, members, rows)
    return node.model_copy(update=changed)
