"""Child processes that are started again when they end, and end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

STOP_S = 10.0
"""Seconds that a child has to end by itself."""

CHECK_S = 0.5
"""Seconds between two checks whether a child runs."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
"""Seconds before a child is started again; twice as long each time that it ended at once."""

SHORT_LIFE_S = 60.0
"""A child that ran longer is started again after the first pause."""

PARENT = "FEDKG_PARENT"
"""Environment variable with the number of the process that a child belongs to."""

SHOWN_LOG_BYTES = 4096
"""Size of the end of a log in which the cause of an error is searched."""

MOST_LOG_BYTES = 10_000_000
"""Size above which the next start begins a new log; the one before it is kept as `NAME.log.1`."""


class ChildProcess:
    """A Python module that runs as a child process.

    Args:
        module: the module, as in `python -m MODULE`.
        arguments: its arguments, computed anew for each start.
        log: the file that its output is appended to.
        environment: variables added to those of this process.
    """

    def __init__(
        self,
        module: str,
        arguments: Callable[[], Sequence[str]],
        *,
        log: Path,
        environment: Mapping[str, str],
    ) -> None:
        self._module, self._arguments = module, arguments
        self._log, self._environment = log, environment
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        """The number of the process while it runs."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if running and self._process is not None else None

    def start(self) -> None:
        """Start the process, in a session of its own: Ctrl-C reaches the parent only."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        if self._log.exists() and self._log.stat().st_size > MOST_LOG_BYTES:
            self._log.replace(f"{self._log}.1")
        with self._log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, *self._arguments()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._environment, PARENT: str(os.getpid())},
                start_new_session=True,
            )

    def read_log(self) -> str:
        """The end of what the process has written since its last start; "" if its log is gone."""
        with suppress(OSError), self._log.open("rb") as log:
            size = os.fstat(log.fileno()).st_size
            begin = self._log_start if size >= self._log_start else 0  # somebody emptied the file
            log.seek(max(begin, size - SHOWN_LOG_BYTES))
            return log.read().decode(errors="replace")
        return ""

    def stop(self) -> None:
        """End the process and all that it started."""
        if self._process is None:
            return
        for sent in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                self._process.send_signal(sent)
                try:
                    self._process.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    continue
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # whatever it left behind


@contextmanager
def supervise(
    child: ChildProcess,
    on_end: Callable[[str], None],
    on_running: Callable[[str], None] = lambda log: None,
) -> Iterator[None]:
    """Start a child, and start it again whenever it ends; stop it at the end of the block.

    Args:
        child: the child.
        on_end: called with the end of the log each time that the child ended.
        on_running: called with the end of the log again and again while it runs.
    """
    done = threading.Event()

    def tell(receive: Callable[[str], None]) -> None:
        with suppress(Exception):  # a closed terminal, for example, does not end the supervision
            receive(child.read_log())

    def watch() -> None:
        pause, started = FIRST_PAUSE_S, time.monotonic()
        while not done.wait(CHECK_S):
            if child.pid is not None:
                tell(on_running)
                continue
            tell(on_end)
            if time.monotonic() - started > SHORT_LIFE_S:
                pause = FIRST_PAUSE_S
            if done.wait(pause):
                return
            pause, started = min(2 * pause, LONGEST_PAUSE_S), time.monotonic()
            with suppress(OSError):  # a full disk, for example: tried again
                child.start()

    child.start()
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        child.stop()


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that children are stopped."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt  # not an error of fedkg, which a site would answer with

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
