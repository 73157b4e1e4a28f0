"""The rule files that ship compile without a warning, and their examples have the stated results.

Undecided relations are allowed as notes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg.authoring import run_examples
from fedkg_compiler.frontends.fkg.syntax import parse
from fedkg_compiler.frontends.fkg.syntax.tree import Example, Rule, Template

RULES = Path(__file__).parents[2] / "rules"
FILES = [
    path for folder in ("examples", "templates") for path in sorted((RULES / folder).glob("*.fkg"))
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_is_clean_and_its_examples_come_out_as_they_say(path: Path) -> None:
    results, diagnostics = run_examples([path])
    assert [problem.message for problem in diagnostics if problem.severity != "info"] == []
    assert results
    assert [one.got for one in results] == [one.expected for one in results]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_rule_and_template_has_an_example_that_holds_and_one_that_fails(path: Path) -> None:
    statements = parse(path.read_text(encoding="utf-8"), path.name)[0].statements
    told = {(one.rule.text, one.holds) for one in statements if isinstance(one, Example)}
    names = {one.name.text for one in statements if isinstance(one, Rule | Template)}
    assert told == {(name, holds) for name in names for holds in (True, False)}


def test_the_files_are_those_of_the_paper() -> None:
    found = {path.stem for path in FILES if path.parent.name == "templates"}
    assert found == {
        *(
            "operational_range",
            "existence",
            "extremes",
            "until",
            "intra_task",
            "temporal_implication",
        ),
        *("nested_intra_task", "multiple_eventualities", "template_free"),
    }
    assert {path.stem for path in FILES if path.parent.name == "examples"} == {
        "smart_home",
        "smart_grid",
        "healthcare",
        "driving",
    }
