"""Loops compiled by Numba, for work that tensor operations can do only in many passes over memory.

Import modules with kernels where they are first needed: Numba takes half a second to load. Each
kernel is compiled once per machine and cached on disk (`cache_folder`). Kernels work on NumPy
arrays; their results do not depend on the number of threads.
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
from numba.core import cgutils
from numba.extending import intrinsic as _intrinsic

from fedkg.kernels.compiled_loop_policy import checks_bounds

R = TypeVar("R")

_njit: Any = numba.njit  # `Any`: Numba's type stubs lack some options
_config: Any = numba.config  # `Any`: Numba creates the attributes of this module at import

STALE_AFTER_SECONDS = 24 * 60 * 60
"""Age at which cached kernels of other sources are deleted; a running program may still use younger
ones.
"""

_SETTING = Lock()


def kernel(function: Callable[..., R]) -> Callable[..., R]:
    """Compile a function to a loop without the interpreter lock, with IEEE 754 division and ordered
    sums.
    """
    folder = cache_folder(Path(function.__code__.co_filename).resolve().parent)
    with _SETTING:  # Numba fixes a kernel's cache folder at declaration
        own = _config.CACHE_DIR
        try:
            _config.CACHE_DIR = own if folder is None else str(folder)
            return _compiled(function, cache=folder is not None, no_cfunc_wrapper=True)
        finally:
            _config.CACHE_DIR = own


def kernel_part(function: Callable[..., R]) -> Callable[..., R]:
    """Compile a function that only kernels call; it has no slow-to-compile entry point for
    Python."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def instruction(typed: Callable[..., Any]) -> Any:
    """Declare an instruction for kernels that Numba has no name for: the function types it and
    writes its code.
    """
    return _intrinsic(typed)


def check_index(context: Any, builder: Any, index: Any, size: Any) -> None:
    """In an instruction, raise IndexError for an index below 0 or not below the size, if the kernel
    has bounds checks.
    """
    if context.enable_boundscheck:
        cgutils.do_boundscheck(context, builder, index, size)


def _compiled(function: Callable[..., R], **options: bool) -> Callable[..., R]:
    options |= {"nogil": True, "boundscheck": checks_bounds()}
    return cast("Callable[..., R]", _njit(error_model="numpy", **options)(function))


@cache
def cache_folder(package: Path) -> Path | None:
    """Return the folder with the cached kernels of a package; None if it cannot be written.

    Without a folder, each process compiles its kernels. The folder is below `$NUMBA_CACHE_DIR`, or
    else `$XDG_CACHE_HOME/fedkg/kernels` (default `~/.cache/fedkg/kernels`). Its name depends on all
    sources of the package, on this file, on the versions of Numba and Python and on bounds checks,
    because Numba itself checks only the file of a kernel, not the functions that it calls.
    """
    try:
        state = hashlib.sha256(f"{numba.__version__} {sys.version} {checks_bounds()}".encode())
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
    """Return the root of all kernel caches. Raises RuntimeError without a home directory."""
    if _config.CACHE_DIR:
        return Path(_config.CACHE_DIR)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fedkg" / "kernels"


def _forget_others(folder: Path) -> None:
    """Delete the caches of other sources of the same package that nobody has used for a while."""
    for other in folder.parent.iterdir():
        try:
            if (
                other != folder
                and time.time() - max(part.stat().st_mtime for part in (other, *other.rglob("*")))
                > STALE_AFTER_SECONDS
            ):
                shutil.rmtree(other, ignore_errors=True)
        except OSError:
            continue  # another process deletes it at the same time
