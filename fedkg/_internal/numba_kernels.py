"""Loops compiled by Numba at run time, for work that tensor operations can do only in many passes over memory.

Import modules with kernels where they are first needed: Numba takes half a second to load, and each kernel is compiled once per machine
and kept on disk (`kept_in`). Kernels see NumPy arrays; what they compute is the same for any number of threads.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, cast

import numba
from numba.extending import intrinsic as _intrinsic

R = TypeVar("R")

_njit: Any = numba.njit  # its types know fewer options than it does
_config: Any = numba.config  # a module whose names are made when it is imported

STALE_AFTER_SECONDS = 24 * 60 * 60
"""Seconds after which kernels of other sources are thrown away: until then a program that has loaded these may still be at work."""

_SETTING = Lock()


def kernel(function: Callable[..., R]) -> Callable[..., R]:
    """The function as a compiled loop: no interpreter lock, divisions as IEEE 754 has them, no reordering of sums."""
    folder = cache_folder(Path(function.__code__.co_filename).resolve().parent)
    with _SETTING:  # where Numba keeps a kernel it decides when the kernel is declared
        own = _config.CACHE_DIR
        try:
            _config.CACHE_DIR = own if folder is None else str(folder)
            return _compiled(function, cache=folder is not None, no_cfunc_wrapper=True)
        finally:
            _config.CACHE_DIR = own


def kernel_part(function: Callable[..., R]) -> Callable[..., R]:
    """A part of kernels that only kernels call: without what calls from Python need, which takes long to compile."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def instruction(typed: Callable[..., Any]) -> Any:
    """What kernels call by the name of a function that says its types and writes its code, for what Numba has no name for."""
    return _intrinsic(typed)


def _compiled(function: Callable[..., R], **options: bool) -> Callable[..., R]:
    return cast("Callable[..., R]", _njit(nogil=True, error_model="numpy", **options)(function))


@cache
def cache_folder(package: Path) -> Path | None:
    """Where the kernels of a folder of sources are kept; None where nothing can be written, and they are compiled in each process.

    It is `$NUMBA_CACHE_DIR`, or else `$XDG_CACHE_HOME/fedkg/kernels` (by default `~/.cache/fedkg/kernels`), and in it a folder named by all
    these sources, this file and the versions of Numba and Python: Numba itself looks at the file of a kernel alone, not at what it calls.
    """
    try:
        state = hashlib.sha256(f"{numba.__version__} {sys.version}".encode())
        for source in (*sorted(package.glob("*.py")), Path(__file__)):
            text = source.read_bytes()
            state.update(f"{source.name} {len(text)} ".encode() + text)
        origin = hashlib.sha256(str(package).encode("utf-8", "surrogatepass")).hexdigest()[:12]
        folder = _base() / f"{package.name}-{origin}" / state.hexdigest()[:16]
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError):
        return None
    if is_new:
        _forget_others(folder)
    return folder


def _base() -> Path:
    """Where kernels are kept. Raises RuntimeError without a home."""
    if _config.CACHE_DIR:
        return Path(_config.CACHE_DIR)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fedkg" / "kernels"


def _forget_others(folder: Path) -> None:
    """Throw away what was kept for other sources in place of these, once it is unused for long enough."""
    for other in folder.parent.iterdir():
        try:
            if (
                other != folder
                and time.time() - max(part.stat().st_mtime for part in (other, *other.rglob("*")))
                > STALE_AFTER_SECONDS
            ):
                shutil.rmtree(other, ignore_errors=True)
        except OSError:
            continue  # another process does the same
