"""Every statement of the threat model names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STATEMENTS = [
    line
    for line in (ROOT / "docs/concepts/threat-model.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("- ")
]


def test_there_are_statements() -> None:
    assert len(STATEMENTS) > 10


@pytest.mark.parametrize("statement", STATEMENTS)
def test_each_statement_names_a_test(statement: str) -> None:
    found = re.search(r"`(tests/[\w/]+\.py)::(test_\w+)`$", statement)
    assert found, "end it with `tests/FILE.py::test_NAME`"
    body = (ROOT / found[1]).read_text(encoding="utf-8")
    assert f"def {found[2]}(" in body, f"there is no test {found[2]} in {found[1]}"
