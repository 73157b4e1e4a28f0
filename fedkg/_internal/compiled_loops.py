"""Whether loops can be compiled: with Numba and llvmlite, which a minimal environment may lack."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.util import find_spec


@cache
def can_compile_loops() -> bool:
    """Whether Numba and llvmlite are installed; warns once where they are not.

    Constraint modules and projections then use tensor operations: the same results, more slowly.
    """
    missing = [name for name in ("numba", "llvmlite") if not _is_installed(name)]
    if missing:
        warnings.warn(
            f"{' and '.join(missing)} not installed: fedkg uses tensor operations instead of "
            f"compiled loops, which is slower; pip install {' '.join(missing)}",
            stacklevel=2,
        )
    return not missing


def _is_installed(name: str) -> bool:
    try:  # without importing it, which takes long
        return find_spec(name) is not None
    except ImportError:
        return False
