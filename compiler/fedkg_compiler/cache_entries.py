"""Where caches are kept, the stamp that tells this compiler from any other, and cache entries.

An entry is a checksum and a body. A damaged entry counts as missing, and in a folder that cannot be
written nothing is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any


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


def entry_path(folder: str, inputs: Any) -> Path | None:
    """Where the result of some inputs, given as JSON values, is kept by this compiler; None without
    a home.

    Args:
        folder: the folder beside that of compilations.
        inputs: everything that the result depends on.
    """
    try:
        named = json.dumps([compiler_stamp(), inputs])
        digest = hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()
        return cache_folder().parent / folder / digest[:32]
    except (OSError, RuntimeError):
        return None


def read_entry(entry: Path) -> bytes | None:
    """The body of an entry; None without an undamaged one."""
    try:
        content = entry.read_bytes()
    except OSError:
        return None
    end = content.find(b"\n")
    body = content[end + 1 :]
    if hashlib.sha256(body).hexdigest().encode() != content[: max(end, 0)]:
        return None
    with suppress(OSError):
        os.utime(entry)
    return body


def keep_entry(entry: Path, body: bytes, most: int) -> None:
    """Write an entry, whole or not at all, and remove the oldest ones beyond `most`."""
    part = entry.with_name(f".{entry.name}.{os.getpid()}")
    with suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
        part.replace(entry)
        kept = [path for path in entry.parent.iterdir() if not path.name.startswith(".")]
        for old in sorted(kept, key=lambda path: path.stat().st_mtime_ns)[:-most]:
            old.unlink(missing_ok=True)
    with suppress(OSError):
        part.unlink()
