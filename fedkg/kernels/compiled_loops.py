"""Whether fedkg uses compiled loops, and with bounds checks: the only place that decides it."""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib.util import find_spec

from fedkg.errors import UsageError

SETTING = "FEDKG_KERNELS"
"""Environment variable: ``off`` disables all compiled loops, ``on`` (the default) allows them,
``check`` compiles them with bounds checks."""


@cache
def can_compile_loops() -> bool:
    """Return whether to use compiled loops, which need Numba and llvmlite; warn once if one is
    missing.

    Without loops, tensor or NumPy operations compute the same results, up to the order of sums.

    Raises:
        UsageError: the environment variable `FEDKG_KERNELS` is not ``on``, ``off`` or ``check``.
    """
    if _setting() == "off":
        return False
    missing = [name for name in ("numba", "llvmlite") if not _is_installed(name)]
    if missing:
        warnings.warn(
            f"{' and '.join(missing)} not installed: fedkg uses tensor operations instead of "
            f"compiled loops, which is slower; pip install {' '.join(missing)}",
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


def _setting() -> str:
    setting = os.environ.get(SETTING) or "on"
    if setting not in ("on", "off", "check"):
        raise UsageError(
            f"the environment variable `{SETTING}` has an unknown value",
            expected="on, off or check",
            received=setting,
        )
    return setting


def _is_installed(name: str) -> bool:
    try:  # does not import it, which would take long
        return find_spec(name) is not None
    except ImportError:
        return False
