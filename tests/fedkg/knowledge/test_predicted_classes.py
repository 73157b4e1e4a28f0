"""Predictions of classes with spaces in their names, and predictions that abstain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command import call

import fedkg
from fedkg.evaluation import table_values
from fedkg.knowledge import predictions
from fedkg.tables import read_bytes

HEAD = """
signal height in m column "h"
label cover classes "Ponderosa Pine", Aspen column "cover"
output depth in cm span 0 .. 100 column "d"
"""
TABLE = "h;cover;d\n2000;Aspen;1\n2600;Aspen;1\n3000;Aspen;1\n;Aspen;1\n"


def predicted(knowledge: str) -> list[float]:
    pack = fedkg.compile(text=HEAD + knowledge)
    values = table_values(pack.manifest.contract, read_bytes(TABLE.encode(), "t.csv")).values
    [model] = pack.manifest.knowledge
    return np.asarray(predictions(pack, model, values)).tolist()


def test_a_class_in_quotes_is_predicted() -> None:
    found = predicted(
        'predict knowledge k of cover when height < 2500 m predict "Ponderosa Pine"'
        " otherwise predict Aspen\n"
    )
    np.testing.assert_equal(found, [0.0, 1.0, 1.0, np.nan])
    found = predicted(
        "predict knowledge k of cover when height < 2500 m predict Aspen"
        ' otherwise predict "Ponderosa Pine"\n'
    )
    np.testing.assert_equal(found, [1.0, 0.0, 0.0, np.nan])


def test_without_a_case_nothing_is_predicted() -> None:
    found = predicted(
        'predict knowledge k of cover when height < 2500 m predict "Ponderosa Pine"'
        " when height > 2900 m predict Aspen\n"
    )
    np.testing.assert_equal(found, [0.0, np.nan, 1.0, np.nan])
    found = predicted("predict knowledge k of depth when height > 2500 m predict 0.5 m\n")
    np.testing.assert_equal(found, [np.nan, 50.0, 50.0, np.nan])


def test_unknown_classes_and_numbers_are_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "r.fkg"
    for knowledge, code in {
        'of cover when height < 2 m predict "Ponderosa Pin"': "FKG371",
        'of depth when height < 2 m predict "Ponderosa Pine"': "FKG372",
    }.items():
        file.write_text(HEAD + f"predict knowledge k {knowledge}\n")
        done = call(capsys, "check", file)
        assert done.code == 1
        assert code in done.err


def test_the_formatter_keeps_the_quotes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "r.fkg"
    file.write_text(
        HEAD + 'predict knowledge k of cover when height<2 m predict "Ponderosa Pine"\n'
    )
    assert call(capsys, "fmt", file).code == 0
    assert 'when height < 2 m predict "Ponderosa Pine"\n' in file.read_text()
    assert call(capsys, "check", file).code == 0
