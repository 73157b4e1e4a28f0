"""Constraints on a table row as text."""

from __future__ import annotations

import math

import numpy as np
import pytest
from evaluation_packs import BELOW, GROWS, STRAIN, bank
from evaluation_packs import pack as pack_of

from fedkg.evaluation.result import is_telling
from fedkg.evaluation.row_explanation import example, number, readings_text
from fedkg.pack import And, CategoryIs, Column, Compare, Pack, Param, Slot, View

MACHINES = ("M1", "M2", "M3")
COLUMNS = (
    Column(name="torque", source="Torque [Nm]", unit="N.m"),
    Column(name="wear", source="Tool wear [min]", unit="min"),
    Column(name="failure", source="Machine failure", role="output", unit="probability"),
    Column(name="machine", source="machine", type="category", vocabulary=MACHINES),
)
AT_LEAST = Compare(op="le", left=Param(index=0), right=Slot(index=0), scale=1)
LATER = Compare(
    op="le", left=Slot(index=0, role="output"), right=Slot(index=1, role="output"), scale=0
)


@pytest.fixture
def pack() -> Pack:
    """Strain, wear and torque of three machines."""
    keys, codes = [[3]] * 3, [[0], [1], [2]]
    banks = (
        bank(STRAIN, [[0, 1, 2]] * 3, [[11000, 1000, 0.5, 1]] * 3, rule=0, keys=keys, codes=codes),
        bank(LATER, [[2, 2]] * 3, [[1]] * 3, rule=1, keys=keys, codes=codes, views=[[0, 1]] * 3),
        bank(AT_LEAST, [[0]] * 3, [[0, 80]] * 3, rule=2, keys=keys, codes=codes),
    )
    return pack_of(
        ["strain", "wear", "torque"],
        banks,
        columns=COLUMNS,
        views=(View(), View(kind="raised", column=1, delta=13)),
    )


def values(torque: float, wear: float, said: float, raised: float = math.nan) -> np.ndarray:
    base = [torque, wear, said, 0.0]
    return np.array([base, [torque, wear + 13, raised, 0.0]])


def test_a_guard_is_reported_with_its_numbers(pack):
    text = example(pack, pack.banks[0], 2, values(57.3, 200.0, 0.271), "row 812")
    assert (
        text == "M3, row 812: torque 57.3 N.m, wear 200 min; predicted failure 0.27. "
        "Wanted: failure at least 0.5, because torque × wear is 11460, above 11000."
    )


def test_a_rise_is_told_as_one(pack):
    text = example(pack, pack.banks[1], 0, values(40.0, 100.0, 0.5, 0.4), "row 1")
    assert (
        text == "M1, row 1: wear 100 min; predicted failure 0.50, and 0.40 at wear 113 min. Wanted:"
        " failure no lower when wear is raised by 13 min."
    )


def test_a_small_difference_is_shown(pack):
    assert "failure 0.5000, and 0.4999 at" in example(
        pack, pack.banks[1], 0, values(40.0, 100.0, 0.5, 0.4999), "row 1"
    )


def test_a_check_of_data_has_no_prediction(pack):
    text = example(pack, pack.banks[2], 1, values(-3.0, 1.0, math.nan), "row 7")
    assert text == "M2, row 7: torque -3 N.m. Wanted: torque at least 0."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (12345.6, "12346"),
        (0.1047197, "0.1047"),
        (8.6, "8.6"),
        (1e-5, "0.00001"),
        (-2.5, "-2.5"),
        (math.inf, "inf"),
        (1380.0, "1380"),
    ],
)
def test_numbers(value, text):
    assert number(value) == text


def test_what_is_read_on_a_row() -> None:
    both = And(args=(BELOW, CategoryIs(slot=1, param=2)))
    rules = pack_of(["r"], [bank(both, [[0, 3]], [[50, 1, 0]], rule=0)], columns=COLUMNS)
    assert (
        readings_text(rules, rules.banks[0], 0, np.array([[57.3, 2.0, 0.0, 1.0]]))
        == "torque 57.3 N.m, machine M2"
    )
    assert (
        readings_text(rules, rules.banks[0], 0, np.array([[math.nan, 2.0, 0.0, -2.0]]))
        == "torque unknown, machine another"
    )


def test_the_row_before_is_called_so() -> None:
    grows = bank(GROWS, [[1, 1]], [[1]], rule=0, views=[[1, 0]])
    rules = pack_of(["r"], [grows], columns=COLUMNS, views=(View(), View(kind="previous")))
    values = np.array([[0, 7, 0, 0], [0, 9, 0, 0]], dtype=np.float64)
    assert readings_text(rules, rules.banks[0], 0, values) == "previous wear 9 min, wear 7 min"


def test_when_a_robustness_says_something(pack: Pack) -> None:
    assert not is_telling(pack, pack.banks[0], 0)
    assert is_telling(pack, pack.banks[2], 0)
    other = Compare(op="le", left=Slot(index=1), right=Param(index=0), scale=1)
    mixed = bank(And(args=(BELOW, other)), [[0, 1]], [[50, 1]], rule=0)
    assert not is_telling(pack_of(["r"], [mixed], columns=COLUMNS), mixed, 0)
