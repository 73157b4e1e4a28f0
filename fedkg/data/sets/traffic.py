"""Hourly traffic volumes: 95 stations in Norway, the American stations of FHWA, and generators.

Letters: N rows (one hour of one station each).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkg.data.sets.dataset import DataSet, generator_source, repeat_names, seeded_generator
from fedkg.data.sets.numeric_table_reader import (
    find_files,
    read_columns,
    read_decompressed,
    seconds_since_1970,
)
from fedkg.errors import TableError

F64 = NDArray[np.float64]

STATIONS = 95
HOURS = 8 * 7 * 24
DAY = (
    np.array(
        [3, 2, 2, 2, 4, 12, 35, 75, 80, 60, 55, 58, 62, 65, 75, 92, 100, 82, 60, 45, 35, 26, 16, 8]
    )
    / 100.0
)
_WEEKEND = (
    np.array(
        [6, 4, 3, 3, 3, 5, 10, 17, 28, 42, 52, 58, 60, 60, 58, 57, 55, 50, 42, 34, 27, 21, 15, 10]
    )
    / 100.0
)


def load_norway(path: str | Path, seed: int, size: int | None) -> DataSet:
    """Load volumes of stations in Norway from ``volume_hourly_*.csv``: ``time_utc`` and one column
    per station.

    The source has no counts at 22:00 UTC of any day; these hours, and others without counts, are
    unknown here. Windows over them need a gap policy (`series_windows`). `size` limits the hours,
    from the first one on.
    """
    table = read_columns(
        find_files(path, ["volume_hourly_*.csv"], "hourly volumes")[0], first="time_utc"
    )
    names = [header for header in table.headers if header != "time_utc"]
    hours = seconds_since_1970(table.texts("time_utc"))[:size] / 3600.0
    volumes = table.matrix(tuple(names))[:size]
    return _hourly(
        "traffic",
        str(path),
        names,
        [hours] * len(names),
        list(volumes.T),
        ("the hour 22:00 UTC is never counted",),
    )


def generate_norway(seed: int, size: int | None) -> DataSet:
    """Generate `size` hours of stations with daily and weekly profiles.

    Each station has a random level, scale and phase; the noise grows with the level. 22:00 UTC is
    unknown on every day, and one day in fifty per station.
    """
    return _generated("traffic", "traffic", seed, STATIONS, size or HOURS, blank=22)


def load_fhwa(path: str | Path, seed: int, size: int | None) -> DataSet:
    """Load hourly volumes of FHWA's Traffic Monitoring Analysis System from a folder (``*.VOL``,
    ``*.txt``, ``*.csv``).

    Reads both forms of the record: fixed columns (type 3: state in 2-3, station in 6-11, direction
    12, lane 13, year, month and day in 14-19, 24 hours of five columns from 21 on; Traffic
    Monitoring Guide, 2013, section 7.3), and fields between bars with a header. Lanes and
    directions of a station are summed; an hour is unknown if one of them has no count. Clients are
    stations (``state-station``). `size` limits the hours of each station.
    """
    days: dict[str, dict[int, dict[str, F64]]] = {}
    for file in find_files(path, ["*.VOL", "*.vol", "*.txt", "*.csv"], "FHWA volumes"):
        for station, lane, day, counted in _records(file):
            days.setdefault(station, {}).setdefault(day, {})[lane] = counted
    names: list[str] = []
    hours: list[F64] = []
    volumes: list[F64] = []
    for station, by_day in sorted(days.items()):
        every = sorted(by_day)
        lanes = {lane for day in by_day.values() for lane in day}
        unknown = np.full(24, np.nan)
        names.append(station)
        hours.append(np.concatenate([day * 24.0 + np.arange(24) for day in every])[:size])
        volumes.append(
            np.concatenate(
                [
                    sum((by_day[day].get(lane, unknown) for lane in sorted(lanes)), np.zeros(24))
                    for day in every
                ]
            )[:size]
        )
    return _hourly("fhwa", str(path), names, hours, volumes)


def generate_fhwa(seed: int, size: int | None) -> DataSet:
    """Generate `size` hours of 15 stations as in `generate_norway`, with single unknown hours."""
    return _generated("fhwa", "FHWA", seed, 15, size or HOURS, blank=None)


def _generated(
    name: str, title: str, seed: int, stations: int, hours: int, *, blank: int | None
) -> DataSet:
    hour = np.arange(hours)
    volumes = []
    for station in range(stations):
        draw = seeded_generator(seed, station)
        level, scale, phase, weekend = (
            draw.lognormal(6, 0.9),
            draw.uniform(0.6, 1.4),
            draw.uniform(-1.5, 1.5),
            draw.uniform(0.5, 1.1),
        )
        local = hour + phase
        profiles = [
            np.interp(local % 24, np.arange(25), np.append(profile, profile[0]))
            for profile in (DAY, _WEEKEND * weekend)
        ]
        share = np.where((hour // 24) % 7 < 5, *profiles)
        mean = level * (0.1 + share**scale)
        volume = np.round(
            np.maximum(mean * (1 + 0.08 * draw.normal(size=hours)) + draw.normal(0, 2, hours), 0)
        )
        if blank is None:
            volume[draw.random(hours) < 0.01] = np.nan
        else:
            volume[
                np.repeat(draw.random(hours // 24 + 1) < 0.02, 24)[:hours] | (hour % 24 == blank)
            ] = np.nan
        volumes.append(volume)
    times = datetime(2024, 1, 1, tzinfo=UTC).timestamp() / 3600.0 + hour.astype(np.float64)
    return _hourly(
        name,
        generator_source(title, seed),
        [f"station {i + 1}" for i in range(stations)],
        [times] * stations,
        volumes,
    )


def _hourly(
    name: str,
    source: str,
    names: list[str],
    hours: list[F64],
    volumes: list[F64],
    notes: tuple[str, ...] = (),
) -> DataSet:
    every = np.concatenate(volumes)
    missing = float(np.isnan(every).mean())
    return DataSet(
        name=name,
        source=source,
        x=every[:, None],
        y=every,
        features=("volume",),
        units=("1/h",),
        targets=("volume",),
        task="forecast",
        clients=repeat_names(names, [len(part) for part in volumes]),
        time=np.concatenate(hours),
        step_unit="h",
        since_1970=True,
        notes=(*notes, f"{missing:.1%} of the hours are unknown"),
    )


def _records(path: Path) -> Iterator[tuple[str, str, int, F64]]:
    """Station, direction with lane, day since 1970 and 24 volumes of each record of a file."""
    lines = read_decompressed(path).decode("latin-1").splitlines()
    if lines and "|" in lines[0]:
        header = [word.strip().lower() for word in lines[0].split("|")]
        try:
            places = [
                header.index(word)
                for word in (
                    "state_code",
                    "station_id",
                    "travel_dir",
                    "travel_lane",
                    "year_record",
                    "month_record",
                    "day_record",
                )
            ]
            first = header.index("hour_00")
        except ValueError as error:
            raise TableError(
                f"{path}: a column of the volume records is missing",
                expected="columns state_code, station_id, travel_dir, travel_lane, year_record, "
                "month_record, day_record, hour_00, ...",
                received=str(error),
                help="use the records as they were published, with all their columns",
            ) from error
        most = max(*places, first)
        cut = ((i, line.split("|")) for i, line in enumerate(lines, 1) if i > 1 and line.strip())
        fields = (
            (i, [*(row[place] for place in places), *row[first : first + 24]])
            if len(row) > most
            else (i, [""] * 31)  # too short: not a date
            for i, row in cut
        )
    else:
        ends = [
            (1, 3),
            (5, 11),
            (11, 12),
            (12, 13),
            (13, 15),
            (15, 17),
            (17, 19),
            *((20 + 5 * i, 25 + 5 * i) for i in range(24)),
        ]
        fields = (
            (i, [line[start:stop] for start, stop in ends])
            for i, line in enumerate(lines, 1)
            if line.startswith("3")
        )
    for line, (state, station, direction, lane, year, month, day, *hours) in fields:
        try:
            whole = int(year) if int(year) > 99 else 2000 + int(year)
            number = int(datetime(whole, int(month), int(day), tzinfo=UTC).timestamp() // 86_400)
            volumes = np.array([float(text) if text.strip() else np.nan for text in hours])
        except ValueError as error:
            raise TableError(
                f"{path}: line {line} is not a complete volume record",
                received=str(error),
                help="use the records as they were published; download the file again if it is "
                "incomplete",
            ) from error
        if len(volumes) != 24:
            raise TableError(
                f"{path}: the volume record in line {line} does not have 24 hours",
                received=f"{len(volumes)} hours",
                help="use the records as they were published, with one line for each day",
            )
        yield (
            f"{state.strip()}-{station.strip()}",
            f"{direction.strip()}{lane.strip()}",
            number,
            np.where(volumes < 0, np.nan, volumes),
        )
