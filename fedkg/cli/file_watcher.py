"""Looking again whenever a file changes, without a library: the times of the files are compared a few times a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

INTERVAL = 0.3
"""Seconds between two looks at the files."""


class ReadFiles(Protocol):
    """What a check has read."""

    files: dict[str, str]

    def unchanged(self) -> bool:
        """Whether everything still has the content that was read."""


def watch_files(
    look: Callable[[], ReadFiles],
    *,
    wait: Callable[[float], None] = time.sleep,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Call `look`, and again after every change of what it has read, until `stopped` says so or Ctrl-C is pressed.

    A file that was touched and has its old content is no change. One that is gone is looked for once more before that counts: editors
    write a new file and put it in the place of the old.
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
    """Whether a pattern such as ``legacy/*.rq`` finds other files than it did."""
    return bool(getattr(read, "listings", None)) and not read.unchanged()
