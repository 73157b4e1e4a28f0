"""List the differences between two jobs, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_SHOWN = 20


def list_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Lines ``field: old -> new`` in the order of fields, at most `MAX_SHOWN`. `Any`: JSON.

    A final line counts the others.
    """
    old, new = flatten(before), flatten(after)
    lines = [
        f"{field}: {_format_field(old, field)} -> {_format_field(new, field)}"
        for field in dict.fromkeys([*old, *new])
        if old.get(field) != new.get(field) or (field in old) != (field in new)
    ]
    return (
        lines
        if len(lines) <= MAX_SHOWN
        else [*lines[:MAX_SHOWN], f"and {len(lines) - MAX_SHOWN} more fields"]
    )


def flatten(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested mapping with dotted keys; an empty mapping stays a value. `Any`: JSON."""
    found: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, Mapping) and value:
            found |= flatten(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _format_field(fields: Mapping[str, Any], field: str) -> str:
    if field not in fields:
        return "(missing)"
    text = repr(fields[field])
    return text if len(text) <= 80 else text[:77] + "..."
