"""The HVAC example finds the fault in each generated table, and those of the open-fdd project."""

from __future__ import annotations

import csv
import runpy
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from command import call
from shared import SHARED

import fedkg

FOLDER = Path(__file__).parents[2] / "examples/hvac"
RULES = FOLDER / "rules.fkg"
PUBLISHED = SHARED / "external/open-fdd/synthetic_slice"
needs_published = pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason=f"no open-fdd cases at {PUBLISHED}; set FEDKG_SHARED"
)

CASES = {
    "SV-FLATLINE": "sensor_alive",
    "PID-HUNT-1": "calm_damper",
    "FC1": "duct_pressure_reached",
    "MECH-OAT-1": "free_cooling",
    "VAV-1": "comfort",
    "SCHED-1": "off_when_empty",
}
"""The rules of the project, and ours."""

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


def violated(capsys: pytest.CaptureFixture[str], table: Path) -> dict[str, tuple[int, int, int]]:
    """How often each rule with columns in the table is satisfied, violated and unknown."""
    done = call(capsys, "eval", RULES, table, "--skip-missing", "--json")
    assert done.code == 0, done.err
    return {
        rule["rule"]: (rule["satisfied"], rule["violated"], rule["unknown"])
        for rule in done.json["rules"]
    }


def fault_rows(rule: str, frame: pd.DataFrame) -> list[int]:
    """The rows that violate a rule, by tensors of the columns; those that are missing are
    unknown.
    """
    pack = fedkg.compile(RULES)
    headers = {column.name: column.source for column in pack.manifest.contract.columns}
    truths = {"on": 1.0, "off": 0.0}
    columns = [
        frame[header].map(lambda cell: truths.get(cell, cell)).astype(float)
        if header in frame
        else pd.Series(np.nan, frame.index)
        for header in headers.values()
    ]
    module = pack.constraints(x=fedkg.columns(list(headers)), y=fedkg.columns([]))
    x = torch.tensor(np.stack(columns, axis=1))
    report = module(x=x, y=torch.empty(len(frame), 0, dtype=torch.float64), previous="above")
    position = [record.name for record in pack.manifest.rules].index(rule)
    return report.violated[:, position].nonzero().flatten().tolist()


@pytest.fixture
def generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "argv", ["make_tables.py", "--out", str(tmp_path)])
    runpy.run_path(str(FOLDER / "make_tables.py"), run_name="__main__")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("rule", CASES.values())
def test_each_fault_is_found_in_its_hour(
    capsys: pytest.CaptureFixture[str], generated: Path, rule: str
) -> None:
    table = generated / f"{rule}.csv"
    assert violated(capsys, table)[rule][1] == 12
    # The damper first swings by 500 % at 09:25, and the window holds that much until 10:20.
    first = 113 if rule == "calm_damper" else 120
    assert fault_rows(rule, pd.read_csv(table)) == list(range(first, first + 12))


def test_the_first_hour_is_not_evaluated_where_a_rule_looks_back(
    capsys: pytest.CaptureFixture[str], generated: Path
) -> None:
    assert violated(capsys, generated / "sensor_alive.csv")["sensor_alive"] == (265, 12, 11)
    assert violated(capsys, generated / "comfort.csv")["comfort"] == (276, 12, 0)


def published_cases() -> dict[str, dict[str, str]]:
    with (PUBLISHED / "expected_faults_slice.csv").open(encoding="utf-8", newline="") as file:
        return {row["rule_id"]: row for row in csv.DictReader(file)}


@needs_published
@pytest.mark.parametrize("case", CASES)
def test_published_cases_have_their_fault_hours(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, case: str
) -> None:
    expected, rule = published_cases()[case], CASES[case]
    [folder] = [path for path in PUBLISHED.iterdir() if path.is_dir()]
    frame = pd.read_csv(folder / expected["equipment_id"] / "history_wide.csv")
    frame = frame.rename(columns=HEADERS)
    frame.to_csv(tmp_path / "t.csv", index=False)
    count = violated(capsys, tmp_path / "t.csv")[rule][1]
    assert count == int(expected["expected_fault_samples"])
    assert count * 5 / 60 == float(expected["expected_fault_hours"])
    times = pd.to_datetime(frame["time"])[fault_rows(rule, frame)]
    assert times.min() == pd.Timestamp(expected["expected_fault_start_utc"])
    assert times.max() + pd.Timedelta(minutes=5) == pd.Timestamp(
        expected["expected_fault_end_exclusive_utc"]
    )


@needs_published
def test_every_published_case_is_tested() -> None:
    assert set(published_cases()) == set(CASES)
