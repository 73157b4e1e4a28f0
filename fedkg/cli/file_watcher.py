"""Repeat an action whenever a file changes, by comparing file times several times a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

INTERVAL = 0.3
"""Seconds between comparisons."""


class ReadFiles(Protocol):
    """The files that a check has read."""

    files: dict[str, str]

    def unchanged(self) -> bool:
        """Whether all files still have the content that was read."""


def watch_files(
    look: Callable[[], ReadFiles],
    *,
    wait: Callable[[float], None] = time.sleep,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Call `look`, and again after every change of the files that it read.

    It ends when `stopped` returns true or on Ctrl-C. A touched file with unchanged content does not
    count. A missing file is checked twice, because editors replace files.
    """
    try:
        while not stopped():
            read = look()
            times = _times(read)
            while read.unchanged():
                wait(INTERVAL)
                if stopped():
                    return
                while times == _times(read) and not _new_files(read):
                    wait(INTERVAL)
                    if stopped():
                        return
                times = _times(read)
                if None in times.values():
                    wait(INTERVAL)
                    times = _times(read)
    except KeyboardInterrupt:
        return


def _times(read: ReadFiles) -> dict[str, tuple[int, int] | None]:
    return {path: _time(path) for path in read.files}


def _time(path: str) -> tuple[int, int] | None:
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


def _new_files(read: ReadFiles) -> bool:
    """Whether a pattern such as ``legacy/*.rq`` matches other files than before."""
    return bool(getattr(read, "listings", None)) and not read.unchanged()
