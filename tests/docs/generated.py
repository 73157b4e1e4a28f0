"""Generate reference pages from the code: `python tests/docs/generated.py` writes them.

A test compares the pages in the repository with the generated ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def job_page() -> str:
    """The fields of the job file, section by section."""
    from fedkg.jobs.schema.job import Job

    parts = [
        "# Job file\n",
        (
            "A job file is a YAML file that describes what `fedkg run` trains. fedkg checks the"
            " whole file"
        ),
        (
            "before it loads anything; an unknown field is an error. [Federated"
            " training](../how-to/federated-training.md)"
        ),
        (
            "has examples. `--set a.b=value` changes a field. Paths are relative to the folder of"
            " the file."
        ),
        (
            "fedkg looks for a path given with `--set` in the current folder first, then in that of"
            " the job.\n"
        ),
    ]
    seen: set[type[BaseModel]] = set()
    waiting: list[tuple[str, type[BaseModel]]] = [("", Job)]
    while waiting:
        name, model = waiting.pop(0)
        if model in seen:
            continue
        seen.add(model)
        parts += [
            f"## `{name}`\n" if name else "## Top level\n",
            f"{(model.__doc__ or '').strip().splitlines()[0]}\n",
        ]
        parts += ["| field | default | meaning |", "|---|---|---|"]
        for field, info in model.model_fields.items():
            waiting += [(f"{name}.{field}".strip("."), inner) for inner in _models(info.annotation)]
            described = info.description or f"see `{f'{name}.{field}'.strip('.')}` below"
            parts.append(
                f"| `{field}` | {_default(info.default, info.default_factory)} | {described} |"
            )
        parts.append("")
    return "\n".join(parts)


def sites_tables() -> str:
    """The fields of the sites file, section by section; the end of its page."""
    from fedkg.sites.schema import Column, Datatype, DialectSection, Settings, Site, TableSchema

    parts: list[str] = []
    for name, model in (
        ("sites.NAME", Site),
        ("dialect", DialectSection),
        ("tableSchema", TableSchema),
        ("tableSchema.columns", Column),
        ("datatype", Datatype),
        ("settings", Settings),
    ):
        parts += [f"### `{name}`\n", f"{(model.__doc__ or '').strip().splitlines()[0]}\n"]
        parts += ["| field | default | meaning |", "|---|---|---|"]
        for field, info in model.model_fields.items():
            if not (info.alias or "").startswith("@"):
                default = _default(info.default, info.default_factory)
                parts.append(
                    f"| `{info.alias or field}` | {default} | {info.description or ''} |".replace(
                        "open|closed", "open\\|closed"
                    )
                )
        parts.append("")
    return "\n".join(parts)


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The sections inside a field's type. `Any`: a type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _default(value: Any, factory: Any) -> str:
    """A default as YAML would write it. `Any`: whatever the schema holds."""
    if value is PydanticUndefined:
        return "" if factory is not None else "needed"
    if value is None or value in ((), ""):
        return ""
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{value}`"


def codes_page() -> str:
    """Every diagnostic code with its page."""
    from fedkg_compiler.diagnostics import CODES

    parts = [
        "# Diagnostic codes\n",
        (
            "Every diagnostic of the compiler has one of these codes. A code never changes its"
            " meaning."
        ),
        "`fedkg explain CODE` prints the same page.\n",
    ]
    for code in sorted(CODES):
        parts += [f"## {code}: {CODES[code].title}\n", CODES[code].page]
    return "\n".join(parts)


def units_page() -> str:
    """The units that rules can use after `in`, by dimension."""
    from fedkg.units.unit_table import AFFINE, ALIASES, ATOMS, DOUBTFUL, PREFIXED

    groups: dict[str, list[str]] = {}
    for atom, (_, _, dimension) in ATOMS.items():
        if atom != "1":
            groups.setdefault(_dimension(dimension), []).append(atom)
    for atom, (_, _, dimension, _) in AFFINE.items():
        groups.setdefault(_dimension(dimension), []).append(atom)
    parts = [
        "# Units\n",
        (
            "A unit is one word: `N.m`, `kg/h`, `m^3/h`, `1/min`, `°C`, `%`. Join units with `.` or"
            " `/`; with"
        ),
        (
            "spaces around it, `/` divides values. Units of one row of this table convert into each"
            " other by"
        ),
        "exact factors: 600 mbar equals 0.6 bar to the last bit.\n",
        "| measures | written |",
        "|---|---|",
        *(
            f"| {dimension} | {' '.join(f'`{atom}`' for atom in atoms)} |"
            for dimension, atoms in groups.items()
        ),
        "",
        "## Prefixes\n",
        "These units take prefixes: "
        + ", ".join(f"`{atom}` ({', '.join(letters)})" for atom, letters in PREFIXED.items())
        + ".\n",
        "## Other spellings\n",
        ", ".join(f"`{alias}` is `{unit}`" for alias, unit in ALIASES.items()) + ".\n",
        "## Ambiguous units\n",
        "fedkg rejects a unit with several meanings and suggests others:\n",
        "| written | | write instead |",
        "|---|---|---|",
        *(
            f"| `{text}` | {why} | {' or '.join(f'`{unit}`' for unit in instead)} |"
            for text, (why, instead) in DOUBTFUL.items()
        ),
        "",
    ]
    return "\n".join(parts)


def _dimension(dimension: dict[str, int]) -> str:
    if not dimension:
        return "plain numbers"
    return " ".join(name if power == 1 else f"{name}^{power}" for name, power in dimension.items())


PAGES = {"job.md": job_page, "codes.md": codes_page, "units.md": units_page}

SITES_PAGE, SITES_TABLES = "sites-file.md", "### `sites.NAME`"
"""A page with generated tables at its end, and where they begin."""

if __name__ == "__main__":
    for page, write in PAGES.items():
        (REFERENCE / page).write_text(write(), encoding="utf-8")
    text = (REFERENCE / SITES_PAGE).read_text(encoding="utf-8")
    prose = text[: text.index(SITES_TABLES)]
    (REFERENCE / SITES_PAGE).write_text(prose + sites_tables(), encoding="utf-8")
