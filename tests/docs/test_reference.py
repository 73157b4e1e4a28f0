"""The reference matches the code."""

from __future__ import annotations

import json
import re
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


def test_the_weight_of_constant_models_is_the_measured_one() -> None:
    """A page outside generated parts has the figures of the table `weights`."""
    results = REFERENCE.parents[1] / "benchmarks" / "RESULTS.json"
    sections = json.loads(results.read_text(encoding="utf-8"))
    [printed] = [one["printed"] for one in sections if one["name"] == "attacks"]
    [row] = re.findall(r"^generator, product  .*$", printed, re.MULTILINE)
    weight, attacked, honest = ([int(one) for one in cell.split("±")] for cell in row.split()[-3:])
    page = (REFERENCE.parent / "concepts" / "robust-aggregation.md").read_text(encoding="utf-8")
    assert (
        f"get {weight[0]} ± {weight[1]} % of the weight in rounds 1\nto 6 under "
        f"`scoring.combine: product`, and F1 falls from {honest[0] / 100:.2f} ± "
        f"{honest[1] / 100:.2f} to {attacked[0] / 100:.2f}."
    ) in page
