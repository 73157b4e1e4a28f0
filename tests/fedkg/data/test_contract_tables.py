"""Any table as a data set, by a data contract."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from fedkg.data.sets import forecast_windows, table_set
from fedkg.data.sets.first_and_last_time import time_range_of
from fedkg.errors import JobError, TableError
from fedkg.pack import Column, DataContract

INPUTS = (
    Column(name="heat", source="Heat [degC]", unit="degC"),
    Column(name="kind", source="Type", type="category", vocabulary=("L", "M")),
)
FAILS = Column(name="failure", source="Failed", type="boolean", role="output")
LIFE = Column(name="life", source="Life", role="output", unit="h")
GRADES = tuple(
    Column(
        name=f"grade[{letter}]",
        source="Grade",
        type="score",
        role="output",
        label="grade",
        category=letter,
    )
    for letter in ("A", "B")
)
TEXT = """time;Site;Heat [degC];Type;Failed;Life;Grade
2024-01-01 00:00:00;graz;20,5;L;no;7;A
2024-01-01 00:01:00;graz;;M;yes;6;B
2024-01-01 00:02:00;graz;22,5;M;no;5;B
2024-01-01 00:00:00;wien;30,5;L;no;9;A
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "line.csv"
    path.write_text(TEXT)
    return path


def contract(*outputs: Column, **more: object) -> DataContract:
    return DataContract(columns=(*INPUTS, *outputs), **more)


def test_columns_become_features_and_unknown_cells_stay_unknown(table: Path) -> None:
    data = table_set(table, contract(FAILS), site="Site")
    assert data.features == ("Heat [degC]", "Type=L", "Type=M")
    assert data.units == ("degC", "", "")
    np.testing.assert_array_equal(
        data.x, [[20.5, 1, 0], [np.nan, 0, 1], [22.5, 0, 1], [30.5, 1, 0]]
    )
    assert (data.task, data.y.tolist()) == ("detection", [0, 1, 0, 0])
    assert data.client_names == ("graz", "wien")
    assert data.name == "line"


def test_the_output_says_what_kind_of_task_it_is(table: Path) -> None:
    several = contract(FAILS, LIFE, *GRADES)
    life, grade = (table_set(table, several, output=name) for name in ("life", "grade"))
    assert (life.task, life.y.tolist()) == ("regression", [7, 6, 5, 9])
    assert (grade.task, grade.y.tolist(), grade.classes) == ("classes", [0, 1, 1, 0], ("A", "B"))
    with pytest.raises(JobError, match=r"several outputs(.|\n)*failure, life, grade"):
        table_set(table, several)
    with pytest.raises(JobError, match=r"no rule reads an .* no output to predict"):
        table_set(table, contract())


def test_the_time_and_trace_columns_make_series_of_it(table: Path) -> None:
    data = table_set(table, contract(LIFE, kind="panel", time="time", step=60.0, trace="Site"))
    windows = forecast_windows(
        data.of_client("graz"), history=1, horizon=1, targets=["Heat [degC]"], gaps="interpolate"
    )
    assert windows.y.tolist() == [[21.5], [22.5]]


def test_columns_that_are_not_there_are_named(table: Path) -> None:
    with pytest.raises(TableError, match="no column `Lost`"):
        table_set(
            table, contract(Column(name="lost", source="Lost", type="boolean", role="output"))
        )
    with pytest.raises(TableError, match="no column `Plant`"):
        table_set(table, contract(FAILS), site="Plant")
    table.write_text(TEXT.replace("graz;22,5;M;no;5;B", "graz;22,5;M;no;5;C"))
    with pytest.raises(JobError, match="a cell of column `Grade` is not one of the classes"):
        table_set(table, contract(*GRADES))


def test_times_are_in_utc_where_they_name_their_zone(table: Path) -> None:
    table.write_text(re.sub(r"(:\d\d:\d\d);", r"\1+01:00;", TEXT))
    zoned = contract(LIFE, kind="panel", time="time", step=60.0, trace="Site")
    assert time_range_of(table_set(table, zoned).take(np.array([0, 2]))) == (
        "2023-12-31T23:00:00Z",
        "2023-12-31T23:02:00Z",
    )
    table.write_text(TEXT.replace("00:00;", "00:00+01:00;", 1))
    with pytest.raises(TableError, match=r"line.csv: column `time`: some times name a zone"):
        table_set(table, zoned)
