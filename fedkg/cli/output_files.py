"""Writing a file where the user wants it: whole or not at all, and only into a folder that is there."""

from __future__ import annotations

import difflib
import os
import shlex
from pathlib import Path

from fedkg.errors import UsageError


def write_atomically(path: Path, text: str) -> None:
    """Replace a file by a text, in UTF-8, in one step: another program sees the old file or the new one, never half of it.

    A link stays a link, and the file keeps its permissions. Raises OSError, and then the old file stands.
    """
    target = path.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            partial.chmod(target.stat().st_mode & 0o7777)
        partial.replace(target)
    finally:  # a Ctrl-C too leaves no part of a file behind; after the last step there is none
        partial.unlink(missing_ok=True)


def check_output_path(path: Path, name: str) -> None:
    """Before anything is computed: whether a file can be written at `path`; `name` is one that it could have.

    Raises UsageError where a folder stands there, or where the folder around it is missing, is none, or cannot be written into. No
    folder is made: one that is missing is more often misspelt than meant.
    """
    folder = path.parent
    if path.is_dir():
        raise UsageError(
            f"{path} is a folder", expected="the name of a file", help=f"-o {path / name}"
        )
    if not folder.exists():
        raise UsageError(
            f"there is no folder {folder} for {path.name}",
            help=f"make it first: mkdir -p {shlex.quote(str(folder))}",
        )
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is a file, so that {path.name} cannot stand in it",
            help=f"-o {folder.parent / path.name}",
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"the folder {folder} cannot be written into",
            help="choose another folder, or ask for the right to write there",
        )


def format_diff(before: str, after: str, name: str) -> str:
    """What changed, as a unified diff without its last line end."""
    lines = difflib.unified_diff(
        before.splitlines(),
        after.splitlines(),
        f"{name} (as it is)",
        f"{name} (formatted)",
        lineterm="",
    )
    return "\n".join(lines)
