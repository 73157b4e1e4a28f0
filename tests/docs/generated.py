"""Generate reference pages from the code: `python tests/docs/generated.py` writes them.

A test compares the pages in the repository with the generated ones.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

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
            "has examples. `fedkg run JOB --set a.b=value` changes a field. Paths are relative to"
            " the folder of the file."
        ),
        (
            "fedkg looks for a path given with `--set` in the current folder first, then in that of"
            " the job.\n"
        ),
        JOB_TERMS,
    ]
    seen: set[type[BaseModel]] = set()
    waiting: list[tuple[str, type[BaseModel]]] = [("", Job)]
    while waiting:
        name, model = waiting.pop(0)
        if model in seen:
            continue
        seen.add(model)
        if not model.model_fields:
            continue
        parts += [
            f"## `{name}`\n" if name else "## Top level\n",
            f"{(model.__doc__ or '').strip().splitlines()[0]}\n",
        ]
        parts += ["| field | values | default | meaning |", "|---|---|---|---|"]
        for field, info in model.model_fields.items():
            path = f"{name}.{field}".strip(".")
            inner_path = f"{path}.NAME" if get_origin(info.annotation) is dict else path
            waiting += [(inner_path, inner) for inner in _models(info.annotation)]
            default = _default(info.default, info.default_factory)
            described = info.description or f"See [`{inner_path}`](#{_anchor(inner_path)})."
            values = EXPANDED.get(path) or _values(info.annotation, info.metadata)
            parts.append(f"| `{field}` | {values} | {default} | {described} |")
        parts.append("")
    return "\n".join(parts)


def sites_tables() -> str:
    """The fields of the sites file, section by section; the end of its page."""
    from fedkg.sites.schema import (
        Column,
        Datatype,
        DialectSection,
        ForeignKey,
        Reference,
        Settings,
        Site,
        TableSchema,
    )

    parts: list[str] = []
    for name, model in (
        ("sites.NAME", Site),
        ("dialect", DialectSection),
        ("tableSchema", TableSchema),
        ("tableSchema.columns", Column),
        ("tableSchema.foreignKeys", ForeignKey),
        ("tableSchema.foreignKeys.reference", Reference),
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


def granger_tables() -> str:
    """The fields of the Granger job file, section by section; the end of its page."""
    from fedkg.jobs.causes.job_file import CausesData, CausesJob, PlantData
    from fedkg.jobs.schema.causal_learning import Learning

    parts = ["## Fields\n"]
    for name, model in (
        ("", CausesJob),
        ("data", CausesData),
        ("data.plant", PlantData),
        ("learning", Learning),
    ):
        parts += [f"### `{name}`\n"] if name else []
        parts += ["| field | values | default | meaning |", "|---|---|---|---|"]
        for field, info in model.model_fields.items():
            path = f"{name}.{field}".strip(".")
            default = _default(info.default, info.default_factory)
            if isinstance(info.default, BaseModel):
                default = ""
            described = info.description or f"See [`{path}`](#{_anchor(path)})."
            values = _values(info.annotation, info.metadata)
            parts.append(f"| `{field}` | {values} | {default} | {described} |")
        parts.append("")
    return "\n".join(parts)


EXPANDED = {
    "algorithm": "text or section",
    "algorithms.NAME.aggregate": "name of a field below, or section",
    "algorithms.NAME.exclude": "name of a field below, or section",
    "algorithms.NAME.grouping": "name of a field below, or section",
    "algorithms.NAME.local": "name of a field below, or section",
    "algorithms.NAME.server": "name of a field below, or section",
    "augment": "`granger`, `filter`, `none` or section",
    "model.graph": "`true` or section",
    "rules": "list: text",
    "seeds": "whole number from 1 to 10,000 or list: whole number from 0",
    "sites": "list: text, whole number, or NAME: section",
    "theory": "`true` or section",
}
"""Fields with a short form that the schema expands before it validates."""

JOB_TERMS = """\
The [glossary](glossary.md) defines terms such as *trial*, *probe* and *bound row*. Names of data
sets and models are in [Models and data sets](models-and-data-sets.md), presets in [Federated
algorithms](algorithms.md). Guides explain [privacy](../how-to/differential-privacy.md),
[hard rules and forecasts](../how-to/federated-training.md), [scoring and
theory](../concepts/scfa.md), and [augment](../how-to/federated-granger-causality.md). `NAME` stands
for a name that you choose. *Empty* means that the field is not in the file. A field with the value
`section` contains the fields of the section with its path. If a section has a default for every
field, `{}` selects all defaults.
"""


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The sections inside a field's type. `Any`: a type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _anchor(heading: str) -> str:
    """The anchor of a heading that is a field path."""
    return heading.replace(".", "").lower()


def _values(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    """The values that a field accepts. `Any`: a type, and pydantic's records of its bounds."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        inner = [one for part in parts[1:] for one in getattr(part, "metadata", [part])]
        return _values(parts[0], [*inner, *metadata])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in parts)
    if origin in (Union, UnionType):
        found = [_values(part, metadata) for part in parts if part is not type(None)]
        return "any value" if {str, float} <= {*parts} else " or ".join(found)
    if origin is tuple:
        return f"list: {_values(parts[0])}"
    if origin is dict:
        return f"NAME: {_values(parts[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section" if annotation.model_fields else "no settings"
    if annotation is bool:
        return "`true`, `false`"
    if annotation in (int, float):
        return _bounded("whole number" if annotation is int else "number", metadata)
    return "text"


