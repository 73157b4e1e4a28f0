"""Runs from job to report: folder, events, settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_figures import figures

from fedkg.errors import JobError
from fedkg.jobs import Event, run_job
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.schema.job_reader import parse_job
from fedkg.jobs.trial_training import positive_weight

pytestmark = pytest.mark.usefixtures("no_report")


FILES = {
    "events.jsonl",
    "log.jsonl",
    "trials.json",
    "checks.csv",
    "clients.csv",
    "environment.json",
    "disclosures.csv",
    "forecasts.csv",
    "job.yaml",
    "pack.fkgpack",
    "prediction_incidents.json",
    "properties.csv",
    "results.json",
    "rounds.csv",
    "rules.csv",
    "sets.csv",
    "sites.csv",
    "split.json",
}


def test_a_run_writes_its_folder_and_tells_what_happens(job_fields, tmp_path):
    events: list[Event] = []
    run = run_job(job_fields, out=tmp_path / "run", on_event=events.append)
    assert {
        path.name
        for path in run.folder.iterdir()
        if path.is_file() and not path.name.startswith(".")
    } == FILES
    kinds = ["prepared", *(["trial", "round", "round", "round", "trial_done"] * 4), "finished"]
    assert [e.kind for e in events if e.kind != "note"] == kinds
    assert [e.message for e in events if e.kind == "note"] == [
        "the sites of a round are trained one after the other: as the job requests",
        "no update has any weight under the rules: the model is unchanged",
        (
            "an update without weight violates every rule of a kind: capacity, "
            "temporal; put a penalty into the training, loosen the rules, raise "
            "hard_tolerance or soft_tolerance, or set on_all_invalid to fedavg "
            "(in a job file: in the section `scoring`)"
        ),
    ]
    assert len(run.results) == 4
    environment = json.loads((run.folder / "environment.json").read_text())
    assert {"python", "platform", "job_sha256", "pack_sha256", "libraries", "started"} <= set(
        environment
    )
    assert all(entry["done"] for entry in json.loads((run.folder / "trials.json").read_text()))
    rows = RunFolder(run.folder).rows("rounds.csv")
    assert len(rows) == 12
    assert all(0 <= float(row["f1"]) <= 1 and row["zone"] and int(row["bytes"]) > 0 for row in rows)
    clients = RunFolder(run.folder).rows("clients.csv")
    assert {
        row["status"]
        for row in clients
        if row["trial"].endswith("flipped-labels") and row["client"] == "linz"
    } == {"corrupted"}
    for trial in {row["trial"] for row in clients if row["trial"].startswith("fedavg")}:
        assert sum(
            float(row["alpha"]) for row in clients if row["trial"] == trial
        ) == pytest.approx(3.0)
    split = json.loads((run.folder / "split.json").read_text())
    assert (
        sum(site["rows"] for site in split["splits"][0]["sites"].values())
        + split["test"]["rows"]
        + split["server"]["rows"]
        == 1500
    )
    checks = RunFolder(run.folder).rows("checks.csv")
    assert checks[0]["evaluations"] == "1500"
    assert checks[0]["violated"] == "0"


@pytest.mark.slow
def test_fedavg_and_scfa_begin_alike_and_a_run_can_be_repeated_to_the_bit(job_fields, tmp_path):
    one = run_job(job_fields, out=tmp_path / "one").folder
    two = run_job(job_fields, out=tmp_path / "two").folder
    assert figures(one) == figures(two)
    rows = RunFolder(one).rows("rounds.csv")
    first = {row["trial"]: row["train_loss"] for row in rows if row["round"] == "1"}
    assert first["fedavg-s0"] == first["scfa-s0"]


def test_the_examples_in_words_name_machine_row_and_values(job_fields, tmp_path):
    run = run_job({**job_fields, "corrupt": None}, out=tmp_path / "run")
    examples = [
        row["example"]
        for row in RunFolder(run.folder).rows("rules.csv")
        if row["rule"] == "overstrain" and row["example"]
    ]
    assert examples
    assert all(
        text.startswith("M")
        and "torque" in text
        and "Wanted: failure at least 0.5, because torque × wear is" in text
        for text in examples
    )


def test_threshold_from_the_server_rows_and_evaluation_every_other_round(job_fields, tmp_path):
    fields = {**job_fields, "corrupt": None, "evaluation": {"every": 2, "threshold": "server"}}
    rows = RunFolder(run_job(fields, out=tmp_path / "run").folder).rows("rounds.csv")
    assert [bool(row["f1"]) for row in rows[:3]] == [False, True, True]
    assert rows[2]["threshold"] != "0.5"


def test_a_penalty_teaches_the_rules(job_fields, tmp_path):
    algorithms = {
        "taught": {
            "preset": "fedavg",
            "title": "FedAvg with penalty",
            "training": {"penalty": 50.0},
        }
    }
    fields = {
        **job_fields,
        "corrupt": None,
        "algorithms": algorithms,
        "compare": {"algorithm": ["fedavg", "taught"]},
    }
    run = run_job(
        {**fields, "training": {**job_fields["training"], "rounds": 6}}, out=tmp_path / "run"
    )
    rates = {
        (row["trial"], row["rule"]): float(row["rate"])
        for row in RunFolder(run.folder).rows("rules.csv")
    }
    assert rates["taught-s0", "risk_follows_wear"] < 0.5 * rates["fedavg-s0", "risk_follows_wear"]


def test_the_model_may_differ_between_arms(job_fields, tmp_path):
    fields = {**job_fields, "corrupt": None, "compare": {"model.dropout": [0.0, 0.5]}}
    run_job(fields, out=tmp_path / "run")
    losses = {
        row["trial"]: row["train_loss"] for row in RunFolder(tmp_path / "run").rows("rounds.csv")
    }
    assert losses["dropout0-scfa-s0"] != losses["dropout0.5-scfa-s0"]


def test_balanced_weight_and_the_default_folder(job_fields, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fields = {
        **job_fields,
        "corrupt": None,
        "compare": {},
        "training": {**job_fields["training"], "positive_weight": "balanced", "rounds": 1},
    }
    assert run_job(fields).folder == Path("runs/small-001")
    assert run_job(fields).folder == Path("runs/small-002")


@pytest.mark.parametrize(
    ("positives", "negatives", "message"),
    [(0, 3, "no training row has the label 1"), (3, 0, "every training row has the label 1")],
)
def test_one_label_cannot_be_balanced(job_fields, tmp_path, positives, negatives, message):
    training = {**job_fields["training"], "positive_weight": "balanced"}
    job = parse_job({**job_fields, "training": training}, name="job", base=tmp_path)
    with pytest.raises(JobError, match=rf"^training\.positive_weight: {message}"):
        positive_weight(job, positives, negatives)
