"""Traffic on the segments of a city, simulated once by SUMO into a folder; and a generator without
SUMO.

Letters: E segments, I intervals, N = E * I rows.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tomllib
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from fedkg.data.sets.city_simulation import QUANTITIES, City, simulate_city
from fedkg.data.sets.dataset import DataSet, generator_source, repeat_names, seeded_generator
from fedkg.data.sets.numeric_table_reader import read_columns
from fedkg.data.sets.traffic import DAY
from fedkg.errors import JobError, TableError

F64 = NDArray[np.float64]

UNITS = ("1/h", "", "%", "m/s", "mg/s", "mg/s", "dB")
SEGMENTS, INTERVALS, INTERVAL = 48, 288, 300.0
CITY = "city.toml"


def load_sumo(path: str | Path, seed: int, size: int | None) -> DataSet:
    """Load measurements on the segments of a city from a table, or from a folder that describes the
    city.

    A folder contains ``city.toml`` with fields of `City` (an empty file means a city of 4 x 4
    junctions and one day). The first read simulates it with `seed`, which needs the simulator
    (``pip install eclipse-sumo``) and some seconds to minutes. The table is stored in the folder,
    and later reads use it without the simulator. A table has the columns ``time_s``, ``segment``
    and `QUANTITIES`; `path` may also name a table from another source. Clients are segments. `size`
    limits the intervals of each segment.

    Raises:
        TableError: the file does not exist.
        JobError: ``city.toml`` is wrong.
        MissingExtra: the simulator is not installed.
    """
    path = Path(path)
    if path.is_file():
        return _read(path, size)
    if not (path / CITY).is_file():
        raise TableError(
            f"there is no traffic data of a city at {path}",
            expected=f"a table of segments, or a folder with {CITY} (which may be empty)",
            help=f"correct the path, or create the folder with an empty {CITY}: fedkg "
            "then simulates a city",
        )
    city = _city(path / CITY)
    mark = hashlib.sha256(city.model_dump_json().encode()).hexdigest()[:8]
    table = path / f"segments-{mark}-seed{seed}.csv.gz"
    if not table.is_file():
        segments, measured, version = simulate_city(city, seed)
        _write(table, segments, measured, city.interval, version)
    return _read(table, size)


def generate_sumo(seed: int, size: int | None) -> DataSet:
    """Generate `size` intervals of 5 minutes on segments with a daily traffic profile.

    Each segment has a random length and free speed. The speed falls with the density (Greenshields,
    "A study of traffic capacity", 1935: ``speed = free (1 - density / jam)``), and emissions and
    noise follow the traffic. Shorter series begin like longer ones.
    """
    count = size or INTERVALS
    hour = np.arange(count) * INTERVAL / 3600
    measured = np.empty((SEGMENTS, count, len(QUANTITIES)))
    for segment in range(SEGMENTS):
        draw = seeded_generator(seed, segment)
        lanes, free, peak, phase = (
            draw.integers(1, 3),
            draw.uniform(8, 16),
            draw.uniform(40, 500),
            draw.uniform(-1, 1),
        )
        noise = draw.normal(size=(count, 3))
        share = np.interp((hour + phase) % 24, np.arange(25), np.append(DAY, DAY[0]))
        volume = np.maximum(np.round(peak * share * (1 + 0.2 * noise[:, 0]) / 12), 0) * 12
        flow = volume / 3600 / lanes
        jam = 1 / 7.5
        # smaller root of flow = density * free * (1 - density / jam), at most the parabola's top
        density = jam / 2 * (1 - np.sqrt(np.maximum(1 - 4 * flow / (free * jam), 0)))
        speed = np.clip(free * (1 - density / jam) * (1 + 0.05 * noise[:, 1]), 0.5, free)
        vehicles = flow * lanes * 200 / speed
        fuel = vehicles * (300 + 40 * speed)
        loud = np.where(
            volume > 0, 30 + 10 * np.log10(np.maximum(volume, 1)) + 0.4 * speed + noise[:, 2], 0.0
        )
        columns = (
            volume,
            vehicles,
            100 * vehicles * 5 / (200 * lanes),
            np.where(volume > 0, speed, np.nan),
            3.1 * fuel,
            fuel,
            loud,
        )
        measured[segment] = np.stack(columns, 1)
    names = [f"segment {segment + 1}" for segment in range(SEGMENTS)]
    return _as_set(
        generator_source("SUMO", seed),
        names,
        measured,
        np.arange(count, dtype=np.float64) * INTERVAL,
        INTERVAL,
    )


def _city(path: Path) -> City:
    try:
        return City.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the city"
        unknown = first["type"] == "extra_forbidden"
        raise JobError(
            f"{path}: {field}: "
            + ("unknown field" if unknown else first["msg"].removeprefix("Value error, ")),
            expected=", ".join(City.model_fields) if unknown else "",
            received=str(first["input"]) if first["loc"] and not unknown else "",
            help="remove the field, or correct its name" if unknown else "correct the number",
        ) from error
    except OSError as error:
        raise JobError(
            f"cannot read {path}",
            received=error.strerror or str(error),
            help="check that you may read the file",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise JobError(
            f"{path} is not TOML", received=str(error), help="write lines such as `columns = 4`"
        ) from error


def _write(
    path: Path, segments: tuple[str, ...], measured: F64, interval: float, version: str
) -> None:
    """Write the table atomically; equal numbers give equal bytes."""
    lines = [f"# {version}", ",".join(("time_s", "segment", *QUANTITIES))]
    for name, rows in zip(segments, measured, strict=True):
        for place, row in enumerate(rows):
            cells = ("" if np.isnan(value) else f"{value:.10g}" for value in row)
            lines.append(f"{place * interval:g},{name}," + ",".join(cells))
    part = path.with_suffix(f".{os.getpid()}.part")  # another process may simulate the same city
    part.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))
    part.replace(path)


def _read(path: Path, size: int | None) -> DataSet:
    table = read_columns(path, first="segment")
    names = np.array(table.texts("segment"), dtype=object)
    segments = list(dict.fromkeys(names.tolist()))
    times, values = table.numbers("time_s"), table.matrix(QUANTITIES)
    every = np.unique(times)
    rows = Counter(zip(names.tolist(), times.tolist(), strict=True))
    wrong = next((pair for pair in product(segments, every.tolist()) if rows[pair] != 1), None)
    if wrong is not None:
        raise TableError(
            f"{path}: not exactly one row for each segment and interval",
            expected=f"{len(segments)} segments in {len(every)} intervals",
            received=f"{rows[wrong]} rows of segment {wrong[0]} at time_s {wrong[1]:g}",
            help="remove rows that occur twice; add missing ones, with empty cells",
        )
    place = {name: position for position, name in enumerate(segments)}
    order = np.lexsort((times, np.array([place[name] for name in names.tolist()])))
    measured = values[order].reshape(len(segments), len(every), len(QUANTITIES))[:, :size]
    return _as_set(
        str(path),
        segments,
        measured,
        every[:size],
        float(every[1] - every[0]) if len(every) > 1 else 1.0,
    )


def _as_set(source: str, segments: list[str], measured: F64, times: F64, step: float) -> DataSet:
    x = measured.reshape(-1, len(QUANTITIES))
    empty = float(np.isnan(x[:, QUANTITIES.index("speed")]).mean())
    return DataSet(
        name="sumo",
        source=source,
        x=x,
        y=x[:, 0].copy(),
        features=QUANTITIES,
        units=UNITS,
        targets=("volume",),
        task="forecast",
        clients=repeat_names(segments, [measured.shape[1]] * len(segments)),
        time=np.tile(times, len(segments)),
        step=step,
        step_unit="s",
        notes=(f"{empty:.1%} of the intervals have no vehicles: their speed is unknown",),
    )