def _bounded(noun: str, metadata: Iterable[Any]) -> str:
    """A number with its bounds. `Any`: pydantic's records of them."""
    ends = {
        name: getattr(one, name)
        for one in metadata
        for name in ("ge", "gt", "le", "lt")
        if getattr(one, name, None) is not None
    }
    words = {"ge": "from", "gt": "above", "le": "to" if "ge" in ends else "and at most"}
    words["lt"] = "and below"
    return " ".join(
        [noun, *(f"{word} {ends[name]:,}" for name, word in words.items() if name in ends)]
    )


def _default(value: Any, factory: Any) -> str:
    """A default as YAML would write it. `Any`: whatever the schema holds."""
    if value is PydanticUndefined:
        return "" if factory is not None else "needed"
    if value is None or value in ((), ""):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{value}`"


def codes_page() -> str:
    """Every diagnostic code with its title; the documentation has a page for each."""
    from fedkg_compiler.diagnostics import CODES
    from fedkg_compiler.diagnostics.severities import severities_of

    parts = [
        "# Diagnostic codes\n",
        (
            "Every diagnostic of the compiler has one of these codes. A code never changes its"
            " meaning."
        ),
        "Each code has a page with an example; `fedkg explain CODE` prints it.\n",
        (
            "An error prevents a pack. A warning is probably a mistake. Info tells what fedkg"
            " decided for you."
        ),
        (
            "A code with several severities depends on the case; the message shows which one"
            " applies.\n"
        ),
        "| code | severity | title |",
        "|---|---|---|",
    ]
    for code in sorted(CODES):
        severities = " or ".join(severities_of(code))
        parts.append(f"| {code} | {severities} | {CODES[code].title} |")
    return "\n".join(parts) + "\n"


def units_page() -> str:
    """The units that rules can use after `in`, by dimension."""
    from fedkg.units.unit_table import AFFINE, ALIASES, ATOMS, CONVERTED, DOUBTFUL, HINTS, PREFIXED

    groups: dict[str, list[str]] = {}
    for atom, (_, _, dimension) in ATOMS.items():
        if atom != "1":
            groups.setdefault(_dimension(dimension), []).append(atom)
    for atom, (_, _, dimension, _) in AFFINE.items():
        if "(" in atom:
            continue  # rule files do not accept it; see `UNITS_SPELLINGS`
        groups.setdefault(_dimension(dimension), []).append(atom)
    plain = {text: row for text, row in DOUBTFUL.items() if text not in CONVERTED | {*HINTS}}
    parts = [
        "# Units\n",
        UNITS_TEXT,
        "| quantity | written |",
        "|---|---|",
        *(
            f"| {dimension} | {' '.join(f'`{atom}`' for atom in atoms)} |"
            for dimension, atoms in groups.items()
        ),
        "",
        UNITS_MEANINGS,
        "## Prefixes\n",
        "These units take prefixes (`u` stands for `µ`): "
        + ", ".join(f"`{atom}` ({', '.join(letters)})" for atom, letters in PREFIXED.items())
        + ".\n",
        "## Other spellings\n",
        UNITS_SPELLINGS,
        ", ".join(f"`{alias}` is `{unit}`" for alias, unit in {**ALIASES, "bar(g)": "barg"}.items())
        + ".\n",
        "## Ambiguous units\n",
        "fedkg rejects a unit with several meanings, or one that is easily mistaken for another:\n",
        "| written | why it is rejected | write instead |",
        "|---|---|---|",
        *(
            f"| `{text}` | {why} | {' or '.join(f'`{unit}`' for unit in instead)} |"
            for text, (why, instead) in plain.items()
        ),
        "",
        (
            "fedkg also rejects these units. The suggested units have another size, so convert the"
            " values too:\n"
        ),
        "| written | why it is rejected | write instead, after converting the values |",
        "|---|---|---|",
        *(
            f"| `{text}` | {why} | {' or '.join(f'`{unit}`' for unit in instead)} |"
            for text, (why, instead) in DOUBTFUL.items()
            if text in CONVERTED
        ),
        "",
        "fedkg rejects these too, and the right unit depends on what the plant means:\n",
        "| written | why it is rejected | what to do |",
        "|---|---|---|",
        *(f"| `{text}` | {DOUBTFUL[text][0]} | {hint} |" for text, hint in HINTS.items()),
        "",
    ]
    return "\n".join(parts)


UNITS_TEXT = """\
A unit is one word: `N.m`, `kg/h`, `m^3/h`, `1/min`, `°C`, `%`. Join units with `.` or `/`; with
spaces around it, `/` divides values. In a rule file, units contain no brackets: divide again for
each further unit, as in `kJ/kg/K`. A whole number at the end of a unit is its power: `m3`, `m^3`
and `m³` are the same, and `m.s-2` is `m/s2`. Case matters: `MPa` is not `mPa`.

Units in one row of the table below convert into each other with exact factors (`rad`: with the
nearest number of double precision): 600 mbar equals 0.6 bar to the last bit. Temperatures in degC
or degF and gauge pressures (`barg`, `psig`) also have an offset, because their zero is not the zero
of `K` or of `bar`. The offset has two consequences:

- You cannot multiply such values; use a difference, such as `inlet - 0 degC`
  (`fedkg explain FKG215`).
- `bar`, `psi` and their multiples are absolute unless they end in `g` or `ü`. fedkg warns if a rule
  compares both kinds (`fedkg explain FKG219`).

fedkg compares dimensions, not quantities. It does not distinguish mass, volume and mole shares
(`wt%`, `vol%`, `ppm`), nor active, reactive and apparent power (`W`, `var`, `VA`).

fedkg also accepts the full English names that [pint](https://pint.readthedocs.io) defines:
`newton`, `fathom`, `hour`. Their factors are rounded to 16 digits. Declare a signal that is true or
false `in boolean`, and a probability `in probability`.
"""

UNITS_MEANINGS = """\
Short names from plants: `to` is a metric ton, `qm` a square metre, `cbm` a cubic metre, `ccm` a
cubic centimetre, `Stk` pieces, `Std` hours, `Sek` seconds, `Upm` revolutions per minute, `kp`
(`kgf`) 9.80665 N, `mmWS` and `mWS` columns of water, `PS` metric horsepower (735.49875 W), `degR`
a degree Rankine, which is the unit of differences in degF. `St` is a stokes (viscosity, usually
`cSt`), `P` a poise (usually `cP`), `HB`, `HV` and `HRC` hardness scales. `Nm3`, `Nl` and `NL` are
amounts of gas as their volume at 0 degC and 1.01325 bar. `Nm` is a newton metre.
"""

UNITS_SPELLINGS = """\
Table headers, the `unit` fields of sites files and the unit columns of sheets accept these
spellings. A rule file accepts those without brackets and blanks, such as `U/min`. For the others
(`bar(ü)`, `psi(g)`, `mm WS`), the error names the unit to write.
"""

QUANTITIES = {
    "length": "length",
    "length^2": "area",
    "length^3": "volume",
    "time": "time",
    "time^-1": "frequency",
    "angle time^-1": "speed of rotation",
    "current time": "electric charge",
    "mass length^2 time^-3 current^-1": "voltage",
    "mass length^2 time^-3": "power",
    "mass length^2 time^-3 current^-2": "electric resistance",
    "mass^-1 length^-2 time^3 current^2": "electric conductance",
    "light": "luminous intensity",
    "light length^-2": "illuminance",
    "mass length time^-2": "force",
    "mass length^2 time^-2": "energy, torque",
    "mass length^-1 time^-2": "pressure, stress",
    "mass length^-1 time^-1": "dynamic viscosity",
    "length^2 time^-1": "kinematic viscosity",
    "norm volume": "amount of gas",
}
"""The names of the quantities with a dimension."""


def _dimension(dimension: dict[str, int]) -> str:
    if not dimension:
        return "plain numbers"
    text = " ".join(name if power == 1 else f"{name}^{power}" for name, power in dimension.items())
    quantity = QUANTITIES.get(text, text)
    return quantity if quantity == text else f"{quantity} ({text})"


def messages_page() -> str:
    """What a site sends to its server besides its training."""
    from fedkg.deploy.preparation_messages import MEANINGS

    lines = [
        "# What a site sends\n",
        "In a [federation](../how-to/federation.md), each site keeps its table. Besides the",
        "[update](glossary.md#training) of each round, it sends these tensors and fields to the",
        'server. Rows, and values of single rows, are marked "with consent": a site sends them',
        "only if its operator agreed (`fedkg site join --share-rows`). If a job needs rows, it",
        "does not start without this consent. Without consent, a site still sends the first and",
        "last time, the texts that occur in columns of categories, and for a [causal",
        "discovery](../how-to/federated-granger-causality.md) the states that its filter estimates",
        "at each step.\n",
        "At the site, `fedkg site doctor FOLDER` summarises what leaves it and who can read it;",
        '`fedkg.deploy.site_check.list_site_disclosures(Path("FOLDER"))` lists everything with its',
        "size. FOLDER is the folder that `fedkg site join` created. The report of a run has these",
        "tensors in its section *What leaves a site*.\n",
        "| name | when | meaning |",
        "|---|---|---|",
    ]
    lines += [f"| `{name}` | {when} | {meaning} |" for name, (when, meaning) in MEANINGS.items()]
    return "\n".join([*lines, ""])


def papers_page() -> str:
    """The claims of the papers, from the results beside the page."""
    from fedkg.papers.page import render_page

    return render_page(json.loads((REFERENCE / "papers.json").read_text(encoding="utf-8")))


PAGES = {
    "job.md": job_page,
    "codes.md": codes_page,
    "units.md": units_page,
    "site-messages.md": messages_page,
    "papers.md": papers_page,
}

TABLES = {
    "sites-file.md": ("### `sites.NAME`", sites_tables),
    "granger-job.md": ("## Fields\n", granger_tables),
}
"""Pages with generated tables at their end: where these begin, and their generator."""


def attack_tables() -> str | None:
    """The F1 tables of `benchmarks/attacks.py`; None if its last run was not a full one."""
    results = REFERENCE.parents[1] / "benchmarks" / "RESULTS.json"
    sections = json.loads(results.read_text(encoding="utf-8"))
    printed = [
        one["printed"]
        for one in sections
        if one["name"] == "attacks" and one["setting"] == "full" and not one["failure"]
    ]
    if not printed:
        return None
    lines = printed[0].rstrip().splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("F1 "))
    return "```text\n" + "\n".join(lines[first:]) + "\n```\n"


def limits_table() -> str:
    """The limits on files that `FEDKG_LIMITS` changes."""
    from fedkg.limits import DEFAULTS, MEANINGS, format_limit

    rows = [
        f"| `{name}` | {format_limit(name, most)} | {MEANINGS[name]} |"
        for name, most in DEFAULTS.items()
    ]
    return "\n".join(["", "| limit | default | counts |", "|---|---|---|", *rows, "", ""])


COMMAND_MARKS = re.compile(
    r"(<!-- command: (?P<name>[\w-]+) -->\n).*?(<!-- end of command -->\n)", re.DOTALL
)
"""The marks around the generated part of a command's section."""


@cache
def _command_line() -> Any:
    from typer.main import get_command

    from fedkg.cli.main import make_app

    return get_command(make_app())


def command_part(name: str) -> str:
    """What `fedkg NAME --help` says, without its examples; for a group, of each subcommand."""
    command = _command_line().commands[name]
    if not hasattr(command, "commands"):
        return "\n" + _describe_command(f"fedkg {name}", command)
    parts = [
        f"### `fedkg {name} {inner}`\n\n" + _describe_command(f"fedkg {name} {inner}", one)
        for inner, one in command.commands.items()
    ]
    return "\n" + "\n".join(parts)


def _describe_command(path: str, command: Any) -> str:
    text = _mark_options(
        re.split(r"[\n\b]*Examples?:\n", inspect.cleandoc(command.help))[0].strip()
    )
    usage, rows = [path], []
    for one in sorted(command.params, key=lambda one: one.param_type_name):  # arguments first
        if one.name in ("help", "as_json") or getattr(one, "hidden", False):
            continue
        kind = one.type.name
        shown = one.metavar or (
            "N" if "integer" in kind else "NUMBER" if "float" in kind else kind.upper()
        )
        if one.param_type_name == "argument":
            name = shown if one.required or shown.startswith("[") else f"[{shown}]"
            usage.append(name)
        else:
            choices = getattr(one.type, "choices", None)
            value = "" if one.is_flag else " " + ("|".join(choices) if choices else shown)
            name = ", ".join(one.opts) + value
            if one.required:
                usage.append(one.opts[-1] + value)
        given = one.default if isinstance(one.default, str | int | float) else ""
        shown = f"{given:g}" if isinstance(given, float) else given
        silent = given == "" or given is False or one.required
        default = "" if silent else f" Default: {shown}."
        cell = name.replace("|", "\\|")
        rows.append(f"| `{cell}` | {_mark_options(one.help)}{default} |")
    usage_line = " ".join([*usage, "[OPTIONS]" if len(usage) <= len(rows) else ""]).rstrip()
    lines = [text, "", "```text", usage_line, "```", ""]
    if rows:
        lines += ["| argument or option | meaning |", "|---|---|", *rows, ""]
    return "\n".join(lines) + "\n"


def _mark_options(text: str) -> str:
    """The text with its options as code."""
    pieces = text.split("`")
    pieces[::2] = [
        re.sub(r"(?<![\w-])--[a-z][\w-]*", r"`\g<0>`", piece).replace("*", r"\*")
        for piece in pieces[::2]
    ]
    return "`".join(pieces)


