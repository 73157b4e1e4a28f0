"""Jobs on data sets and contract tables: tasks, splits, models, injected knowledge."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from fedkg.errors import JobError
from fedkg.jobs import read_job, run_job
from fedkg.jobs.experiment.experiment import create_experiment
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.model_builder import build_model, head_parameters
from fedkg.jobs.rule_pack import load_rules
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.model_section import Model
from fedkg.jobs.trial_expansion import expand_trials
from fedkg.models import MLP, Params

RULES = """
signal heat in degC span 0 .. 100
signal flow span 0 .. 10
label  grade classes A, B, C
signal kind is category column "kind"
rule cold_is_a require if heat < 20 degC then grade is A
rule heat_is_real require heat >= 0 degC
range knowledge by_heat of grade
  when heat > 70 degC allow B, C
  otherwise allow any
predict knowledge by_flow of grade
  when flow > 5 and heat > 70 degC predict C
  otherwise predict B
"""


@pytest.fixture(autouse=True)
def _no_report(no_report: None) -> None:
    """Other tests cover reports."""


def fields(**changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "name": "small",
        "sites": ["north", "south", "west"],
        "data": {"set": "mnist", "size": 120, "min_samples": 5},
        "model": {"kind": "softmax"},
        "training": {
            "rounds": 2,
            "participation": 1.0,
            "learning_rate": 0.1,
            "batch": 16,
            "executor": "stacked",
        },
        "evaluation": {"local_baseline": False},
    }
    return {
        key: {**given[key], **value} if isinstance(given.get(key), dict) else value
        for key, value in changes.items()
    } | {key: value for key, value in given.items() if key not in changes}


def grades(folder: Path, rows: int = 240) -> dict[str, Any]:
    """A job on a table of grades that a data contract describes."""
    stream = np.random.Generator(np.random.PCG64(3))
    heat, flow = stream.uniform(0, 100, rows), stream.uniform(0, 10, rows)
    letter = np.where(heat < 20, "A", np.where((heat > 70) & (flow > 5), "C", "B"))
    lines = [
        f"{h:.2f},{f:.2f},{g},{s}"
        for h, f, g, s in zip(heat, flow, letter, np.arange(rows) % 3, strict=True)
    ]
    (folder / "grades.csv").write_text("\n".join(["heat,flow,grade,site", *lines]) + "\n")
    (folder / "rules.fkg").write_text(RULES.replace('signal kind is category column "kind"\n', ""))
    return fields(
        rules=[str(folder / "rules.fkg")],
        data={
            "set": "table",
            "path": str(folder / "grades.csv"),
            "split": "dirichlet",
            "alpha": 5,
            "min_samples": 5,
            "size": None,
        },
        model={"kind": "mlp", "hidden": [8]},
    )


def last(run: Any) -> dict[str, str]:
    return RunFolder(run.folder).rows("rounds.csv")[-1]


@pytest.mark.parametrize(
    ("changes", "figure"),
    [
        ({"data": {"split": "classes", "classes_per_site": 5}}, "accuracy"),
        (
            {
                "data": {"set": "covtype", "split": "sizes", "alpha": 5},
                "model": {"kind": "tabnet", "steps": 2, "width": 8},
            },
            "accuracy",
        ),
        (
            {
                "data": {"set": "secom", "split": "quantity", "shares": [3, 2, 1], "size": 150},
                "model": {"kind": "mlp"},
            },
            "f1",
        ),
        (
            {
                "data": {"set": "mnist", "split": "iid", "size": 90},
                "model": {"kind": "lenet5"},
                "training": {"rounds": 1},
            },
            "accuracy",
        ),
    ],
)
def test_a_data_set_by_its_name_is_trained_on(changes, figure, tmp_path):
    run = run_job(fields(**changes), out=tmp_path / "run")
    assert run.results[0]["measure"] == figure
    assert 0 <= float(last(run)[figure]) <= 1
    split = json.loads((run.folder / "split.json").read_text())
    assert (
        sum(site["rows"] for site in split["splits"][0]["sites"].values())
        + split["test"]["rows"]
        + split["server"]["rows"]
        > 80
    )
    assert [row["client"] for row in RunFolder(run.folder).rows("sites.csv")] == [
        "north",
        "south",
        "west",
    ]
    assert (
        sum(int(row["test_rows"]) for row in RunFolder(run.folder).rows("sites.csv"))
        == split["test"]["rows"]
    )


def test_engines_are_sites_and_their_life_is_a_number(tmp_path):
    data = {
        "set": "cmapss",
        "size": 4,
        "clients": 2,
        "min_samples": 1,
        "server": 0,
        "window": {"history": 8, "stride": 24},
    }
    run = run_job(
        fields(sites={}, data=data, model={"kind": "gru", "hidden": 4, "layers": 1}),
        out=tmp_path / "run",
    )
    assert float(last(run)["rmse"]) > 1.0  # in cycles
    assert float(last(run)["mse"]) < 20.0  # in standard deviations
    sites = [row["client"] for row in RunFolder(run.folder).rows("sites.csv")]
    assert sites == ["train 1", "train 2"]
    assert "RMSE" in run.sentences[0] if run.sentences else True


def test_a_resumed_run_ends_as_one_that_was_never_stopped(tmp_path):
    job = grades(tmp_path)
    whole = run_job(job, out=tmp_path / "whole")
    part = run_job({**job, "training": {**job["training"], "rounds": 2}}, out=tmp_path / "part")
    assert (whole.folder / "rounds.csv").read_text().count("\n") == 3
    again = [
        {key: value for key, value in row.items() if key != "seconds"}
        for row in RunFolder(part.folder).rows("rounds.csv")
    ]
    first = [
        {key: value for key, value in row.items() if key != "seconds"}
        for row in RunFolder(whole.folder).rows("rounds.csv")
    ]
    assert again == first


def test_rules_over_the_rows_of_a_table_weigh_teach_and_are_counted(tmp_path):
    job = grades(tmp_path) | {"algorithm": "scfa"}
    job["training"] = {**job["training"], "penalty": 1.0, "rounds": 3}
    run = run_job(job, out=tmp_path / "run")
    rules = RunFolder(run.folder).rows("rules.csv")
    assert [row["rule"] for row in rules] == ["cold_is_a"]
    assert int(rules[0]["applied"]) > 0
    checks = RunFolder(run.folder).rows("checks.csv")
    assert [(row["rule"], row["violated"]) for row in checks] == [("heat_is_real", "0")]
    assert all(row["validity"] for row in RunFolder(run.folder).rows("clients.csv"))


def test_injected_knowledge_is_obeyed_to_the_last_row(tmp_path):
    job = grades(tmp_path)
    job["model"] = {**job["model"], "inject": {"trust": 0.3}}
    job = read_job_of(job)
    experiment = create_experiment(job, load_rules(job)[0])
    (config,) = expand_trials(job)
    experiment.prepare([config])
    trial = experiment.build_trial(config)
    params = {
        name: 30 * torch.randn_like(value) for name, value in trial.problem.model.init(0).items()
    }
    answers = trial.problem.model.apply(
        {name: value[None] for name, value in params.items()},
        trial.inputs.rows_at(torch.arange(len(trial.inputs.row_of))),
    )[0]  # type: ignore[attr-defined]
    heat = experiment.samples.source.x[:, 0]  # type: ignore[attr-defined]
    assert bool((answers[heat > 70][:, 0].exp() == 0).all())
    assert bool(
        (
            answers[(heat > 70) & (experiment.samples.source.x[:, 1] > 5)].exp()[:, 2] >= 0.3 - 1e-6
        ).all()
    )  # type: ignore[attr-defined]


@pytest.mark.slow
def test_labels_that_knowledge_rules_out_are_counted(tmp_path):
    job = grades(tmp_path)
    job["model"] = {**job["model"], "inject": {"trust": 0.3, "control": False}}
    job["corrupt"] = {"site": job["sites"][0], "share": 1.0}
    with pytest.raises(JobError, match=f"site {job['sites'][0]}: its ranges exclude"):
        run_job(job, out=tmp_path / "error")
    job["model"]["inject"]["policy"] = "repair"
    run = run_job(job, out=tmp_path / "run")
    [sound, turned] = [
        row["notes"] for row in RunFolder(run.folder).rows("rounds.csv") if row["round"] == "1"
    ]
    assert "exclude" not in sound
    assert re.search(
        rf"ranges exclude training labels \(\d+ at {job['sites'][0]}\): their ranges now contain",
        turned,
    )
    hidden = {**job, "privacy": {"unit": "example", "noise": 2.0, "delta": 1e-3}}
    folder = run_job(hidden, out=tmp_path / "hidden").folder
    assert "exclude" not in (folder / "rounds.csv").read_text()


def test_the_trust_is_chosen_and_said(tmp_path):
    job = grades(tmp_path)
    job["model"] = {
        **job["model"],
        "inject": {"trust": "cross_validate", "trusts": [0, 0.6], "folds": 2, "rounds": 1},
    }
    run = run_job(job, out=tmp_path / "run")
    assert (
        "cross-validation chose trust 0.6" in RunFolder(run.folder).rows("rounds.csv")[0]["notes"]
    )  # the predictions are always right


def test_labels_of_a_site_are_turned_round(tmp_path):
    job = read_job_of(fields(data={"split": "iid"}, corrupt={"site": "north"}))
    experiment = create_experiment(job, load_rules(job)[0])
    sound, damaged = expand_trials(job)
    experiment.prepare([sound, damaged])
    before, after = (
        experiment.build_trial(config).problem.clients.y for config in (sound, damaged)
    )
    assert torch.equal(after[0], 9 - before[0])
    assert torch.equal(after[1], before[1])


def read_job_of(document: dict[str, Any]) -> Job:
    return Job.model_validate(document)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": {"set": "minst"}}, "did you mean 'mnist'"),
        (
            {"data": {"set": "mnist", "rows": 5}},
            "`rows`: only for tables, and `set` names a data set",
        ),
        ({"data": {"split": "quantity"}}, "require each other"),
        ({"data": {"set": None, "size": None, "split": "classes"}}, "requires a data set"),
        (
            {"data": {"window": {"history": 3, "gaps": "error", "longest": 2}}},
            "`longest` requires `gaps: interpolate`",
        ),
        ({"data": {"clients": 3}}, "`split: sites`"),
        ({"model": {"kind": "gru", "hidden": [3, 4]}}, "must be one width"),
        ({"model": {"kind": "softmax", "hidden": 3}}, "does not apply to `softmax`"),
        ({"model": {"kind": "module"}}, "require each other"),
        ({"model": {"kind": "mlp", "private": ["a"], "shared": ["b"]}}, "complements"),
        ({"model": {"kind": "mlp", "name": "gru"}}, "are synonyms"),
        ({"model": {"inject": {"range": False, "predict": False}}}, "nothing is injected"),
    ],
)
def test_the_schema_rejects_wrong_sets(changes, said):
    with pytest.raises(ValidationError) as caught:
        Job.model_validate(fields(**changes))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": {"kind": "gru"}}, ["reads windows, and `data.window` is not set"]),
        ({"data": {"set": "covtype"}, "model": {"kind": "cnn"}}, ["reads images"]),
        (
            {"algorithm": "scfa", "training": {"penalty": 1.0}},
            ["(1) `weighting: scfa` requires rules", "(2) `training.penalty`"],
        ),
        (
            {"algorithm": "fltrust", "data": {"server": 0}},
            ["FLTrust requires rows at the server, and `data.server` is 0"],
        ),
        (
            {"algorithm": "fedstl"},
            ["FedSTL requires forecasts", "requires rules, and the job has none"],
        ),
        ({"sites": {"north": {"machines": ["M1"]}}}, ["data set mnist provides the samples"]),
    ],
)
def test_every_contradiction_of_an_arm_is_reported_before_anything_is_loaded(changes, said):
    with pytest.raises(JobError) as caught:
        expand_trials(Job.model_validate(fields(**changes)))
    for sentence in said:
        assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {
                "data": {"set": "cmapss", "size": 2},
                "model": {"kind": "mlp"},
                "sites": {},
                "training": {"positive_weight": 3},
            },
            "positive_weight",
        ),
        (
            {"data": {"set": "cmapss", "size": 2, "split": "dirichlet"}, "model": {"kind": "mlp"}},
            "requires classes, and the task of this data has none",
        ),
        (
            {
                "data": {"set": "traffic", "size": 48, "split": "sites"},
                "model": {"kind": "mlp"},
                "sites": {},
            },
            "is a series for forecasting",
        ),
        ({"data": {"set": "mnist", "split": "sites"}, "sites": {}}, "does not define sites"),
        ({"data": {"set": "covtype", "split": "sites"}}, "unknown site of"),
    ],
)
def test_what_the_data_has_no_use_for_is_rejected_before_training(changes, said, tmp_path):
    with pytest.raises(JobError) as caught:
        run_job(fields(**changes), out=tmp_path / "run")
    assert said in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_module_beside_the_job_is_a_model(tmp_path):
    (tmp_path / "net.py").write_text(
        "from torch import nn\n\n\ndef Net(width=4):\n    return "
        "nn.Sequential(nn.Flatten(), nn.Linear(784, width), nn.Tanh(), nn.Linear(width, "
        "10))\n"
    )
    (tmp_path / "job.yaml").write_text(
        "name: own\nsites: 3\ndata: {set: mnist, size: 90, split: iid, min_samples: 5}\n"
        "model: {kind: module, path: 'net.py:Net', options: {width: 3}, private: "
        "['3.']}\ntraining: {rounds: 1, participation: 1.0, executor: "
        "stacked}\nalgorithm: {private: {}}\nevaluation: {local_baseline: false}\n"
    )
    job = read_job(tmp_path / "job.yaml")
    assert list(job.sites) == ["site 1", "site 2", "site 3"]
    run = run_job(job, out=tmp_path / "run", trust_code=True)
    assert 0 <= float(last(run)["accuracy"]) <= 1
    with pytest.raises(JobError, match="returns 10 numbers per sample"):
        build_model(job.model, sample=(1, 28, 28), outputs=7)


def test_a_file_of_a_module_may_have_dataclasses(tmp_path):
    (tmp_path / "sized.py").write_text(
        "from __future__ import annotations\n\nfrom dataclasses import "
        "dataclass\n\nfrom torch import nn\n\n\n@dataclass\nclass Size:\n    width: int "
        "= 3\n\n\ndef Net():\n    return nn.Sequential(nn.Linear(4, Size().width), "
        "nn.Linear(3, 2))\n"
    )
    model = build_model(
        Model(kind="module", path=f"{tmp_path / 'sized.py'}:Net"), sample=(4,), outputs=2
    )
    assert [tuple(value.shape) for value in model.init(seed=0).values()][:2] == [(3, 4), (3,)]


def test_no_step_that_the_test_asks_for_is_a_target_of_the_training():
    """Windows of 8 + 4 steps at each step.

    Those with forecasts that overlap the test are unused.
    """
    window = {"history": 8, "horizon": 4, "targets": ["volume"]}
    job = Job.model_validate(
        {"data": {"set": "traffic", "size": 120, "clients": 2, "min_samples": 3, "window": window}}
    )
    samples = create_experiment(job, load_rules(job)[0]).samples
    source = samples.source
    for site in source.client_names:
        mine = source.clients == site
        train, test, server = (source.time[mine & (samples.use == kind)] for kind in (0, 1, 2))
        assert len(train)
        assert train.max() + 3 * source.step < server.min()
        assert server.max() + 3 * source.step < test.min()
        assert np.count_nonzero(mine & (samples.use == 3)) == 3 + 3
    assert source.test.tolist() == np.isin(samples.use, (1, 3)).tolist()
    assert (
        "fedkg does not train on 12 samples that overlap the server's samples or the test"
        in source.notes
    )


@pytest.mark.parametrize(
    ("timeline", "hold_out", "ordered"),
    [(True, "auto", True), (True, "random", False), (False, "auto", False)],
)
def test_rows_of_a_table_with_a_timeline_are_held_out_by_time(
    tmp_path: Path, timeline: bool, hold_out: str, ordered: bool
):
    """At each site the last fifth is the test, and the server has the rows before it."""
    dice = np.random.default_rng(3)
    rows = [
        (site, 60 * step, dice.integers(0, 100), dice.integers(0, 100))
        for site in ("a", "b")
        for step in range(50 if site == "a" else 100)
    ]
    dice.shuffle(rows)
    (tmp_path / "t.csv").write_text(
        "\n".join(["site,time,heat,load", *(",".join(map(str, row)) for row in rows)]) + "\n"
    )
    (tmp_path / "rules.fkg").write_text(
        ('timeline time column "time" step 1 min\n' if timeline else "")
        + "signal heat in K span 0 .. 100\noutput load in N span 0 .. 100\n"
        "rule low require if heat > 5 K then load <= 100 N\n"
    )
    job = Job.model_validate(
        {
            "rules": [str(tmp_path / "rules.fkg")],
            "data": {
                "set": "table",
                "path": str(tmp_path / "t.csv"),
                "split": "column",
                "hold_out": hold_out,
                "min_samples": 2,
            },
        }
    )
    samples = create_experiment(job, load_rules(job)[0]).samples
    time = np.array([row[1] for row in rows])
    for site, count in (("a", 50), ("b", 100)):
        own = samples.source.clients == site
        test, server = (np.sort(time[own & (samples.use == kind)]) // 60 for kind in (1, 2))
        last = np.arange(count)
        assert (test.tolist() == last[round(0.8 * count) :].tolist()) == ordered
        between = last[round(0.65 * count) : round(0.8 * count)]
        assert (server.tolist() == between.tolist()) == ordered


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"set": "table", "path": "t.csv", "size": 9}, "fedkg reads all rows of the table"),
        ({"set": "no such thing at all"}, "known: .*mnist.*table"),
    ],
)
def test_what_would_not_be_looked_at_is_rejected(data, said):
    with pytest.raises(ValidationError, match=said):
        Job.model_validate({"data": data})


def test_a_threshold_of_a_server_without_rows_is_rejected():
    job = Job.model_validate(
        fields(data={"set": "secom", "server": 0}, evaluation={"threshold": "server"})
    )
    with pytest.raises(JobError, match="requires labelled rows at the server"):
        expand_trials(job)


def test_tables_of_sites_are_read_as_they_are():
    job = Job.model_validate(
        {"rules": ["r.fkg"], "sites": {"a": {"table": "a.csv"}}, "data": {"dates": "day-first"}}
    )
    with pytest.raises(JobError, match=r"data\.dates does not apply to tables that `sites` names"):
        expand_trials(job)


def test_marked_layers_are_those_that_a_site_may_keep():
    model = MLP(inputs=3, hidden=(4,), outputs=1)
    names: Params = model.init(0)
    assert head_parameters(Model(), model) == model.parts["head"]
    assert head_parameters(Model(private=("layers.0.",)), model) == (
        "layers.0.weight",
        "layers.0.bias",
    )
    assert head_parameters(Model(shared=("layers.0.",)), model) == tuple(
        name for name in names if not name.startswith("layers.0.")
    )
    with pytest.raises(JobError, match="a name that begins with"):
        head_parameters(Model(private=("layers.7.",)), model)


def test_wrong_fields_are_named_with_their_line(tmp_path):
    (tmp_path / "job.yaml").write_text(
        "name: x\nsites: 3\ndata:\n  set: mnist\n  clients: many\nmodel:\n  kind: sofmax\n"
    )
    with pytest.raises(JobError) as caught:
        read_job(tmp_path / "job.yaml")
    told = str(caught.value).splitlines()
    assert any("`data.clients`" in line and line.endswith("(line 5)") for line in told)
    assert any("`model.kind`" in line and line.endswith("(line 7)") for line in told)
    with pytest.raises(JobError) as caught:
        read_job(tmp_path / "job.yaml", ["data.clients=some", "model.kind=mlp"])
    assert str(caught.value).endswith(
        "(--set data.clients=some)"
    )  # a command-line override has no line number


def test_rules_without_knowledge_have_nothing_to_inject(tmp_path):
    job = grades(tmp_path)
    (tmp_path / "rules.fkg").write_text(
        "signal heat in degC span 0 .. 100\nsignal flow span 0 .. 10\nlabel grade classes A, B, C\n"
        "rule a require if heat < 20 degC then grade is A\n"
    )
    job["model"] = {**job["model"], "inject": True}
    job["algorithm"] = "fedavg"
    with pytest.raises(JobError, match="no range or predict knowledge"):
        run_job(job, out=tmp_path / "run")


def test_knowledge_of_a_label_that_no_rule_reads_is_injected(tmp_path):
    """Knowledge alone is enough: the data contract has no column for its label."""
    job = grades(tmp_path)
    names = (
        "Spruce/Fir",
        "Lodgepole Pine",
        "Ponderosa Pine",
        "Cottonwood/Willow",
        "Aspen",
        "Douglas-fir",
        "Krummholz",
    )
    classes = ", ".join(f'"{name}"' for name in names)
    (tmp_path / "rules.fkg").write_text(
        'signal elevation in m column "Elevation" span 0 .. 5000\n'
        f'label cover column "Cover_Type" classes {classes}\n'
        'range knowledge high of cover when elevation > 0 m allow "Aspen" otherwise allow any\n'
    )
    job |= {
        "data": {"set": "covtype", "size": 200, "split": "iid", "min_samples": 5},
        "algorithm": "fedavg",
    }
    job["model"] = {"kind": "softmax", "inject": {"policy": "repair"}}
    job = read_job_of(job)
    experiment = create_experiment(job, load_rules(job)[0])
    (config,) = expand_trials(job)
    experiment.prepare([config])
    trial = experiment.build_trial(config)
    params = {name: value[None] for name, value in trial.problem.model.init(0).items()}
    answers = trial.problem.model.apply(
        params, trial.inputs.rows_at(torch.arange(len(trial.inputs.row_of)))
    )[0]  # type: ignore[attr-defined]
    assert set(answers.argmax(-1).tolist()) == {names.index("Aspen")}


def test_a_table_without_inputs_for_the_model_is_an_error(tmp_path: Path):
    (tmp_path / "t.csv").write_text("heat,load\n1,2\n2,3\n")
    (tmp_path / "rules.fkg").write_text(
        "output load in N span 0 .. 100\nrule low require load <= 100 N\n"
    )
    job = Job.model_validate(
        {
            "rules": [str(tmp_path / "rules.fkg")],
            "sites": ["a"],
            "data": {"set": "table", "path": str(tmp_path / "t.csv"), "split": "iid"},
        }
    )
    with pytest.raises(JobError, match="the model has no inputs"):
        create_experiment(job, load_rules(job)[0])
