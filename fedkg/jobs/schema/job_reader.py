"""Read a job file into a validated `Job`; one message lists every invalid field.

`data.sites_file` gives the sites of a job.
"""

from __future__ import annotations

import re
import reprlib
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fedkg._internal.name_matching import nearest_name
from fedkg._internal.yaml_documents import Document, field_lines, parse_yaml
from fedkg.errors import JobError, UsageError
from fedkg.jobs.schema.algorithm_presets import PRESETS
from fedkg.jobs.schema.algorithm_section import Algorithm
from fedkg.jobs.schema.data_section import Knowledge, resolve_knowledge_files
from fedkg.jobs.schema.endpoint_recognition import is_address
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.overrides import apply_overrides, canonical_field
from fedkg.limits import read_file


def add_sites_of_file(document: dict[str, Any], base: Path) -> dict[str, Any]:
    """The fields of a job with the sites, tables and settings of its sites file.

    A job that lists `sites` trains only these, and its own settings come first. With `data.set`,
    sites get no table and no machines, because all rows become one data set. A job without a sites
    file stays unchanged, and so does the job of a run if its sites file no longer exists.

    Args:
        document: the fields of a job file. `Any`: YAML.
        base: folder of relative paths.

    Raises:
        UsageError, TableError: the sites file cannot be read, or is wrong.
        JobError: the job names a site that the sites file does not describe, or describes its table
            too.
    """
    data = document.get("data")
    path = data.get("sites_file") if isinstance(data, Mapping) else None
    if not isinstance(path, str) or not isinstance(data, Mapping):
        return document
    file = (base / Path(path).expanduser()).resolve()
    listed = document.get("sites")
    if listed and not file.exists():
        return document
    from fedkg.sites import load_sites

    if isinstance(listed, Mapping):
        named = {str(name): dict(own or {}) for name, own in listed.items()}
    else:
        named = {str(name): {} for name in listed} if isinstance(listed, list) else {}
    found = load_sites(file, names=named).sites
    named = named or {name: {} for name in found}
    sites: dict[str, dict[str, Any]] = {}
    for name, own in named.items():
        if name not in found:
            known = load_sites(file).sites
            near = nearest_name(name, known)
            raise JobError(
                f"sites.{name}: {file} does not describe this site",
                expected=", ".join(list(known)[:20]),
                help=f"did you mean `{near}`?"
                if near
                else "add the site to the sites file, or correct its name in the job",
            )
        stated = found[name].settings.model_dump(exclude_none=True, exclude_defaults=True)
        if "knowledge" in stated:
            stated["knowledge"] = resolve_knowledge_files(stated["knowledge"], file.parent)
        if data.get("set") is None:
            table = str(Path(found[name].url[0]).resolve())
            twice = [key for key in ("table", "columns") if own.get(key, table) not in (table, {})]
            if twice:
                raise JobError(
                    f"`sites.{name}.{twice[0]}` and `data.sites_file` exclude each other",
                    help=f"remove `sites.{name}.{twice[0]}`: {file} describes the table",
                )
            stated["table"] = table
        else:
            stated.pop("machines", None)
        sites[name] = {**stated, **own}
    return {**document, "sites": sites, "data": {**data, "sites_file": str(file)}}


MAX_FIELDS_SHOWN = 12

_SHORT = reprlib.Repr()
"""Formats a value in one line, whatever its size: aliases can expand to millions of fields."""
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 2, 60, 60


def read_job(path: str | Path, overrides: Sequence[str] = ()) -> Job:
    """Read a job from a YAML file, apply `--set` overrides, and make paths absolute.

    Raises:
        UsageError: the file cannot be read, or an override has an invalid form.
        JobError: the file is not YAML, or fields are invalid; the message lists all of them.
    """
    path = Path(path)
    text = read_job_text(path)
    document = parse_yaml(text, str(path))
    return parse_job(
        document,
        name=str(path),
        base=path.resolve().parent,
        overrides=overrides,
        lines=field_lines(text),
    )


