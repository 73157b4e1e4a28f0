"""Child processes that end when their parent ends, from their first moment on.

A child of `multiprocessing` imports its target before it runs it, and PyTorch takes seconds to
import, more on a busy machine. This module imports nothing heavy, so a child with the target
`run_in_child` watches its parent before it imports the rest.
"""

from __future__ import annotations

import ctypes
import importlib
import multiprocessing
import os
import shutil
import signal
import sys
import threading
from multiprocessing.connection import wait
from pathlib import Path

from fedkg._internal.safe_text import show_warnings_as_notes

PR_SET_PDEATHSIG = 1
"""Number of the `prctl` option (linux/prctl.h) for the signal that the kernel sends when the parent
dies.
"""


def started_by_main_thread() -> bool:
    """Return whether this is the main thread.

    The kernel treats the end of the thread that started a child as the end of the child's parent.
    """
    return threading.current_thread() is threading.main_thread()


def run_in_child(
    function: str, arguments: tuple[object, ...], leftover: Path | None, parent_signal: bool
) -> None:
    """Watch the parent process, then import and call a function; the target of a spawned process.

    Args:
        function: ``module:name``, imported once the parent is watched.
        arguments: positional arguments of the function.
        leftover: a folder of the parent to delete when the parent dies.
        parent_signal: whether the kernel may kill this process with its parent during the imports;
            see `started_by_main_thread`.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None, "run_in_child is what a child process runs"
    threading.Thread(target=_end_with, args=(parent.sentinel, leftover), daemon=True).start()
    if parent_signal:
        set_parent_signal(signal.SIGKILL)
        if os.getppid() != parent.pid:  # the parent died before `prctl` took effect
            os._exit(1)
    module, _, name = function.partition(":")
    called = getattr(importlib.import_module(module), name)
    set_parent_signal(0)  # from here on the thread reacts fast enough, and it deletes `leftover`
    show_warnings_as_notes()
    called(*arguments)


def set_parent_signal(number: int) -> None:
    """Ask Linux for a signal when the parent dies, 0 for none; does nothing on other systems."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def _end_with(sentinel: int, leftover: Path | None) -> None:
    """End this process when the parent dies; `sentinel` is the end of a pipe that closes then."""
    wait([sentinel])
    if leftover is not None:
        shutil.rmtree(leftover, ignore_errors=True)
    os._exit(1)
