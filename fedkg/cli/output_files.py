"""Write output files atomically, and check their paths before computing anything."""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Iterable
from pathlib import Path

from fedkg._internal.atomic_file import replace_file
from fedkg.errors import UsageError


def write_atomically(path: Path, text: str) -> None:
    """Replace a file by a text in UTF-8, see `replace_file`."""
    replace_file(path, text.encode("utf-8"))


def check_output_path(
    path: Path, name: str, *, option: str = "-o", inputs: Iterable[str | Path | None] = ()
) -> None:
    """Check that a file can be written at `path`, before computing anything.

    fedkg does not create missing folders, because they are usually misspelt.

    Args:
        name: an example name for the help text.
        option: the option that names the file.
        inputs: files that the command reads, addresses, or None.

    Raises:
        UsageError: `path` is a folder or an input, or its folder is missing, not a folder, or not
            writable.
    """
    folder = path.parent
    if path.is_dir():
        raise UsageError(
            f"{path} is a folder", expected="the name of a file", help=f"{option} {path / name}"
        )
    if not folder.exists():
        raise UsageError(
            f"the folder {folder} for {path.name} does not exist",
            help=f"create it: mkdir -p {shlex.quote(str(folder))}",
        )
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is a file, not a folder for {path.name}",
            help=f"{option} {folder.parent / path.name}",
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"the folder {folder} is not writable",
            help="choose another folder, or change its permissions",
        )
    # Path.exists raises an OSError for a text of rules that is too long for a name.
    if path.exists() and any(
        one and os.access(one, os.F_OK) and path.samefile(one) for one in inputs
    ):
        raise UsageError(
            f"{path} is an input of this command", help=f"choose another name: {option} {name}"
        )


def format_diff(before: str, after: str, name: str) -> str:
    """A unified diff without the final line break."""
    lines = difflib.unified_diff(
        before.splitlines(),
        after.splitlines(),
        f"{name} (as it is)",
        f"{name} (formatted)",
        lineterm="",
    )
    return "\n".join(lines)
