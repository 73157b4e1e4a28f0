"""`inspect` and `check` say what a pack holds besides rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedkg.cli.main import run

RULES = """timeline step 1 h
signal ash in % span 0 .. 40
label grade classes A, B, C column "Grade"
template inside(x, low, high) = always [0 h, 2 h] low <= x <= high
range knowledge by_ash of grade when ash > 12 % allow B, C otherwise allow any
infer usual per client find ?low, ?high in inside(ash, ?low, ?high)
set small keep parameters in l1_ball(radius = 3)
rule some require ash <= 30 %
"""


def said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        run(arguments)
    assert ended.value.code in (0, None)
    return capsys.readouterr().out


def test_knowledge_sets_and_inferences_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.fkg").write_text(RULES, encoding="utf-8")
    assert said(["check", "r.fkg"], capsys) == "r.fkg: clean, 1 rule, 1 bound row, 1 knowledge model, 1 inference, 1 set\n"
    shown = said(["inspect", "r.fkg"], capsys)
    assert "by_ash: range of grade, true values in column `Grade`; proven: never empty" in shown
    assert "when ash > 12" in shown or "when 12 < ash" in shown
    assert ": B, C" in shown
    assert "small: the parameters in l1_ball" in shown
    found = json.loads(said(["inspect", "r.fkg", "--json"], capsys))
    assert [model["name"] for model in found["knowledge"]] == ["by_ash"]
    assert [kept["name"] for kept in found["sets"]] == ["small"]
