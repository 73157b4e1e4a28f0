"""A lock between processes, so that only one of them compiles what all of them need."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

LONGEST_WAIT = 120.0
"""Seconds after which a process compiles the code itself: several times what a compilation takes,
for a machine under load."""

POLL = 0.02
"""Seconds between two attempts."""


@contextmanager
def only_one(target: Path | None, on_wait: Callable[[], None]) -> Iterator[None]:
    """Run the body while no other process runs one for the same file; `on_wait` is called once if
    another one does.

    The system releases the lock of a process that dies. Without write access or locks, and after
    `LONGEST_WAIT`, the body runs at once.
    """
    lock = None if target is None else _lock_of(target)
    file = None
    if lock is not None:
        with suppress(OSError):
            file = lock.open("ab")
    try:
        if file is not None and not _acquire(file):
            on_wait()
            until = time.monotonic() + LONGEST_WAIT
            while not _acquire(file) and time.monotonic() < until:
                time.sleep(POLL)
        yield
    finally:
        if lock is not None and file is not None:
            with suppress(OSError):  # who still waits for it finds the compiled file
                lock.unlink(missing_ok=True)
            file.close()


def is_locked(target: Path) -> bool:
    """Whether another process compiles this file."""
    try:
        with _lock_of(target).open("rb+") as file:
            return not _acquire(file)
    except OSError:
        return False


def _lock_of(target: Path) -> Path:
    return target.with_suffix(".lock")


def _acquire(file: IO[bytes]) -> bool:
    """Acquire the lock; False if another process has it, True on a file system without locks."""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            # not `flock`: a forked process would inherit that lock
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True
    return True
