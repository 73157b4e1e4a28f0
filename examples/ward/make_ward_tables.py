"""Makes the observations of four hospitals, each with its own column names and units.

    python examples/ward/make_ward_tables.py [--out FOLDER] [--seed SEED]

A row is one set of vital signs. The risk of deterioration within 12 hours grows with the number of
signs outside their bands and with age. Equal arguments give equal tables.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Hospital:
    """A hospital: its sets of vital signs, its wards, and the headers of its export.

    Attributes:
        severity: mean severity of its patients' illness, in standard deviations.
        fahrenheit: whether it records temperatures in degrees Fahrenheit.
        kilopascal: whether it records blood pressure in kilopascals.
    """

    name: str
    rows: int
    wards: tuple[str, ...]
    headers: tuple[str, ...]
    severity: float = 0.0
    fahrenheit: bool = False
    kilopascal: bool = False


ENGLISH = (
    "ward", "age", "respiratory rate", "SpO2", "systolic", "heart rate", "temperature",
    "deterioration",
)  # fmt: skip
GERMAN = ("Station", "Alter", "AF", "SpO2 [%]", "RR syst.", "Puls", "Temp", "Verschlechterung")
HOSPITALS = (
    Hospital(name="leeds", rows=2400, wards=("W1", "W2", "W3"), headers=ENGLISH),
    Hospital(name="graz", rows=1500, wards=("W4", "W6"), headers=GERMAN, kilopascal=True),
    Hospital(name="boston", rows=1800, wards=("W1", "W4"), headers=ENGLISH, fahrenheit=True),
    Hospital(name="lyon", rows=700, wards=("W5", "W6"), headers=ENGLISH, severity=0.4),
)


def draw_signs(hospital: Hospital, draws: np.random.Generator) -> tuple[list[str], Numbers]:
    """Wards [n] and vital signs [n, 7], the last one whether the patient deteriorates."""
    count = hospital.rows
    ward = draws.choice(hospital.wards, count)
    illness = draws.gamma(1.0, 0.6, count) + hospital.severity * draws.random(count)
    age = np.clip(draws.normal(66, 15, count), 18, 100).round()
    respiration = np.clip(draws.normal(16 + 3.2 * illness, 2.0), 6, 45).round()
    respiratory_ward = np.isin(ward, ("W3", "W5"))
    usual = np.where(respiratory_ward, 90.0, 97.0)
    saturation = np.clip(draws.normal(usual - 2.2 * illness, 1.2), 70, 100).round()
    systolic = np.clip(draws.normal(132 - 9 * illness, 14), 60, 215).round()
    pulse = np.clip(draws.normal(78 + 14 * illness, 10), 35, 190).round()
    temperature = np.clip(draws.normal(36.9 + 0.3 * illness, 0.4), 34, 41).round(1)

    low = np.where(respiratory_ward, 83, 91)
    red = (respiration >= 25) | (saturation <= low) | (systolic <= 90) | (pulse >= 131)
    score = 1.6 * illness + 0.015 * (age - 66) + 2.2 * red
    deteriorates = (draws.logistic(size=count) < score - 3.4).astype(float)
    signs = (age, respiration, saturation, systolic, pulse, temperature, deteriorates)
    return ward.tolist(), np.stack(signs, axis=1)


def write_table(hospital: Hospital, folder: Path, draws: np.random.Generator) -> Path:
    """The table of one hospital, in its units; some cells of the saturation are empty."""
    wards, signs = draw_signs(hospital, draws)
    if hospital.kilopascal:
        signs[:, 3] = (signs[:, 3] * 0.133322).round(3)  # keeps 90 mmHg at most 90
    if hospital.fahrenheit:
        signs[:, 5] = (signs[:, 5] * 1.8 + 32).round(1)
    lost = draws.random(len(signs)) < 0.01
    path = folder / f"{hospital.name}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(hospital.headers)
        for ward, row, is_lost in zip(wards, signs.tolist(), lost, strict=True):
            cells = [f"{value:g}" for value in row]
            cells[2] = "" if is_lost else cells[2]
            rows.writerow([ward, *cells])
    return path


def main() -> None:
    """Write all tables."""
    parser = argparse.ArgumentParser(description="Makes the tables of four hospitals.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "tables")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for place, hospital in enumerate(HOSPITALS):
        path = write_table(hospital, options.out, np.random.default_rng([options.seed, place]))
        print(f"{path}: {hospital.rows:,} rows")


if __name__ == "__main__":
    main()