def read_job_text(path: Path) -> str:
    """The text of a job file.

    Raises:
        UsageError: the file cannot be read.
        JobError: the file is not UTF-8 text.
        LimitError: the file is too large.
    """
    try:
        return read_file(path, name="job").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise JobError(
            f"{path} is not UTF-8 text",
            expected="a YAML job file in UTF-8",
            received=f"the byte 0x{error.object[error.start]:02X} at position {error.start}",
            help="save it as UTF-8",
        ) from error
    except OSError as error:
        raise UsageError(
            f"cannot read job file {path}",
            received=error.strerror or str(error),
            help="paths are relative to the current folder"
            if isinstance(error, FileNotFoundError)
            else "name a YAML file that you may read",
        ) from error


def parse_job(
    document: Document,
    *,
    name: str,
    base: Path,
    overrides: Sequence[str] = (),
    lines: Mapping[tuple[str, ...], int] | None = None,
) -> Job:
    """The job in a parsed document.

    Args:
        name: name of the document in errors.
        base: folder of relative paths.
        lines: the line of each field, see `field_lines`; an override replaces it.

    Raises:
        JobError, UsageError: as for `read_job`.
    """
    changed = {
        tuple(canonical_field(text.partition("=")[0].strip()).split(".")): text
        for text in overrides
    }
    document = add_sites_of_file(apply_overrides(document, overrides, base), base)
    try:
        job = Job.model_validate(document)
    except ValidationError as error:
        written = document.get("algorithm")
        inline = f"algorithms.{written.get('preset', 'own')}." if isinstance(written, dict) else ""
        said = {place: f"line {line}" for place, line in (lines or {}).items()} | {
            place: f"--set {text}" for place, text in changed.items()
        }
        raise _wrong_fields(name, error.errors(), said, inline) from error
    for place, algorithm in _named_algorithms(job):
        if algorithm not in job.algorithms and algorithm not in PRESETS:
            line = _line(
                place, {known: f"line {number}" for known, number in (lines or {}).items()}
            )
            raise unknown_algorithm(job, algorithm, f"{name}: field `{place}`{line}")
    return with_absolute_paths(job, base)


def _named_algorithms(job: Job) -> Iterator[tuple[str, str]]:
    """The algorithms that a job names, each with its field."""
    yield "algorithm", job.algorithm
    for i, algorithm in enumerate(job.compare.get("algorithm", ())):
        if isinstance(algorithm, str):
            yield f"compare.algorithm.{i}", algorithm


def unknown_algorithm(job: Job, algorithm: str, place: str) -> JobError:
    """The error for the name of an algorithm that is neither a preset nor a section of the job."""
    known = [*job.algorithms, *(preset for preset in PRESETS if preset not in job.algorithms)]
    near = nearest_name(algorithm, known)
    return JobError(
        f"{place}: unknown algorithm",
        expected=", ".join(known),
        received=algorithm,
        help=f"did you mean `{near}`?"
        if near
        else "use one of these, or add a section with this name under `algorithms`",
    )


def with_absolute_paths(job: Job, base: Path) -> Job:
    """The job with absolute paths, so that a run can resume from any folder."""

    def absolute(text: str | None) -> str | None:
        return (
            text
            if text is None or is_address(text)
            else str((base / Path(text).expanduser()).resolve())
        )

    def absolute_module(text: str | None) -> str | None:
        """The path of a module in a file made absolute; others unchanged."""
        place, _, name = (text or "").rpartition(":")
        return f"{absolute(place)}:{name}" if place.endswith(".py") else text

    def absolute_algorithm(section: Algorithm) -> Algorithm:
        """An algorithm section with absolute paths of code."""
        own = section.aggregate.own
        if section.path is None and own is None:
            return section
        aggregate = section.aggregate
        if own is not None:
            own = own.model_copy(update={"path": absolute_module(own.path)})
            aggregate = aggregate.model_copy(update={"own": own})
        return section.model_copy(
            update={"path": absolute_module(section.path), "aggregate": aggregate}
        )

    graph = job.model.graph
    if graph is not None:
        graph = graph.model_copy(
            update={"files": tuple(str(absolute(file)) for file in graph.files)}
        )
    return job.model_copy(
        update={
            "model": job.model.model_copy(
                update={"path": absolute_module(job.model.path), "graph": graph}
            ),
            "algorithms": {
                name: absolute_algorithm(section) for name, section in job.algorithms.items()
            },
            "rules": tuple(str(absolute(rule)) for rule in job.rules),
            "pack": absolute(job.pack),
            "causes": absolute(job.causes),
            "data": job.data.model_copy(
                update={
                    "set": absolute_module(job.data.set) if job.data.set else None,
                    "path": absolute(job.data.path),
                    "sites_file": absolute(job.data.sites_file),
                    "server_table": absolute(job.data.server_table),
                }
            ),
            "sites": {
                key: site.model_copy(
                    update={
                        "table": absolute(site.table),
                        "knowledge": _absolute_knowledge(site.knowledge, base),
                    }
                )
                for key, site in job.sites.items()
            },
        }
    )