def with_commands(text: str) -> str:
    """The page of the command line with its generated parts written again."""
    return COMMAND_MARKS.sub(lambda found: found[1] + command_part(found["name"]) + found[3], text)


def library_table() -> str:
    """The rules of the rule library with their titles."""
    from fedkg_compiler.frontends.fkg.binding.library import library_names
    from fedkg_compiler.frontends.fkg.syntax import parse
    from fedkg_compiler.frontends.fkg.syntax.tree import Rule
    from fedkg_compiler.input_files import data_folder

    lines = ["", "| rule | what it says |", "|---|---|"]
    for name in library_names():
        area, _, stem = name.partition(".")
        text = (data_folder("rules") / area / f"{stem}.fkg").read_text(encoding="utf-8")
        tree, _ = parse(text, name)
        lines += [
            f"| `{name}.{rule.name.text}` | {rule.title.text} |"
            for rule in tree.statements
            if isinstance(rule, Rule) and rule.title is not None
        ]
    return "\n".join([*lines, "", ""])


def column_names_table() -> str:
    """The properties by which graphs name the columns of a table."""
    from fedkg_compiler.graph.graph import COLUMN_NAMES
    from fedkg_compiler.graph.standard_vocabularies import (
        BRICK,
        BRICK_REF,
        DCTERMS,
        FKG,
        RDFS,
        SOSA,
    )

    prefixes = {
        BRICK_REF: "ref:",
        BRICK: "brick:",
        FKG: "fkg:",
        DCTERMS: "dcterms:",
        RDFS: "rdfs:",
        SOSA: "sosa:",
    }

    def shorten(iri: str) -> str:
        space = max((one for one in prefixes if iri.startswith(one)), key=len)
        return prefixes[space] + iri.removeprefix(space)

    lines = [
        "",
        "| path from the sensor | vocabulary | version | definition |",
        "|---|---|---|---|",
    ]
    for name in COLUMN_NAMES:
        path = [shorten(step) for step in name.path]
        if not path:
            shown = "last part of the IRI"
        elif path == ["sosa:observes"]:
            shown = "`sosa:observes`, last part of the IRI"
        else:
            shown = f"`{' / '.join(path)}`"
        lines.append(f"| {shown} | {name.vocabulary} | {name.version} | {name.reference} |")
    return "\n".join([*lines, "", ""])


