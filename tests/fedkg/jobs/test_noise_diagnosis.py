"""Protected trials that learn nothing: the message names likely causes, noise first."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import yaml

from fedkg.data.sets import DataSet, StandardisedDataSet, standardise
from fedkg.federated.metrics import detection
from fedkg.jobs import run_job
from fedkg.jobs.comparison.privacy_noise_diagnosis import (
    ProtectedTrial,
    explain_lost_training,
    protected_trials,
)
from fedkg.jobs.comparison_metric import f1_of_constant_alarm
from fedkg.jobs.experiment.sample_preparation import SamplePart, summarise_samples
from fedkg.jobs.experiment.site_sample_statistics import TEST, TRAIN
from fedkg.jobs.experiment.task_metrics import compute_figures, constant_answer_figure
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.schema.job import Job
from fedkg.jobs.sweep.grid import parse_axis
from fedkg.jobs.sweep.sweep import run_sweep
from fedkg.jobs.trial_expansion import expand_trials

ROWS = {"unit": "example", "epsilon": 0.5, "delta": 1e-3}
SITES = {"unit": "client", "noise": 50.0, "delta": 1e-2, "clip": 1e-9}
"""Almost nothing of the updates and their noise remains, so models stay at their initial values."""


@pytest.fixture
def fields(job_fields):
    training = {**job_fields["training"], "executor": "stacked", "local_epochs": 1}
    evaluation = {**job_fields["evaluation"], "threshold": 0.999}  # initial models raise no alarm
    return {
        **job_fields,
        "compare": {},
        "corrupt": None,
        "algorithm": "fedavg",
        "training": training,
        "evaluation": evaluation,
    }


def job(**privacy) -> Job:
    return Job.model_validate(
        {
            "pack": "p",
            "sites": {"graz": {}, "linz": {}},
            "privacy": privacy or ROWS,
            "training": {"rounds": 7},
        }
    )


def protected_trial(
    figure: float, trivial: float = 0.1, measure: str = "f1", **privacy
) -> ProtectedTrial:
    return ProtectedTrial(
        title="FedAvg", job=job(**privacy), measure=measure, figure=figure, trivial=trivial
    )


@pytest.mark.usefixtures("no_report")
def test_a_run_that_noise_has_drowned_says_so_and_what_to_change(fields, tmp_path):
    run = run_job({**fields, "privacy": SITES}, out=tmp_path / "run")
    results = RunFolder(run.folder).read_json("results.json")
    test = RunFolder(run.folder).read_json("split.json")["test"]
    assert results["trivial"] == f1_of_constant_alarm(test["positives"], test["rows"])
    assert float(RunFolder(run.folder).rows("rounds.csv")[-1]["f1"]) == 0
    rate = Job.model_validate({**fields, "privacy": SITES}).training.learning_rate
    [said] = [sentence for sentence in run.sentences if "likely cause" in sentence]
    assert said == results["sentences"][-1]
    assert said == (
        "The protected trial ends no better than the best constant answer "
        f"(F1 {results['trivial']:.3f}): FedAvg at 0.000. The likely cause is the noise "
        "that protects a site, or too little training: few `training.rounds` (now "
        f"{fields['training']['rounds']}), a small `training.learning_rate` (now "
        f"{rate:g}). Run the same job without `privacy` to find out. These settings reduce "
        "the effect of noise: less `privacy.noise` (now 50), more sites."
    )
    plain = run_job(fields, out=tmp_path / "plain")
    assert not any("likely cause" in sentence for sentence in plain.sentences)


@pytest.mark.usefixtures("no_report")
def test_a_sweep_counts_its_trainings(fields, tmp_path):
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({**fields, "privacy": SITES}))
    sweep = run_sweep(
        tmp_path / "job.yaml", [parse_axis("privacy.noise=50,80")], None, out=tmp_path / "sweep"
    )
    [said] = [sentence for sentence in sweep.sentences if "likely cause" in sentence]
    assert said.startswith("2 of 2 protected trials end no better")
    assert "less `privacy.noise` (now 50 and 80)" in said


def test_trainings_that_have_learnt_something_or_of_which_nothing_is_known_are_not_told():
    assert (
        list(
            explain_lost_training(
                [protected_trial(0.11), protected_trial(math.nan), protected_trial(0.0, math.nan)]
            )
        )
        == []
    )
    assert (
        list(
            explain_lost_training(
                [protected_trial(0.9, 1.0, "rmse"), protected_trial(0.6, 0.5, "accuracy")]
            )
        )
        == []
    )
    assert (
        len(list(explain_lost_training([protected_trial(1.0, 1.0, "rmse")])))
        == len(list(explain_lost_training([protected_trial(0.5, 0.5, "accuracy")])))
        == 1
    )


def test_suggestions_depend_on_the_job_s_privacy_settings():
    [said] = explain_lost_training(
        [protected_trial(0.02), protected_trial(0.3), protected_trial(0.05)]
    )
    assert said.startswith(
        "2 of 3 protected trials end no better than the best constant answer (F1 0.100): "
        "FedAvg at 0.020"
    )
    ways = (
        "a larger `privacy.epsilon` (now 0.5)",
        "few `training.rounds` (now 7)",
        "fewer `training.rounds`",
        "a larger `training.batch` (now 64)",
        "more rows",
    )
    for way in ways:
        assert way in said
    assert "dilutes the noise" in said
    assert "participation" not in said
    assert "a small `training.learning_rate` (now 0.1)" in said
    both = [
        protected_trial(0.0),
        protected_trial(0.0, **SITES),
        protected_trial(0.0, unit="example", epsilon=4.0, noise=2.0, delta=1e-3),
        *[protected_trial(0.0)] * 3,
    ]
    [said] = explain_lost_training(both)
    assert "protects a row or a site" in said
    assert "and 2 more. " in said
    assert "less `privacy.noise` (now 50 and 2)" in said
    assert "`privacy.epsilon` (now 0.5)" in said


def test_all_sites_cannot_take_part_more_often():
    for share, told in ((1.0, False), (0.5, True)):
        one = job(**SITES)
        one = one.model_copy(
            update={"training": one.training.model_copy(update={"participation": share})}
        )
        [said] = explain_lost_training(
            [ProtectedTrial(title="FedAvg", job=one, measure="f1", figure=0.0, trivial=0.1)]
        )
        assert [
            ("participation" in said),
            ("a larger `training.participation` (now 0.5)" in said),
        ] == [told, told]
        assert "more sites" in said


def test_arms_without_a_promise_are_not_among_them():
    configs = expand_trials(
        job().model_copy(update={"compare": {"algorithm": ("fedavg", "local_only")}})
    )
    rounds = [
        {"trial": configs[0].id, "f1": "0.5"},
        {"trial": configs[0].id, "f1": ""},
        {"trial": configs[1].id, "f1": "0.25"},
    ]
    [found] = protected_trials(configs, rounds, [{"trial": configs[0].id}], "f1", 0.1)
    assert (found.figure, found.has_learned, found.title) == (0.5, True, "FedAvg")


def test_the_same_answer_for_all_is_what_constant_models_come_to():
    dice = np.random.default_rng(0)
    x, rows = dice.normal(size=(60, 2)), np.arange(20, 60)
    alarms = detection(torch.ones(40), torch.cat([torch.ones(9), torch.zeros(31)]), 0.5)
    assert f1_of_constant_alarm(9, 40) == pytest.approx(alarms.f1)
    assert math.isnan(f1_of_constant_alarm(0, 40))
    classes = ready(x, dice.integers(3, size=60), task="classes", classes=("a", "b", "c"))
    by_class = [
        compute_figures(classes, one.expand(40, 3), torch.from_numpy(classes.y[rows]), 0.5)[
            "accuracy"
        ]
        for one in torch.eye(3)
    ]
    assert constant_answer_of(classes, rows) == max(by_class)
    bad = ready(x, (dice.random(60) < 0.3).astype(np.float64), task="detection")
    assert constant_answer_of(bad, rows) == pytest.approx(
        f1_of_constant_alarm(int(bad.y[rows].sum()), 40)
    )
    assert math.isnan(constant_answer_of(bad, rows[:0]))
    numbers = ready(x, dice.normal(size=60) * 5 + 3, task="regression", targets=("load",))
    y = torch.from_numpy(numbers.y[rows])
    tried = [
        compute_figures(numbers, torch.full((40, 1), shift), y, 0.5)["rmse"]
        for shift in np.linspace(-1, 1, 401)
    ]
    assert constant_answer_of(numbers, rows) == pytest.approx(min(tried), rel=1e-4)


def constant_answer_of(ready: StandardisedDataSet, test: np.ndarray) -> float:
    """The figure of the best constant answer for the samples at `test`."""
    use = np.full(ready.source.samples, TRAIN, dtype=np.int8)
    use[test] = TEST
    part = SamplePart(data=ready.source, use=use, uncut_rows=ready.source)
    return constant_answer_figure(summarise_samples(job(), part), ready.outputs)


def ready(x, y, **of) -> StandardisedDataSet:
    return standardise(
        DataSet(
            name="drawn", source="drawn here", x=x, y=y, features=("a", "b"), units=("", ""), **of
        )
    )
