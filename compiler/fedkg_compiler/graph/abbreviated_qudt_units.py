"""The names of QUDT's units, as people shorten them: ``unit:KPA`` is meant as ``unit:KiloPA``."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PREFIXES = {
    "Giga": "G", "Mega": "M", "Kilo": "K", "Hecto": "H", "Deci": "D",
    "Centi": "C", "Milli": "M", "Micro": "U", "Nano": "N",
}  # fmt: skip
_PREFIX = re.compile(rf"({'|'.join(_PREFIXES)})(?=[A-Z])")


def units_meant(word: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names of units that are `word` but for case and marks once their prefixes are shortened,
    sorted; ``MPA`` has two.
    """
    wanted = _flat(word)
    return tuple(sorted(name for name in names if name != word and wanted == _flat(_short(name))))


def _short(name: str) -> str:
    """``KPA`` for ``KiloPA``, ``KGPERM3`` for ``KiloGM-PER-M3``."""
    return _PREFIX.sub(lambda found: _PREFIXES[found[1]], name).replace("GM", "G")


def _flat(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.replace("/", "PER")).upper()
