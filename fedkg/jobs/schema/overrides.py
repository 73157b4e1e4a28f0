"""`--set a.b=c`: one field of a job file replaced on the command line."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedkg.errors import UsageError
from fedkg.jobs.schema.addresses import is_address

DOTTED_KEY_SECTIONS = ("compare", "corrupt.compare")
"""Fields whose own keys are dotted: what follows them is one key."""

PATH_FIELDS = ("data.path", "pack", "rules")


def canonical_field(field: str) -> str:
    """The field that is meant: an algorithm's name stands where its section would."""
    return "algorithm" if field == "algorithm.name" else field


def apply_overrides(
    document: dict[str, Any], overrides: Sequence[str], base: Path
) -> dict[str, Any]:
    """A copy of a job document with fields replaced; values are read as YAML.

    A field that `compare` varies is narrowed to the one value. A path is looked for in the current folder, then in `base`, that of the job.
    `Any`: YAML.

    Raises:
        UsageError: when an override has not the form ``field=value``, goes through something that is not a section, or names a file that
            is in neither place.
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
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(
            f"--set {text}: the value is not YAML",
            received=raw,
            help="quote what has brackets, braces or colons in it: --set 'field=[a, b]'",
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
                f"--set {text}: `{'.'.join(keys[: i + 1])}` has no fields of its own",
                received=repr(inner),
                help="set the field itself",
            )
        place = inner
    place[keys[-1]] = value


def _resolve_path(field: str, value: Any, text: str, base: Path) -> Any:
    """A path given on the command line, absolute; anything else, the address of an endpoint too, as it is."""
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
            f"--set {text}: there is no such file",
            received="tried " + " and ".join(tried),
            help="a path is looked for in the folder you stand in, then beside the job file",
        )
    return found
