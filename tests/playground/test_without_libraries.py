"""The compiler and the interpreter answer in a browser what they answer on the command line.

The playground runs them without pyoxigraph, SciPy and safetensors, on the arrays of
`playground/libraries`. These tests run them so in another process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fedkg.authoring import check, diagnostics_json
from fedkg.evaluation import evaluate
from fedkg.evaluation.evaluate import violations
from fedkg.tables import read_table

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("without_libraries.py")
FILES = ["examples/hvac/rules.fkg", "rules/templates/until.fkg", "rules/examples/smart_home.fkg"]
EXAMPLES = ROOT / "playground" / "examples"


def run(*arguments: str, text: str = "") -> Any:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        input=text,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.slow
def test_diagnostics_bound_numbers_verdicts_and_explanations_agree() -> None:
    expected = run("--here", *FILES)
    assert all(expected[file]["banks"] or expected[file]["examples"] for file in FILES)
    assert run(*FILES) == expected


def files_of(name: str) -> dict[str, str]:
    return {path.name: path.read_text() for path in (EXAMPLES / name).iterdir()}


PARTLY = """use isa95, machines
shapes "limits.ttl"
signal torque is machines:torque in N.m
signal p in bar column "p"
rule twist require torque <= 60 N.m
rule each for ?m in class isa95:Equipment require `p` <= 3
rule lib require p <= 3 degC
rule broken require p <=
"""
KNOWLEDGE = """signal ash in % column "ash"
label grade classes A, B column "grade"
range knowledge by_ash of grade when ash > 12 % allow B otherwise allow any
predict knowledge old of grade from model "old.safetensors"
rule limit require ash <= 20 %
"""
PAGES = {
    "limits": files_of("press-limits"),
    "units": files_of("units-that-disagree"),
    "graph": {"rules.fkg": "use isa95\nrule limit require `a` <= 3\n", "table.csv": "a\n5\n"},
    "partly": {"rules.fkg": PARTLY, "table.csv": "p\n5\n", "plant.ttl": "broken"},
    "knowledge": {"rules.fkg": KNOWLEDGE, "table.csv": "ash,grade\n13,A\n13,B\n"},
    "plain": {"rules.fkg": "rule limit require `a` <= 3\n", "table.csv": "a\n5\n"},
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the page shows for each of `PAGES`."""
    folder = str(tmp_path_factory.mktemp("page") / "files")
    return dict(zip(PAGES, run("--pages", folder, text=json.dumps([*PAGES.values()])), strict=True))


@pytest.mark.slow
def test_a_page_has_the_verdicts_of_eval(said: dict[str, Any]) -> None:
    found = said["limits"]["evaluation"]
    folder = EXAMPLES / "press-limits"
    pack = check([folder / "rules.fkg"]).pack
    assert pack is not None
    table = read_table(folder / "table.csv")
    assert found["rules"] == evaluate(pack, table).to_json()["rules"]
    assert sum(one["violated"] for one in found["rules"]) > 0
    broken = violations(pack, table)
    for number, rule in enumerate(pack.manifest.rules):
        rows = sorted({int(row) for row in broken.row[broken.rule == number]})
        assert found["traces"][rule.name]["violated"] == rows
    signals = {one["name"]: one for one in found["traces"]["slow_under_load"]["signals"]}
    assert signals["torque"]["values"] == [41, 47, 55, 58, 52, 45, None, 40]
    assert found["times"][0] == "2024-05-01 06:00"


def test_the_language_server_publishes_the_diagnostics_of_check(said: dict[str, Any]) -> None:
    published = [
        one["params"]["diagnostics"]
        for one in said["units"]["posted"]
        if one.get("method") == "textDocument/publishDiagnostics"
    ][-1]
    rules = EXAMPLES / "units-that-disagree" / "rules.fkg"
    expected = diagnostics_json(check([rules], fresh=True).diagnostics)["diagnostics"]
    assert len(expected) > 1
    places = [
        (one["range"]["start"]["line"], one["range"]["start"]["character"]) for one in published
    ]
    assert places == [(one["line"] - 1, one["column"] - 1) for one in expected]
    texts = [(one["code"], one["message"]) for one in published]
    assert texts == [
        (one["code"], "\n".join(filter(None, (one["message"], one["help"])))) for one in expected
    ]
    assert "error[FKG" in said["units"]["evaluation"]["error"]


def problems(page: dict[str, Any]) -> list[tuple[int, str, str]]:
    """Line, code and message of what the editor of a page shows in the end."""
    published = [
        one["params"]["diagnostics"]
        for one in page["posted"]
        if one.get("method") == "textDocument/publishDiagnostics"
    ]
    return [
        (one["range"]["start"]["line"] + 1, one.get("code", ""), one["message"])
        for one in published[-1]
    ]


def test_statements_that_need_a_graph_are_named_and_the_rest_is_checked(
    said: dict[str, Any],
) -> None:
    found = problems(said["partly"])
    errors = [(line, code) for line, code, _ in found if code]
    assert errors == [(7, "FKG213"), (8, "FKG003")]
    assert [line for line, code, _ in found if not code] == [1, 1, 2, 3, 5, 6]
    notes = [text for _, code, text in found if not code]
    assert notes[0].startswith("plant.ttl is not read")
    assert "ontology or a graph" in notes[1]
    assert "it uses `torque`, which is not checked" in notes[4]


def test_rules_without_a_graph_have_verdicts_beside_those_with_one(said: dict[str, Any]) -> None:
    found = said["graph"]["evaluation"]
    assert [(one["rule"], one["violated"]) for one in found["rules"]] == [("limit", 1)]
    assert found["notes"][0].startswith("line 1: not checked")
    assert [line for line, _, _ in problems(said["graph"])] == [1]


def test_knowledge_without_a_model_file_is_compiled(said: dict[str, Any]) -> None:
    [(line, _, text)] = problems(said["knowledge"])
    assert (line, "safetensors" in text) == (4, True)
    assert said["knowledge"]["evaluation"]["rules"][0]["satisfied"] == 2


def test_explanations_are_those_of_the_command_line(said: dict[str, Any]) -> None:
    plain = said["plain"]
    assert plain["evaluation"]["rules"][0]["violated"] == 1
    assert plain["explained"]["text"].startswith("limit\n  about     the data, 1 bound row\n")
    assert "does not exist" in plain["unknown"]["error"]
    assert plain["code"]["text"].startswith("FKG200: ")


def test_the_page_says_what_is_missing(said: dict[str, Any]) -> None:
    facts = said["plain"]["facts"]
    assert facts["arrays"] == ""
    assert any("graph" in one for one in facts["missing"])
    assert any("safetensors" in one for one in facts["missing"])
