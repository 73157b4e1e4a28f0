"""Time ranges of data: moments, steps and rows, over windows, tables and several sites."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from fedkg.data.sets import data_set
from fedkg.data.sets.first_and_last_time import (
    time_range_of,
    time_range_of_rows,
    time_range_of_table,
)
from fedkg.data.sets.numeric_table_reader import parse_time_column, seconds_since_1970
from fedkg.errors import TableError
from fedkg.learned_knowledge_records import combine_ranges
from fedkg.tables import read_table


def test_moments_of_hours_since_1970_and_steps_of_what_counts_from_its_beginning() -> None:
    traffic = data_set("traffic", None, seed=0, size=48)
    assert time_range_of(traffic) == ("2024-01-01T00:00:00", "2024-01-02T23:00:00")
    late = np.flatnonzero(traffic.time == traffic.time[10])  # type: ignore[index]
    assert time_range_of(traffic, late, before=3, after=1) == (
        "2024-01-01T07:00:00",
        "2024-01-01T11:00:00",
    )
    assert time_range_of(data_set("skab", None, seed=0, size=2)) == ("0 s", "1199 s")
    assert time_range_of(data_set("ai4i", None, seed=0, size=50)) is None


def test_times_of_files_are_read_alike_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert seconds_since_1970(["1970-01-02 00:00:00", "?"])[0] == 86_400.0
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("cells", "hours"),
    [
        (["1970-01-02T02:00:00+02:00", "1970-01-02 00:30 -0100", "?"], [24.0, 25.5, np.nan]),
        (
            ["2024-10-27T02:30:00+02:00", "2024-10-27T02:30:00+01:00"],
            [480_552.5, 480_553.5],
        ),  # the hour that occurs twice
        (["02.01.1970 01:00 MEZ"], [24.0]),
        (["9999-12-31T23:59:59-01:00", "1970-01-01T00:00:00Z"], [np.nan, 0.0]),
    ],
)
def test_times_of_files_are_put_in_order_by_their_zone(
    cells: list[str], hours: list[float]
) -> None:
    found, zoned = parse_time_column(cells)
    assert np.array_equal(found / 3600, hours, equal_nan=True)
    assert zoned
    assert not parse_time_column(["1970-01-01 00:00"])[1]
    with pytest.raises(
        TableError, match=r'when: some times name a zone.*\n.*row 1, "1970-01-01 00:00" in row 3'
    ):
        parse_time_column(
            [cells[-1] if "Z" in cells[-1] else "1970-01-01T00:00:00Z", "?", "1970-01-01 00:00"],
            "when",
        )


def test_columns_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "when,n,x,odd\n05.03.2024 10:00,7,1,03/04/2024\n04.03.2024 "
        "09:30,2,2,05/06/2024\n,,3,04/04/2024\n"
    )
    table = read_table(tmp_path / "t.csv")
    assert time_range_of_table(table, "when") == ("2024-03-04T09:30:00", "2024-03-05T10:00:00")
    assert time_range_of_table(table, "n") == ("2", "7")
    assert time_range_of_table(table, "odd") is None
    assert time_range_of_table(table, "nowhere") is None
    assert time_range_of_rows(table, 2, ["x"]) == ("2024-03-04T09:30:00", "2024-03-05T10:00:00")
    assert time_range_of_rows(table, 3, ["x"]) == ("row 1", "row 3")


def test_no_rows_reach_nowhere(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("when,x\n2024-03-05 10:00,1\n")
    table = read_table(tmp_path / "t.csv")
    assert time_range_of_rows(table, 0, ["x"]) is None
    assert time_range_of_rows(table, 1, ["x"]) == ("2024-03-05T10:00:00", "2024-03-05T10:00:00")


@pytest.mark.parametrize(
    ("cells", "reach"),
    [
        (
            ["2024-03-05T10:00:00+02:00", "2024-03-05T11:30:00+02:00"],
            ("2024-03-05T08:00:00Z", "2024-03-05T09:30:00Z"),
        ),
        (
            ["2024-10-27T02:30:00+02:00", "2024-10-27T02:10:00+01:00"],
            ("2024-10-27T00:30:00Z", "2024-10-27T01:10:00Z"),
        ),
        (
            ["2024-03-05 10:00 -0530", "2024-03-05 10:05 -0530"],
            ("2024-03-05T15:30:00Z", "2024-03-05T15:35:00Z"),
        ),
        (
            ["2024-03-05T10:00:00Z", "2024-03-05T10:30:00 UTC"],
            ("2024-03-05T10:00:00Z", "2024-03-05T10:30:00Z"),
        ),
        (
            ["05.03.2024 10:00 MEZ", "05.08.2024 10:00 MESZ"],
            ("2024-03-05T09:00:00Z", "2024-08-05T08:00:00Z"),
        ),
        (["2024-03-05 10:00", "2024-03-05 10:30"], ("2024-03-05T10:00:00", "2024-03-05T10:30:00")),
        (["2024-03-05 10:00", "2024-03-05T10:30:00+02:00"], None),
    ],
)
def test_times_that_name_their_zone_are_reported_in_utc(
    tmp_path: Path, cells: list[str], reach: tuple[str, str] | None
) -> None:
    (tmp_path / "t.csv").write_text("when;x\n" + "".join(f"{cell};1\n" for cell in cells))
    table = read_table(tmp_path / "t.csv")
    assert time_range_of_table(table, "when") == reach
    assert time_range_of_rows(table, 2, ["x"]) == (reach or ("row 1", "row 2"))


def test_several_are_one_where_their_ends_can_be_compared() -> None:
    assert combine_ranges(
        [("2024-03-04", "2024-03-09"), ("2024-03-01T10:00:00", "2024-03-05")]
    ) == ("2024-03-01T10:00:00", "2024-03-09")
    assert combine_ranges([("0 s", "9 s"), ("0 s", "9 s")]) == ("0 s", "9 s")
    assert combine_ranges([("0 s", "9 s"), ("0 s", "19 s")]) is None
    assert combine_ranges([("2024-03-04", "2024-03-09"), None]) is None
    assert combine_ranges([]) is None
    assert (
        combine_ranges(
            [
                ("2024-03-04T00:00:00Z", "2024-03-09T00:00:00Z"),
                ("2024-03-01T10:00:00", "2024-03-05T00:00:00"),
            ]
        )
        is None
    )
