"""Makes the tables of five plants, each in the format of its country.

    python examples/plants/make_tables.py [--out FOLDER] [--rows ROWS] [--seed SEED]

Every plant has milling machines as in AI4I 2020, its own climate, and its own mix of products.
`sites.yaml` describes the formats. Equal arguments give equal tables.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from fedkg.data import Frame
from fedkg.data.ai4i import (
    AIR,
    FAILURE,
    PROCESS,
    SHARES,
    SPEED,
    TORQUE,
    TYPE,
    VARIANTS,
    WEAR,
    generate,
)

ROWS = 10_000
START = datetime(2025, 2, 3, tzinfo=UTC)
STEP = timedelta(minutes=5)
UNREADABLE = 0.004
"""Share of the cells of one sensor per plant that contain the plant's word for a missing value."""

N_M_PER_LBF_FT = 1.3558179483314004
N_M_PER_KP_M = 9.80665


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """How a plant writes a quantity: `value * factor + offset`, rounded to `decimals`."""

    title: str
    factor: float = 1.0
    offset: float = 0.0
    decimals: int = 0


@dataclass(frozen=True, kw_only=True)
class Plant:
    """A plant and the format of its table.

    Attributes:
        share: its share of all rows.
        mix: relative frequencies of L, M and H, beside those of the generator; at most 1.
        above: lines above the row with the titles.
        time: title and `strftime` format of the local time.
        variant: title, and the words for L, M and H.
        failure: title, and the words for 0 and 1.
        missing: column of the unreliable sensor, and the word for a missing value.
        decimal: decimal mark. group: mark between thousands.
    """

    share: float
    mix: tuple[float, float, float]
    zone: str
    above: tuple[str, ...] = ()
    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    group: str = ""
    time: tuple[str, str]
    variant: tuple[str, tuple[str, str, str]]
    quantities: dict[str, Quantity]
    failure: tuple[str, tuple[str, str]]
    missing: tuple[str, str]


PLANTS = {
    "graz": Plant(
        share=0.36,
        mix=(1.0, 1.0, 1.0),
        zone="Europe/Vienna",
        above=("Werk Graz, Fräszentren", "Export aus der Betriebsdatenerfassung", ""),
        delimiter=";",
        decimal=",",
        group=".",
        time=("Zeit", "%d.%m.%Y %H:%M"),
        variant=("Ausführung", VARIANTS),
        quantities={
            AIR: Quantity(title="Lufttemperatur [°C]", offset=-273.15, decimals=2),
            PROCESS: Quantity(title="Prozesstemperatur [°C]", offset=-273.15, decimals=2),
            SPEED: Quantity(title="Drehzahl [U/min]"),
            TORQUE: Quantity(title="Drehmoment [Nm]", decimals=1),
            WEAR: Quantity(title="Standzeit [min]"),
        },
        failure=("Ausfall", ("NEIN", "JA")),
        missing=(TORQUE, "defekt"),
    ),
    "ohio": Plant(
        share=0.26,
        mix=(0.3, 1.0, 1.0),
        zone="America/New_York",
        group=",",
        time=("timestamp", "%m/%d/%y %I:%M %p"),
        variant=("grade", ("low", "medium", "high")),
        quantities={
            AIR: Quantity(title="ambient_degF", factor=1.8, offset=-459.67, decimals=2),
            PROCESS: Quantity(title="process_degF", factor=1.8, offset=-459.67, decimals=2),
            SPEED: Quantity(title="spindle_rpm"),
            TORQUE: Quantity(title="torque_lbfft", factor=1 / N_M_PER_LBF_FT, decimals=3),
            WEAR: Quantity(title="tool_hours", factor=1 / 60, decimals=4),
        },
        failure=("failed", ("no", "yes")),
        missing=(AIR, "-999"),
    ),
    "lyon": Plant(
        share=0.18,
        mix=(1.0, 0.3, 0.3),
        zone="Europe/Paris",
        above=("Atelier de fraisage de Lyon",),
        delimiter="\t",
        encoding="windows-1252",
        decimal=",",
        time=("Date et heure", "%Y-%m-%d %Hh%M"),
        variant=("Qualité", ("C", "B", "A")),
        quantities={
            AIR: Quantity(title="Température de l'air", decimals=1),
            PROCESS: Quantity(title="Température du procédé", decimals=1),
            SPEED: Quantity(title="Vitesse (tr/s)", factor=1 / 60, decimals=3),
            TORQUE: Quantity(title="Couple (kp.m)", factor=1 / N_M_PER_KP_M, decimals=4),
            WEAR: Quantity(title="Usure (min)"),
        },
        failure=("Panne", ("non", "oui")),
        missing=(SPEED, "n.d."),
    ),
    "osaka": Plant(
        share=0.12,
        mix=(0.2, 0.5, 1.0),
        zone="Asia/Tokyo",
        time=("時刻", "%Y-%m-%dT%H:%M:%S%z"),
        variant=("等級", ("並", "中", "上")),
        quantities={
            AIR: Quantity(title="気温", offset=-273.15, decimals=2),
            PROCESS: Quantity(title="加工温度", offset=-273.15, decimals=2),
            SPEED: Quantity(title="主軸回転数", factor=1 / 60, decimals=3),
            TORQUE: Quantity(title="トルク", factor=100),
            WEAR: Quantity(title="工具使用時間", factor=60),
        },
        failure=("状態", ("正常", "異常")),
        missing=(PROCESS, "欠測"),
    ),
    "poznan": Plant(
        share=0.08,
        mix=(1.0, 1.0, 0.2),
        zone="Europe/Warsaw",
        delimiter="|",
        decimal=",",
        time=("Czas", "%Y.%m.%d %H:%M"),
        variant=("Typ", VARIANTS),
        quantities={
            AIR: Quantity(title="Temperatura powietrza [°C]", offset=-273.15, decimals=2),
            PROCESS: Quantity(title="Temperatura procesu [°C]", offset=-273.15, decimals=2),
            SPEED: Quantity(title="Obroty [1/min]"),
            TORQUE: Quantity(title="Moment [kN.m]", factor=0.001, decimals=4),
            WEAR: Quantity(title="Zużycie [h]", factor=1 / 60, decimals=4),
        },
        failure=("Awaria", ("0", "1")),
        missing=(WEAR, "brak"),
    ),
}


