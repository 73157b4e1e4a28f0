"""The reference matches the code."""

from __future__ import annotations

from pathlib import Path

import pytest
from generated import COMMAND_MARKS, MARKS, PAGES, PARTS, REFERENCE, TABLES, with_commands

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


COMMAND_LINE = (REFERENCE / "command-line.md").read_text(encoding="utf-8")


def test_commands_are_described_as_in_their_help() -> None:
    assert with_commands(COMMAND_LINE) == COMMAND_LINE, (
        "write it again: python tests/docs/generated.py"
    )


def test_every_command_has_its_section() -> None:
    described = [found["name"] for found in COMMAND_MARKS.finditer(COMMAND_LINE)]
    assert sorted(described) == sorted([*COMMANDS, *COMMAND_GROUPS])
    for name in described:
        assert f"\n## `fedkg {name}`\n\n<!-- command: {name} -->\n" in COMMAND_LINE
