"""The parser's table, kept in the user's cache folder: building it takes a third of a second, reading it a few hundredths.

A kept table is named by the hash of everything it depends on, and begins with the hash of its own bytes: one that is stale is never
found, one that is damaged is not used and written anew. Where nothing can be written, it is built each time and nobody hears of it.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

_DIGEST = 32
_NEVER_KEPT = "edit_terminals"  # a function, whose work is in the table already


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/fedkg``, else ``%LOCALAPPDATA%\\fedkg``, else ``~/.cache/fedkg``. Raises RuntimeError where there is no home."""
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        if os.environ.get(name):
            return Path(os.environ[name]) / "fedkg"
    return Path.home() / ".cache" / "fedkg"


def kept(build: Callable[[], Lark], *depends_on: bytes) -> Lark:
    """The parser that `build` makes, from the cache where one was kept that depends on the same.

    Args:
        build: makes the parser. depends_on: what it is made from: the grammar, and the code that changes it.
    """
    key = hashlib.sha256(repr((lark.__version__, sys.version, marshal.version, depends_on)).encode()).hexdigest()
    try:
        path = cache_folder() / f"parser-{key[:32]}"
        found = _read(path)
    except (OSError, RuntimeError):
        return build()
    if found is not None:
        return found
    parser = build()
    _write(path, parser)
    return parser


def _read(path: Path) -> Lark | None:
    """The parser in a file; None where there is none, or it is not whole."""
    try:
        body = path.read_bytes()
    except FileNotFoundError:
        return None
    digest, table = body[:_DIGEST], body[_DIGEST:]
    if hashlib.sha256(table).digest() != digest:
        return None
    try:
        return Lark.load(marshal.loads(table))
    except Exception:  # noqa: BLE001  whatever is wrong with it, a new one is built
        return None


def _write(path: Path, parser: Lark) -> None:
    """Keep a parser, whole or not at all; silent where that cannot be."""
    data: Any
    memo: Any
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    data["options"] = {name: value for name, value in data["options"].items() if name != _NEVER_KEPT}
    table = marshal.dumps({"data": data, "memo": memo})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(table).digest() + table)
        Path(name).replace(path)
    except OSError:
        return
