"""From a job file to a checked `Job`; every wrong field of the file is named in one message."""

from __future__ import annotations

import reprlib
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import override

from fedkg._internal.name_matching import nearest_name
from fedkg.errors import JobError, MissingExtra, UsageError
from fedkg.jobs.schema.addresses import is_address
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.overrides import apply_overrides, canonical_field
from fedkg.limits import read_file, require_within_limit

Document = dict[str, Any]
"""A job file as YAML gives it. `Any`: YAML."""

MAX_FIELDS_SHOWN = 12

MAX_FIELD_LINES, MAX_LINE_DEPTH = 10_000, 32
"""Fields whose lines are looked up, and how deep: an alias of aliases may stand for millions of cells."""

_SHORT = reprlib.Repr()
"""Shows a value of a job file in a line, however large: an alias of aliases may stand for millions of cells."""
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 2, 60, 60


def read_job(path: str | Path, overrides: Sequence[str] = ()) -> Job:
    """The job in a YAML file, with `--set` overrides applied and paths made absolute.

    Raises:
        UsageError: when the file cannot be read or an override has the wrong form.
        JobError: when the file is not YAML, or fields are wrong: names the file and every field.
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
    """What is written in a job file. Raises UsageError when it cannot be read, JobError when it is no text, LimitError when it is too large."""
    try:
        return read_file(path, name="job").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise JobError(f"{path} is not a text file", expected="a YAML job file in UTF-8") from error
    except OSError as error:
        raise UsageError(
            f"cannot read job file {path}",
            received=error.strerror or str(error),
            help="a path is looked for in the folder you stand in",
        ) from error


def parse_job(
    document: Document,
    *,
    name: str,
    base: Path,
    overrides: Sequence[str] = (),
    lines: Mapping[tuple[str, ...], int] | None = None,
) -> Job:
    """The job in a parsed document; `name` stands in errors, relative paths are relative to `base`. Raises JobError, UsageError.

    Args:
        lines: where each field stands, see `lines_of`; a field that an override changes stands in the override.
    """
    changed = {
        tuple(canonical_field(text.partition("=")[0].strip()).split(".")): text
        for text in overrides
    }
    document = apply_overrides(document, overrides, base)
    try:
        job = Job.model_validate(document)
    except ValidationError as error:
        written = document.get("algorithm")
        inline = f"algorithms.{written.get('preset', 'own')}." if isinstance(written, dict) else ""
        said = {place: f"line {line}" for place, line in (lines or {}).items()} | {
            place: f"--set {text}" for place, text in changed.items()
        }
        raise _wrong_fields(name, error.errors(), said, inline) from error
    return with_absolute_paths(job, base)


def with_absolute_paths(job: Job, base: Path) -> Job:
    """The job with every path absolute, so that a run can be resumed from anywhere."""

    def fixed(text: str | None) -> str | None:
        return (
            text
            if text is None or is_address(text)
            else str((base / Path(text).expanduser()).resolve())
        )

    def found(text: str | None) -> str | None:
        """A module's path, where it names a file."""
        place, _, name = (text or "").rpartition(":")
        return f"{fixed(place)}:{name}" if place.endswith(".py") else text

    graph = job.model.graph
    if graph is not None:
        graph = graph.model_copy(update={"files": tuple(str(fixed(file)) for file in graph.files)})
    return job.model_copy(
        update={
            "model": job.model.model_copy(update={"path": found(job.model.path), "graph": graph}),
            "rules": tuple(str(fixed(rule)) for rule in job.rules),
            "pack": fixed(job.pack),
            "data": job.data.model_copy(update={"path": fixed(job.data.path)}),
            "sites": {
                key: site.model_copy(update={"table": fixed(site.table)})
                for key, site in job.sites.items()
            },
        }
    )


def field_lines(text: str) -> dict[tuple[str, ...], int]:
    """The line, from 1, on which each field of a YAML text stands; entries of lists by their number."""
    import yaml

    found: dict[tuple[str, ...], int] = {}

    def walk(node: yaml.Node | None, path: tuple[str, ...]) -> None:
        if len(found) > MAX_FIELD_LINES or len(path) > MAX_LINE_DEPTH:
            return
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                place = (*path, *str(key.value).split("."))
                found.setdefault(place, key.start_mark.line + 1)
                walk(value, place)
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                place = (*path, str(number))
                found.setdefault(place, value.start_mark.line + 1)
                walk(value, place)

    walk(yaml.compose(text, yaml.SafeLoader), ())
    return found


