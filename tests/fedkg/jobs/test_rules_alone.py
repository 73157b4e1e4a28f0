"""The control without learning: what the rules answer, and the majority elsewhere."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command import call

import fedkg
from fedkg.jobs.experiment.experiment import create_experiment
from fedkg.jobs.rule_pack import load_rules
from fedkg.jobs.rules_only_baseline import classes_control, regression_control
from fedkg.jobs.schema.job import Job
from fedkg.jobs.trial_expansion import expand_trials

RULES = """signal temp in degC span 0 .. 200
output fault in probability span 0 .. 1
rule hot require if temp > 85 degC then fault >= 0.5
rule cool require if temp < 60 degC then fault < 0.5
"""


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_a_run_compares_learning_with_the_rules_alone(tmp_path, capsys, share):
    """F1 of the rules' answers, counted row by row on the last rows of the table."""
    dice = np.random.default_rng(4)
    rows = [(f"{20 + 100 * a:.1f}", int(b < share)) for a, b in dice.random((400, 2))]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("time", "temp", "fault"), *((f"{i}", *row) for i, row in enumerate(rows))]
        )
    (tmp_path / "rules.fkg").write_text('timeline time column "time" step 1 s\n' + RULES)
    (tmp_path / "job.yaml").write_text(
        "name: t\nrules: [rules.fkg]\nsites: [a, b]\nalgorithm: fedavg\nmodel: {hidden: []}\n"
        "data: {label: fault, path: t.csv, features: [temp], test: 0.25, min_samples: 2}\n"
        "training: {rounds: 1, participation: 1.0, executor: stacked}\n"
        "evaluation: {local_baseline: false}\n"
    )
    done = call(capsys, "run", tmp_path / "job.yaml", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    hits = alarms = positives = determined = 0
    for temp, fault in rows[300:]:
        known = float(temp) > 85 or float(temp) < 60
        alarm = float(temp) > 85 or (not known and share > 0.5)
        determined += known
        hits += alarm and fault
        alarms += alarm
        positives += fault
    found = json.loads((tmp_path / "run" / "results.json").read_text())
    assert found["rules_alone"] == {
        "figure": pytest.approx(2 * hits / (alarms + positives)),
        "determined": determined,
        "rows": 100,
        "elsewhere": "the most frequent answer",
    }
    assert found["sentences"][0].startswith(
        f"What knowledge is worth: rules alone F1 {found['rules_alone']['figure']:.3f} (they "
        f"determine {determined} of 100 answers; elsewhere the most frequent answer); "
        "learning alone F1 "
    )
    assert "learning with rules: not part of this run" in found["sentences"][0]


def test_rules_choose_the_only_class_that_they_leave():
    pack = fedkg.compile(
        text="""signal height in m span 0 .. 10
label size classes small, middle, tall column "size"
rule low require if height < 2 m then size is not tall
rule lower require if height < 1 m then size is small
rule high require if height > 5 m then size is tall
"""
    )
    module = fedkg.ConstraintModule(
        pack, x=fedkg.columns(["height"]), y=fedkg.scores("size", ("small", "middle", "tall"))
    )
    x = torch.tensor([[0.5], [1.5], [3.0], [6.0]], dtype=torch.float64)
    answers, determined = classes_control(module, x, classes=3, majority=1, keys={})
    # At 1.5 m two classes are left, at 3 m all.
    assert determined.tolist() == [True, False, False, True]
    assert answers.argmax(1).tolist() == [0, 1, 1, 2]


def test_rules_move_the_mean_of_a_number_into_their_bounds():
    pack = fedkg.compile(
        text="""signal load in kg span 0 .. 10
output force in N span 0 .. 100
rule enough require if load > 5 kg then force >= 40 N
rule little require if load < 1 kg then force <= 10 N
"""
    )
    module = fedkg.ConstraintModule(
        pack, x=fedkg.columns(["load"]), y=fedkg.columns(["force"], mean=[20.0], std=[10.0])
    )
    x = torch.tensor([[0.5], [3.0], [6.0]], dtype=torch.float64)
    answers, determined = regression_control(module, x, mean=torch.zeros(3), keys={})
    assert determined.tolist() == [True, False, True]
    assert (answers * 10 + 20).flatten().tolist() == pytest.approx([10.0, 20.0, 40.0])


def experiment_of(folder: Path, rules: str, rows: list[tuple[object, ...]], **data: object) -> Any:
    """The experiment of a job on a table with the columns time, plant, inflow and level."""
    with (folder / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("time", "plant", "inflow", "level"), *rows])
    (folder / "rules.fkg").write_text(rules)
    data = {"set": "table", "path": str(folder / "t.csv"), "split": "column", **data}
    job = Job.model_validate(
        {
            "rules": [str(folder / "rules.fkg")],
            "data": {"site_column": "plant", "min_samples": 2, **data},
            "algorithm": "fedavg",
        }
    )
    experiment = create_experiment(job, load_rules(job)[0])
    experiment.prepare(expand_trials(job))
    return experiment, expand_trials(job)[0]


