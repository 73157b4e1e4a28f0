"""Every benchmark can import what it takes from this repository, whatever peers are installed."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
OURS = ("fedkg", "fedkg_compiler", "peers", "reporting")


def taken(file: Path) -> list[tuple[str, str]]:
    """Module and name of each import from this repository."""
    return [
        (node.module, alias.name)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
        for alias in node.names
        if node.module.split(".")[0] in OURS
    ]


@pytest.mark.parametrize("file", sorted(BENCHMARKS.glob("*.py")), ids=lambda file: file.stem)
def test_imports_from_the_repository_exist(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    for name, member in taken(file):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if str(error.name).split(".")[0] in OURS:
                raise
            continue  # the module needs a peer that is not installed
        if not hasattr(module, member):
            importlib.import_module(f"{name}.{member}")
