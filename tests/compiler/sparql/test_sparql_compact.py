"""Rows without the values that their formula does not read.

The formula reads the same columns and numbers as before, numbered in the order of reading.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given
from strategies import formulas
from tries import tries

from fedkg.pack import Formula
from fedkg.pack.formulas import ROWS, Renumbering, indices, renumbered
from fedkg_compiler.frontends.sparql.formula_slot_renumbering import compact
from fedkg_compiler.ir import RowBuilder, Rows


def rows() -> Rows:
    """Two rows with two tables of members, the second inside the first.

    Every slot and parameter has a different column or number.
    """
    made = RowBuilder(2)
    _, outer = made.set_of_members(np.array([0, 1, 3]))
    _, inner = made.set_of_members(np.array([0, 2, 2, 3]), 0)
    for number, table in enumerate((made, outer, inner)):
        for i in range(9):
            columns = np.full(table.count, 100 * number + i, dtype=np.int64)
            table.slot(
                ("test", i),
                columns,
                np.zeros_like(columns),
                "output" if i in (3, 4, 6, 7, 8) else "input",
            )
        for i in range(13):
            table.param(np.full(table.count, 1000.0 * number + i))
    return made.build()


def resolved(formula: Formula, made: Rows) -> tuple[Formula, list[int]]:
    """A formula over the contents of its slots and parameters.

    Also returns the tables of members in the order in which it enters them.
    """
    tables = {ROWS: made} | {i: table.rows for i, table in enumerate(made.members)}
    entered: list[int] = []

    def members(old: int) -> int:
        entered.append(old)
        return made.members[old].offsets.shape[0]

    def number(table: int, old: int) -> int:
        held = tables[table].params[old]
        assert isinstance(held, np.ndarray)
        return int(held[0])

    return renumbered(
        formula,
        Renumbering(
            slot=lambda table, old: int(tables[table].slots[old].columns[0]),
            param=number,
            members=members,
        ),
    ), entered


def first_seen(numbers: Iterator[int]) -> list[int]:
    return list(dict.fromkeys(numbers))


@given(formula=formulas(temporal=True, members=True))
@tries(150)
def test_the_formula_reads_what_it_read_and_nothing_is_left_over(formula: Formula) -> None:
    made = rows()
    found, fresh = compact(formula, made)
    assert resolved(found, fresh)[0] == resolved(formula, made)[0]
    slots, params = indices(found)
    tables = {ROWS: fresh} | {i: table.rows for i, table in enumerate(fresh.members)}
    assert set(tables) == set(slots)
    for table, kept in tables.items():
        assert slots[table] == frozenset(range(len(kept.slots)))
        assert params[table] == frozenset(range(len(kept.params)))
    assert first_seen(iter(resolved(found, fresh)[1])) == list(range(len(fresh.members)))
    assert compact(found, fresh)[0] == found
