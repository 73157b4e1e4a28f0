"""Time range of data as text: moments if its times are moments, else its own count of steps.

Letters: N samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from fedkg.data.sets.dataset import DataSet
from fedkg.errors import TableError
from fedkg.learned_knowledge_records import TimeRange
from fedkg.tables import Table, in_utc, parse_times

_SECONDS = {"s": 1, "h": 3600}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_range_of(
    data: DataSet, index: NDArray[np.int64] | None = None, *, before: int = 0, after: int = 0
) -> TimeRange | None:
    """First and last time of samples; None if the data has no time.

    Args:
        index: positions of the samples, of N; None for all.
        before: number of steps before its time that a sample covers, such as the history of a
            window.
        after: number of steps after its time that a sample covers, such as the forecast of a
            window.
    """
    if data.time is None:
        return None
    return time_range_of_times(
        data.time if index is None else data.time[index], data, before=before, after=after
    )


def time_range_of_times(
    times: NDArray[np.float64], data: DataSet, *, before: int = 0, after: int = 0
) -> TimeRange | None:
    """First and last of times in the unit of a data set; None if none is known."""
    known = times[~np.isnan(times)]
    if not known.size:
        return None
    return _text(data, float(known.min()) - before * data.step), _text(
        data, float(known.max()) + after * data.step
    )


def _text(data: DataSet, time: float) -> str:
    if not data.since_1970:
        return f"{time:.12g} {data.step_unit}".rstrip()
    moment = _EPOCH + timedelta(seconds=round(time * _SECONDS[data.step_unit], 6))
    return moment.replace(tzinfo=None).isoformat() + ("Z" if data.utc else "")


def time_range_of_table(table: Table, header: str) -> TimeRange | None:
    """First and last time in a column of a table: moments, or numbers as written; None if none can
    be read.
    """
    if header not in table:
        return None
    if table.is_numeric(header):
        numbers = table.numbers(header)
        known = numbers[np.isfinite(numbers)]
        return (f"{known.min():.12g}", f"{known.max():.12g}") if known.size else None
    try:
        return _between(table.times(header)[0], table.texts(header))
    except TableError:  # day and month are ambiguous
        return None


def time_range_of_rows(table: Table, rows: int, beside: Sequence[str]) -> TimeRange | None:
    """First and last time of the first rows of an ordered table; None without rows.

    Uses the first column of moments, else the numbers of the rows.

    Args:
        beside: headers of measurements.
    """
    if rows < 1:
        return None
    for header in table.headers:
        if header not in beside and not table.is_numeric(header):
            texts = table.texts(header)[:rows]
            ends = [texts[0], texts[-1]]
            moments = parse_times(ends)
            found = _between(moments, ends)
            if found is not None and None not in moments and all("/" not in text for text in ends):
                return found
    return "row 1", f"row {rows}"


def _between(moments: Sequence[datetime | None], texts: Sequence[str]) -> TimeRange | None:
    """From the first moment to the last, as ISO 8601: in UTC (``Z``) if all name their zone.

    None if no moment is known, or if some name a zone and others do not, since those cannot be
    ordered.
    """
    try:
        times, zoned = in_utc(moments, texts)
    except TableError:  # moments with and without a zone cannot be ordered
        return None
    known = [time for time in times if time is not None]
    mark = "Z" if zoned else ""
    return (min(known).isoformat() + mark, max(known).isoformat() + mark) if known else None
