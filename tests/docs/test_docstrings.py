"""The examples in docstrings are run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _modules() -> list[str]:
    """The modules with an example in a docstring."""
    files = [
        (root, path)
        for root in (ROOT, ROOT / "compiler")
        for path in sorted(root.glob("fedkg*/**/*.py"))
    ]
    shown = [(root, path) for root, path in files if ">>> " in path.read_text(encoding="utf-8")]
    return [
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for root, path in shown
    ]


@pytest.mark.parametrize("name", _modules())
def test_examples_in_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0
