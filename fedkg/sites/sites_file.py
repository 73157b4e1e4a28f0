"""Read a sites file, or a metadata file of CSV on the Web (CSVW)."""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fedkg._internal.name_matching import nearest_name
from fedkg._internal.yaml_documents import Document, field_lines, parse_yaml
from fedkg.errors import TableError, UsageError
from fedkg.limits import parse_json, read_file
from fedkg.sites.schema import (
    Column,
    Datatype,
    DialectSection,
    ForeignKey,
    Format,
    Reference,
    Settings,
    Site,
    SitesFile,
    TableSchema,
)

COMMON = ("dialect", "tableSchema", "null", "datatype", "timezone")
"""Sections at the top of the file that hold for every site that does not state them."""

MAX_FIELDS_SHOWN = 12

SYNONYMS = {
    "column": "titles",
    "file": "url",
    "header": "titles",
    "headers": "titles",
    "path": "url",
    "table": "url",
}
"""Fields of other files and tools, and what the sites file calls them."""

FIELDS_HELP = "docs/reference/sites-file.md lists fields"

SECTIONS = (
    Site,
    DialectSection,
    TableSchema,
    Column,
    Datatype,
    Format,
    ForeignKey,
    Reference,
    Settings,
)


def load_sites(
    path: str | Path, *, text: str | None = None, names: Collection[str] = ()
) -> SitesFile:
    """Read a sites file (YAML or JSON) or a CSVW metadata file.

    Paths of tables become relative to the current folder. A CSVW metadata file describes one site
    for each of its tables; the site has the name of the table's file.

    Args:
        path: the file.
        text: its content, if it is not written yet.
        names: the sites to read; default: all. A simulation has a thousand, and each reads itself.

    Raises:
        UsageError: the file cannot be read.
        TableError: the file is not YAML or JSON, or fields are wrong; the message lists all of
            them with their lines.
        LimitError: the file is larger than `fedkg.limits` allows.
    """
    path = Path(path)
    document, lines = _read_document(path, text)
    base, name = path.parent, str(path)
    if "sites" not in document and ("tables" in document or "url" in document):
        return _load_csvw(document, base, name, lines)
    sites = document.get("sites")
    if not isinstance(sites, dict) or not sites:
        raise TableError(
            f"{name} describes no site",
            expected="`sites:` with a section for each site, or a CSVW metadata file with `url` "
            "or `tables`",
            received=_describe_no_sites(document),
            help="write, for example, sites: {north: {url: north.csv}}",
        )
    unknown = [
        key
        for key in document
        if key not in (*COMMON, "sites", "title") and not _is_annotation(key)
    ]
    if unknown:
        near = nearest_name(str(unknown[0]), [*COMMON, "sites"])
        raise TableError(
            f"{name}: unknown field `{unknown[0]}`{_format_line((str(unknown[0]),), lines)}",
            expected=", ".join(f"`{key}`" for key in ("sites", *COMMON)),
            help=f"did you mean `{near}`?" if near else FIELDS_HELP,
        )
    common = {key: document[key] for key in COMMON if key in document}
    found: dict[str, Site] = {}
    for site, section in sites.items():
        if names and site not in names and not _is_lookup(section):
            continue
        if not isinstance(site, str) or not re.fullmatch(
            r"[A-Za-z0-9][A-Za-z0-9_./() -]{0,63}", site
        ):
            raise TableError(
                f"{name}: `{site}` cannot be the name of a site"
                f"{_format_line(('sites', str(site)), lines)}",
                expected="at most 64 characters: letters from a to z, digits, blanks and "
                "_ . / ( ) -, with a letter or digit first",
                help="rename the site; put a name that is a number, or a word such as on or yes, "
                'in quotes: "1"',
            )
        section, shared = copy.deepcopy((section, common))
        found[site] = _load_site(section, shared, base, name, ("sites", site), lines)
    return _make_sites_file(name, found, lines, is_part=bool(names))


def _is_lookup(section: object) -> bool:
    """Whether a section describes a table that others look up, not a site."""
    return isinstance(section, dict) and section.get("suppressOutput") is True


