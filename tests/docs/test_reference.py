"""The reference matches the code."""

from __future__ import annotations

from pathlib import Path

import pytest
from generated import MARKS, PAGES, PARTS, REFERENCE, TABLES

from fedkg.cli.main import COMMAND_GROUPS, COMMANDS


@pytest.mark.parametrize("page", PAGES)
def test_generated_pages_are_up_to_date(page: str) -> None:
    shown = (REFERENCE / page).read_text(encoding="utf-8")
    assert shown == PAGES[page](), "write it again: python tests/docs/generated.py"


@pytest.mark.parametrize("page", TABLES)
def test_generated_tables_are_up_to_date(page: str) -> None:
    shown = (REFERENCE / page).read_text(encoding="utf-8")
    assert shown.endswith(TABLES[page][1]()), "write it again: python tests/docs/generated.py"


@pytest.mark.parametrize("path", PARTS, ids=lambda path: path.name)
def test_generated_parts_are_up_to_date(path: Path) -> None:
    part = PARTS[path]()
    assert part is None or MARKS[0] + part + MARKS[1] in path.read_text(encoding="utf-8"), (
        "write it again: python tests/docs/generated.py"
    )


@pytest.mark.parametrize("command", [*COMMANDS, *COMMAND_GROUPS])
def test_every_command_has_its_section(command: str) -> None:
    assert f"\n## `fedkg {command}" in (REFERENCE / "command-line.md").read_text(encoding="utf-8")
