"""What a run counts of a rule equals what `fedkg eval` counts: on the sites' data, and on test rows
with the model's predictions as the output's column.
"""

from __future__ import annotations

import csv
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import call
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.folder import RunFolder

HEAD = """timeline step 5 min  time column "time"{trace}{ends}
signal temp in degC span 0 .. 200
output fault in probability span 0 .. 1
"""
DATA_RULES = (
    "require abs(temp - past temp) <= 12 K",
    "require temp <= 78 degC",
    "require always within 15 min temp <= 76 degC",
    "require if temp > 70 degC then eventually within 20 min temp <= 60 degC",
)
ANSWER_RULES = (
    "require always within 10 min fault <= 0.6",
    "require if temp > 65 degC then eventually within 20 min fault >= 0.45",
    "require if past temp > 60 degC then fault >= 0.4",
    "require fault <= 0.55",
    "require fault never falls as temp rises",
    "require fault never falls",
)
TEST = 0.25


@st.composite
def tables(draw: st.DrawFn) -> list[list[list[str]]]:
    """One or two tables of time, line, temperature and fault, with gaps and unknown cells; a table
    may be sorted by line, by time, or backwards.
    """
    found = []
    for _ in range(draw(st.integers(1, 2))):
        dice = np.random.default_rng(draw(st.integers(0, 1000)))
        rows = []
        for line in ("A", "B"):
            for step in range(draw(st.integers(40, 90))):
                temp = "" if dice.random() < 0.03 else f"{60 + 20 * dice.random():.1f}"
                if dice.random() > 0.05:  # otherwise the row is missing
                    time = f"2025-03-01T{step // 12:02}:{5 * (step % 12):02}:00"
                    rows.append([time, line, temp, str(int(dice.random() < 0.4))])
        order = draw(st.sampled_from(["line", "time", "backwards"]))
        if order != "line":
            rows.sort(reverse=order == "backwards")
        found.append(rows)
    return found


def write(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["time", "line", "temp", "fault"], *rows])
    return path


def counted(capsys: pytest.CaptureFixture[str], rules: Path, table: Path) -> dict[str, Any]:
    """Violated and evaluated cases of each rule by `fedkg eval`."""
    done = call(capsys, "eval", rules, table, "--json")
    assert done.code == 0, done.err
    return {
        one["rule"]: np.array([one["violated"], one["violated"] + one["satisfied"]])
        for one in done.json["rules"]
    }


def last_rows(rows: list[list[str]]) -> list[list[str]]:
    """The test rows: in each line those from the time on at which 1 - TEST of its rows are over."""
    chosen = []
    for line in ("A", "B"):
        own = sorted(row for row in rows if row[1] == line)
        start = own[round((1 - TEST) * len(own))][0]
        chosen += [row for row in rows if row[1] == line and row[0] >= start]
    return chosen


def with_predictions(rows: list[list[str]], run: RunFolder) -> list[list[str]]:
    """The rows with the trained model's probabilities as faults; an unknown temperature is its mean
    to the model.
    """
    features = json.loads((run.path / "environment.json").read_text())["features"]
    state = load_state(run, "fedavg-s0")
    assert state is not None
    weight, bias = (value.double().numpy().ravel() for value in state.params.values())
    if len(weight) != 1 or "bias" in next(iter(state.params)):
        weight, bias = bias, weight
    predicted = []
    for time, line, temp, _ in rows:
        scaled = (float(temp) - features["mean"][0]) / features["std"][0] if temp else 0.0
        logit = weight[0] * scaled + bias[0]
        predicted.append([time, line, temp, repr(float(1 / (1 + np.exp(-logit))))])
    return predicted


@pytest.mark.slow
@tries(10)
@given(
    tables=tables(),
    data_rules=st.sets(st.sampled_from(DATA_RULES), min_size=1),
    answer_rules=st.sets(st.sampled_from(ANSWER_RULES), min_size=1),
    ends=st.sampled_from(["", "  ends clip"]),
    split=st.sampled_from(["iid", "dirichlet"]),
)
def test_a_run_counts_what_eval_counts(
    tmp_path_factory, request, tables, data_rules, answer_rules, ends, split
):
    capsys, folder = request.getfixturevalue("capsys"), tmp_path_factory.mktemp("run")
    rules = folder / "rules.fkg"
    chosen = [*sorted(data_rules), *sorted(answer_rules)]
    rules.write_text(
        HEAD.format(trace='  trace column "line"', ends=ends)
        + "".join(f"rule r{place} {text}\n" for place, text in enumerate(chosen))
    )
    files = [write(folder / f"t{place}.csv", rows) for place, rows in enumerate(tables)]
    sites = (
        "{north: {table: t0.csv}, south: {table: t1.csv}}" if len(files) > 1 else "[north, south]"
    )
    path = "" if len(files) > 1 else "path: t0.csv, "
    (folder / "job.yaml").write_text(
        f"name: t\nrules: [rules.fkg]\nsites: {sites}\n"
        f"data: {{label: fault, features: [temp], {path}split: {split}, alpha: 5, test: {TEST},"
        " server: 0.25, min_samples: 2}\nmodel: {hidden: []}\nalgorithm: fedavg\n"
        "training: {rounds: 1, participation: 1.0, executor: stacked}\n"
        "evaluation: {local_baseline: false}\n"
    )
    done = call(capsys, "run", folder / "job.yaml", "--out", folder / "out")
    assert done.code == 0, done.err
    run = RunFolder(folder / "out")

    expected = [counted(capsys, rules, file) for file in files]
    checks = run.rows("checks.csv")
    assert {row["rule"] for row in checks} == {f"r{place}" for place in range(len(data_rules))}
    for row in checks:
        total = sum(one[row["rule"]] for one in expected)
        assert [int(row["violated"]), int(row["evaluations"])] == total.tolist(), row

    expected = [
        counted(
            capsys, rules, write(folder / f"p{place}.csv", with_predictions(last_rows(rows), run))
        )
        for place, rows in enumerate(tables)
    ]
    answers = [row for row in run.rows("rules.csv") if "rises" not in chosen[int(row["rule"][1:])]]
    for row in answers:
        total = sum(one[row["rule"]] for one in expected)
        assert [int(row["violated"]), int(row["evaluations"])] == total.tolist(), row