def _absolute_knowledge(knowledge: Knowledge | None, base: Path) -> Knowledge | None:
    """The knowledge of a site with absolute paths."""
    if knowledge is None:
        return None
    fields = knowledge.model_dump(mode="json", exclude_defaults=True)
    return Knowledge.model_validate(resolve_knowledge_files(fields, base))


def _wrong_fields(
    name: str,
    errors: Sequence[ErrorDetails],
    where: Mapping[tuple[str, ...], str],
    inline: str = "",
) -> JobError:
    """One error for all invalid fields.

    Args:
        inline: the place of an algorithm that the file writes instead of a name.
    """
    wrong = {
        (
            f"algorithm.{field.removeprefix(inline)}"
            if inline and field.startswith(inline)
            else "algorithm"
            if inline and field == inline[:-1]
            else field
        ): found
        for field, found in group_by_field(errors).items()
    }
    lines = [
        f"{f'`{field}`: ' if field else ''}{(text := format_field_errors(found))}"
        f"{_line(field or _first_quoted(text), where)}"
        for field, found in list(wrong.items())[:MAX_FIELDS_SHOWN]
    ]
    if len(wrong) > MAX_FIELDS_SHOWN:
        lines.append(f"and {len(wrong) - MAX_FIELDS_SHOWN} more")
    if len(lines) == 1:
        return JobError(f"{name}: {'' if '' in wrong else 'field '}{lines[0]}")
    return JobError(f"{name}: {len(wrong)} fields are invalid\n  " + "\n  ".join(lines))


def _first_quoted(text: str) -> str:
    """The first field that a message about the whole job names, "" if it names none."""
    found = re.search(r"`([^`]+)`", text)
    return "" if found is None else found[1]


def group_by_field(errors: Sequence[ErrorDetails]) -> dict[str, list[ErrorDetails]]:
    """Errors by field.

    For a field with several forms: the errors of all forms, or those of the form with invalid
    fields inside.
    """
    found: dict[str, list[ErrorDetails]] = {}
    for error in errors:
        found.setdefault(_field(error["loc"]), []).append(error)
    # The sections around every field; looking for a prefix per field would take quadratic time.
    around = {field[:dot] for field in found for dot, letter in enumerate(field) if letter == "."}
    return {field: own for field, own in found.items() if field not in around}


def _line(field: str, where: Mapping[tuple[str, ...], str]) -> str:
    """The place of a field, such as `` (line 12)`` or an option; of a missing field its section's.

    Empty if unknown.
    """
    path = tuple(field.split("."))
    found = next(
        (where[path[:length]] for length in range(len(path), 0, -1) if path[:length] in where), None
    )
    return "" if found is None else f" ({found})"


def _field(location: tuple[int | str, ...]) -> str:
    """The field of the file at an error location, such as `sites.a.trust`."""
    # Names that users choose, which may look like a branch: `sites: {"press [2]": ...}`.
    chosen = 2 if location and location[0] in {"sites", "algorithms"} else 0
    return ".".join(
        str(part) for place, part in enumerate(location) if place < chosen or not _is_branch(part)
    )


def _is_branch(part: int | str) -> bool:
    """Whether part of an error location is pydantic's name for a union member, not a field of the
    file.
    """
    return isinstance(part, str) and (
        part in {"int", "float", "str", "bool", "none"}
        or "[" in part
        or "(" in part
        or part.startswith(("literal", "constrained-"))
    )


EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "tuple_type": "a list, such as [a, b]",
    "too_short": "a list of length {min_length} or more",
    "dict_type": "a section with fields",
    "model_type": "a section with fields",
    "literal_error": "{expected}",
    "greater_than": "above {gt:.12g}",
    "greater_than_equal": "at least {ge:.12g}",
    "less_than": "below {lt:.12g}",
    "less_than_equal": "at most {le:.12g}",
    "string_too_long": "at most {max_length} characters long",
}
"""What a field must contain, by pydantic's error type."""


