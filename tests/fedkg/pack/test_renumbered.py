"""Formulas with other indices.

Every slot, parameter and table of members of every kind of formula and term is renumbered.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from stl_formulas import Maker
from strategies import formulas
from tries import tries

from fedkg.pack import Formula
from fedkg.pack.formulas import ROWS, Renumbering, indices, renumbered


def moved(formula: Formula, by: int) -> Formula:
    """Slots, parameters and tables shifted, each table by another number."""
    return renumbered(
        formula,
        Renumbering(
            slot=lambda table, old: old + by * (table + 2),
            param=lambda table, old: old + 7 * by * (table + 2),
            members=lambda old: old,
        ),
    )


def expected(read: dict[int, frozenset[int]], by: int) -> dict[int, frozenset[int]]:
    return {
        table: frozenset(index + by * (table + 2) for index in found)
        for table, found in read.items()
    }


@given(formula=formulas(temporal=True, members=True))
@tries(150)
def test_everything_that_is_read_moves_and_moves_back(formula: Formula) -> None:
    slots, params = indices(formula)
    there = moved(formula, 1)
    assert indices(there) == (expected(slots, 1), expected(params, 7))
    unmoved = Renumbering(
        slot=lambda table, old: old - (table + 2),
        param=lambda table, old: old - 7 * (table + 2),
        members=lambda old: old,
    )
    assert renumbered(there, unmoved) == formula


@given(formula=formulas(temporal=True, members=True))
@tries(100)
def test_tables_of_members_change_places(formula: Formula) -> None:
    swap = Renumbering(
        slot=lambda _, old: old, param=lambda _, old: old, members=lambda old: 1 - old
    )
    turned = renumbered(formula, swap)
    slots, params = indices(formula)
    there = {ROWS: ROWS, 0: 1, 1: 0}
    assert indices(turned) == (
        {there[t]: found for t, found in slots.items()},
        {there[t]: found for t, found in params.items()},
    )
    assert renumbered(turned, swap) == formula


@pytest.mark.parametrize("seed", range(20))
def test_windows_are_renumbered(seed: int) -> None:
    formula, _ = Maker(random.Random(seed)).formula(4)
    slots, params = indices(formula)
    assert indices(moved(formula, 3)) == (expected(slots, 3), expected(params, 21))