MARKS = ("<!-- suite: begin -->\n", "<!-- suite: end -->")
"""The marks around a generated part in the middle of a page."""

PARTS = {
    REFERENCE.parent / "concepts" / "robust-aggregation.md": attack_tables,
    REFERENCE / "command-line.md": limits_table,
    REFERENCE / "library.md": library_table,
    REFERENCE.parent / "how-to" / "plant-graphs.md": column_names_table,
}
"""Pages with a generated part between `MARKS`, and its generator: the text, or None to keep it."""


if __name__ == "__main__":
    command_line = REFERENCE / "command-line.md"
    command_line.write_text(
        with_commands(command_line.read_text(encoding="utf-8")), encoding="utf-8"
    )
    for page, write in PAGES.items():
        (REFERENCE / page).write_text(write(), encoding="utf-8")
    for page, (begin, write) in TABLES.items():
        text = (REFERENCE / page).read_text(encoding="utf-8")
        (REFERENCE / page).write_text(text[: text.index(begin)] + write(), encoding="utf-8")
    for path, generate in PARTS.items():
        part = generate()
        if part is not None:
            prose, _, rest = path.read_text(encoding="utf-8").partition(MARKS[0])
            _, _, after = rest.partition(MARKS[1])
            path.write_text(prose + MARKS[0] + part + MARKS[1] + after, encoding="utf-8")