def format_field_errors(errors: Sequence[ErrorDetails]) -> str:
    """What is wrong with one field; several errors mean that no form of the field fits."""
    wanted = [
        EXPECTED[error["type"]].format(**error.get("ctx", {}))
        for error in errors
        if error["type"] in EXPECTED
    ]
    if len(wanted) == len(errors):
        return (
            f"must be {' or '.join(dict.fromkeys(wanted))}, not {_short_repr(errors[0]['input'])}"
        )
    error = next(error for error in errors if error["type"] not in EXPECTED)
    match error["type"]:
        case "extra_forbidden":
            siblings = list(fields_at(error["loc"][:-1]))
            near = nearest_name(str(error["loc"][-1]), siblings)
            inner = _inner_sections(error["loc"][:-1], str(error["loc"][-1]))
            home = _section_with_field(str(error["loc"][-1]))
            hint = (
                f"it belongs to {' or '.join(f'`{one}`' for one in inner)}"
                if 0 < len(inner) <= _MOST_HOMES
                else f"it belongs to `{home}`"
                if home
                else f"did you mean `{near}`?"
                if near
                else "known: " + ", ".join(siblings)
            )
            return f"unknown field; {hint}"
        case "missing":
            info = fields_at(error["loc"][:-1]).get(str(error["loc"][-1]))
            listed = info is not None and get_origin(info.annotation) is Literal
            values = get_args(info.annotation) if info is not None and listed else ()
            return "is missing" + (f"; give {' or '.join(map(repr, values))}" if values else "")
        case "value_error":
            return str(error["ctx"]["error"]) if "ctx" in error else error["msg"]
        case "string_pattern_mismatch":
            if error["loc"][-1] == "device":
                return (
                    "must be cpu, cuda, or cuda:1 for the second GPU, not "
                    f"{_short_repr(error['input'])}"
                )
            rule = (
                "a name must not be blank"
                if error["ctx"]["pattern"] == r"\S"
                else "ASCII letters, digits, _ . - only, and a letter or digit first"
            )
            return f"{_short_repr(error['input'])} is not a name: {rule}"
    return f"{error['msg'][0].lower()}{error['msg'][1:]}, not {_short_repr(error['input'])}"


def _short_repr(value: object) -> str:
    return _SHORT.repr(value)


def fields_at(place: Sequence[int | str]) -> Mapping[str, Any]:
    """The fields that are valid at a place of the job file. `Any`: pydantic's field description."""
    model: type[BaseModel] = Job
    i = 0
    while i < len(place):
        part = place[i]
        info = model.model_fields.get(str(part))
        if info is None:
            return {}
        inner, keyed = _part_in(info.annotation)
        if inner is None:
            return {}
        model = inner
        i += 2 if keyed else 1
    return model.model_fields


def _part_in(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """The section behind a field's type, and whether it is a mapping of sections.

    `Any`: a type form.
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        found = (_part_in(arg) for arg in get_args(annotation))
        return next((one for one in found if one[0] is not None), (None, False))
    if origin is dict:
        return _part_in(get_args(annotation)[1])[0], True
    return None, False


_MOST_HOMES = 3
"""A field of more sections than this is not assigned to them in errors."""


def _inner_sections(place: Sequence[int | str], field: str) -> list[str]:
    """The fields of this name inside the section at a place: ``aggregate.krum.attackers``."""
    found: list[str] = []
    waiting = [(name, info.annotation) for name, info in fields_at(place).items()]
    while waiting:
        path, annotation = waiting.pop(0)
        model, keyed = _part_in(annotation)
        if model is None or keyed:
            continue
        if field in model.model_fields:
            found.append(f"{path}.{field}")
        waiting += [
            (f"{path}.{name}", info.annotation) for name, info in model.model_fields.items()
        ]
    return found


def _section_with_field(field: str) -> str:
    """The section with a field of this name, if there is exactly one."""
    homes = [
        name
        for name in Job.model_fields
        if field in fields_at((name,)) and not _part_in(Job.model_fields[name].annotation)[1]
    ]
    return f"{homes[0]}.{field}" if len(homes) == 1 else ""
