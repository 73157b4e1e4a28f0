"""Comparison of an evaluation with an older one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

from fedkg.errors import UsageError
from fedkg.evaluation import Evaluation, RuleResult, compare, parse_allowance, read_baseline
from fedkg.evaluation.result import comparison_lines


def result(
    rule: str,
    satisfied: int,
    violated: int,
    severity: Literal["violation", "warning", "info"] = "violation",
) -> RuleResult:
    return RuleResult(
        rule=rule,
        title="",
        kind="other",
        output=False,
        bound_rows=1,
        satisfied=satisfied,
        violated=violated,
        unknown=0,
        fired=0,
        worst=None,
        severity=severity,
    )


def evaluation(*rules: RuleResult) -> Evaluation:
    return Evaluation(table="t.csv", rows=100, found="", rules=rules)


def test_only_what_got_worse_than_allowed_fails(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    old = evaluation(
        result("a", 98, 2),
        result("b", 90, 10),
        result("c", 50, 50),
        result("gone", 1, 0),
        result("quiet", 0, 0),
    )
    path.write_text(json.dumps(old.to_json()), encoding="utf-8")
    new = evaluation(
        result("a", 97, 3),
        result("b", 80, 20),
        result("c", 99, 1),
        result("quiet", 1, 9),
        result("fresh", 0, 10),
    )
    found = compare(new, read_baseline(path), allow=0.01)
    assert {change.rule: change.state for change in found.changes} == {
        "a": "same",
        "b": "worse",
        "c": "better",
        "quiet": "untold",
        "fresh": "new",
        "gone": "removed",
    }
    assert (found.worse, found.exit_code) == (True, 1)
    assert found.to_json()["changes"][1] == {
        "rule": "b",
        "state": "worse",
        "before": 0.1,
        "after": 0.2,
        "severity": "violation",
    }
    lines = comparison_lines(found)
    assert lines[0] == "b: violation rate rose from 10.00% to 20.00%"
    assert lines[-1] == "1 rule as before (at most 1.00% worse)"
    assert compare(new, read_baseline(path), allow=0.1).exit_code == 0
    assert {change.state for change in compare(old, read_baseline(path)).changes} == {"same"}


def test_a_warning_that_got_worse_is_reported_and_does_not_fail(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(
        json.dumps(evaluation(result("a", 9, 1, "warning"), result("b", 9, 1, "info")).to_json()),
        encoding="utf-8",
    )
    new = evaluation(result("a", 5, 5, "warning"), result("b", 4, 6, "info"))
    found = compare(new, read_baseline(path))
    assert ([change.state for change in found.changes], found.worse, found.exit_code) == (
        ["worse", "worse"],
        False,
        0,
    )
    assert comparison_lines(found)[0] == "a (warning): violation rate rose from 10.00% to 50.00%"


@pytest.mark.parametrize(
    ("text", "value"),
    [("1%", 0.01), ("0.01", 0.01), (" 0,5 % ", 0.005), ("0", 0.0), ("100%", 1.0), (".02", 0.02)],
)
def test_allowances(text: str, value: float) -> None:
    assert parse_allowance(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "a lot", "-1%", "101%", "2", "nan", "1%%"])
def test_wrong_allowances(text: str) -> None:
    with pytest.raises(UsageError, match=r"such as 1% or 0\.01"):
        parse_allowance(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"rules": 3}',
        '{"rules": [3]}',
        '{"rules": [{"rule": "a", "satisfied": "x", "violated": 1}]}',
    ],
)
def test_an_invalid_baseline_file_is_rejected(text: str, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"old\.json"):
        read_baseline(path)
    with pytest.raises(UsageError, match="cannot read baseline"):
        read_baseline(tmp_path / "none.json")
