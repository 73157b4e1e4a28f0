"""Whether `otherwise` of a quantified model is one thing for each sample: its rows may differ only
where no sample is about both.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from fedkg.pack.formulas import ROWS
from fedkg_compiler.ir import BoundRows, Codes, Rows

Keys = tuple[tuple[str, str], ...]


def conflicting_rows(parts: Sequence[BoundRows]) -> tuple[str, str] | None:
    """The names of two rows that say different things of the same samples, None if there are
    none.

    Rows of different parts differ in their units, which one clause cannot hold: they are always
    apart.
    """
    if len(parts) > 1:
        return _name(parts[0], 0), _name(parts[1], 0)
    for part in parts:
        first: dict[Keys, tuple[int, Hashable]] = {}
        for row, keys in enumerate(part.keys):
            said = _row_content(part.rows, row)
            other, as_before = first.setdefault(keys, (row, said))
            if as_before != said:
                return _name(part, other), _name(part, row)
        if (
            len({tuple(header for header, _ in keys) for keys in first}) > 1
        ):  # some rows select by more columns than others
            found = [(dict(keys), row, said) for keys, (row, said) in first.items()]
            for i, (here, row, said) in enumerate(found):
                for there, other, differently in found[:i]:
                    if said != differently and all(
                        there.get(header, text) == text for header, text in here.items()
                    ):
                        return _name(part, other), _name(part, row)
    return None


def _row_content(rows: Rows, row: int) -> Hashable:
    """The numbers and columns of a row: equal for rows that say the same."""
    params = tuple(
        (int(one.columns[row]), one.texts[row]) if isinstance(one, Codes) else float(one[row])
        for one in rows.params
    )
    slots = tuple((int(slot.columns[row]), int(slot.views[row])) for slot in rows.slots)
    owned = tuple(
        tuple(
            _row_content(table.rows, member)
            for member in range(int(table.offsets[row]), int(table.offsets[row + 1]))
        )
        for table in rows.members
        if table.parent == ROWS
    )
    return params, slots, owned


def _name(part: BoundRows, row: int) -> str:
    return part.entities[row] or f"row {row + 1}"