def parse_yaml(text: str, name: str) -> Document:
    """A YAML mapping within the limits `fields` and `depth`.

    Raises:
        JobError: with line and column, for anything else, and for a key that stands twice.
        LimitError: it has too many fields, aliases written out, or too many levels.
    """
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise MissingExtra("reading job files", "run") from error

    class Loader(yaml.SafeLoader):
        """Refuses a key that stands twice in one mapping; YAML itself would silently keep the last.

        It counts fields and levels while it reads: a few aliases can stand for millions of fields.
        """

        def __init__(self, stream: str) -> None:
            super().__init__(stream)
            self.levels = 0
            self.sizes: dict[int, int] = {}
            self.fields = 0

        @override
        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            self.levels += 1
            require_within_limit("depth", self.levels, name, at_least=True)
            alias = self.check_event(yaml.AliasEvent)
            before = self.fields
            node = super().compose_node(parent, index)
            self.levels -= 1
            if node is not None:
                # an alias counts as much as what it stands for; one within itself, as a field
                self.fields += self.sizes.get(id(node), 1) if alias else 1
                if not alias:
                    self.sizes[id(node)] = self.fields - before
                require_within_limit("fields", self.fields, name, at_least=True)
            return node

        @override
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen: set[object] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in seen:
                        place = (
                            f"line {key.start_mark.line + 1}, column {key.start_mark.column + 1}"
                        )
                        raise JobError(
                            f"{name}: field `{key.value}` stands twice in one place",
                            received=place,
                            help="keep one of them",
                        )
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

    try:
        document = yaml.load(text, Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise JobError(
            f"{name} is not YAML{where}",
            received=str(problem),
            help="lines such as `field: value`, those of a section indented by blanks alike",
        ) from error
    except ValueError as error:  # a number of thousands of digits, a date that no calendar has
        raise JobError(
            f"{name} has a value that cannot be read",
            received=str(error),
            help="quote it, if it is meant as a text",
        ) from error
    except RecursionError as error:
        raise JobError(
            f"{name} is nested too deeply to be a job",
            help="a job has three or four levels of fields; are brackets left open?",
        ) from error
    if not isinstance(document, dict):
        received = (
            "an empty file"
            if document is None
            else "a list"
            if isinstance(document, list)
            else "text without fields"
        )
        raise JobError(
            f"{name} is not a job file",
            expected="fields such as `rules:`, `sites:`, `training:`",
            received=received,
            help="begin with one of the examples, or see the reference of the job file",
        )
    return document


def _wrong_fields(
    name: str,
    errors: Sequence[ErrorDetails],
    where: Mapping[tuple[str, ...], str],
    inline: str = "",
) -> JobError:
    """One message of all wrong fields; `inline` is where an algorithm is kept that the file has in place of its name."""
    wrong = {
        f"algorithm.{field.removeprefix(inline)}"
        if inline and field.startswith(inline)
        else field: found
        for field, found in group_by_field(errors).items()
    }
    lines = [
        f"{f'`{field}`: ' if field else ''}{format_field_errors(found)}{_line(field, where)}"
        for field, found in list(wrong.items())[:MAX_FIELDS_SHOWN]
    ]
    if len(wrong) > MAX_FIELDS_SHOWN:
        lines.append(f"and {len(wrong) - MAX_FIELDS_SHOWN} more")
    if len(lines) == 1:
        return JobError(f"{name}: {'' if '' in wrong else 'field '}{lines[0]}")
    return JobError(f"{name}: {len(wrong)} fields are wrong\n  " + "\n  ".join(lines))


def group_by_field(errors: Sequence[ErrorDetails]) -> dict[str, list[ErrorDetails]]:
    """Errors by the field they are of: those of all forms that it may have; where one form has wrong fields of its own, of these alone."""
    found: dict[str, list[ErrorDetails]] = {}
    for error in errors:
        found.setdefault(
            ".".join(str(part) for part in error["loc"] if not _is_branch(part)), []
        ).append(error)
    return {
        field: own
        for field, own in found.items()
        if not any(inner.startswith(f"{field}.") for inner in found)
    }


def _line(field: str, where: Mapping[tuple[str, ...], str]) -> str:
    """`` (line 12)``, or the option that says it; of a field that is missing, those of its section; nothing where that is not known."""
    path = tuple(field.split("."))
    found = next(
        (where[path[:length]] for length in range(len(path), 0, -1) if path[:length] in where), None
    )
    return "" if found is None else f" ({found})"


def _is_branch(part: int | str) -> bool:
    """Whether a part of an error's place is pydantic's name for one form of a union or a check, not a field of the file."""
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
    "too_short": "a list with at least {min_length} value",
    "dict_type": "a section with fields of its own",
    "model_type": "a section with fields of its own",
    "literal_error": "{expected}",
    "greater_than": "above {gt:.12g}",
    "greater_than_equal": "at least {ge:.12g}",
    "less_than": "below {lt:.12g}",
    "less_than_equal": "at most {le:.12g}",
    "string_too_long": "at most {max_length} characters long",
}
"""What must stand in a field, by pydantic's name for the mistake."""


def format_field_errors(errors: Sequence[ErrorDetails]) -> str:
    """What is wrong with one field: several errors are the forms it may have, none of which fits."""
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
            home = _section_with_field(str(error["loc"][-1]))
            hint = (
                f"it belongs to `{home}`"
                if home
                else f"did you mean `{near}`?"
                if near
                else "known: " + ", ".join(siblings)
            )
            return f"there is no such field; {hint}"
        case "missing":
            return "is missing"
        case "value_error":
            return str(error["ctx"]["error"]) if "ctx" in error else error["msg"]
        case "string_pattern_mismatch":
            if error["loc"][-1] == "device":
                return f"must be cpu, cuda, or cuda:1 for the second of several, not {_short_repr(error['input'])}"
            return f"{_short_repr(error['input'])} is not a name: letters, digits, _ . - only"
    return f"{error['msg'][0].lower()}{error['msg'][1:]}, not {_short_repr(error['input'])}"


def _short_repr(value: object) -> str:
    return _SHORT.repr(value)


def fields_at(place: Sequence[int | str]) -> Mapping[str, Any]:
    """The fields that may stand at a place of the job file. `Any`: pydantic's description of a field."""
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
    """The section behind a field's type, and whether it stands in a mapping by name. `Any`: a type form."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        found = (_part_in(arg) for arg in get_args(annotation))
        return next((one for one in found if one[0] is not None), (None, False))
    if origin is dict:
        return _part_in(get_args(annotation)[1])[0], True
    return None, False


def _section_with_field(field: str) -> str:
    """The section that has a field of this name, when exactly one has."""
    homes = [
        name
        for name in Job.model_fields
        if field in fields_at((name,)) and not _part_in(Job.model_fields[name].annotation)[1]
    ]
    return f"{homes[0]}.{field}" if len(homes) == 1 else ""
