"""Forecast jobs: rules over time, FedSTL, knowledge, sets, and all of them together."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from fedkg.errors import JobError
from fedkg.federated.server.weighting import ByValidity
from fedkg.jobs import run_job
from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.experiment.experiment import create_experiment
from fedkg.jobs.experiment.rules_on_samples import Verdicts, _worst_example
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.rule_pack import load_rules
from fedkg.jobs.schema.job import Job
from fedkg.jobs.trial_expansion import expand_trials
from fedkg.report import write_report

RULES = """
timeline step 1 h ends clip
signal before column "volume" span 0 .. 20000
output volume span 0 .. 20000
use rules templates.operational_range
rule no_negative kind physical require volume >= 0
rule no_jump kind causal require volume <= 4 * past volume + 400
rule busy "Never so little." require initially always [0 h, 3 h] volume >= 1500
infer early per client find ?low, ?high in operational_range(volume, ?low, ?high, 0, 2)
infer late per client find ?low, ?high in operational_range(volume, ?low, ?high, 3, 5)
range knowledge plausible of volume
  when before <= 100 allow 0 .. 900
  otherwise allow 20 .. 15000
predict knowledge as_before of volume
  when before <= 100 predict 60
  otherwise predict 400
set small keep parameters in l2_ball(radius = job)
"""

DATA = {
    "set": "traffic",
    "size": 240,
    "clients": 4,
    "min_samples": 3,
    "window": {
        "history": 12,
        "horizon": 6,
        "stride": 6,
        "targets": ["volume"],
        "gaps": "interpolate",
    },
}
ALL = {
    "title": "All at once",
    "weighting": "scfa",
    "grouping": {"fedstl": {"clusters": 2, "share": 0.3, "weight": 0.5}},
    "private": {},
    "sets": {"penalty": 0.5, "given": {"radius": 1.5}},
}


@pytest.fixture
def rules(tmp_path: Path) -> str:
    (tmp_path / "rules.fkg").write_text(RULES)
    return str(tmp_path / "rules.fkg")


def fields(rules: str, **changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "name": "day",
        "rules": [rules],
        "data": DATA,
        "model": {"kind": "gru", "hidden": 4, "layers": 1},
        "training": {
            "rounds": 2,
            "participation": 1.0,
            "learning_rate": 0.05,
            "batch": 8,
            "executor": "stacked",
        },
        "evaluation": {"local_baseline": False},
        "algorithm": "fedavg",
    }
    return given | {
        key: {**given[key], **value} if isinstance(given.get(key), dict) else value
        for key, value in changes.items()
    }


def made(document: dict[str, Any]) -> tuple[Any, Any]:
    job = Job.model_validate(document)
    experiment = create_experiment(job, load_rules(job)[0])
    (config,) = expand_trials(job)
    experiment.prepare([config])
    return experiment, experiment.build_trial(config)


@pytest.mark.slow
def test_everything_at_once_in_one_job(rules, tmp_path):
    job = fields(
        rules,
        model={
            "inject": {
                "trust": "cross_validate",
                "trusts": [0, 0.2],
                "folds": 2,
                "rounds": 1,
                "control": False,
            }
        },
        training={"penalty": 0.1},
        algorithms={"all": ALL},
        algorithm="all",
        evaluation={"local_baseline": True},
    )
    run = run_job(job, out=tmp_path / "run")
    folder = RunFolder(run.folder)
    notes = folder.rows("rounds.csv")[0]["notes"]
    assert "cross-validation chose trust" in notes
    by = [row["by"] for row in folder.rows("forecasts.csv")]
    assert by == ["client", "cluster", "teacher", "truth", "client", "teacher", "truth"]
    teacher = next(row for row in folder.rows("forecasts.csv") if row["by"] == "teacher")
    assert (teacher["sequences"], teacher["steps"]) == ("1.0", "1.0")
    sets = folder.rows("sets.csv")
    assert len(sets) == 4
    assert all(float(row["distance"]) >= 0 for row in sets)
    state = load_state(folder, folder.rows("rounds.csv")[0]["trial"])
    assert state is not None
    assert sorted(state.joints["start"]["cluster"].bincount().tolist()) == [2, 2]
    assert any("All at once: forecasts that satisfy" in sentence for sentence in run.sentences)
    weights = [float(row["alpha"]) - float(row["share"]) for row in folder.rows("clients.csv")]
    assert all(row["validity"] for row in folder.rows("clients.csv"))
    assert weights
    page = write_report(run.folder).read_text()
    assert "corrected by the teacher (-T)" in page
    assert "farthest site" in page
    assert "MSE is the mean squared error" in page


def test_the_joints_are_those_that_the_job_names(rules):
    _, trial = made(
        fields(rules, algorithms={"all": ALL}, algorithm="all", training={"penalty": 0.1})
    )
    algorithm = trial.algorithm
    assert isinstance(algorithm.weighting, ByValidity)
    assert [type(term).__name__ for term in algorithm.terms] == [
        "TeacherLoss",
        "SetPenalty",
        "ForecastPenalty",
    ]
    assert (type(algorithm.before).__name__, type(algorithm.after).__name__) == (
        "ByProperty",
        "ClusterTraining",
    )
    assert (type(algorithm.start).__name__, algorithm.start.private) == (
        "PrivateLayers",
        ("head.",),
    )


def test_fedstl_without_teacher_clusters_and_private_layers_is_fedavg_to_the_bit(rules, tmp_path):
    plain = {
        "title": "plain",
        "grouping": {"fedstl": {"clusters": 1, "weight": 0, "cluster_epochs": 0}},
    }
    run = run_job(
        fields(rules, algorithms={"plain": plain}, compare={"algorithm": ["fedavg", "plain"]}),
        out=tmp_path / "run",
        report=False,
    )
    rows = RunFolder(run.folder).rows("rounds.csv")
    found = {
        row["trial"]: [row[name] for name in ("mse", "loss", "train_loss", "rho_mean")]
        for row in rows
    }
    assert found["fedavg-s0"] == found["plain-s0"]


def test_answers_stay_within_what_is_known_of_the_last_hour(rules):
    experiment, trial = made(fields(rules, model={"inject": {"trust": 0.0}}))
    outputs = experiment.samples.scaled.outputs
    params = {
        name: 50 * torch.randn_like(value)[None]
        for name, value in trial.problem.model.init(0).items()
    }
    answers = (
        trial.problem.model.apply(
            params, trial.inputs.rows_at(torch.arange(len(trial.inputs.row_of)))
        )[0]
        .double()
        .numpy()
        * outputs.std
        + outputs.mean
    )
    before = experiment.samples.source.x[:, -1, 0]
    quiet = before <= 100
    assert answers[quiet].max() <= 900 + 0.1
    assert answers[~quiet & ~np.isnan(before)].min() >= 20 - 0.1
    assert answers[np.isnan(before)].size == 0 or answers[np.isnan(before)].min() >= 0 - 0.1


@pytest.mark.slow
def test_the_penalty_teaches_a_rule_over_time(rules, tmp_path):
    rates = {}
    for weight in (0.0, 200.0):
        job = fields(
            rules,
            training={"rounds": 3, "penalty": weight, "local_epochs": 4, "learning_rate": 0.3},
        )
        run = run_job(job, out=tmp_path / f"run{weight:g}", report=False)
        found = {row["rule"]: float(row["rate"]) for row in RunFolder(run.folder).rows("rules.csv")}
        rates[weight] = found["busy"]
        example = next(
            row["example"]
            for row in RunFolder(run.folder).rows("rules.csv")
            if row["rule"] == "busy"
        )
        if weight == 0.0:
            assert "station" in example
            assert "forecast from 2024-01-" in example
    assert rates[0.0] == 1.0
    assert rates[200.0] < 1.0


def test_the_worst_forecast_is_that_in_one_unit():
    broken = torch.ones(1, 2, dtype=torch.bool)
    margin = torch.tensor([[-3.0, -10.0]], dtype=torch.float64)
    verdicts = Verdicts(violated=broken, evaluated=broken, applied=broken, margin=margin)
    rows = SimpleNamespace(names=("r[bar]", "r[Pa]"))
    source = SimpleNamespace(clients=None, time=None)
    chosen, scale = torch.arange(2), torch.tensor([1.0, 1e-5], dtype=torch.float64)
    found = _worst_example(verdicts, torch.tensor([0]), chosen, rows, source, scale)
    assert found == (-3.0, "bar, sample 1: violation 3")


def test_windows_are_held_out_at_the_end_of_each_station(rules):
    experiment, trial = made(fields(rules))
    source, use = experiment.samples.source, experiment.samples.use
    assert source.client_names == ("station 1", "station 2", "station 3", "station 4")
    for name in source.client_names:
        own = source.clients == name
        assert source.time[own & (use == 1)].min() > source.time[own & (use != 1)].max()
    assert [len(x) for x in trial.problem.clients.x] == [
        int(((source.clients == name) & (use == 0)).sum()) for name in source.client_names
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda text: text.replace("infer", "# infer"),
            "requires an `infer` statement in the rules",
        ),
        (
            lambda text: (
                text.replace("output volume", "output flow")
                .replace("volume <=", "flow <=")
                .replace("volume >=", "flow >=")
            ),
            "the rules read `flow`, which the model does not forecast",
        ),
    ],
)
def test_rules_that_do_not_speak_of_the_forecast_are_rejected(change, said, rules, tmp_path):
    text = change(RULES)
    if "flow" in text:
        text = "\n".join(
            line
            for line in text.splitlines()
            if not line.startswith(("infer", "range", "predict", "  when", "  otherwise", "use"))
        )
        text = text.replace("past volume", "past flow")
    Path(rules).write_text(text)
    with pytest.raises(JobError) as caught:
        run_job(
            fields(rules, algorithm="fedstl" if "flow" not in text else "fedavg"),
            out=tmp_path / "run",
            report=False,
        )
    assert said in str(caught.value)


def test_a_table_is_forecast_by_its_contract(tmp_path):
    stream = np.random.Generator(np.random.PCG64(1))
    lines = ["time,plant,load,heat"]
    for plant in ("a", "b"):
        level = 50 + 20 * np.sin(np.arange(120) / 4) + stream.normal(0, 1, 120)
        lines += [
            f"2024-01-{1 + hour // 24:02d} {hour % 24:02d}:00,{plant},{value:.2f},20"
            for hour, value in enumerate(level)
        ]
    (tmp_path / "load.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "rules.fkg").write_text(
        'timeline step 1 h time column "time" trace column "plant" ends clip\nsignal '
        "heat in degC span 0 .. 50\n"
        "output load span 0 .. 200\nrule positive require load >= 0\nrule warm require "
        "heat >= 0 degC\n"
    )
    data = {
        "set": "table",
        "path": str(tmp_path / "load.csv"),
        "split": "sites",
        "min_samples": 3,
        "size": None,
        "clients": None,
    }
    job = fields(
        str(tmp_path / "rules.fkg"),
        data={**data, "window": {"history": 8, "horizon": 4, "stride": 2}},
    )
    run = run_job(job, out=tmp_path / "run", report=False)
    assert json.loads((run.folder / "environment.json").read_text())["features"]["names"] == [
        "heat",
        "load",
    ]
    assert [row["client"] for row in RunFolder(run.folder).rows("sites.csv")] == ["a", "b"]
    assert [row["rule"] for row in RunFolder(run.folder).rows("rules.csv")] == ["positive"]
