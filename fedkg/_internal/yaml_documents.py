"""YAML documents within the limits of `fedkg.limits`: job files and sites files."""

from __future__ import annotations

import re
from typing import Any

from typing_extensions import override

from fedkg.errors import FedkgError, JobError, MissingExtra
from fedkg.limits import require_within_limit

Document = dict[str, Any]
"""A parsed YAML file. `Any`: YAML."""

MAX_FIELD_LINES, MAX_LINE_DEPTH = 10_000, 32
"""Limits for looking up the lines of fields: aliases can expand to millions of fields."""


def field_lines(text: str) -> dict[tuple[str, ...], int]:
    """The line, from 1, of each field in a YAML text; list entries by their index."""
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

    try:  # in C it takes a fiftieth of the time
        node = yaml.compose(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:  # the loader in C rejects half of a surrogate pair
        node = yaml.compose(text, yaml.SafeLoader)
    walk(node, ())
    return found


def _yaml_problem(problem: str) -> str:
    """A problem of the YAML parser without its own "expected": ``'-' instead of ']'``."""
    found = re.fullmatch(r"expected (.+), but (?:found|got) (.+)", problem)
    return problem if found is None else f"{found[2]} instead of {found[1]}"


def parse_yaml(
    text: str,
    name: str,
    *,
    kind: str = "job file",
    fields: str = "`rules:`, `sites:`, `training:`",
    error_class: type[FedkgError] = JobError,
) -> Document:
    """Parse a YAML mapping within the limits `fields` and `depth`.

    Args:
        name: name of the document in errors.
        kind: what the document is, for errors.
        fields: examples of its fields, for errors.
        error_class: the error to raise.

    Raises:
        JobError (or `error_class`): the text is not such a mapping, or a key occurs twice; with
            line and column.
        LimitError: too many fields (with aliases expanded) or too many levels.
    """
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise MissingExtra(f"reading a {kind}", "run") from error

    class Loader(yaml.SafeLoader):
        """Rejects duplicate keys in a mapping; YAML itself would silently use the last value.

        It counts fields and levels while it reads, because a few aliases can expand to millions of
        fields.
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
                # an alias counts as much as its target; a recursive one counts as one field
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
                        raise error_class(
                            f"{name}: field `{key.value}` occurs twice in one section",
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
        raise error_class(
            f"{name} is not YAML{where}",
            received=_yaml_problem(str(problem)),
            help="write `field: value` lines, and indent those of a section equally with spaces",
        ) from error
    except ValueError as error:  # a number with thousands of digits, or an invalid date
        raise error_class(
            f"{name} has a value that cannot be read",
            received=str(error),
            help="quote it if it is a text",
        ) from error
    except RecursionError as error:
        raise error_class(
            f"{name} is nested too deeply",
            help="it needs three or four levels; check for unclosed brackets",
        ) from error
    if not isinstance(document, dict):
        received = (
            "an empty file"
            if document is None
            else "a list"
            if isinstance(document, list)
            else "text without fields"
        )
        raise error_class(
            f"{name} is not a {kind}",
            expected=f"fields such as {fields}",
            received=received,
            help=f"start from an example, or see the reference of the {kind}",
        )
    return document
