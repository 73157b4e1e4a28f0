"""Splitting of names into stems."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkg_compiler.graph.alignment.stemming import exact, meanings, points_back, stem, stems


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("MachineTool", "machine_tools"),
        ("MachineTool", "machine tool"),
        ("Shearing_machine-tool", "shearing machine tools"),
        ("hasMeasurement", "measurements"),
        ("operatedBy", "operated by"),
        ("unitOfMeasure", "UOM"),
        ("OperationsSpec", "operations specification"),
        ("Organisation", "organization"),
    ],
)
def test_spellings_of_one_name_share_their_stems(one: str, other: str) -> None:
    assert stems(one) == stems(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Part", "Process"), ("hasPart", "hasInput"), ("Lot", "Plot"), ("Site", "Side")],
)
def test_different_names_do_not(one: str, other: str) -> None:
    assert set(stems(one)) & set(stems(other)) == set()


def test_a_name_of_small_words_alone_keeps_them() -> None:
    assert stems("isIn") != ()


def test_words_with_one_stem_are_distinguished_and_words_of_one_meaning_are_joined() -> None:
    assert stems("building") == stems("build")
    assert exact("building") != exact("build")
    assert meanings(stems("worker")) == meanings(stems("person"))
    assert meanings(stems("worker")) != meanings(stems("machine"))


@pytest.mark.parametrize(
    ("name", "back"),
    [
        ("isPartOf", True),
        ("executedBy", True),
        ("hasPart", False),
        ("hasPartOf", False),
        ("of", False),
    ],
)
def test_direction(name: str, back: bool) -> None:
    assert points_back(name) is back


@given(st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=20))
def test_a_stem_is_a_beginning_and_its_own_stem(word: str) -> None:
    first = stem(word)
    assert first == stem(first)
    assert len(first) >= min(len(word), 4)


def test_whose_it_is_leaves_no_letter_behind() -> None:
    assert stems("the product's name") == stems("product name")
