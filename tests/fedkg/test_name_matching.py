"""The known name most similar to a mistyped one."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkg._internal.name_matching import Suggestion, did_you_mean, distance, nearest_name

NAMES = [
    "torque",
    "temperature",
    "process_temperature",
    "isa95:EquipmentClass",
    "isa95:Equipment",
    "wear",
    "Type",
]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("torqe", "torque"),
        ("troque", "torque"),
        ("isa95:EquipmentClas", "isa95:EquipmentClass"),
        ("proces_temperature", "process_temperature"),
        ("WEAR", "wear"),
        ("type", "Type"),
        ("pressure", None),
        ("x", None),
        ("wea", "wear"),
        ("torque", None),
    ],
)
def test_the_nearest_name(word: str, expected: str | None) -> None:
    assert nearest_name(word, NAMES) == expected


def test_of_equally_near_names_the_first_in_order_is_taken() -> None:
    assert nearest_name("cat", ["cut", "bat", "cot"]) == "bat"


def test_what_a_help_line_says() -> None:
    assert did_you_mean("torqe", NAMES) == "did you mean `torque`?"
    assert did_you_mean("pressure", NAMES, otherwise="declare it") == "declare it"


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_the_distance_is_symmetric_and_zero_only_for_the_same(left: str, right: str) -> None:
    assert distance(left, right, 9) == distance(right, left, 9)
    assert (distance(left, right, 9) == 0) == (left == right)
    assert distance(left, right, 1) == min(distance(left, right, 9), 2)


def test_a_suggestion_can_be_copied_with_its_words() -> None:
    """fedkg copies diagnostics when it caches a compilation."""
    copied = copy.deepcopy(
        Suggestion("did you mean `minInclusive`?", "minInclsive", "minInclusive")
    )
    assert (str(copied), copied.wrong, copied.right) == (
        "did you mean `minInclusive`?",
        "minInclsive",
        "minInclusive",
    )
