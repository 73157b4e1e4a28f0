"""Numbers slots, parameters and sets of members in the order in which a formula reads them; what it
does not read falls away.

So formulas that mean the same become the same skeleton, however they came about.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fedkg.pack import Formula
from fedkg.pack.walk import ROWS, Renumbering, renumbered
from fedkg_compiler.ir import Rows


@dataclass(slots=True)
class _Numbers:
    """New numbers of one table of rows, by old ones."""

    rows: Rows
    slots: dict[int, int] = field(default_factory=dict)
    params: dict[int, int] = field(default_factory=dict)

    def slot(self, old: int) -> int:
        return self.slots.setdefault(old, len(self.slots))

    def param(self, old: int) -> int:
        return self.params.setdefault(old, len(self.params))

    def write(self, target: Rows) -> None:
        target.slots = [self.rows.slots[old] for old in self.slots]
        target.params = [self.rows.params[old] for old in self.params]


def compact(formula: Formula, rows: Rows) -> tuple[Formula, Rows]:
    """The formula renumbered, and the rows with what it reads alone."""
    tables = {ROWS: _Numbers(rows)}
    members: dict[int, int] = {}

    def entered(old: int) -> int:
        tables.setdefault(old, _Numbers(rows.members[old].rows))
        return members.setdefault(old, len(members))

    new = Renumbering(
        slot=lambda table, old: tables[table].slot(old),
        param=lambda table, old: tables[table].param(old),
        members=entered,
    )
    found = renumbered(formula, new)
    fresh = Rows(rows.count)
    tables[ROWS].write(fresh)
    for old in members:
        table = rows.members[old]
        _, inner = fresh.set_of_members(
            table.offsets, ROWS if table.parent < 0 else members[table.parent], table.keys
        )
        tables[old].write(inner)
    return found, fresh
