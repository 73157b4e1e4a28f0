"""A run stores where its data violate rules, and its forecasts beside simple ones."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkg.errors import UsageError
from fedkg.jobs import resume, run_job
from fedkg.jobs.experiment.experiment import create_experiment
from fedkg.jobs.experiment.site_sample_statistics import TEST, TRAIN
from fedkg.jobs.folder import INCIDENTS, PREDICTION_INCIDENTS, RunFolder
from fedkg.jobs.rule_pack import load_rules
from fedkg.jobs.schema.job import Job
from fedkg.jobs.trial_expansion import expand_trials
from fedkg.report import write_report

PLANT = """
@prefix p: <https://example.org/p#> . @prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
p:Mill a owl:Class ; fkg:keyColumn "machine" . p:Line a owl:Class . p:line_3 a p:Line .
p:M01 a p:Mill ; p:partOf p:line_3 . p:M02 a p:Mill ; p:partOf p:line_3 .
"""

RULES = """
prefix p: <https://example.org/p#>
signal torque in N.m column "Torque [Nm]" span 0 .. 80
output failure in probability span 0 .. 1 column "Machine failure"
rule strong "The torque stays below 55 N.m." for ?m in class p:Mill require torque <= 55 N.m
rule calm require torque <= 500 N.m
rule quiet require if torque <= 1 N.m then failure <= 0.5
"""
RULES_ABOUT_PREDICTIONS = """
rule low "Calm mills do not fail." for ?m in class p:Mill
  require if torque <= 45 N.m then failure <= 0.3
