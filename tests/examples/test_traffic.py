"""The traffic example: its rules, its job, and its results."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg import authoring
from fedkg.jobs import read_job, run_job
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.trial_expansion import expand_trials

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "traffic"


def test_its_rules_are_clean_and_its_job_is_read():
    result = authoring.check([FOLDER / "rules.fkg"])
    assert [d.message for d in result.diagnostics] == []
    assert result.pack is not None
    assert [one.name for one in result.pack.manifest.inferences] == ["night", "day", "evening"]
    job = read_job(FOLDER / "job.yaml")
    assert [config.algorithm for config in expand_trials(job)] == ["fedavg", "fedstl"]
    assert job.data.path is None


@pytest.mark.slow
def test_fedstl_forecasts_better_and_keeps_more_properties_than_fedavg(tmp_path):
    run = run_job(
        FOLDER / "job.yaml", out=tmp_path / "run", overrides=["evaluation.local_baseline=false"]
    )
    kept = {(row["trial"], row["by"]): row for row in RunFolder(run.folder).rows("forecasts.csv")}
    plain, ours = kept["fedavg-s0", "client"], kept["fedstl-s0", "client"]
    assert float(ours["mse"]) < float(plain["mse"])
    assert float(ours["sequences"]) > float(plain["sequences"])
    assert kept["fedstl-s0", "teacher"]["sequences"] == "1.0"
    assert float(kept["fedstl-s0", "teacher"]["mse"]) < float(ours["mse"])
    assert all(float(row["rate"]) == 0 for row in RunFolder(run.folder).rows("rules.csv"))
    assert run.report is not None
    page = run.report.read_text()
    assert "the site&#39;s model, corrected by the teacher (-T)" in page
    assert "FedSTL: forecasts that satisfy the property mined at their site" in page