def _describe_no_sites(document: Document) -> str:
    """What a file has instead of sections of sites, for messages."""
    if "sites" in document:
        sites = document["sites"]
        return f"`sites` with {_json_type(sites) if sites else 'nothing in it'}"
    return ", ".join(f"`{key}`" for key in list(document)[:8]) or "an empty file"


def _json_type(value: object) -> str:
    names = {
        dict: "fields",
        list: "a list",
        str: "a text",
        bool: "true or false",
        type(None): "null",
    }
    return names.get(type(value), "a number")


def _make_sites_file(
    name: str,
    tables: Mapping[str, Site],
    lines: Mapping[tuple[str, ...], int],
    *,
    is_part: bool = False,
) -> SitesFile:
    sites = {key: site for key, site in tables.items() if not site.suppress_output}
    if not sites and not is_part:
        raise TableError(
            f"{name}: no table is a site, because all have `suppressOutput: true`",
            help="remove `suppressOutput: true` from at least one table",
        )
    lookups = {key: site for key, site in tables.items() if site.suppress_output}
    return SitesFile(path=name, sites=sites, lookups=lookups, lines=dict(lines))


def find_site(sites: SitesFile, name: str) -> Site:
    """The site of this name. Raises UsageError with the known names."""
    if name not in sites.sites:
        near = nearest_name(name, sites.sites)
        raise UsageError(
            f"{sites.path} has no site `{name}`",
            expected=", ".join(list(sites.sites)[:20]),
            help=f"did you mean `{near}`?" if near else "",
        )
    return sites.sites[name]


def _is_annotation(key: object) -> bool:
    return isinstance(key, str) and (key.startswith("@") or ":" in key)


def _read_document(
    path: Path, text: str | None = None, *, named_by: str = ""
) -> tuple[Document, Mapping[tuple[str, ...], int]]:
    """The document and the lines of its fields (of a JSON file none). Raises as `load_sites`.

    Args:
        named_by: the sites file that names this one as metadata; "" for a sites file.
    """
    try:
        body = read_file(path, name="job") if text is None else text.encode("utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot read metadata file {path} of {named_by}"
            if named_by
            else f"cannot read sites file {path}",
            received=getattr(error, "strerror", None) or str(error),
            help=f"paths are relative to {named_by or 'the current folder'}",
        ) from error
    if path.suffix.lower() == ".json":
        try:
            document = parse_json(body, str(path))
        except ValueError as error:
            raise TableError(
                f"{path} is not JSON",
                received=str(error),
                help="correct the file"
                + ("" if named_by else ", or write a YAML sites file with the ending .yaml"),
            ) from error
        if not isinstance(document, dict):
            raise TableError(
                f"{path} is not a {'metadata' if named_by else 'sites'} file",
                expected="a JSON object with the fields of "
                + ("" if named_by else "a sites file or of ")
                + "CSVW metadata",
                received=_json_type(document),
                help=FIELDS_HELP,
            )
        _require_plain(document, str(path))
        return document, {}
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(
            f"{path} is not UTF-8 text",
            expected=f"a {'metadata' if named_by else 'YAML sites'} file in UTF-8",
            received=f"the byte 0x{error.object[error.start]:02X} at position {error.start}",
            help="save the file as UTF-8",
        ) from error
    document, lines = _parse(text, str(path))
    return document, lines


@lru_cache(maxsize=4)
def _parse(text: str, name: str) -> tuple[Document, Mapping[tuple[str, ...], int]]:
    """A YAML document and the lines of its fields; a simulation reads the file of all sites at
    each site.
    """
    document = parse_yaml(
        text,
        name,
        kind="sites file",
        fields="`sites:`, `dialect:`, `tableSchema:`",
        error_class=TableError,
    )
    _require_plain(document, name)
    return _name_null_keys(document), field_lines(text)


def _require_plain(document: Document, name: str) -> None:
    """Raise TableError for sections that contain themselves (YAML aliases) and for broken texts."""
    try:
        _require_text(document, name)
    except RecursionError as error:
        raise TableError(
            f"{name}: a section contains itself, or is nested too deeply",
            help="write the section out in place of its alias (`*name`), and check for unclosed "
            "brackets",
        ) from error


