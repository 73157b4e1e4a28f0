"""Time formats of tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from fedkg.errors import TableError
from fedkg.tables import DateOrder, Table, looks_like_time, parse_time, read_bytes

MOMENT = datetime(2024, 3, 9, 10, 14)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-03-09T10:14:00Z", MOMENT),
        ("2024-03-09 10:14", MOMENT),
        ("2024-03-09T10:14:00+01:00", MOMENT),
        ("09.03.2024 10:14", MOMENT),
        ("9.3.24 10:14:00", MOMENT),
        ("09.03.2024 10:14:00,250", datetime(2024, 3, 9, 10, 14, 0, 250_000)),
        ("09-Mar-24 10:14:00", MOMENT),
        ("09. März 2024", None),
        ("09-Mär-2024 10:14", MOMENT),
        ("2024/03/09 10:14", MOMENT),
        ("09/03/2024 10:14 AM", MOMENT),
        ("09.03.2024", datetime(2024, 3, 9)),
        ("2024-13-09", None),
        ("31.02.2024", None),
        ("12.5", None),
        ("20240309", None),
        ("1.2.3", None),
        ("", None),
    ],
)
def test_parse_time(text: str, expected: datetime | None) -> None:
    assert parse_time(text) == expected


def table(*dates: str, order: DateOrder | None = None) -> Table:
    return replace(
        read_bytes(("when;x\n" + "".join(f"{date};1\n" for date in dates)).encode(), "t.csv"),
        dates=order,
    )


def test_one_date_with_slashes_decides_for_its_column() -> None:
    moments, said = table("03/09/2024", "03/25/2024").times("when")
    assert moments == [datetime(2024, 3, 9), datetime(2024, 3, 25)]
    assert said == 'dates in `when` are read month first, as "03/25/2024" in row 2 (line 3) shows'
    moments, said = table("25/04/2024 10:00", "03/04/2024 11:00").times("when")
    assert moments == [datetime(2024, 4, 25, 10), datetime(2024, 4, 3, 11)]
    assert said.startswith("dates in `when` are read day first")


def test_dates_that_can_be_read_in_two_ways_are_refused_until_somebody_says_which() -> None:
    dates = ("03/04/2024", "03/05/2024")
    with pytest.raises(TableError, match="the dates in `when` can be read in two ways") as error:
        table(*dates).times("when")
    assert '"03/04/2024" in row 1 (line 2)' in error.value.received
    assert "--dates day-first" in error.value.help
    assert table(*dates, order="day-first").times("when") == (
        [datetime(2024, 4, 3), datetime(2024, 5, 3)],
        "",
    )
    assert table(*dates, order="month-first").times("when") == (
        [datetime(2024, 3, 4), datetime(2024, 3, 5)],
        "",
    )


def test_dates_in_two_orders_are_rejected() -> None:
    with pytest.raises(
        TableError, match="day first in one row and month first in another"
    ) as error:
        table("25/04/2024", "04/26/2024").times("when")
    assert error.value.received == '"25/04/2024" in row 1 (line 2), "04/26/2024" in row 2 (line 3)'
    assert table("25/04/2024", "04/26/2024", order="day-first").times("when") == (
        [datetime(2024, 4, 25), None],
        "",
    )


@pytest.mark.parametrize(
    "dates",
    [
        ("2024-03-04", "2024-05-04"),
        ("2024/03/04", "2024/05/04"),
        ("03.04.2024", "03.05.2024"),
        # within a day the steps are the same in both cases
        ("03/04/2024 10:00", "03/04/2024 10:05"),
        ("03/03/2024", "04/04/2024"),
        ("25/04/2024", "26/04/2024"),
    ],
)
def test_unambiguous_dates_are_read_without_a_note(dates: tuple[str, ...]) -> None:
    moments, said = table(*dates).times("when")
    assert None not in moments
    assert said == ""


def test_times_of_day_are_times_and_numbers_are_not() -> None:
    assert looks_like_time("10:14")
    assert not looks_like_time("10.14")
