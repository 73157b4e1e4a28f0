"""Writing a text file in place of another: whole or not at all."""

from __future__ import annotations

import difflib
import os
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Replace a file by a text, in UTF-8, in one step: another program sees the old file or the new one, never half of it.

    A link stays a link, and the file keeps its permissions. Raises OSError, and then the old file stands.
    """
    target = path.resolve()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            Path(name).chmod(target.stat().st_mode & 0o7777)
        Path(name).replace(target)
    except BaseException:  # a Ctrl-C too leaves no part of a file behind
        Path(name).unlink(missing_ok=True)
        raise


def difference(before: str, after: str, name: str) -> str:
    """What changed, as a unified diff without its last line end."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), f"{name} (as it is)", f"{name} (formatted)", lineterm="")
    return "\n".join(lines)
