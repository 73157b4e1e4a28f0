"""A rule suppresses warnings of one code with a reason; errors always remain."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import call

from fedkg_compiler.pipeline import compile_rules

PLANT = """signal level in m span 0 .. 6
output alarm in probability span 0 .. 1
rule in_range {setting} require level >= 1 m
rule breach_alarm {waiver} require if level < 1 m then alarm >= 0.5
"""
WAIVER = 'allow FKG503 because "data of the pilot plant violates in_range"'


def codes(text: str, **settings: bool) -> list[tuple[str, str]]:
    found = compile_rules(text=text, **settings).diagnostics
    return [(one.code, one.severity) for one in found]


@pytest.mark.parametrize(
    ("setting", "waiver", "code"),
    [
        ("", "", 0),
        ("hard", "", 1),
        ("hard", WAIVER, 0),
        ("", WAIVER, 1),  # no such warning: the suppression has no effect
    ],
)
def test_check_reports_what_no_rule_allows(
    setting: str, waiver: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plant.fkg"
    path.write_text(PLANT.format(setting=setting, waiver=waiver), encoding="utf-8")
    done = call(capsys, "check", str(path))
    assert done.code == code
    assert ("FKG503" in done.out + done.err) == bool(code)
    assert ("FKG245" in done.out + done.err) == (code == 1 and waiver != "")


def test_only_the_rule_that_allows_a_warning_is_excepted() -> None:
    other = "rule other require if level < 0.5 m then alarm >= 0.9\n"
    text = PLANT.format(setting="hard", waiver=WAIVER) + other
    [found] = compile_rules(text=text).diagnostics
    assert found.code == "FKG503"
    assert found.message.startswith("`other` never applies")
    assert "because the hard rule `in_range` requires level >= 1 m" in found.message


def test_an_error_cannot_be_suppressed() -> None:
    text = 'signal level in m\nrule a allow FKG213 because "unit" require level > 2 bar\n'
    result = compile_rules(text=text)
    assert [(one.code, one.severity) for one in result.diagnostics] == [
        ("FKG245", "warning"),
        ("FKG213", "error"),
    ]
    assert "FKG213 is an error here" in result.diagnostics[0].message
    assert result.pack is None


def test_an_unknown_code_is_a_warning() -> None:
    text = PLANT.format(setting="", waiver='allow FKG999 because "none"')
    [found] = compile_rules(text=text).diagnostics
    assert found.code == "FKG245"
    assert found.severity == "warning"
    assert "diagnostic `FKG999` does not exist" in found.message


def test_an_effect_is_not_denied_where_the_rules_are_not_analysed() -> None:
    assert codes(PLANT.format(setting="hard", waiver=WAIVER), reason=False) == []


def test_a_rule_that_is_left_out_keeps_its_suppression() -> None:
    text = PLANT.format(setting="hard", waiver=f"scope client {WAIVER}")
    assert ("FKG245", "warning") not in codes(text)


def test_the_cap_on_findings_counts_what_remains() -> None:
    rules = [f"rule r{i} {WAIVER} require if level < 0.9 m then alarm >= 0.5" for i in range(45)]
    text = "\n".join([PLANT.format(setting="hard", waiver=""), *rules]) + "\n"
    [found] = [one for one in compile_rules(text=text).diagnostics if one.code == "FKG503"]
    assert "more" not in found.message
