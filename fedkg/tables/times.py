"""Times as tables write them: ISO 8601, German, slashes, and the month by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from fedkg.errors import TableError

DateOrder = Literal["day-first", "month-first"]
"""How dates with slashes are meant: ``03/04/2024`` is 3 April or 4 March."""

CLOCK = (
    r"(?:[ T]+(?P<hour>\d{1,2}):(?P<minute>\d{2})"
    r"(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?\s*(?P<half>[AaPp][Mm])?)?"
)
ZONE = r"\s*(?:Z|UTC|[+-]\d{2}:?\d{2}|MEZ|MESZ|CET|CEST)?"
NAMED_ZONE = re.compile(
    r":\d{2}.*?(?:(?P<name>Z|UTC|MEZ|MESZ|CET|CEST)"
    r"|(?P<sign>[+-])(?P<hours>\d{2}):?(?P<minutes>\d{2}))$"
)
DATES = (
    r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})",
    r"(?P<year>\d{4})/(?P<month>\d{1,2})/(?P<day>\d{1,2})",
    r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4}|\d{2})",
    r"(?P<day>\d{1,2})[- ](?P<name>[A-Za-zäÄ]{3})[a-zä]*\.?[- ](?P<year>\d{4}|\d{2})",
    r"(?P<first>\d{1,2})/(?P<other>\d{1,2})/(?P<year>\d{4}|\d{2})",
)
FORMS = tuple(re.compile(date + CLOCK + ZONE) for date in DATES)
CLOCK_ALONE = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?")
_NAMES = "jan jän, feb, mar mär mrz, apr, may mai, jun, jul, aug, sep, oct okt, nov, dec dez"
MONTHS = {name: i for i, names in enumerate(_NAMES.split(","), start=1) for name in names.split()}


def parse_time(text: str, *, month_first: bool = False) -> datetime | None:
    """The moment a cell names, without its zone; None when it is not a time.

    Args:
        text: ``2024-03-09T10:14:33Z``, ``09.03.2024 10:14``, ``09-Mar-24 10:14:33``,
            ``2024/03/09``, ``09/03/2024 10:14 AM``.
        month_first: how to read dates with slashes that begin with the day or the month.
    """
    for form in FORMS:
        match = form.fullmatch(text.strip())
        if match is not None:
            return _moment(match.groupdict(), month_first=month_first)
    return None


def zone_of(text: str) -> timedelta | None:
    """How far the zone that a cell names is ahead of UTC: 2 hours for
    ``2024-03-09T10:14:33+02:00``; None where it names none.
    """
    found = NAMED_ZONE.search(text.strip())
    if found is None or not looks_like_time(text.strip()):
        return None
    if found["name"]:
        return timedelta(hours={"MEZ": 1, "CET": 1, "MESZ": 2, "CEST": 2}.get(found["name"], 0))
    ahead = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"]))
    return -ahead if found["sign"] == "-" else ahead


def _moment(parts: dict[str, str | None], *, month_first: bool) -> datetime | None:
    def whole(key: str) -> int:
        return int(parts.get(key) or 0)

    year = whole("year") + (2000 if len(parts["year"] or "") == 2 else 0)
    if parts.get("name"):
        day, month = whole("day"), MONTHS.get((parts["name"] or "").casefold(), 0)
    elif parts.get("first"):
        day, month = (
            (whole("other"), whole("first")) if month_first else (whole("first"), whole("other"))
        )
    else:
        day, month = whole("day"), whole("month")
    hour = whole("hour")
    if parts.get("half"):
        hour = hour % 12 + (12 if (parts["half"] or "").casefold() == "pm" else 0)
    microsecond = int((parts.get("fraction") or "0").ljust(6, "0")[:6])
    try:
        return datetime(
            year, month, day, hour, whole("minute"), whole("second"), microsecond, tzinfo=UTC
        ).replace(tzinfo=None)
    except ValueError:
        return None


def looks_like_time(text: str) -> bool:
    """Whether a cell names a date or a moment, or a time of day."""
    return (
        bool(CLOCK_ALONE.fullmatch(text))
        or parse_time(text) is not None
        or parse_time(text, month_first=True) is not None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoWays:
    """Cells that show in which order a column writes day and month, as in ``03/04/2024``.

    Attributes:
        day: position of the first cell that is a date only if the day comes first; None without
            one.
        month: position of the first cell that is a date only if the month comes first; None without
            one.
        either: position of the first cell that is a different date in either order; None without
            one.
        same: whether the steps from cell to cell are the same in both orders, as they are within
            one day.
    """

    day: int | None
    month: int | None
    either: int | None
    same: bool


def two_ways(texts: Sequence[str]) -> TwoWays:
    """What a column's cells say of the order of day and month in dates with slashes."""
    slashes = [i for i, text in enumerate(texts) if "/" in text]
    pairs = [(i, parse_time(texts[i]), parse_time(texts[i], month_first=True)) for i in slashes]
    shifts = {month - day for _, day, month in pairs if day is not None and month is not None}
    return TwoWays(
        day=next((i for i, day, month in pairs if day is not None and month is None), None),
        month=next((i for i, day, month in pairs if day is None and month is not None), None),
        either=next(
            (
                i
                for i, day, month in pairs
                if day is not None and month is not None and day != month
            ),
            None,
        ),
        same=len(shifts) < 2 and (not shifts or len(pairs) == len(texts)),
    )


def parse_times(texts: Sequence[str], order: DateOrder = "day-first") -> list[datetime | None]:
    """The moments of a column; `order` says how dates with slashes are read."""
    return [parse_time(text, month_first=order == "month-first") for text in texts]


def in_utc(
    moments: Sequence[datetime | None], texts: Sequence[str], where: str = "a column"
) -> tuple[list[datetime | None], bool]:
    """The moments that cells name, brought to UTC by the zones that they name, and whether they
    name any; as they are where none does.

    Args:
        where: the location of the times, for the error.

    Raises:
        TableError: when some name a zone and others do not: they cannot be put in order.
    """
    zones = [
        None if moment is None else zone_of(text)
        for moment, text in zip(moments, texts, strict=True)
    ]
    if not any(zone is not None for zone in zones):
        return list(moments), False
    bare = next(
        (i for i, moment in enumerate(moments) if moment is not None and zones[i] is None), None
    )
    if bare is not None:
        named = next(i for i, zone in enumerate(zones) if zone is not None)
        raise TableError(
            f"{where}: some times name a zone and others do not, so the times cannot be "
            "put in order",
            received=f'"{texts[named]}" in row {named + 1}, "{texts[bare]}" in row {bare + 1}',
            help="write all times of a column with their zone, or all without one",
        )
    return [
        None if moment is None or zone is None else _earlier(moment, zone)
        for moment, zone in zip(moments, zones, strict=True)
    ], True


def _earlier(moment: datetime, by: timedelta) -> datetime | None:
    """None outside the calendar: ``9999-12-31T23:59:59-01:00`` is out of range in UTC."""
    try:
        return moment - by
    except OverflowError:
        return None
