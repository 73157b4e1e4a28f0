"""Apply `--set a.b=c` to a job file."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedkg.errors import UsageError
from fedkg.jobs.schema.endpoint_recognition import is_address

DOTTED_KEY_SECTIONS = ("compare", "corrupt.compare")
"""Sections with dotted keys: everything after their name is one key."""

PATH_FIELDS = ("data.path", "data.sites_file", "data.server_table", "pack", "rules", "causes")


def canonical_field(field: str) -> str:
    """The field behind an override: `algorithm.name` means `algorithm`."""
    return "algorithm" if field == "algorithm.name" else field


def apply_overrides(
    document: dict[str, Any], overrides: Sequence[str], base: Path
) -> dict[str, Any]:
    """A copy of a job document with fields replaced; values are YAML. `Any`: YAML.

    A field in `compare` gets the new value as its only one. fedkg looks for a path in the current
    folder, then in `base`, the folder of the job.

    Raises:
        UsageError: an override does not have the form ``field=value``, addresses a field inside a
            plain
            value, or names a file that does not exist.
    """
    document = copy.deepcopy(document)
    for text in overrides:
        field, equals, raw = text.partition("=")
        field = canonical_field(field.strip())
        if not equals or not all(field.split(".")):
            raise UsageError(
                f"--set {text}: not of the form field=value", help="--set training.rounds=20"
            )
        value = _resolve_path(field, _parse_value(raw, text), text, base)
        compared = document.get("compare")
        if isinstance(compared, dict) and field in compared:
            compared[field] = [value]
        else:
            _set_field(document, _keys(field), value, text)
    return document


def _parse_value(raw: str, text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(raw) if raw.strip() else None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(
            f"--set {text[:200]}: the value is not YAML",
            received=raw[:200],
            help="quote values with brackets, braces or colons: --set 'field=[a, b]'",
        ) from error


def _keys(field: str) -> list[str]:
    for whole in DOTTED_KEY_SECTIONS:
        if field.startswith(whole + "."):
            return [*whole.split("."), field[len(whole) + 1 :]]
    return field.split(".")


def _set_field(document: dict[str, Any], keys: Sequence[str], value: Any, text: str) -> None:
    place = document
    for i, key in enumerate(keys[:-1]):
        inner = place.get(key)
        if inner is None:
            inner = place[key] = {}
        elif isinstance(inner, list) and key == "sites":
            inner = place[key] = {site: {} for site in inner}
        if not isinstance(inner, dict):
            raise UsageError(
                f"--set {text}: `{'.'.join(keys[: i + 1])}` has no fields",
                received=repr(inner),
                help=f"set the field itself: --set {'.'.join(keys[: i + 1])}=VALUE",
            )
        place = inner
    place[keys[-1]] = value


def _resolve_path(field: str, value: Any, text: str, base: Path) -> Any:
    """A path from the command line made absolute; any other value unchanged."""
    is_path = field in PATH_FIELDS or (field.startswith("sites.") and field.endswith(".table"))
    if isinstance(value, list) and is_path:
        return [_resolve_path(field, entry, text, base) for entry in value]
    if not is_path or not isinstance(value, str) or is_address(value):
        return value
    path = Path(value).expanduser()
    tried = list(dict.fromkeys(str((folder / path).resolve()) for folder in (Path.cwd(), base)))
    found = next((place for place in tried if Path(place).exists()), None)
    if found is None:
        raise UsageError(
            f"--set {text}: the file does not exist",
            received="tried " + " and ".join(tried),
            help="paths are relative to the current folder or to the job file",
        )
    return found
