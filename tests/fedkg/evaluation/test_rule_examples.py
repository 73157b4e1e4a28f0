"""Examples in rule files: bound, run, and compared with their statements."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from fedkg.evaluation.example_runner import ExampleResult, run_example
from fedkg_compiler import compile_rules

HEAD = """timeline step 5 min
signal pressure in bar column "P" span 0 .. 20
signal temperature(?zone) in degC
signal running in boolean
signal state
label grade classes A, B
output risk in probability
rule recovers require if pressure >= 8 bar then eventually within 10 min pressure <= 6 bar
rule rises require risk never falls as pressure rises
rule steady require pressure never falls
rule off require if running is off then state in idle, "on hold" and grade is A
rule low for ?tag, ?low in table "limits.csv" require value(?tag) >= ?low
"""


def run(
    example: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[ExampleResult], list[str]]:
    """The results, and the codes of the diagnostics."""
    monkeypatch.chdir(folder)
    (folder / "limits.csv").write_text("tag,low\nT1,5\nT2,7\n", encoding="utf-8")
    compilation = compile_rules(text=HEAD + example, reason=False)
    failed = any(problem.severity == "error" for problem in compilation.diagnostics)
    return [] if failed else [run_example(one) for one in compilation.examples], [
        problem.code for problem in compilation.diagnostics
    ]


@pytest.mark.parametrize(
    ("example", "got", "step", "robustness"),
    [
        ("recovers fails for pressure = 7 9 9 9 bar", "fails", 2, -1),
        ("recovers holds for pressure = 7 9 9 5 bar", "holds", 1, 1),
        ("recovers holds for pressure = 700 900 500 kPa", "holds", 1, 1),
        ("recovers holds for pressure = 9 9 9 9", "fails", 1, -1),
        ("recovers fails for pressure = 9 unknown unknown bar", "unknown", 1, math.nan),
        ("steady fails for pressure = 3 2", "fails", 2, -1),
        ("steady holds for pressure = 3 4 6", "holds", 2, 1),
        ("steady holds for pressure = 3", "unknown", 1, math.nan),
        ("steady holds for pressure = unknown 3 4", "unknown", 2, math.nan),
        ("off holds for running = on and state = up and grade = B", "holds", 1, math.inf),
        ("off fails for running = yes off and state = idle idle and grade = B B", "fails", 2, -1),
        ("off fails for running = 0 and state = up and grade = A", "fails", 1, -math.inf),
        ('off holds for running = 0 and state = "on hold" and grade = A', "holds", 1, 1),
        ("low fails for value(?tag) = 4", "fails", 1, -1),
        ("low holds for value(?tag) = 4 and low = 3", "holds", 1, 1),
        ("low fails for `T1` = 4 6", "fails", 1, -1),
    ],
)
def test_examples(
    example: str,
    got: str,
    step: int,
    robustness: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (result,), _ = run(f"example of {example}", tmp_path, monkeypatch)
    assert (result.got, result.step) == (got, step)
    assert result.robustness == pytest.approx(robustness, nan_ok=True)
    assert result.line == HEAD.count("\n") + 1
    assert result.passed is (result.expected == got)


def test_what_only_a_model_can_say_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (result,), _ = run(
        "example of rises holds for risk = 0.1 and pressure = 3", tmp_path, monkeypatch
    )
    assert (result.got, result.step) == ("unknown", 1)


@pytest.mark.parametrize(
    ("example", "code"),
    [
        ("recovrs holds for pressure = 3", "FKG293"),
        ("recovers holds for presure = 3", "FKG293"),
        ("recovers holds for pressure = 3 4 and state = a b c", "FKG294"),
        ("recovers holds for pressure = 3 degC", "FKG213"),
        ("recovers holds for pressure = high", "FKG209"),
        ("off holds for running = maybe", "FKG281"),
        ("off holds for running = 1 0.5", "FKG281"),
        ("off holds for running = 2", "FKG281"),
        ("off holds for grade = C", "FKG210"),
        ("low holds for low = 3 4", "FKG294"),
    ],
)
def test_examples_that_are_wrong(
    example: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, codes = run(f"example of {example}", tmp_path, monkeypatch)
    assert results == []
    assert code in codes


def test_a_series_too_many_is_a_warning_and_one_too_few_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, codes = run(
        "example of recovers holds for pressure = 3 and state = up", tmp_path, monkeypatch
    )
    assert [one.got for one in results] == ["holds"]
    assert codes == ["FKG295"]
    results, codes = run(
        "example of off holds for running = on and state = up", tmp_path, monkeypatch
    )
    assert [one.got for one in results] == [
        "holds"
    ]  # a rule that does not apply is satisfied for any grade
    assert codes == ["FKG295"]


def test_examples_leave_the_pack_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "limits.csv").write_text("tag,low\nT1,5\nT2,7\n", encoding="utf-8")
    plain = compile_rules(text=HEAD, reason=False).pack
    told = compile_rules(
        text=f"{HEAD}example of off fails for running = 0 and state = new and grade = A\n",
        reason=False,
    ).pack
    assert plain is not None
    assert told is not None
    assert (
        told.manifest.model_copy(update={"provenance": plain.manifest.provenance}) == plain.manifest
    )