rule rising require failure never falls as torque rises
"""


def _job(folder: Path, **changes: Any) -> dict[str, Any]:
    (folder / "rules.fkg").write_text(RULES)
    (folder / "plant.ttl").write_text(PLANT)
    torque = np.random.default_rng(0).normal(40, 10, 400)
    (folder / "mills.csv").write_text(
        "Torque [Nm],machine,Machine failure\n"
        + "".join(
            f"{value:.1f},M{1 + row % 2:02d},{int(value > 50)}\n"
            for row, value in enumerate(torque.tolist())
        )
    )
    return {
        "name": "first",
        "rules": [str(folder / "rules.fkg"), str(folder / "plant.ttl")],
        "sites": ["north", "south"],
        "data": {"path": str(folder / "mills.csv")},
        "model": {"hidden": [4]},
        "training": {"rounds": 1, "participation": 1.0},
        "evaluation": {"local_baseline": False},
        "algorithm": "fedavg",
    } | changes


def test_a_run_shows_the_incidents_in_its_data_and_rebuilds_them(tmp_path: Path) -> None:
    folder = run_job(_job(tmp_path), out=tmp_path / "run").folder
    checks = {row["rule"]: row for row in RunFolder(folder).rows("checks.csv")}
    found = json.loads((folder / INCIDENTS).read_text())
    counted = {rule["rule"]: rule for rule in found["rules"]}
    assert set(counted) == {"strong", "calm"}, "rules about outputs are not about the data"
    for name, rule in counted.items():
        assert rule["violated"] == int(checks[name]["violated"])
    (detail,) = found["details"]
    assert detail["rows_violated"] == int(checks["strong"]["violated"]) > 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert '<section id="incidents">' in page
    assert "at most 55 N.m" in page
    assert "part of line_3 (Line), shared with 1 other" in page
    assert len(re.findall(r'<dl class="key-figures">.*?</dl>', page, re.DOTALL)) == 1
    assert "Check the data: it violates “The torque stays below 55 N.m”" in page
    body = (folder / INCIDENTS).read_bytes()
    (folder / INCIDENTS).write_text("{}")
    resume(folder)
    assert (folder / INCIDENTS).read_bytes() == body


def test_a_run_shows_the_causes_that_another_run_found(tmp_path: Path) -> None:
    edge = {"driver": "boiler", "driven": "M01", "adjusted": 0.01, "reference": 0.5, "lag": 2}
    documents = {
        "environment.json": {"kind": "causes", "job": {"clients": {}}},
        "results.json": {"edges": [edge], "clients": {"M01": {}, "boiler": {}}, "level": 0.05},
    }
    (tmp_path / "granger").mkdir()
    for name, document in documents.items():
        (tmp_path / "granger" / name).write_text(json.dumps(document))
    RunFolder(tmp_path / "granger").log_files(documents)
    (tmp_path / "job.yaml").write_text(json.dumps(_job(tmp_path, causes="granger")))
    folder = run_job(tmp_path / "job.yaml", out=tmp_path / "run").folder
    shutil.rmtree(tmp_path / "granger")
    assert write_report(folder).is_file(), "the run has a copy"
    text = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", (folder / "report.html").read_text("utf-8")))
    assert "boiler drives M01 p = 0.010 corrected, strength 0.5, 2 steps later" in text


def test_causes_of_a_folder_without_a_run_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere is not a run folder"):
        run_job(_job(tmp_path, causes=str(tmp_path / "nowhere")), out=tmp_path / "run")
    assert run_job(_job(tmp_path), out=tmp_path / "run").folder.is_dir(), "nothing is in the way"


def test_a_run_shows_the_incidents_in_its_predictions_and_rebuilds_them(tmp_path: Path) -> None:
    job = _job(tmp_path, rules=[str(tmp_path / "rules.fkg")])
    (tmp_path / "rules.fkg").write_text(f"use plant\n{RULES}{RULES_ABOUT_PREDICTIONS}")
    folder = run_job(job, out=tmp_path / "run").folder
    found = json.loads((folder / PREDICTION_INCIDENTS).read_text())
    assert found["neighbours"]["M01"][0]["name"] == "line_3", "the rules name the graph"
    rules = {row["rule"]: row for row in RunFolder(folder).rows("rules.csv")}
    counted = {rule["rule"]: rule for rule in found["rules"]}
    assert set(counted) == {"low", "quiet"}
    assert [*found["left_out"].values()] == [["rising"]], "it needs the model, not its answers"
    for name, rule in counted.items():
        assert rule["violated"] == int(rules[name]["violated"])
        assert rule["violated"] + rule["satisfied"] == int(rules[name]["evaluations"])
    (detail,) = found["details"]
    assert detail["violated"] > 0
    assert {event["rows"] for event in detail["events"]} == {1}, "test rows are not neighbours"
    by_site = {one["site"]: one["evaluations"] for one in detail["by_site"]}
    sites = RunFolder(folder).rows("sites.csv")
    assert by_site == {row["client"]: int(row["test_rows"]) for row in sites}
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert '<section id="prediction-incidents">' in page
    assert "Where the predictions of FedAvg for test data violate rules" in page
    assert "Not shown here, but counted above: <code>rising</code>" in page
    assert "at most 0.3" in page
    assert len(re.findall(r'id="rule-low"', page)) == 1
    body = (folder / PREDICTION_INCIDENTS).read_bytes()
    (folder / PREDICTION_INCIDENTS).write_text("{}")
    resume(folder)
    assert (folder / PREDICTION_INCIDENTS).read_bytes() == body


def test_a_private_run_stores_no_measured_values(tmp_path: Path) -> None:
    privacy = {"unit": "example", "noise": 1.0, "clip": 1.0, "delta": 1e-5}
    folder = run_job(_job(tmp_path, privacy=privacy), out=tmp_path / "run").folder
    assert not (folder / INCIDENTS).exists()
    assert not (folder / PREDICTION_INCIDENTS).exists()
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Incidents in the" not in page


def _naive_errors(job: dict[str, Any]) -> dict[tuple[str, str], float]:
    """The errors of the simple forecasts, window by window and step by step."""
    document = Job.model_validate(job)
    experiment = create_experiment(document, load_rules(document)[0])
    experiment.prepare(list(expand_trials(document)))
    samples = experiment.samples
    data, rows = samples.source, samples.uncut_rows
    assert data.time is not None
    assert rows.time is not None
    assert rows.clients is not None
    assert data.clients is not None
    assert samples.scaled.outputs is not None
    volume, spread = rows.features.index("volume"), float(samples.scaled.outputs.std[0])
    series = {
        (str(client), float(time)): float(x[volume])
        for client, time, x in zip(rows.clients, rows.time, rows.x, strict=True)
    }
    found: dict[tuple[str, str], list[float]] = {}
    for site in dict.fromkeys(data.clients.tolist()):
        own = data.clients == site
        mean = float(np.nanmean(data.y[own & (samples.use == TRAIN)]))
        for window in np.flatnonzero(own & (samples.use == TEST)).tolist():
            past = data.x[window][:, data.features.index("volume")]
            last = past[np.isfinite(past)][-1]
            for step, actual in enumerate(data.y[window].tolist()):
                before = series.get((site, float(data.time[window]) + step - 24), math.nan)
                if math.isnan(actual) or math.isnan(before):
                    continue
                for name, value in (("persistence", last), ("seasonal", before), ("mean", mean)):
                    error = ((value - actual) / spread) ** 2
                    found.setdefault((site, name), []).append(error)
    return {key: math.fsum(errors) / len(errors) for key, errors in found.items()}


def _naive_ramps(values: list[dict[str, str]], steps: int) -> tuple[int, int, float]:
    """Steps and forecasts that rise by more than 50, and the largest rise, step by step."""
    broken, forecasts, largest = 0, set(), 0.0
    by_site: dict[str, list[dict[str, str]]] = {}
    for row in values:
        by_site.setdefault(row["client"], []).append(row)
    for site, rows in by_site.items():
        for place, row in enumerate(rows):
            # persistence is the last observation before the forecast
            before = row["persistence"] if place % steps == 0 else rows[place - 1]["model"]
            rise = float(row["model"]) - float(before)
            largest = max(largest, rise)
            if rise > 50:
                broken += 1
                forecasts.add((site, place // steps))
    return broken, len(forecasts), largest


def test_simple_forecasts_have_the_errors_of_a_naive_loop(tmp_path: Path) -> None:
    window = {"history": 12, "horizon": 6, "stride": 6, "targets": ["volume"]}
    job = _job(tmp_path) | {
        "data": {
            "set": "traffic",
            "size": 240,
            "clients": 3,
            "min_samples": 3,
            "window": window | {"gaps": "interpolate"},
        }
    }
    job = {key: value for key, value in job.items() if key != "sites"}
    (tmp_path / "rules.fkg").write_text(
        "timeline step 1 h ends clip\noutput volume span 0 .. 20000\n"
        "rule no_negative require volume >= 0\nrule ramp require volume - past volume <= 50\n"
    )
    folder = run_job(job, out=tmp_path / "run").folder
    measured = {
        (row["client"], row["by"]): float(row["mse"])
        for row in RunFolder(folder).rows("baselines.csv")
        if row["by"] != "model"
    }
    assert measured == pytest.approx(_naive_errors(job), rel=1e-9)
    values = RunFolder(folder).rows("forecast_values.csv")
    assert {row["channel"] for row in values} == {"volume"}
    steps, forecasts, largest = _naive_ramps(values, 6)
    (ramp,) = json.loads((folder / PREDICTION_INCIDENTS).read_text())["details"]
    counted = {row["rule"]: row for row in RunFolder(folder).rows("rules.csv")}
    assert (ramp["violated"], int(counted["ramp"]["violated"])) == (steps, forecasts)
    assert ramp["satisfied"] == len(values) - steps
    assert float(ramp["events"][0]["margin"]) == pytest.approx(50 - largest, rel=1e-3)
    assert ramp["events"][0]["first"].endswith("00 (step 1 of the forecast)")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert '<section id="forecast-values">' in page
    assert 'class="curve-seasonal"' in page
