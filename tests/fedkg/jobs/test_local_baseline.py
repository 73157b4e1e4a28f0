"""Local baselines, and the figures of single sites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkg.jobs import Job, run_job
from fedkg.jobs.experiment.experiment import create_experiment
from fedkg.jobs.experiment.sample_preparation import Samples, SiteSplit
from fedkg.jobs.experiment.site_sample_statistics import TEST
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.rule_pack import load_rules
from fedkg.jobs.trial_expansion import expand_trials, plan_trials

pytestmark = pytest.mark.usefixtures("no_report")

SITES = {
    "pack": "p",
    "sites": ["graz", "linz"],
    "compare": {"data.alpha": [1, 10], "algorithm": ["fedavg", "scfa"]},
    "seeds": 2,
}


def test_the_sites_alone_stand_behind_every_setting_with_sound_data():
    job = Job.model_validate(SITES | {"corrupt": {"site": "linz"}})
    configs = plan_trials(job)
    assert configs[: len(expand_trials(job))] == expand_trials(job)
    assert [config.id for config in configs[len(expand_trials(job)) :]] == [
        *(
            "alpha1-local_only-s0",
            "alpha1-local_only-s1",
            "alpha10-local_only-s0",
            "alpha10-local_only-s1",
        )
    ]
    assert all(
        config.baseline and config.corrupt is None for config in configs[len(expand_trials(job)) :]
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"evaluation": {"local_baseline": False}},
        {"compare": {"algorithm": ["fedavg", "local_only"]}},
        {"compare": {}, "algorithm": "local_only"},
    ],
)
def test_no_baseline_where_it_is_not_wanted_or_asked_for_anyway(changed: dict[str, Any]):
    job = Job.model_validate(SITES | changed)
    assert plan_trials(job) == expand_trials(job)


def test_a_run_has_its_baseline_and_every_site_by_itself(
    job_fields: dict[str, Any], tmp_path: Path
):
    fields = {
        **job_fields,
        "corrupt": None,
        "evaluation": {},
        "data": {**job_fields["data"], "alpha": 0.5},
    }
    fields["compare"], fields["algorithm"] = {}, "fedavg"
    done = run_job(fields, out=tmp_path / "run")
    base, local = done.results
    assert (local["algorithm"], local["title"], local["baseline"], base["baseline"]) == (
        "local_only",
        "Each site alone",
        True,
        False,
    )
    assert any("when it trains alone" in sentence for sentence in done.sentences)
    rows = [row for row in RunFolder(done.folder).rows("sites.csv") if row["trial"] == "fedavg-s0"]
    assert [row["client"] for row in rows] == ["graz", "linz", "wien"]
    assert sum(int(row["test_rows"]) for row in rows) == 300
    known = [float(row["f1"]) for row in rows if row["f1"]]
    assert base["sites"]["f1"]["worst"]["mean"] == min(known)
    assert base["sites"]["f1"]["mean"]["mean"] == pytest.approx(np.mean(known))
    assert all(0 <= float(row["violation"]) <= 1 for row in rows)
    rules = [row for row in RunFolder(done.folder).rows("rules.csv") if row["trial"] == "fedavg-s0"]
    for count in ("violated", "evaluations"):
        assert sum(int(row[count]) for row in rules) == sum(int(row[count]) for row in rows)


def dealt_out(job: Job) -> tuple[Samples, SiteSplit]:
    """The samples of a job, and the split of its only trial."""
    experiment = create_experiment(job, load_rules(job)[0])
    [config] = expand_trials(job)
    experiment.prepare([config])
    return experiment.samples, experiment.site_splits[config.split_key]


def test_test_rows_are_dealt_out_as_training_rows_were(job_fields: dict[str, Any]):
    job = Job.model_validate(
        {
            **job_fields,
            "compare": {},
            "corrupt": None,
            "data": {"rows": 4000, "alpha": 0.3, "min_samples": 20},
        }
    )
    samples, split = dealt_out(job)
    label = samples.source.y[samples.rows(TEST)]
    for value in (0.0, 1.0):
        trained = np.array(
            [
                np.count_nonzero(samples.source.y[split.samples_at(site)] == value)
                for site in range(3)
            ]
        )
        dealt = np.bincount(split.owner[label == value], minlength=3)
        assert np.abs(dealt - trained / trained.sum() * dealt.sum()).max() < 1.0
    np.testing.assert_array_equal(split.owner, dealt_out(job)[1].owner)


def test_rows_that_name_their_site_stay_there(job_fields: dict[str, Any], tmp_path: Path):
    lines = ["Torque [Nm],Tool wear [min],Machine failure,site"]
    lines += [
        f"{20 + i % 40},{i % 200},{int(i % 9 == 0)},{('graz', 'linz', 'wien')[i % 3]}"
        for i in range(600)
    ]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    named = Job.model_validate(
        {
            **job_fields,
            "compare": {},
            "corrupt": None,
            "data": {"path": str(tmp_path / "table.csv"), "split": "column", "min_samples": 20},
        }
    )
    samples, split = dealt_out(named)
    assert samples.frame is not None
    sites = samples.frame.take(samples.rows(TEST)).texts("site")
    assert [("graz", "linz", "wien")[k] for k in split.owner] == sites
