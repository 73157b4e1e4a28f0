"""Runs compare comparable figures, name what they did not evaluate, and reject missing data."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fedkg.data.ai4i import generate
from fedkg.errors import JobError
from fedkg.federated import ALGORITHMS
from fedkg.jobs import Event, Job, resume, run_job
from fedkg.jobs.experiment.labelled_table_samples import read_job_tables
from fedkg.jobs.experiment.site_sample_statistics import TEST, TRAIN
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.schema.algorithm_presets import PRESETS


@pytest.fixture(autouse=True)
def _no_report(monkeypatch, tmp_path):
    import fedkg.report

    monkeypatch.setattr(fedkg.report, "write_report", lambda folder: tmp_path / "report.html")


@pytest.mark.parametrize("scoring", [{"soft_tolerance": 1.0}, {"graded": True}])
def test_violations_are_measured_alike_for_all_algorithms(job_fields, tmp_path, scoring):
    fields = {**job_fields, "corrupt": None, "scoring": {**job_fields["scoring"], **scoring}}
    rows = RunFolder(run_job(fields, out=tmp_path / "run").folder).rows("rounds.csv")
    first = {
        row["trial"]: (row["rho_worst"], row["rho_mean"]) for row in rows if row["round"] == "1"
    }
    assert first["fedavg-s0"] == first["scfa-s0"]
    if "soft_tolerance" in scoring:
        assert first["fedavg-s0"] == ("0.0", "0.0")


def test_graded_scoring_reports_equal_models_alike(job_fields, tmp_path):
    """The measure of a run does not depend on how updates are weighed; the weights do."""
    measured, alphas = [], []
    for graded in (False, True):
        fields = {
            **job_fields,
            "corrupt": None,
            "scoring": {**job_fields["scoring"], "graded": graded},
            "training": {**job_fields["training"], "rounds": 1},
        }
        folder = RunFolder(run_job(fields, out=tmp_path / str(graded)).folder)
        columns = ("trial", "rho_worst", "rho_mean", "zone")
        measured.append([[row[name] for name in columns] for row in folder.rows("rounds.csv")])
        alphas.append([row["alpha"] for row in folder.rows("clients.csv")])
    assert measured[0] == measured[1]
    assert any(float(rho) > 0 for _, rho, _, _ in measured[0])
    assert alphas[0] != alphas[1]


def test_bound_rows_that_the_probe_cannot_judge_are_named(job_fields, tmp_path):
    fields = {
        **job_fields,
        "corrupt": None,
        "compare": {"algorithm": ["scfa"]},
        "scoring": {"probe": "plain", "probe_rows": 1},
    }
    events: list[Event] = []
    run = run_job(fields, out=tmp_path / "run", on_event=events.append)
    said = [e.message for e in events if "are not evaluated on the probe" in e.message]
    assert events[0].message == "1 trial over 3 sites, 12 bound rows of 3 rules"
    assert len(said) == 1
    assert said[0].startswith(
        "7 of 8 bound rows are not evaluated on the probe: overstrain (4), risk_follows_wear (3)"
    )
    assert said[0] in RunFolder(run.folder).rows("rounds.csv")[0]["notes"]


def test_turned_labels_do_not_change_the_failures_that_are_reported(job_fields, tmp_path):
    split = json.loads(
        (run_job(job_fields, out=tmp_path / "run").folder / "split.json").read_text()
    )
    sound, damaged = split["splits"]
    assert damaged["corrupted"] == "linz"
    assert sound["sites"] == damaged["sites"]


def test_missing_rounds_are_refused_instead_of_compared(job_fields, tmp_path):
    folder = run_job({**job_fields, "corrupt": None}, out=tmp_path / "run").folder
    lines = (folder / "rounds.csv").read_text().splitlines(keepends=True)
    (folder / "rounds.csv").write_text(
        "".join(line for line in lines if not line.startswith("scfa-s0,2,"))
    )
    with pytest.raises(JobError, match=r"rounds\.csv is damaged"):
        resume(folder)


def test_auto_says_what_it_chose_and_why(job_fields, tmp_path):
    fields = {
        **job_fields,
        "corrupt": None,
        "training": {**job_fields["training"], "executor": "auto", "rounds": 1},
    }
    rows = RunFolder(run_job(fields, out=tmp_path / "run").folder).rows("rounds.csv")
    notes = {row["notes"].split(" | ")[0] for row in rows}
    assert len(notes) == 1
    assert "s a round by the first steps, against" in notes.pop()


def test_what_the_model_reads_is_scaled_without_the_rows_held_out(job_fields, pack, monkeypatch):
    """Changed test and server rows do not affect scaling, features or the sites' rows."""
    job = Job.model_validate(job_fields)
    before = read_job_tables(job, pack)
    held = np.flatnonzero(before.use != TRAIN)
    frame = generate(1500, 6)
    torque = frame.numbers("Torque [Nm]").copy()
    torque[held] = 1e6
    monkeypatch.setattr(
        "fedkg.jobs.source_tables.generate",
        lambda rows, seed: frame.with_numbers("Torque [Nm]", torque),
    )
    after = read_job_tables(job, pack)
    assert after.frame is not None
    assert (after.frame.numbers("Torque [Nm]")[after.rows(TEST)] == 1e6).all()
    assert after.source.features == before.source.features
    assert np.array_equal(after.scaled.inputs.mean, before.scaled.inputs.mean)
    assert np.array_equal(after.scaled.inputs.std, before.scaled.inputs.std)
    train = before.rows(TRAIN)
    assert np.array_equal(after.rows(TRAIN), train)
    assert np.array_equal(after.source.x[train], before.source.x[train])


def test_a_job_may_name_the_presets_that_there_are():
    assert set(PRESETS) == {
        *ALGORITHMS,
        "fedstl",
    }  # needs rules mined from data, so it has no settings alone
