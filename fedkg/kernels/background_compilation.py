"""Compilation in a background process, so that a command computes while its code is compiled.

- Loops of local training, recurrent cells and formulas differ from tensor operations in the last
  bits. Their users decide without looking at the cache from which call on they use them:
  `compile_ahead` starts the compilation before, and that call waits for it.
- The kernels that count satisfied rules compute integers, equal to those of tensor operations:
  these serve until `is_compiled` says that the kernels are in the cache.

`python -m fedkg.kernels.background_compilation NAME ...` is the background process. It writes
nothing but cache files, ends after `LONGEST` seconds at most, and may fail: its users then compile
the code themselves.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedkg.kernels.compile_lock import is_locked, only_one
from fedkg.kernels.compiled_loop_policy import can_compile_loops, checks_bounds

Function = Callable[..., Any]

LOOPS = {
    "perceptron": "fedkg.kernels.training.local_steps",
    "convolutional": "fedkg.kernels.training.local_steps",
    "cells": "fedkg.kernels.training.cell_kernels",
    "formulas": "fedkg.kernels.formulas.bank_execution",
    "formulas-float64": "fedkg.kernels.formulas.bank_execution",
}
"""Modules with the entries of a library of loops, which is in float32 unless its name says more."""

SCORING = {"scoring-float32": "float32", "scoring-float64": "float64"}
"""Kernels that count satisfied rules, by precision of the numbers."""

LONGEST = 60.0
"""Seconds after which a background process ends, finished or not."""

UNHURRIED = 19
"""Niceness of a process that nobody waits for."""

_started: dict[str, subprocess.Popen[bytes]] = {}
_compiled: set[str] = set()


def compile_ahead(names: Sequence[str]) -> None:
    """Start the compilation of those of these libraries of loops that the cache lacks, side by side
    on all processors: this process is soon going to wait for them.
    """
    if not can_compile_loops() or checks_bounds():  # checked code is not cached
        return
    from fedkg.kernels.loop_library import cache_path

    missing = []
    for name in names:
        entries, single, without = _parts(name)
        place = cache_path(entries, single, without)
        if place is not None and not place.exists() and not is_locked(place):
            missing.append(name)
    processes = os.cpu_count() or 1
    for first in range(min(processes, len(missing))):
        _start(missing[first::processes])


def is_compiled(name: str) -> bool:
    """Whether the kernels of this name are in the cache; else their compilation has started.

    True also where they are never going to be: with bounds checks, without a writable cache, or
    after an error.
    """
    if name in _compiled or checks_bounds():
        return True
    marker = _marker(name)
    process = _started.get(name)
    if marker is None or marker.exists():
        _compiled.add(name)
        return True
    if is_locked(marker) or (process is not None and process.poll() is None):
        return False
    if process is None and _start([name]):
        return False
    _compiled.add(name)  # there, or to be compiled by the first call
    return True


def _parts(name: str) -> tuple[Sequence[Function], bool, Sequence[Function]]:
    """The entries of a library, whether it is in float32, and the functions that it leaves out."""
    module = import_module(LOOPS[name])
    without = module.CONVOLUTIONS if name == "perceptron" else ()
    return module.ENTRIES, not name.endswith("float64"), without


def _start(names: Sequence[str]) -> bool:
    """Start a background process; False if the system does not let it start."""
    if not sys.executable or getattr(sys, "frozen", False):
        return False
    flags = 0
    if sys.platform == "win32":
        flags = subprocess.CREATE_NO_WINDOW | subprocess.BELOW_NORMAL_PRIORITY_CLASS
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fedkg.kernels.background_compilation", *names],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
            start_new_session=True,  # Ctrl-C is meant for the command
            creationflags=flags,
        )
    except (OSError, ValueError):
        return False
    _started.update(dict.fromkeys(names, process))
    atexit.register(_detach, process)
    return True


def _detach(process: subprocess.Popen[bytes]) -> None:
    """Leave the process alone when this one ends: it finishes its file. Python would warn."""
    if process.poll() is None:
        process.returncode = 0


@cache
def _marker(name: str) -> Path | None:
    """The file that says that the kernels of a name are in Numba's cache; None if it cannot be
    written.

    Its name depends on all that Numba's cache depends on.
    """
    from fedkg.kernels.loop_library import cpu

    kernels = Path(__file__).parent
    state = hashlib.sha256(
        repr(
            (name, version("numba"), sys.version, cpu(), os.environ.get("NUMBA_CACHE_DIR"))
        ).encode()
    )
    try:
        for source in (
            *sorted((kernels / "scoring").glob("*.py")),
            kernels / "kernel_compilation.py",
        ):
            state.update(str(source).encode("utf-8", "surrogatepass") + source.read_bytes())
        base = os.environ.get("XDG_CACHE_HOME")
        folder = (Path(base) if base else Path.home() / ".cache") / "fedkg" / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            return None
    except (OSError, RuntimeError):
        return None
    return folder / f"{state.hexdigest()[:32]}.compiled"


def _compile(name: str) -> None:
    """Compile what has this name into the cache, unless it is there."""
    if name in LOOPS:
        from fedkg.kernels.loop_library import Library

        entries, single, without = _parts(name)
        Library(entries, single=single, without=without)
        return
    marker = _marker(name)
    if marker is None:
        return
    with only_one(marker, lambda: None):
        if not marker.exists():
            from fedkg.kernels.scoring.bit_program_kernels import compile_kernels

            compile_kernels(SCORING[name])
            marker.touch()


def main(names: Sequence[str]) -> None:
    """Compile everything with these names, for a limited time, with a low priority if nobody waits
    for it: a process that somebody waits for would come last on a machine with other work.
    """
    timer = threading.Timer(LONGEST, os._exit, args=(1,))
    timer.daemon = True
    timer.start()
    if sys.platform != "win32" and all(name in SCORING for name in names):
        with suppress(OSError):
            os.nice(UNHURRIED)
    for name in names:
        _compile(name)


if __name__ == "__main__":
    main(sys.argv[1:])