def _require_text(value: Any, name: str) -> None:  # YAML or JSON
    """Raise TableError for a text with half a character, made by an escape such as `\\ud800`."""
    if isinstance(value, dict):
        for pair in value.items():
            _require_text(list(pair), name)
    elif isinstance(value, list):
        for item in value:
            _require_text(item, name)
    elif isinstance(value, str) and any("\ud800" <= sign <= "\udfff" for sign in value):
        raise TableError(
            f"{name}: a text contains half of a surrogate pair, which is not a character",
            received=ascii(value[:40]),
            help="write the character itself instead of its escape",
        )


def _name_null_keys(value: Any) -> Any:  # YAML
    """YAML reads the key `null` as a missing value; here it is the field of that name."""
    if isinstance(value, dict):
        return {
            "null" if key is None else key: _name_null_keys(item) for key, item in value.items()
        }
    return [_name_null_keys(item) for item in value] if isinstance(value, list) else value


def _load_csvw(
    document: Document, base: Path, name: str, lines: Mapping[tuple[str, ...], int]
) -> SitesFile:
    """The sites of a CSVW metadata file, one for each table."""
    tables = document.get("tables", [document])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise TableError(
            f"{name}: `tables` is not a list of sections",
            expected="one section for each table, with its `url`",
            help='write, for example, "tables": [{"url": "graz.csv"}]',
        )
    common: dict[str, Any] = {
        key: document[key] for key in ("dialect", "tableSchema", "null") if key in document
    }
    sites: dict[str, Site] = {}
    for number, table in enumerate(tables):
        url = table.get("url")
        place = ("tables", str(number)) if "tables" in document else ()
        stem = Path(url).name.split(".")[0] if isinstance(url, str) else ""
        site = re.sub(r"[^A-Za-z0-9_./() -]", "_", stem) or f"table {number + 1}"
        if site in sites:
            raise TableError(
                f"{name}: two tables have the name `{site}`, which fedkg takes from their files",
                help="rename a file, or write a sites file that names each site and refers to "
                f"{name} as `metadata`",
            )
        sites[site] = _load_site(table, common, base, name, place, lines, csvw=True)
    return _make_sites_file(name, sites, lines)


def _load_site(
    section: Any,  # YAML
    common: Mapping[str, Any],
    base: Path,
    name: str,
    place: tuple[str, ...],
    lines: Mapping[tuple[str, ...], int],
    *,
    csvw: bool = False,
) -> Site:
    """One site with the common parts and those of its metadata file, and with resolved paths."""
    if isinstance(section, str):
        section = {"url": section}
    if not isinstance(section, dict):
        raise TableError(
            f"{name}: site `{place[-1]}` must be a section with fields{_format_line(place, lines)}",
            help=f"write, for example, {place[-1]}: {{url: {place[-1]}.csv}}",
        )
    section = _add_lines(section, place, lines)
    common = _add_lines(common, (), lines)
    merged = dict(section)
    if not csvw and isinstance(section.get("metadata"), str):
        path = base / section["metadata"]
        merged = _merge(merged, _load_metadata(path, section, base, name, place[-1]))
        if "null" not in section and "null" in common:
            merged["null"] = [*_list_texts(common["null"]), *_list_texts(merged.get("null"))]
    merged = _merge(merged, common)
    if csvw and isinstance(merged.get("tableSchema"), str):
        merged["tableSchema"], _ = _read_document(base / merged["tableSchema"], named_by=name)
    try:
        site = Site.model_validate(merged, context={"csvw": csvw})
    except ValidationError as error:
        raise _make_field_error(name, error.errors(), place, lines, merged) from error
    keys = site.table_schema.foreign_keys
    for field, addresses in (
        ("url", site.url),
        ("tableSchema.foreignKeys", [key.reference.resource for key in keys]),
    ):
        remote = next((url for url in addresses if "://" in url), None)
        if remote is not None:
            inner = (*place, *field.split("."))
            raise TableError(
                f"{name}: {'.'.join(inner)} is an address{_format_line(inner, lines)}",
                expected="the path of a file",
                received=remote,
                help="download the file; fedkg opens no connection for a table",
            )
    resolved = tuple(
        key.model_copy(
            update={
                "reference": key.reference.model_copy(
                    update={"resource": str(base / key.reference.resource)}
                )
            }
        )
        for key in keys
    )
    return site.model_copy(
        update={
            "url": tuple(str(base / url) for url in site.url),
            "table_schema": site.table_schema.model_copy(update={"foreign_keys": resolved}),
        }
    )


