"""Whether fedkg uses compiled loops, from when on, and with bounds checks: the only place that
decides it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec

from fedkg.errors import UsageError

SETTING = "FEDKG_KERNELS"
"""Environment variable: ``auto`` (the default) uses compiled loops where a computation is long
enough for them, ``on`` uses them from the first call, ``off`` never, and ``check`` from the first
call with bounds checks."""

SETTINGS = ("auto", "on", "off", "check")

WORTH_SECONDS = 1.0
"""Tensor operations that take this long in all are worth loading compiled loops, which takes up to
a second even if they are compiled already."""

_in_round: ContextVar[bool | None] = ContextVar("fedkg_loops_in_round", default=None)


@cache
def can_compile_loops() -> bool:
    """Return whether compiled loops are available; warn once if Numba or llvmlite is missing.

    Without loops, tensor or NumPy operations compute the same results, up to the order of sums.

    Raises:
        UsageError: the environment variable `FEDKG_KERNELS` has an unknown value.
    """
    if _setting() == "off":
        return False
    missing = [name for name in ("numba", "llvmlite") if not _is_installed(name)]
    if missing:
        warnings.warn(
            f"not installed: {', '.join(missing)}; fedkg uses tensor operations "
            "instead of compiled loops, which is slower; to install: pip install "
            f"{' '.join(missing)}",
            stacklevel=2,
        )
    return not missing


@cache
def checks_bounds() -> bool:
    """Return whether compiled loops raise IndexError for accesses outside arrays.

    Raises:
        UsageError: as for `can_compile_loops`.
    """
    return _setting() == "check"


@cache
def waits_for_loops() -> bool:
    """Return whether the first call already uses compiled loops, so that it may have to wait for
    their compilation (``on`` and ``check``).

    Raises:
        UsageError: as for `can_compile_loops`.
    """
    return _setting() in ("on", "check") and can_compile_loops()


@contextmanager
def loops_in_round(use: bool) -> Iterator[None]:
    """State for the computations of a round of training whether they use compiled loops."""
    token = _in_round.set(use)
    try:
        yield
    finally:
        _in_round.reset(token)


def round_uses_loops() -> bool | None:
    """Return what `loops_in_round` states; None outside rounds of training."""
    return _in_round.get()


def uses_loops() -> bool:
    """Return whether models and training steps use compiled loops now.

    Loops and tensor operations differ in the last bits. The answer therefore never depends on
    whether the loops happen to be compiled.
    """
    return can_compile_loops() and (waits_for_loops() or bool(round_uses_loops()))


def _setting() -> str:
    setting = os.environ.get(SETTING) or "auto"
    if setting not in SETTINGS:
        raise UsageError(
            f"the environment variable `{SETTING}` has an unknown value",
            expected=f"{', '.join(SETTINGS[:-1])} or {SETTINGS[-1]}",
            received=setting,
            help="correct the variable, or remove it",
        )
    return setting


def _is_installed(name: str) -> bool:
    try:  # does not import it, which would take long
        return find_spec(name) is not None
    except ImportError:
        return False
