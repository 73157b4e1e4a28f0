"""Check for Numba and llvmlite, which compile loops; a minimal environment may lack them."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.util import find_spec


@cache
def can_compile_loops() -> bool:
    """Return whether Numba and llvmlite are installed; warn once if they are not.

    Without them, constraint modules and projections use tensor operations: the same results, more
    slowly.
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
    try:  # does not import it, which would take long
        return find_spec(name) is not None
    except ImportError:
        return False
