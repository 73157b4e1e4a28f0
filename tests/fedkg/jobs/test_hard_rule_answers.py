"""Every answer of a run satisfies the hard rules that one answer decides; SCFA's weights and the
training see the answers of the model.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from command import call

from fedkg.jobs.folder import RunFolder

SIGNALS = """
signal temp in degC span 0 .. 100
signal line column "line"
"""
HOT = {"A": 0.4, "B": 0.2}
"""Largest allowed probability of a fault of a hot row on each line."""


def rows(count: int = 400) -> list[tuple[float, str]]:
    dice = np.random.default_rng(7)
    return [(round(float(dice.uniform(20, 90)), 1), "AB"[i % 2]) for i in range(count)]


def write(path: Path, header: list[str], lines: list[list[object]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *lines])


def run(folder: Path, capsys: pytest.CaptureFixture[str], rules: str, data: str, **more: str):
    (folder / "rules.fkg").write_text(rules)
    training = more.get("training", "{rounds: 3, participation: 1.0, executor: stacked}")
    (folder / "job.yaml").write_text(
        f"name: t\nrules: [rules.fkg]\n{more.get('sites', 'sites: [north, south]')}\n"
        f"data: {{path: t.csv, {data}}}\nmodel: {{hidden: [4]}}\n"
        f"{more.get('algorithm', 'algorithm: scfa')}\n"
        f"training: {training}\nevaluation: {{local_baseline: false}}\n"
    )
    done = call(capsys, "run", folder / "job.yaml", "--out", folder / "out")
    assert done.code == 0, done.err
    return RunFolder(folder / "out")


def alarms(folder: Path) -> None:
    """Hot rows have faults, so that a model learns what the hard rules below exclude."""
    write(
        folder / "t.csv",
        ["temp", "line", "fault"],
        [[temp, line, int(temp > 60)] for temp, line in rows()],
    )


ALARM_RULES = (
    SIGNALS
    + "output fault in probability span 0 .. 1\n"
    + "".join(
        f'rule quiet_{line} {{}} require if line is "{line}" and temp > 60 degC then '
        f"fault <= {most}\n"
        for line, most in HOT.items()
    )
    + "rule monotone {} kind physical require fault never falls as temp rises\n"
)


@pytest.mark.parametrize("hard", [True, False])
def test_alarms_satisfy_the_hard_rules_of_their_row(tmp_path, capsys, hard):
    alarms(tmp_path)
    word = "hard" if hard else ""
    done = run(
        tmp_path,
        capsys,
        ALARM_RULES.replace("{}", word),
        "label: fault, features: [temp]",
        algorithm="compare: {algorithm: [fedavg, scfa]}",
        training="{rounds: 8, participation: 1.0, executor: stacked, learning_rate: 0.5}",
    )
    counts = {
        (row["trial"], row["rule"]): (int(row["violated"]), int(row["applied"]))
        for row in done.rows("rules.csv")
    }
    for (_, rule), (violated, applied) in counts.items():
        if rule.startswith("quiet"):
            assert applied > 10
            assert (violated == 0) == hard
    recall = {row["trial"]: float(row["recall"]) for row in done.rows("rounds.csv")}
    assert all(value == 0 for value in recall.values()) == hard
    notes = done.rows("rounds.csv")[0]["notes"]
    assert ("every answer satisfies the hard rules quiet_A, quiet_B" in notes) == hard
    assert ("answers may violate the hard rules monotone" in notes) == hard
    sentence = json.loads((done.path / "results.json").read_text())["sentences"][0]
    assert ("learning alone: not part of this run" in sentence) == hard


def grades(folder: Path, hard: str) -> str:
    """Hot rows of line A are C in the data and must not be C by the rules; no class is allowed to
    very hot rows of line B, whose answers stay as they are.
    """
    write(
        folder / "t.csv",
        ["temp", "line", "grade"],
        [[temp, line, "C" if temp > 60 else "A"] for temp, line in rows()],
    )
    return (
        SIGNALS
        + "label grade classes A, B, C\n"
        + f'rule cooled {hard} require if line is "A" and temp > 60 degC then grade is not C\n'
        + f'rule none {hard} require if line is "B" and temp > 75 degC then grade is A\n'
        + f'rule neither {hard} require if line is "B" and temp > 75 degC then grade is not A\n'
    )


@pytest.mark.parametrize("hard", ["hard", ""])
def test_classes_satisfy_the_hard_rules_of_their_row(tmp_path, capsys, hard):
    done = run(
        tmp_path,
        capsys,
        grades(tmp_path, hard),
        "set: table, split: iid, min_samples: 2",
        sites="sites: 2",
        training="{rounds: 8, participation: 1.0, executor: stacked, learning_rate: 0.5}",
    )
    violated = {row["rule"]: int(row["violated"]) for row in done.rows("rules.csv")}
    applied = {row["rule"]: int(row["applied"]) for row in done.rows("rules.csv")}
    assert applied["cooled"] > 10
    assert (violated["cooled"] == 0) == bool(hard)
    assert violated["none"] + violated["neither"] == applied["none"] > 3


@pytest.mark.parametrize("hard", ["hard", ""])
def test_numbers_satisfy_the_hard_rules_of_their_row(tmp_path, capsys, hard):
    """In the unit of the rules, for all rows and for some rows of one line."""
    write(
        tmp_path / "t.csv",
        ["temp", "line", "load"],
        [[temp, line, f"{3 * temp:.1f}"] for temp, line in rows()],
    )
    rules = (
        SIGNALS
        + "output load in N span 0 .. 400\n"
        + f"rule most {hard} require load <= 150 N\n"
        + f'rule line_b {hard} require if line is "B" and temp > 40 degC then load <= 100 N\n'
    )
    done = run(
        tmp_path,
        capsys,
        rules,
        "set: table, split: iid, min_samples: 2",
        sites="sites: 2",
        algorithm="algorithm: fedavg",
        training="{rounds: 10, participation: 1.0, executor: stacked, learning_rate: 0.1}",
    )
    for row in done.rows("rules.csv"):
        assert int(row["applied"]) > 10
        assert (int(row["violated"]) == 0) == bool(hard), row
