"""Faults of heating and ventilation equipment: hours found beside open-fdd's labels.

    python benchmarks/third_party_open_fdd.py [--data FOLDER] [--write]

Each of the six published cases is a week of 5-minute rows with one fault. `examples/hvac/rules.fkg`
has the same six rules. A case is right if exactly the labelled rows violate its rule. FOLDER has
`expected_faults_slice.csv` and one folder of tables; without it and without `FEDKG_SHARED`, the
cases of `examples/hvac/make_tables.py` are evaluated: a day each, with one hour of fault.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import torch
from reporting.rows import Row
from reporting.third_party import format_table, save_section

import fedkg

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "hvac"
PUBLISHED = (
    Path(os.environ.get("FEDKG_SHARED", ROOT / "shared")) / "external/open-fdd/synthetic_slice"
)
STEP = timedelta(minutes=5)
RULES = {
    "SV-FLATLINE": "sensor_alive",
    "PID-HUNT-1": "calm_damper",
    "FC1": "duct_pressure_reached",
    "MECH-OAT-1": "free_cooling",
    "VAV-1": "comfort",
    "SCHED-1": "off_when_empty",
}
"""Their rules and ours."""

HEADERS = {
    "timestamp_utc": "time",
    "zone-air-temp": "zone temperature",
    "web-outside-air-temp": "outdoor temperature",
    "duct-static-pressure": "duct pressure",
    "duct-static-pressure-sp": "duct setpoint",
    "fan-cmd": "fan speed",
    "fan-status": "fan runs",
    "occupied": "occupied",
    "chiller-status": "chiller runs",
    "outside-air-damper": "outdoor air damper",
    "loop-enabled": "loop on",
}
"""The columns of their tables, and ours."""

TRUTHS = {"on": 1.0, "off": 0.0, "": np.nan}


def read_columns(path: Path) -> dict[str, list[str]]:
    """The columns of a table by our headers."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {HEADERS.get(name, name): [row[name] for row in rows] for name in rows[0]}


def fault_rows(pack: fedkg.Pack, rule: str, table: dict[str, list[str]]) -> list[int]:
    """The rows that violate a rule; columns that the table lacks are unknown."""
    headers = {column.name: column.source for column in pack.manifest.contract.columns}
    count = len(next(iter(table.values())))
    columns = [
        [TRUTHS[cell] if cell in TRUTHS else float(cell) for cell in table[header]]
        if header in table
        else [np.nan] * count
        for header in headers.values()
    ]
    module = pack.constraints(x=fedkg.columns(list(headers)), y=fedkg.columns([]))
    x = torch.tensor(columns, dtype=torch.float64).T
    report = module(x=x, y=x.new_empty(count, 0), previous="above")
    place = [record.name for record in pack.manifest.rules].index(rule)
    return report.violated[:, place].nonzero().flatten().tolist()


def published_cases(folder: Path) -> list[tuple[str, Path, str, str]]:
    """The rule, the table, and the start and the end of the fault of each case."""
    [tables] = [path for path in folder.iterdir() if path.is_dir()]
    with (folder / "expected_faults_slice.csv").open(encoding="utf-8", newline="") as file:
        return [
            (
                row["rule_id"],
                tables / row["equipment_id"] / "history_wide.csv",
                row["expected_fault_start_utc"],
                row["expected_fault_end_exclusive_utc"],
            )
            for row in csv.DictReader(file)
        ]


def generated_cases(folder: Path) -> list[tuple[str, Path, str, str]]:
    """The same for the tables of the example; their faults last from 10:00 to 11:00, the swinging
    damper is seen from 9:25 to 10:25.
    """
    command = [sys.executable, str(EXAMPLE / "make_tables.py"), "--out", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    cases = []
    for name, rule in RULES.items():
        path = folder / f"{rule}.csv"
        day = datetime.fromisoformat(read_columns(path)["time"][0])
        start = day + timedelta(hours=10) - STEP * (7 if rule == "calm_damper" else 0)
        cases.append((name, path, str(start), str(start + timedelta(hours=1))))
    return cases


def main() -> None:
    """Evaluate, print the table, and print the rows as JSON in the last line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with expected_faults_slice.csv")
    parser.add_argument("--write", action="store_true", help="store the table for the page")
    args = parser.parse_args()
    source = args.data or (PUBLISHED if PUBLISHED.is_dir() else None)
    pack = fedkg.compile(EXAMPLE / "rules.fkg")
    columns = ["rule of open-fdd", "rule of fedkg", "labelled", "found", "the same rows"]
    rows, right = [], 0
    with tempfile.TemporaryDirectory() as folder:
        cases = generated_cases(Path(folder)) if source is None else published_cases(source)
        for name, path, start, end in cases:
            table = read_columns(path)
            first, last = datetime.fromisoformat(start), datetime.fromisoformat(end)
            times = [datetime.fromisoformat(time) for time in table["time"]]
            labelled = [row for row, time in enumerate(times) if first <= time < last]
            found = fault_rows(pack, RULES[name], table)
            right += found == labelled
            rows.append(
                [
                    name,
                    f"`{RULES[name]}`",
                    f"{len(labelled) * STEP / timedelta(hours=1):.2f} h",
                    f"{len(found) * STEP / timedelta(hours=1):.2f} h",
                    "yes" if found == labelled else "no",
                ]
            )
    print(format_table(columns, rows))
    if args.write and source is not None:
        save_section("open-fdd", {"columns": columns, "rows": rows})
    claim: Row = {
        "claim": "labelled faults of open-fdd found in exactly their rows",
        "ours": right,
        "peer": len(cases),
        "peer_name": "published cases" if source is not None else "cases of the example",
        "ratio": None,
        "reason": "a count, not a time",
        "spread": None,
        "target": None,
        "holds": right == len(cases),
        "floor": None,
    }
    print(json.dumps(claim))


if __name__ == "__main__":
    main()
