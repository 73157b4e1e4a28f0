"""Times as tables write them."""

from __future__ import annotations

from datetime import datetime

import pytest

from fedkg.tables import looks_like_time, parse_time, parse_times

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


def test_dates_with_slashes_are_read_so_that_all_exist() -> None:
    assert parse_times(["03/09/2024", "03/25/2024"]) == [datetime(2024, 3, 9), datetime(2024, 3, 25)]
    assert parse_times(["03/09/2024", "25/03/2024"]) == [datetime(2024, 9, 3), datetime(2024, 3, 25)]


def test_times_of_day_are_times_and_numbers_are_not() -> None:
    assert looks_like_time("10:14")
    assert not looks_like_time("10.14")
