"""Makes a summer of hourly rows of three buildings, and their points as a Brick graph.

    python examples/building/make_building_tables.py [--out FOLDER] [--days DAYS] [--seed SEED]

Cooling power follows the outdoor temperature, the people and the fan, up to the capacity of the
coil. In the office, the heating valve leaks on some afternoons. Equal arguments give equal tables.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

START = datetime(2025, 6, 2)
HEADERS = (
    "time", "unit", "outdoor", "supply", "fan", "heating valve", "cooling valve", "occupancy",
    "cooling power",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Building:
    """A building: its air handling unit, coil in kW, setpoint in degrees Celsius, and people.

    Attributes:
        share: share of the days of `--days` that its records cover.
        leaks: whether the heating valve of the unit leaks.
    """

    name: str
    unit: str
    coil: float
    setpoint: float
    people: int
    share: float = 1.0
    leaks: bool = False


BUILDINGS = (
    Building(name="library", unit="AHU1", coil=60, setpoint=14, people=150),
    Building(name="school", unit="AHU2", coil=45, setpoint=15, people=300, share=0.6),
    Building(name="office", unit="AHU3", coil=120, setpoint=14, people=400, leaks=True),
)


def write_table(building: Building, folder: Path, days: int, draws: np.random.Generator) -> Path:
    """The hourly rows of one building."""
    hours = int(days * building.share) * 24
    clock = np.arange(hours) % 24
    workday = np.arange(hours) // 24 % 7 < 5
    wave = draws.normal(0, 3, hours // 24 + 1).repeat(24)[:hours]
    outdoor = 22 + 7 * np.sin((clock - 9) * np.pi / 12) + wave + draws.normal(0, 0.5, hours)
    open_hours = workday & (clock >= 7) & (clock < 19)
    occupancy = np.where(open_hours, draws.binomial(building.people, 0.6, hours), 0)
    fan = np.where(open_hours, np.clip(0.5 + occupancy / building.people / 2, 0, 1), 0.0)
    load = 1.1 * np.clip(outdoor - building.setpoint, 0, None) * fan * building.coil / 20
    demand = load + 0.06 * occupancy * (fan > 0)
    power = np.minimum(demand * draws.normal(1, 0.05, hours), building.coil)
    valve = power / building.coil
    heating = np.zeros(hours)
    if building.leaks:
        leaking = (
            open_hours & (clock >= 14) & (draws.random(hours // 24 + 1).repeat(24)[:hours] < 0.1)
        )
        heating = np.where(leaking, 0.3, 0.0)
    missed = np.clip(demand - building.coil, 0, None) / building.coil * 8
    supply = np.where(fan > 0, building.setpoint + missed + draws.normal(0, 0.4, hours), 24.0)
    path = folder / f"{building.name}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(HEADERS)
        for place in range(hours):
            rows.writerow(
                [
                    (START + timedelta(hours=place)).isoformat(sep=" ", timespec="minutes"),
                    building.unit,
                    f"{outdoor[place]:.1f}",
                    f"{supply[place]:.1f}",
                    f"{fan[place]:.2f}",
                    f"{heating[place]:.2f}",
                    f"{valve[place]:.2f}",
                    int(occupancy[place]),
                    f"{power[place]:.1f}",
                ]
            )
    return path


def main() -> None:
    """Write all tables."""
    parser = argparse.ArgumentParser(description="Makes the tables of three buildings.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "tables")
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for place, building in enumerate(BUILDINGS):
        draws = np.random.default_rng([options.seed, place])
        print(write_table(building, options.out, options.days, draws))


if __name__ == "__main__":
    main()
