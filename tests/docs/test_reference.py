"""The reference matches the code."""

from __future__ import annotations

import pytest
from generated import ATTACK_PAGE, PAGES, REFERENCE, TABLES, attack_tables

from fedkg.cli.main import COMMAND_GROUPS, COMMANDS


@pytest.mark.parametrize("page", PAGES)
def test_generated_pages_are_up_to_date(page: str) -> None:
    shown = (REFERENCE / page).read_text(encoding="utf-8")
    assert shown == PAGES[page](), "write it again: python tests/docs/generated.py"


@pytest.mark.parametrize("page", TABLES)
def test_generated_tables_are_up_to_date(page: str) -> None:
    shown = (REFERENCE / page).read_text(encoding="utf-8")
    assert shown.endswith(TABLES[page][1]()), "write it again: python tests/docs/generated.py"


def test_the_tables_of_attacks_are_those_of_the_last_full_benchmark() -> None:
    tables = attack_tables()
    assert tables is None or tables in ATTACK_PAGE.read_text(encoding="utf-8"), (
        "write it again: python tests/docs/generated.py"
    )


@pytest.mark.parametrize("command", [*COMMANDS, *COMMAND_GROUPS])
def test_every_command_has_its_section(command: str) -> None:
    assert f"\n## `fedkg {command}" in (REFERENCE / "command-line.md").read_text(encoding="utf-8")