@tries(4)
@given(
    tables=tables(),
    data_rules=st.sets(st.sampled_from(DATA_RULES), min_size=1),
    horizon=st.sampled_from([0, 3]),
)
def test_a_run_on_windows_checks_the_data_that_eval_reads(
    tmp_path_factory, request, tables, data_rules, horizon
):
    capsys, folder = request.getfixturevalue("capsys"), tmp_path_factory.mktemp("run")
    rules = folder / "rules.fkg"
    chosen = sorted(data_rules)
    rules.write_text(
        HEAD.format(trace='  trace column "line"', ends="  ends clip")
        + "".join(f"rule r{place} {text}\n" for place, text in enumerate(chosen))
        + "rule answer require fault >= 0\n"
    )
    file = write(folder / "t0.csv", sorted(tables[0]))
    (folder / "job.yaml").write_text(
        "name: t\nrules: [rules.fkg]\nalgorithm: fedavg\nmodel: {hidden: []}\n"
        "data: {set: table, path: t0.csv, split: sites, min_samples: 2, test: 0.3,"
        f" window: {{history: 4, horizon: {horizon}}}}}\n"
        "training: {rounds: 1, participation: 1.0, executor: stacked}\n"
        "evaluation: {local_baseline: false}\n"
    )
    done = call(capsys, "run", folder / "job.yaml", "--out", folder / "out")
    assert done.code == 0, done.err
    expected = counted(capsys, rules, file)
    for row in RunFolder(folder / "out").rows("checks.csv"):
        assert [int(row["violated"]), int(row["evaluations"])] == expected[row["rule"]].tolist()
        assert int(row["evaluations"]) > 0


STEPS = 4
"""Steps of a window that the model reads."""


def answered_rows(rows: list[list[str]], run: RunFolder, test: float) -> list[list[str]]:
    """The rows of the test windows with the trained model's probabilities as faults: of each line
    the last windows, one for each row that has three steps before it.
    """
    features = json.loads((run.path / "environment.json").read_text())["features"]
    state = load_state(run, "fedavg-s0")
    assert state is not None
    values = {name: value.double().numpy() for name, value in state.params.items()}
    (weight,) = (value.ravel() for value in values.values() if value.size == STEPS)
    (bias,) = (float(value.ravel()[0]) for value in values.values() if value.size == 1)
    found = []
    for line in ("A", "B"):
        at = {datetime.fromisoformat(row[0]): row for row in rows if row[1] == line}
        windows = []
        for time, row in sorted(at.items()):
            times = [time - timedelta(minutes=5 * back) for back in range(STEPS - 1, -1, -1)]
            temps = [at[one][2] if one in at else "" for one in times]
            if times[0] >= min(at) and any(temps):
                windows.append((row, temps))
        for row, temps in windows[round((1 - test) * len(windows)) :]:
            scaled = [
                (float(temp) - features["mean"][0]) / features["std"][0] if temp else 0.0
                for temp in temps
            ]
            logit = float(np.dot(weight, scaled)) + bias
            found.append([*row[:3], repr(float(1 / (1 + np.exp(-logit))))])
    return found


@tries(6)
@given(
    tables=tables(),
    answer_rules=st.sets(st.sampled_from(ANSWER_RULES), min_size=1),
    ends=st.sampled_from(["", "  ends clip"]),
    split=st.sampled_from(["sites", "iid"]),
)
def test_a_run_on_windows_counts_answers_as_eval_does(
    tmp_path_factory, request, tables, answer_rules, ends, split
):
    capsys, folder = request.getfixturevalue("capsys"), tmp_path_factory.mktemp("run")
    rules = folder / "rules.fkg"
    chosen = sorted(answer_rules)
    rules.write_text(
        HEAD.format(trace='  trace column "line"', ends=ends)
        + "".join(f"rule r{place} {text}\n" for place, text in enumerate(chosen))
        + "rule reads require if temp > 500 degC then fault >= 0\n"
    )
    write(folder / "t0.csv", tables[0])
    sites = "" if split == "sites" else "sites: [north, south]\n"
    (folder / "job.yaml").write_text(
        f"name: t\nrules: [rules.fkg]\nalgorithm: fedavg\nmodel: {{hidden: []}}\n{sites}"
        f"data: {{set: table, path: t0.csv, split: {split}, min_samples: 2, test: 0.3,"
        f" window: {{history: {STEPS}}}}}\n"
        "training: {rounds: 1, participation: 1.0, executor: stacked}\n"
        "evaluation: {local_baseline: false}\n"
    )
    done = call(capsys, "run", folder / "job.yaml", "--out", folder / "out")
    assert done.code == 0, done.err
    run = RunFolder(folder / "out")
    answered = answered_rows(tables[0], run, 0.3)
    expected = counted(capsys, rules, write(folder / "answers.csv", answered))
    checked = 0
    for row in run.rows("rules.csv"):
        if row["rule"] == "reads" or "rises" in chosen[int(row["rule"][1:])]:
            continue
        assert [int(row["violated"]), int(row["evaluations"])] == expected[row["rule"]].tolist(), (
            row
        )
        checked += int(row["evaluations"])
    at_sites = sum(int(row["evaluations"]) for row in run.rows("sites.csv"))
    assert at_sites >= checked
