"""The unit that a table's header tells: ``Torque [Nm]``, ``Pressure (bar)``."""

from __future__ import annotations

import re

from fedkg.units.text import parse_unit
from fedkg.units.unit import Unit

_BRACKETED = re.compile(r"^(.*?)\s*(\[\s*[^\[\]]+?\s*\]|\(\s*[^()\[\]]+?\s*\))$")
BRACKETS = (")", "]")
"""How a header ends that may tell a unit."""
_MINIMUM = "(min)"
"""In round brackets rather the smallest value than the minute."""


def split_header(header: str) -> tuple[str, str]:
    """The header's name and the text in the brackets behind it; "" where there are none."""
    text = header.strip()
    found = _BRACKETED.match(text) if text.endswith(BRACKETS) else None
    return (found[1], found[2][1:-1].strip()) if found else (header, "")


def header_unit(header: str) -> Unit | None:
    """The unit in the brackets behind a header; None where nothing there is surely a unit.

    ``sensor[1]`` counts and ``Temperature (min)`` is the smallest one: neither tells a unit;
    ``Duration [min]`` does.
    """
    if not header.rstrip().endswith((")", "]")):  # most headers
        return None
    _, text = split_header(header)
    if not re.search(r"[^\W\d_]|[%‰°]", text) or header.rstrip().casefold().endswith(_MINIMUM):
        return None
    unit = parse_unit(text)
    return unit if isinstance(unit, Unit) else None