def make_frames(rows: int = ROWS, seed: int = 0) -> dict[str, Frame]:
    """Generate the rows of each plant, in order of time and in the units of the generator."""
    return {
        name: _make_frame(plant, round(rows * plant.share), seed * len(PLANTS) + number)
        for number, (name, plant) in enumerate(PLANTS.items())
    }


def _make_frame(plant: Plant, rows: int, seed: int) -> Frame:
    """Generate a plant with about twice the rows, and draw `rows` of them by the mix."""
    weight = dict(zip(VARIANTS, plant.mix, strict=True))
    generated = generate(rows=round(2 * rows / np.dot(SHARES, plant.mix)), seed=seed)
    weights = np.array([weight[variant] for variant in generated.texts(TYPE)])
    stream = np.random.Generator(np.random.PCG64(seed))
    drawn = stream.choice(
        generated.rows, size=rows, replace=False, p=weights / weights.sum(), shuffle=False
    )
    return generated.take(np.sort(drawn))


def write_table(frame: Frame, plant: Plant, path: Path, seed: int) -> None:
    """Write the table of a plant in its format."""
    failures = frame.numbers(FAILURE)
    variants = dict(zip(VARIANTS, plant.variant[1], strict=True))
    columns = {
        plant.time[0]: format_times(frame.rows, plant),
        plant.variant[0]: [variants[letter] for letter in frame.texts(TYPE)],
    }
    stream = np.random.Generator(np.random.PCG64(seed))
    for header, quantity in plant.quantities.items():
        cells = [format_number(value, quantity, plant) for value in frame.numbers(header).tolist()]
        sensor, word = plant.missing
        if header == sensor:
            for row in np.flatnonzero(stream.random(frame.rows) < UNREADABLE).tolist():
                cells[row] = word
        columns[quantity.title] = cells
    columns[plant.failure[0]] = [plant.failure[1][int(failure)] for failure in failures.tolist()]
    lines = [
        *plant.above,
        plant.delimiter.join(columns),
        *(plant.delimiter.join(cells) for cells in zip(*columns.values(), strict=True)),
    ]
    path.write_text("\n".join(lines) + "\n", encoding=plant.encoding, newline="")


def format_times(rows: int, plant: Plant) -> list[str]:
    """Format the times of consecutive rows in the zone of the plant."""
    zone = ZoneInfo(plant.zone)
    return [(START + row * STEP).astimezone(zone).strftime(plant.time[1]) for row in range(rows)]


def format_number(value: float, quantity: Quantity, plant: Plant) -> str:
    """Format a number with the marks of the plant, in quotes if it contains the delimiter."""
    scaled = value * quantity.factor + quantity.offset
    text = f"{scaled:{',' if plant.group else ''}.{quantity.decimals}f}"
    text = text.translate(str.maketrans({",": plant.group, ".": plant.decimal}))
    return f'"{text}"' if plant.delimiter in text else text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make the tables of the plants.")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).parent / "tables",
        help="folder for the tables (default: tables, beside this file)",
    )
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of all tables together")
    parser.add_argument("--seed", type=int, default=0, help="seed of the generator")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for number, (name, frame) in enumerate(make_frames(arguments.rows, arguments.seed).items()):
        path = arguments.out / f"{name}.csv"
        write_table(frame, PLANTS[name], path, arguments.seed * len(PLANTS) + number)
        failures = int(frame.numbers(FAILURE).sum())
        print(f"{os.path.relpath(path)}: {frame.rows:,} rows, {failures} failures")
