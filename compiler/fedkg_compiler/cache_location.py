"""Where caches are kept, and the stamp that tells this compiler from any other."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path


def cache_folder() -> Path:
    """Where compilations are kept: `$XDG_CACHE_HOME/fedkg/packs`, by default
    `~/.cache/fedkg/packs`.

    Raises RuntimeError without a home.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fedkg" / "packs"


def compiler_stamp() -> str:
    """What tells this compiler from any other: size and time of every one of its source files, and
    when a library was last installed.
    """
    found = find_spec("fedkg"), find_spec("pydantic")
    runtime, library = (
        Path(spec.origin).resolve().parent
        for spec in found
        if spec is not None and spec.origin is not None
    )
    states = sorted(
        state for root in (Path(__file__).resolve().parent, runtime) for state in _states(str(root))
    )
    return hashlib.sha256(
        json.dumps([library.parent.stat().st_mtime_ns, sys.version, states]).encode()
    ).hexdigest()


def _states(folder: str) -> Iterator[tuple[str, int, int]]:
    """Path, size and time of every source file below a folder."""
    with os.scandir(folder) as found:
        for item in found:
            if item.name.endswith((".py", ".lark")):
                state = item.stat()
                yield item.path, state.st_size, state.st_mtime_ns
            elif item.is_dir() and item.name != "__pycache__":
                yield from _states(item.path)
