"""Files that are replaced in one step: other programs see the old content or the new one."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, body: bytes, *, mode: int | None = None) -> None:
    """Write a file beside its target, flush it to the disk, and rename it; links stay links.

    Args:
        path: the file; its folder exists.
        body: the content.
        mode: permissions, from the first moment on. None: those of the old file, or the usual ones
            of a new file.

    Raises OSError: the file cannot be written; the old one is unchanged.
    """
    target = path.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    first = 0o666 if mode is None else mode
    try:
        with open(partial, "wb", opener=lambda name, flags: os.open(name, flags, first)) as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        if mode is None and target.exists():
            partial.chmod(target.stat().st_mode & 0o7777)
        partial.replace(target)
    finally:  # also after Ctrl-C; without effect after the rename
        partial.unlink(missing_ok=True)
