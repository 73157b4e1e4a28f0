"""The architecture page names folders that exist, and every folder of the code."""

from __future__ import annotations

import re

import pytest
from blocks import ROOT

PAGE = (ROOT / "docs" / "concepts" / "architecture.md").read_text(encoding="utf-8")
PACKAGES = {"fedkg": ROOT / "fedkg", "fedkg_compiler": ROOT / "compiler" / "fedkg_compiler"}


def _named(package: str) -> set[str]:
    """The folders in the second column of a package's table, without their subfolders."""
    _, _, table = PAGE.partition(f"| folder of `{package}` |")
    rows = table.partition("\n\n")[0].split("\n")[2:]
    return {name for row in rows for name in re.findall(r"`(\w+)[/\w]*`", row.split("|")[2])}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_page_names_the_folders_of_a_package(package: str) -> None:
    folders = {path.parent.name for path in PACKAGES[package].glob("*/__init__.py")}
    assert folders
    assert {name for name in folders if not name.startswith("_")} == _named(package)
