"""Makes one table for each piece of equipment, a day of 5-minute rows, with one fault in each.

    python examples/hvac/make_tables.py --out FOLDER

Every fault lasts from 10:00 to 11:00, except the swinging damper, which swings from 09:00 to 09:50.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

ROWS = 288
FAULT = slice(120, 132)
"""10:00 to 10:55."""


def tables() -> dict[str, pd.DataFrame]:
    """The tables by the rule that each violates."""
    step = np.arange(ROWS)
    time = pd.date_range("2024-03-09", periods=ROWS, freq="5min").strftime("%Y-%m-%d %H:%M")
    warm = 72.5 + 2 * np.sin(2 * np.pi * step / 24)

    stuck = warm.copy()
    stuck[109:132] = 72.0  # 12 equal values first fill the window of an hour at 10:00
    damper = 0.2 + 0.05 * np.sin(2 * np.pi * step / ROWS)
    damper[108:118] = np.arange(10) % 2
    pressure, speed = np.full(ROWS, 1.4), np.full(ROWS, 0.6)
    pressure[FAULT], speed[FAULT] = 0.5, 1.0
    cold = 65 + 3 * np.sin(2 * np.pi * step / ROWS)
    cold[FAULT] = 50.0
    hot = warm.copy()
    hot[FAULT] = 80.0
    people = np.full(ROWS, "on", dtype=object)
    people[FAULT] = "off"

    columns: dict[str, dict[str, object]] = {
        "sensor_alive": {"zone temperature": stuck},
        "calm_damper": {"outdoor air damper": damper, "loop on": "on"},
        "duct_pressure_reached": {
            "duct pressure": pressure,
            "duct setpoint": 1.5,
            "fan speed": speed,
        },
        "free_cooling": {"outdoor temperature": cold, "chiller runs": "on"},
        "comfort": {"zone temperature": hot},
        "off_when_empty": {"zone temperature": warm, "fan runs": "on", "occupied": people},
    }
    return {rule: pd.DataFrame({"time": time, **of}) for rule, of in columns.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make the tables of the HVAC example.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the tables")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables().items():
        table.to_csv(folder / f"{name}.csv", index=False)
