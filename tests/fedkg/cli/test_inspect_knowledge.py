"""`inspect` and `check` list the content of a pack besides rules."""

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


def output_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        run(arguments)
    assert ended.value.code in (0, None)
    return capsys.readouterr().out


def test_knowledge_sets_and_inferences_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.fkg").write_text(RULES, encoding="utf-8")
    assert (
        output_of(["check", "r.fkg"], capsys)
        == "r.fkg: clean, 1 rule, 1 bound row, 1 knowledge model, 1 inference, 1 set\n"
    )
    shown = output_of(["inspect", "r.fkg"], capsys)
    assert "by_ash: range of grade, true values in column `Grade`; proven: never empty" in shown
    assert "when ash > 12" in shown or "when 12 < ash" in shown
    assert ": B, C" in shown
    assert "small: the parameters in l1_ball(radius = 3), for every client" in shown
    found = json.loads(output_of(["inspect", "r.fkg", "--json"], capsys))
    assert [model["name"] for model in found["knowledge"]] == ["by_ash"]
    assert [kept["name"] for kept in found["sets"]] == ["small"]


TANKS = """@prefix plant: <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
plant:a plant:budget 3.5 ; fkg:client "linz" . plant:b plant:budget 4 ; fkg:client "graz" .
plant:c plant:budget 2 ; fkg:client "wien" .
plant:d plant:extra 2 ; fkg:client "linz" .
"""
SETS = """use tanks
prefix plant: <https://example.org/plant#>
signal feed in MJ/kg span 0 .. 100
output warmth in degC span 0 .. 100
output heat in MJ/kg span 0 .. 100
set each for ?client, ?r where { ?client plant:budget ?r } keep parameters in l1_ball(radius = ?r)
set one for ?client, ?r where { ?client plant:extra ?r }
  keep parameters.head.weight in l2_ball(radius = ?r)
set near keep warmth in l2_ball(radius = 5 K, center = 40 degC)
set given keep parameters in l1_ball(radius = job)
set rising keep parameters in monotone()
set half keep predictions in halfspace(1, -1.5, bound = 3)
range knowledge warm of heat when feed > 3 allow 3 .. 20 MJ/kg
  when feed > 50 allow between 0.1 * feed and 30 MJ/kg otherwise allow any
predict knowledge guess of heat
  when feed > 20 predict 12 MJ/kg - 0.1 * feed otherwise predict 3000 kJ/kg
"""


def test_the_numbers_of_sets_and_knowledge_are_shown_with_units_and_for_whom(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tanks.ttl").write_text(TANKS, encoding="utf-8")
    (tmp_path / "s.fkg").write_text(SETS, encoding="utf-8")
    shown = output_of(["inspect", "s.fkg"], capsys)
    for line in (
        "one: the parameters head.weight in l2_ball(radius = 2), for linz alone",
        "near: warmth in l2_ball(radius = 5 K, center = 40 degC), for every client",
        "given: the parameters in l1_ball(radius = job), for every client",
        "rising: the parameters in monotone(), for every client",
        "half: the predictions in halfspace(1, -1.5, bound = 3), for every client",
        "each: the parameters in l1_ball, by client (3 clients):",
        "  graz: l1_ball(radius = 4)",
        "  linz: l1_ball(radius = 3.5)",
        "  and 1 client more (--rows 3 shows all)",
        ": 3 .. 20 MJ/kg",
        ": 0.1 * feed .. 30  (in MJ/kg)",
        ": 12 - 0.1 * feed  (in MJ/kg)",
        "otherwise: 3 MJ/kg",
    ):
        assert f"{line}\n" in shown
    assert "    wien: l1_ball(radius = 2)\n" in output_of(
        ["inspect", "s.fkg", "--rows", "3"], capsys
    )
