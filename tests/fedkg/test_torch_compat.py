"""PyTorch has the private interfaces that fedkg uses, and only one file uses them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
import torch

from fedkg._internal import torch_compat

ROOT = Path(__file__).resolve().parents[2]
USED = re.compile(r"\btorch(\.[a-z]+)*\._[a-zA-Z]")


@pytest.mark.parametrize("name", torch_compat.PRIVATE)
def test_the_interface_exists(name: str) -> None:
    place, _, member = name.rpartition(".")
    module = torch._C if place == "torch._C" else importlib.import_module(place)
    assert hasattr(module, member), (
        f"PyTorch {torch.__version__} has no `{name}`, which fedkg._internal.torch_compat needs: "
        f"{torch_compat.PRIVATE[name]}"
    )


def test_no_other_file_uses_private_interfaces() -> None:
    sources = [*(ROOT / "fedkg").rglob("*.py"), *(ROOT / "compiler").rglob("*.py")]
    found = {
        file.relative_to(ROOT).as_posix()
        for file in sources
        if USED.search(file.read_text(encoding="utf-8"))
    }
    assert found == {"fedkg/_internal/torch_compat.py"}


def test_transforms_and_tracing_are_seen() -> None:
    seen: list[tuple[bool, bool]] = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append((torch_compat.are_transforms_active(), torch_compat.being_traced()))
        return x * 2

    look(torch.ones(2))
    torch.func.vmap(look)(torch.ones(2))
    assert seen == [(False, False), (True, False)]
