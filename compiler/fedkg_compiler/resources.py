"""Finds the data that ships with the compiler: `ontologies/` and `rules/`, in a checkout and in an
installed wheel.
"""

from __future__ import annotations

from pathlib import Path

from fedkg.errors import FedkgError

_PACKAGE = Path(__file__).resolve().parent
_PLACES = (_PACKAGE / "_data", _PACKAGE.parent.parent)
"""Inside the wheel, then the root of an editable checkout."""

LIBRARY = "rules"
"""The folder with the rule library, and how its files are called in diagnostics."""


def data_folder(name: str) -> Path:
    """Return the folder `name` (``"ontologies"`` or ``"rules"``) of this installation.

    Raises:
        FedkgError: where neither place has it; then the installation is damaged.
    """
    for place in _PLACES:
        if (place / name).is_dir():
            return place / name
    raise FedkgError(
        f"the folder {name}/ that belongs to fedkg is missing",
        expected=" or ".join(str(place / name) for place in _PLACES),
        help="install fedkg again",
    )


def library_path(path: Path) -> Path | None:
    """Where a file lies that diagnostics call ``rules/isa95/capacity.fkg``; None for every other
    file.
    """
    if path.parts[:1] != (LIBRARY,) or path.exists():
        return None
    inside = data_folder(LIBRARY).joinpath(*path.parts[1:])
    return inside if inside.is_file() else None