def _add_lines(
    section: Mapping[str, Any], place: tuple[str, ...], lines: Mapping[tuple[str, ...], int]
) -> dict[str, Any]:
    """The section with the line of each column in the file, for messages. `Any`: YAML."""
    schema = section.get("tableSchema")
    if not isinstance(schema, dict) or not isinstance(schema.get("columns"), list):
        return dict(section)
    columns = [
        {**column, "@line": lines.get((*place, "tableSchema", "columns", str(number)))}
        if isinstance(column, dict)
        else column
        for number, column in enumerate(schema["columns"])
    ]
    return {**section, "tableSchema": {**schema, "columns": columns}}


def _merge(own: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    """The own section with the common parts that it does not state; columns by their names.

    `Any`: YAML.
    """
    merged = dict(own)
    for key, value in common.items():
        if key not in merged:
            merged[key] = value
        elif key in ("dialect", "datatype"):
            inner = {"base": merged[key]} if isinstance(merged[key], str) else merged[key]
            outer = {"base": value} if isinstance(value, str) else value
            if isinstance(inner, dict) and isinstance(outer, dict):
                merged[key] = {**outer, **inner}
        elif key == "tableSchema" and isinstance(merged[key], dict) and isinstance(value, dict):
            merged[key] = {**value, **merged[key], "columns": _merge_columns(merged[key], value)}
    return merged


def _merge_columns(own: Mapping[str, Any], common: Mapping[str, Any]) -> Any:
    """The common columns, with the fields that the site states for the column of the same name."""
    mine, theirs = own.get("columns", []), common.get("columns", [])
    if not isinstance(mine, list) or not isinstance(theirs, list):
        return mine
    named = {
        column["name"]: column for column in mine if isinstance(column, dict) and "name" in column
    }
    known = {column.get("name") for column in theirs if isinstance(column, dict)} - {None}
    merged = [
        {**column, **named[column["name"]]}
        if isinstance(column, dict) and column.get("name") in named
        else column
        for column in theirs
    ]
    return [
        *merged,
        *(
            column
            for column in mine
            if not (isinstance(column, dict) and column.get("name") in known)
        ),
    ]


def _load_metadata(
    path: Path, section: Mapping[str, Any], base: Path, name: str, site: str
) -> dict[str, Any]:  # Any: JSON
    """The parts of a CSVW metadata file that describe the table of a site.

    Args:
        name: the sites file.

    Raises UsageError, TableError.
    """
    document, _ = _read_document(path, named_by=name)
    tables = document.get("tables", [document])
    if not isinstance(tables, list):
        tables = []
    tables = [table for table in tables if isinstance(table, dict)]
    stated = _list_texts(section.get("url"))
    urls = {(base / url).resolve() for url in stated}
    named = [
        table
        for table in tables
        if isinstance(table.get("url"), str) and (path.parent / table["url"]).resolve() in urls
    ]
    chosen = named[0] if named else tables[0] if len(tables) == 1 else None
    if chosen is None:
        raise TableError(
            f"{path} describes no table of site {site}"
            if stated or not tables
            else f"{path} describes several tables, and site {site} has no `url` that selects one",
            expected=", ".join(stated) or "one table",
            received=", ".join(f"`url` {table.get('url')}" for table in tables[:8]) or "no table",
            help=f"correct or add the `url` of the site in {name}, or of a table in {path}",
        )
    found: dict[str, Any] = {}
    for source in (document, chosen):
        for key in ("dialect", "tableSchema", "null"):
            if key in source:
                found[key] = source[key]
    if isinstance(found.get("tableSchema"), str):
        found["tableSchema"], _ = _read_document(
            path.parent / found["tableSchema"], named_by=str(path)
        )
    try:
        lenient = Site.model_validate({"url": "x", **found}, context={"csvw": True})
    except ValidationError as error:
        raise _make_field_error(str(path), error.errors(), (), {}) from error
    plain = lenient.model_dump(by_alias=True, exclude_unset=True, mode="json")
    del plain["url"]
    for key in plain.get("tableSchema", {}).get("foreignKeys", []):
        key["reference"]["resource"] = _relative(path.parent / key["reference"]["resource"], base)
    if "url" not in section and isinstance(chosen.get("url"), str):
        plain["url"] = _relative(path.parent / chosen["url"], base)
    return plain


def _relative(path: Path, base: Path) -> str:
    return str(path.relative_to(base)) if path.is_relative_to(base) else str(path.resolve())


def _list_texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _make_field_error(
    name: str,
    errors: list[ErrorDetails],
    place: tuple[str, ...],
    lines: Mapping[tuple[str, ...], int],
    merged: Mapping[str, Any] | None = None,
) -> TableError:
    """One error for all wrong fields of a site.

    Args:
        merged: the section with the common parts, if it has such: then columns are called by their
            names, because their numbers are not those of the file.
    """
    problems: dict[str, None] = {}
    for error in errors:
        loc = tuple(str(part) for part in error["loc"] if not _is_type(part))
        path = (*place, *loc)
        text = _describe_problem(error)
        column = None if merged is None else _column_name(merged, loc)
        field = ".".join(path if column is None else (*place, f"column {column}", *loc[3:]))
        problems[f"{f'`{field}`: ' if field else ''}{text}{_format_line(path, lines)}"] = None
    shown = list(problems)[:MAX_FIELDS_SHOWN]
    if len(problems) > len(shown):
        shown.append(f"and {len(problems) - len(shown)} more")
    if len(shown) == 1:
        return TableError(f"{name}: {shown[0]}", help=FIELDS_HELP)
    return TableError(
        f"{name}: {len(problems)} fields are wrong\n  " + "\n  ".join(shown), help=FIELDS_HELP
    )


def _column_name(section: Mapping[str, Any], loc: tuple[str, ...]) -> str | None:
    """The name of the column that a place in a section is in; None if it is in none."""
    if loc[:2] != ("tableSchema", "columns") or len(loc) < 3 or not loc[2].isdigit():
        return None
    try:
        return str(section["tableSchema"]["columns"][int(loc[2])]["name"])
    except (KeyError, IndexError, TypeError):
        return None


def _is_type(part: int | str) -> bool:
    """Whether a part of the place of a problem is one of the types of a field, as pydantic adds."""
    return str(part) in ("str", "float", "Format") or str(part).startswith(("tuple[", "dict["))


def _describe_problem(error: ErrorDetails) -> str:
    match error["type"]:
        case "extra_forbidden":
            known = sorted(
                {
                    field.alias or name
                    for section in SECTIONS
                    for name, field in section.model_fields.items()
                }
            )
            field = str(error["loc"][-1])
            near = SYNONYMS.get(field) or nearest_name(field, known)
            return "unknown field" + (f"; did you mean `{near}`?" if near else "")
        case "value_error":
            return str(error["ctx"]["error"]) if "ctx" in error else error["msg"]
        case "bool_type" | "bool_parsing":
            return "must be true or false"
        case "string_type" if isinstance(error["input"], bool):
            return "must be a text: put words such as on, off, yes and no in quotes"
        case "string_type" if error["input"] is None:
            return 'must be a text; write "" for an empty one'
        case "string_type" if isinstance(error["input"], list | dict):
            return "must be one text"
        case "string_type":
            return "must be a text: put it in quotes"
        case "missing":
            return "is missing"
        case "tuple_type":
            return "must be a list"
        case "dict_type" | "model_type" | "model_attributes_type":
            return "must be a section with fields"
    return f"{error['msg'][0].lower()}{error['msg'][1:]}"


def _format_line(path: tuple[str, ...], lines: Mapping[tuple[str, ...], int]) -> str:
    """`` (line 12)`` of a field or of the section around it; "" if unknown."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return f" (line {lines[path[:length]]})"
    return ""
