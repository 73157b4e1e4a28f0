"""What differs between two jobs, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SHOWN = 20


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Lines ``field: old -> new``, in field order; at most `SHOWN` and a line that counts the rest. `Any`: JSON."""
    old, new = flat(before), flat(after)
    lines = [
        f"{field}: {_said(old, field)} -> {_said(new, field)}"
        for field in dict.fromkeys([*old, *new])
        if old.get(field) != new.get(field) or (field in old) != (field in new)
    ]
    return (
        lines if len(lines) <= SHOWN else [*lines[:SHOWN], f"and {len(lines) - SHOWN} more fields"]
    )


def flat(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested mapping with dotted fields; an empty mapping stays a value. `Any`: JSON."""
    found: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _said(fields: Mapping[str, Any], field: str) -> str:
    if field not in fields:
        return "(not there)"
    text = repr(fields[field])
    return text if len(text) <= 80 else text[:77] + "..."
