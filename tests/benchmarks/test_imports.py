"""Every benchmark can import what it takes from this repository, whatever peers are installed."""

from __future__ import annotations

import ast
import importlib
import sys
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


def exists(name: str, member: str) -> bool:
    """Whether a module has this member or submodule; True if it needs a peer that is missing."""
    try:
        return hasattr(importlib.import_module(name), member) or bool(
            importlib.import_module(f"{name}.{member}")
        )
    except ModuleNotFoundError as error:
        return str(error.name).split(".")[0] not in OURS


@pytest.mark.parametrize("file", sorted(BENCHMARKS.glob("*.py")), ids=lambda file: file.stem)
def test_imports_from_the_repository_exist(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    missing = [f"{name}.{member}" for name, member in taken(file) if not exists(name, member)]
    assert missing == []


PEERS = {"flwr", "fedjax", "jax", "numpy", "pfl", "torch"}
"""Packages of the contenders, each in an environment of its own."""


@pytest.mark.parametrize(
    "file", sorted((BENCHMARKS / "peers" / "federated").glob("*.py")), ids=lambda file: file.stem
)
def test_contenders_import_their_neighbours_or_their_packages(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    neighbours = {other.stem for other in file.parent.glob("*.py")}
    assert names - neighbours - PEERS - set(sys.stdlib_module_names) == set()
