"""The control without learning: what the rules answer, and the majority elsewhere."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import torch
from command import call

import fedkg
from fedkg.jobs.rules_alone import classes_control, regression_control

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
    }
    assert found["sentences"][0].startswith(
        f"What knowledge is worth: rules alone F1 {found['rules_alone']['figure']:.3f} (they "
        f"determine {determined} of 100 test rows); learning alone F1 "
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
    found = classes_control(module, x, torch.tensor([0, 1, 2, 2]), classes=3, majority=1, keys={})
    assert (found.determined, found.rows) == (2, 4)  # at 1.5 m two classes are left, at 3 m all
    assert found.figure == 0.75


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
    targets = (torch.tensor([10.0, 26.0, 40.0]) - 20) / 10
    found = regression_control(module, x, targets, mean=0.0, scale=10.0, keys={})
    assert (found.determined, found.rows) == (2, 3)
    assert found.figure == pytest.approx(np.sqrt(36 / 3), rel=1e-6)
