"""Rules about labels of windows and rows: weights, penalty, projection, injected knowledge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.jobs import run_job
from fedkg.jobs.experiment.experiment import create_experiment
from fedkg.jobs.experiment.rule_evaluation import Deployed, evaluate_rows, rule_rows
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.rule_pack import load_rules
from fedkg.jobs.schema.job_reader import parse_job
from fedkg.jobs.trial_expansion import expand_trials

RULES = """
signal current column "Current" span -100 .. 100
signal pressure column "Pressure" span -100 .. 100
output failure in probability span 0 .. 1
rule strained "A strained pump raises an alarm." hard
  require if current >= 38.5 then failure >= 0.6
rule no_safer kind physical require failure never falls as pressure rises
range knowledge calm of failure
  when current <= 37.0 allow 0 .. 0.2
  otherwise allow any
predict knowledge told of failure
  when current >= 38.5 predict 0.9
  otherwise predict 0.1
"""
WINDOWS = {
    "set": "skab",
    "size": 3,
    "clients": 3,
    "min_samples": 3,
    "server": 0.2,
    "window": {"history": 6, "stride": 12},
}
ROWS = {"set": "skab", "size": 1, "split": "iid", "min_samples": 3, "server": 0.2}


def fields(tmp_path: Path, rules: str = RULES, **changes: Any) -> dict[str, Any]:
    (tmp_path / "rules.fkg").write_text(rules)
    given: dict[str, Any] = {
        "rules": [str(tmp_path / "rules.fkg")],
        "data": WINDOWS,
        "model": {"kind": "gru", "hidden": 4, "layers": 1},
        "training": {"rounds": 2, "participation": 1.0, "executor": "stacked", "batch": 8},
        "evaluation": {"local_baseline": False},
        "algorithm": "scfa",
    }
    return given | {
        key: {**given[key], **value} if isinstance(given.get(key), dict) else value
        for key, value in changes.items()
    }


def sites_of(data: dict[str, Any]) -> dict[str, Any]:
    return {"sites": ["a", "b"]} if data is ROWS else {}


def trial_of(document: dict[str, Any], tmp_path: Path) -> tuple[Any, Any]:
    job = parse_job(document, name="j", base=tmp_path)
    experiment = create_experiment(job, load_rules(job)[0])
    (config,) = expand_trials(job)
    experiment.prepare([config])
    return experiment, experiment.build_trial(config)


def chances(trial: Any, scale: float) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    start = trial.problem.model.init(0)
    params = {
        name: scale * torch.randn(1, *value.shape, generator=generator)
        for name, value in start.items()
    }
    return torch.sigmoid(
        trial.problem.model.apply(
            params, trial.inputs.rows_at(torch.arange(len(trial.inputs.row_of)))
        ).double()
    ).flatten()


def test_rules_about_the_label_of_a_window_weigh_teach_and_are_counted(tmp_path):
    run = run_job(fields(tmp_path, training={"penalty": 0.5}), out=tmp_path / "run", report=False)
    folder = RunFolder(run.folder)
    assert [row["rule"] for row in folder.rows("rules.csv")] == ["strained", "no_safer"]
    assert all(int(row["applied"]) > 0 for row in folder.rows("rules.csv"))
    assert all(row["validity"] for row in folder.rows("clients.csv"))


@pytest.mark.slow
def test_a_rule_reads_the_last_step_of_a_window(tmp_path):
    experiment, trial = trial_of(fields(tmp_path), tmp_path)
    current = experiment.samples.source.x[
        :, -1, list(experiment.samples.source.features).index("Current")
    ]
    index, params = np.arange(len(current)), trial.problem.model.init(0)
    deployed = [
        Deployed(params=params, index=index, counted=np.arange(len(current)) == at) for at in index
    ]
    evaluated = [
        evaluate_rows(
            trial.rules, trial.samples, None, trial.inputs, trial.problem.model, trial.output, [one]
        )
        for one in deployed
    ]
    applied = [
        rule_rows(trial.rules, one.rules, trial.samples, "trial")[0]["applied"] for one in evaluated
    ]
    assert applied == (current >= 38.5).astype(int).tolist()


@pytest.mark.parametrize("data", [WINDOWS, ROWS], ids=["windows", "rows"])
def test_answers_are_projected_onto_linear_rules(tmp_path, data):
    model = (
        {"kind": "gru", "hidden": 4, "layers": 1}
        if data is WINDOWS
        else {"kind": "mlp", "hidden": [4]}
    )
    document = {
        **fields(tmp_path, training={"projection": True}),
        "data": data,
        "model": model,
        **sites_of(data),
    }
    experiment, trial = trial_of(document, tmp_path)
    x = experiment.samples.source.x
    last = x[:, -1] if x.ndim == 3 else x
    strained = last[:, list(experiment.samples.source.features).index("Current")] >= 38.5
    assert strained.any()
    assert float(chances(trial, 20.0)[torch.from_numpy(strained)].min()) >= 0.6 - 1e-6
    run = run_job(document, out=tmp_path / "run", report=False)
    broken = {
        row["rule"]: float(row["rate"] or 0) for row in RunFolder(run.folder).rows("rules.csv")
    }
    assert broken["strained"] == 0.0


@pytest.mark.parametrize("hard", [True, False])
@pytest.mark.parametrize("data", [WINDOWS, ROWS], ids=["windows", "rows"])
def test_evaluated_answers_satisfy_hard_rules_and_trained_ones_do_not(tmp_path, data, hard):
    model = {"kind": "gru", "hidden": 4} if data is WINDOWS else {"kind": "mlp", "hidden": [4]}
    rules = RULES if hard else RULES.replace('alarm." hard', 'alarm."')
    document = {**fields(tmp_path, rules), "data": data, "model": model, **sites_of(data)}
    experiment, trial = trial_of(document, tmp_path)
    x = experiment.samples.source.x
    last = x[:, -1] if x.ndim == 3 else x
    strained = last[:, list(experiment.samples.source.features).index("Current")] >= 38.5
    assert float(chances(trial, 20.0)[torch.from_numpy(strained)].min()) < 0.5
    folder = RunFolder(run_job(document, out=tmp_path / "run", report=False).folder)
    counts = {
        row["rule"]: (int(row["violated"]), int(row["applied"])) for row in folder.rows("rules.csv")
    }
    assert counts["strained"][1] > 0
    assert (counts["strained"][0] == 0) == hard


@pytest.mark.parametrize("data", [WINDOWS, ROWS], ids=["windows", "rows"])
def test_knowledge_about_a_binary_label_is_obeyed_and_followed(tmp_path, data):
    model = (
        {"kind": "gru", "hidden": 4, "layers": 1}
        if data is WINDOWS
        else {"kind": "mlp", "hidden": [4]}
    )
    document = {
        **fields(tmp_path),
        "data": data,
        "model": {**model, "inject": {"trust": 0.5}},
        "algorithm": "fedavg",
        **sites_of(data),
    }
    experiment, trial = trial_of(document, tmp_path)
    x = experiment.samples.source.x
    current = torch.from_numpy(
        (x[:, -1] if x.ndim == 3 else x)[
            :, list(experiment.samples.source.features).index("Current")
        ]
    )
    found = chances(trial, 20.0)
    assert float(found[current <= 37.0].max()) <= 0.2 + 1e-6
    high = found[current >= 38.5]
    assert float(high.min()) >= 0.45 - 1e-6
    assert float(high.max()) <= 0.95 + 1e-6
    run_job(document, out=tmp_path / "run", report=False)


def test_a_forecast_is_not_projected_and_says_why(tmp_path):
    document = fields(
        tmp_path,
        training={"projection": True},
        data={"window": {"history": 6, "horizon": 2, "targets": ["Current"]}},
    )
    with pytest.raises(JobError, match="a forecast has many steps"):
        expand_trials(parse_job(document, name="j", base=tmp_path))
