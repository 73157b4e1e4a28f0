"""Contenders of a benchmark, each in a separate process.

A contender runs a round when it is asked to through a pipe in its folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

STARTED_S = 900.0
"""Seconds that a contender may take to be ready."""


def find_environments(
    requirements: Path, names: Sequence[str], folder: Path | None
) -> tuple[dict[str, Path], dict[str, str]]:
    """The Python of each peer that cannot share our environment, and why others have none.

    Missing environments are made from `requirements-NAME.txt`.

    Returns:
        The interpreters by name, and the reasons "not run: ..." by name.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    base = folder or cache / "fedkg" / "benchmarks"
    found, reasons = {}, {}
    for name in names:
        home = base / name
        python, unfinished = home / "bin" / "python", home / "unfinished"
        if not python.exists() or unfinished.exists():
            print(f"making the environment of {name}", file=sys.stderr)
            listed = requirements / f"requirements-{name}.txt"
            try:
                subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
                unfinished.touch()
                install = [str(python), "-m", "pip", "install", "-qq", "-r", str(listed)]
                subprocess.run(install, check=True)
                unfinished.unlink()
            except (OSError, subprocess.CalledProcessError):
                shutil.rmtree(home, ignore_errors=True)
                reasons[name] = f"not run: needs the packages of {listed.name}"
                continue
        found[name] = python
    return found, reasons


class Contender:
    """A process that does a round when it is asked."""

    def __init__(self, command: list[str], folder: Path) -> None:
        for name in ("told", "asked"):
            (folder / name).unlink(missing_ok=True)
            os.mkfifo(folder / name)
        surroundings = os.environ | {
            "OMP_NUM_THREADS": "1",
            "FLWR_HOME": str(folder),
            "RAY_DEDUP_LOGS": "0",
        }
        self._log = (folder / "log").open("w+")
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=subprocess.STDOUT, env=surroundings, cwd=folder
        )
        self._told = os.open(folder / "told", os.O_RDONLY | os.O_NONBLOCK)
        self._asked: IO[str] = os.fdopen(self._opened(folder / "asked"), "w")
        os.set_blocking(self._told, True)

    def ask(self, what: str) -> float:
        """The seconds of the next round, or the loss."""
        self._asked.write(f"{what}\n")
        self._asked.flush()
        line = b""
        while not line.endswith(b"\n"):
            part = os.read(self._told, 64)
            if not part:
                raise RuntimeError(f"a contender ended: {self._log_text()}")
            line += part
        return float(line)

    def end(self) -> None:
        """End it and what it has started."""
        tree = descendants(self._process.pid)
        self._asked.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        for pid in tree:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._told)
        self._log.close()

    def memory(self) -> float:
        """MiB of all its processes now."""
        return sum(share(pid) for pid in descendants(self._process.pid))

    def processor(self) -> float:
        """Seconds of processor time of all its processes so far."""
        return sum(processor(pid) for pid in descendants(self._process.pid))

    def _opened(self, path: Path) -> int:
        """The pipe on which it is asked, as soon as it reads it."""
        end = time.monotonic() + STARTED_S
        while time.monotonic() < end:
            try:
                pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                if self._process.poll() is not None:
                    break
                time.sleep(0.05)
                continue
            os.set_blocking(pipe, True)
            return pipe
        self._process.kill()
        raise RuntimeError(f"a contender did not start: {self._log_text()}")

    def _log_text(self) -> str:
        self._log.seek(0)
        return self._log.read()[-2000:]


def descendants(root: int) -> list[int]:
    """A process and all that come from it."""
    parents: dict[int, list[int]] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(place.name))
    found = [root]
    for pid in found:
        found += parents.get(pid, [])
    return found


def share(pid: int) -> float:
    """MiB that a process uses; 0 after it has ended.

    Shared pages are divided among the processes that share them.
    """
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def processor(pid: int) -> float:
    """Processor seconds of a process, including its children that have ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(part) for part in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    return 0.0


@contextmanager
def watched(contender: Contender) -> Iterator[list[float]]:
    """Inside the block the memory of a contender is noted again and again, in MiB."""
    seen, over = [contender.memory()], threading.Event()

    def look() -> None:
        while not over.wait(0.03):
            seen.append(contender.memory())

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()
