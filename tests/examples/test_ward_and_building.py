"""The examples of hospital wards and of buildings: their rules find what the generators put in, and
their jobs end in a report.
"""

from __future__ import annotations

import csv
import runpy
import shutil
import sys
from pathlib import Path

import pytest

import fedkg
from fedkg.evaluation import Evaluation
from fedkg.jobs import run_job
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.schema.job_reader import read_job
from fedkg.sites import load_sites, read_site

EXAMPLES = Path(__file__).parents[2] / "examples"


def make(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of an example with its generated tables."""
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("tables"))
    script = f"make_{folder.name}_tables.py"
    monkeypatch.setattr(sys, "argv", [script])
    runpy.run_path(str(folder / script), run_name="__main__")
    return folder


def evaluate(folder: Path, site: str) -> Evaluation:
    pack = fedkg.compile(folder / "rules.fkg")
    table = read_site(load_sites(folder / "sites.yaml"), site, pack.manifest.contract).table
    return fedkg.evaluate(pack, table)


def violated(found: Evaluation) -> dict[str, int]:
    return {rule.rule: rule.violated for rule in found.rules if rule.violated}


def run(folder: Path, *changes: str) -> RunFolder:
    job = read_job(folder / "job.yaml", overrides=["seeds=1", "training.rounds=1", *changes])
    done = run_job(job, out=folder / "run")
    assert (done.folder / "report.html").stat().st_size > 10_000
    return RunFolder(done.folder)


def test_a_leaking_valve_and_a_small_coil_are_found(tmp_path, monkeypatch):
    folder = make("building", tmp_path, monkeypatch)
    assert violated(evaluate(folder, "library")) == {}
    assert violated(evaluate(folder, "school")) == {"air_reaches_setpoint": 1}
    assert violated(evaluate(folder, "office")) == {"no_fighting": 15}


@pytest.mark.slow
def test_predictions_stay_within_the_coil_of_each_building(tmp_path, monkeypatch):
    folder = make("building", tmp_path, monkeypatch)
    rows = run(folder, "compare.algorithm=[fedavg]").rows("rules.csv")
    hard = [row for row in rows if row["rule"] in ("coil", "rest")]
    assert len(hard) == 4  # two trainings: the federation, and each site alone
    assert all(int(row["evaluations"]) > 500 and row["violated"] == "0" for row in hard)


@pytest.mark.slow
def test_thresholds_differ_by_ward_and_units_by_hospital(tmp_path, monkeypatch):
    folder = make("ward", tmp_path, monkeypatch)
    for site in ("leeds", "boston", "lyon"):
        with (folder / "tables" / f"{site}.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["SpO2"]]
        missed = [
            row
            for row in rows
            if float(row["SpO2"]) <= (83 if row["ward"] in ("W3", "W5") else 91)
            and row["deterioration"] == "0"
        ]
        found = violated(evaluate(folder, site))
        assert found.get("low_saturation", 0) == len(missed)
        assert not [rule for rule in found if rule.startswith("PlausibleSigns")]
    kilopascal = violated(evaluate(folder, "graz"))
    assert not [rule for rule in kilopascal if rule.startswith("PlausibleSigns")]
    with (folder / "tables" / "graz.csv").open(newline="") as file:
        low = [row["Verschlechterung"] for row in csv.DictReader(file)
               if round(float(row["RR syst."]) * 7.50062) <= 90]  # fmt: skip
    assert kilopascal["low_pressure"] == low.count("0"), "90 mmHg in kPa is not above 90 mmHg"


@pytest.mark.slow
def test_the_ward_job_evaluates_every_rule_on_predictions(tmp_path, monkeypatch):
    folder = make("ward", tmp_path, monkeypatch)
    rows = run(folder, "compare.algorithm=[fedavg]").rows("rules.csv")
    assert {row["rule"] for row in rows} >= {"low_saturation", "breathing_raises_risk"}
    assert all(int(row["evaluations"]) > 0 for row in rows)
