"""Numbers slots, parameters and sets of members in the order in which a formula reads them; what it
does not read falls away.

So formulas that mean the same become the same skeleton, however they came about.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fedkg.pack import Formula
from fedkg.pack.formulas import ROWS, Renumbering, renumbered
from fedkg_compiler.ir import MemberRows, Rows


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

    def rows_read(self) -> Rows:
        """The rows with the slots and parameters that are read, by their new numbers."""
        return Rows(
            count=self.rows.count,
            slots=tuple([self.rows.slots[old] for old in self.slots]),
            params=tuple([self.rows.params[old] for old in self.params]),
        )


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
    tables_read = [
        MemberRows(
            parent=ROWS if rows.members[old].parent == ROWS else members[rows.members[old].parent],
            offsets=rows.members[old].offsets,
            rows=tables[old].rows_read(),
            keys=rows.members[old].keys,
        )
        for old in members
    ]
    return found, replace(tables[ROWS].rows_read(), members=tuple(tables_read))