SIZES = {"a": 60, "b": 96, "c": 150}


def levels() -> list[tuple[object, ...]]:
    dice = np.random.default_rng(3)
    return [
        (f"2024-01-{1 + hour // 24:02d} {hour % 24:02d}:00", plant, 1.0, round(value, 3))
        for place, (plant, hours) in enumerate(SIZES.items())
        for hour, value in enumerate(5 + place + dice.normal(0, 2, hours))
    ]


def test_without_learning_a_number_is_the_mean_of_its_site_within_the_rules(tmp_path):
    """The first 65 % of the rows of a site are its training rows, the last 20 % its test."""
    rows = levels()
    experiment, config = experiment_of(
        tmp_path,
        'timeline step 1 h  time column "time"\nsignal inflow in t\noutput level in t\n'
        "rule low require if inflow >= 0 t then level <= 6.5 t\n",
        rows,
    )
    squares, moved = [], 0
    for plant, hours in SIZES.items():
        own = [float(row[3]) for row in rows if row[1] == plant]
        mean = sum(own[: round(0.65 * hours)]) / round(0.65 * hours)
        moved += (mean > 6.5) * (hours - round(0.8 * hours))
        squares += [(min(mean, 6.5) - value) ** 2 for value in own[round(0.8 * hours) :]]
    found = experiment.rules_alone(config)
    assert found.figure == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-6)
    assert (found.determined, found.rows) == (moved, len(squares))
    assert moved > 0


@pytest.mark.parametrize("contradiction", [False, True])
def test_without_learning_a_forecast_repeats_the_last_value_within_the_rules(
    tmp_path, contradiction
):
    """Soft rules that contradict each other leave the hard ones."""
    soft = (
        "rule far require level >= 40 t\n" if contradiction else "rule soft require level >= 4 t\n"
    )
    experiment, config = experiment_of(
        tmp_path,
        'timeline step 1 h  time column "time"  trace column "plant"  ends clip\n'
        "signal inflow in t\noutput level in t\nrule most hard require level <= 7 t\n" + soft,
        levels(),
        window={"history": 8, "horizon": 5, "stride": 2, "targets": ["level"]},
    )
    source, scaled = experiment.samples.source, experiment.samples.scaled
    std, squares, moved = float(scaled.outputs.std[0]), [], 0
    test = np.flatnonzero(experiment.samples.use == 1)
    for place in test:
        last = float(source.x[place, -1, list(source.features).index("level")])
        answer = min(last, 7.0) if contradiction else min(max(last, 4.0), 7.0)
        moved += abs(answer - last) > 1e-6
        squares += [((answer - float(value)) / std) ** 2 for value in source.y[place].ravel()]
    found = experiment.rules_alone(config)
    assert found.figure == pytest.approx(np.mean(squares), rel=1e-4)
    assert (found.determined, found.rows) == (moved, len(test))
    assert 0 < moved < len(test)
    assert experiment.hard_rules(config) == ("most",)
