"""The list of mutants fits the code, and mutants are what their names say."""

from __future__ import annotations

import ast
import tomllib

import pytest
from mutants import LIST, ROOT, generated, listed

SOURCE = '''
def step(x: int = 1) -> float:
    """Not changed: 2 + 3."""
    if x >= 4:
        raise ValueError(f"{x + 1}")
    x.clip(0).add_()
    return x + 5.0
'''


def test_every_listed_mutant_changes_one_place_and_has_tests() -> None:
    document = tomllib.loads(LIST.read_text(encoding="utf-8"))
    for mutant in listed(document):
        ast.parse(mutant.source)
    for entry in (*document["file"], *document["mutant"]):
        assert (ROOT / entry["path"]).is_file()
        assert all((ROOT / test).exists() for test in entry["tests"] if test.endswith(".py"))


def test_generated_mutants_are_small_changes_of_the_code() -> None:
    made = {mutant.name: mutant.source for mutant in generated("a.py", SOURCE, ())}
    changes = [name.removeprefix("a.py:step: ") for name in made]
    assert {"x >= 4 -> x > 4", "x + 5.0 -> x - 5.0", "x + 5.0 -> x", "4 -> 5"} <= set(changes)
    assert "x.clip(0).add_() -> pass" in changes
    assert not any("x + 1" in change or "2 + 3" in change for change in changes)
    for source in made.values():
        ast.parse(source)
    assert "return (x - 5.0)" in made["a.py:step: x + 5.0 -> x - 5.0"]


@pytest.mark.slow
def test_every_generated_mutant_of_the_listed_files_can_be_parsed() -> None:
    for entry in tomllib.loads(LIST.read_text(encoding="utf-8"))["file"]:
        source = (ROOT / entry["path"]).read_text(encoding="utf-8")
        made = list(generated(entry["path"], source, ()))
        assert made
        assert len({mutant.name for mutant in made}) == len(made)
        for mutant in made:
            ast.parse(mutant.source)
