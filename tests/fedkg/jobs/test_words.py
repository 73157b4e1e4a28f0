"""Violations in words."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedkg.jobs.words import example, number


def values(torque: float, wear: float, said: float, raised: float = math.nan) -> np.ndarray:
    base = [torque, wear, said, 0.0]
    return np.array([base, [torque, wear + 13, raised, 0.0]])


def test_a_guard_is_told_with_its_numbers(pack):
    text = example(pack, pack.banks[0], 2, values(57.3, 200.0, 0.271), "row 812")
    assert text == (
        "M3, row 812: torque 57.3 N.m, wear 200 min; predicted failure 0.27. "
        "Wanted: failure at least 0.5, because torque × wear is 11460, above 11000."
    )


def test_a_rise_is_told_as_one(pack):
    text = example(pack, pack.banks[1], 0, values(40.0, 100.0, 0.5, 0.4), "row 1")
    assert text == (
        "M1, row 1: wear 100 min; predicted failure 0.50, and 0.40 at wear 113 min. Wanted: failure no lower when wear is raised by 13 min."
    )


def test_a_small_difference_is_shown(pack):
    assert "failure 0.5000, and 0.4999 at" in example(pack, pack.banks[1], 0, values(40.0, 100.0, 0.5, 0.4999), "row 1")


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
