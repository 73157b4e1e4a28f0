"""XML schema files as light trees: one, with those that it includes and imports from its own
folder, or all of a folder.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.sources.axiom_trees import is_absolute
from fedkg_compiler.graph.sources.xml_events import Place, Start, walk
from fedkg_compiler.graph.xml_check import broken_iri
from fedkg_compiler.input_files import ABSENT, decode, find, note, read_bytes

XSD_NAMESPACE = "http://www.w3.org/2001/XMLSchema"


@dataclass(slots=True)
class Element:
    """One element of the schema language.

    Attributes:
        name: its local name, such as ``complexType``.
        line: the line on which it begins.
        column: the column in which it begins.
        text: the texts of a ``documentation`` element.
    """

    name: str
    attributes: dict[str, str]
    line: int
    column: int
    children: list[Element] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def all(self, *names: str) -> Iterator[Element]:
        """The children of these names, in order."""
        return (child for child in self.children if child.name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """One file.

    Attributes:
        file: the name of the file in messages.
        namespace: the namespace that the schema defines names in; "" for none.
        prefixes: the prefixes that the schema declares, with their namespaces, to read type names.
    """

    file: str
    namespace: str
    prefixes: dict[str, str]
    root: Element

    def qualified(self, name: str) -> tuple[str, str]:
        """Namespace and local name of a name such as ``Extended:EquipmentType``.

        An unknown prefix is the schema's own namespace.
        """
        prefix, _, local = name.strip().rpartition(":")
        return self.prefixes.get(prefix, self.namespace), local


@dataclass(slots=True)
class Gathered:
    """The schemas in reading order, the sha256 of the files by name, and the diagnostics."""

    schemas: list[Schema] = field(default_factory=list)
    parts: dict[str, str] = field(default_factory=dict)
    bodies: dict[str, bytes] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)


def gather(text: str, file: str, folder: Path | None) -> Gathered:
    """Return the schema with this text, and those that it includes and imports, each once.

    Relative locations inside the folder are followed; nothing is fetched. A missing file is a
    diagnostic.
    """
    found = Gathered()
    schema = _parsed(text, file, found)
    if schema is None:
        return found
    shown, root = str(PurePath(file).parent), PurePath(file).name
    names = {root: schema}
    waiting = [root]
    for name in waiting:  # grows while it is read
        for child, location in _locations(names[name]):
            inner = _inside(location, posixpath.dirname(name))
            if inner is None or folder is None or not (folder / inner).is_file():
                found.problems.append(_not_there(names[name], child, location))
                if inner is not None and folder is not None:
                    note(folder / inner, ABSENT)
            elif inner != root and inner not in found.parts:
                further = _opened(
                    folder / inner, inner, inner if shown == "." else f"{shown}/{inner}", found
                )
                if further is not None:
                    names[inner] = further
                    waiting.append(inner)
    found.schemas += _adopted(names)
    return found


def gather_folder(folder: Path, shown: str) -> Gathered:
    """Return all schemas below a folder, in the order of their names.

    Raises OSError where one cannot be read.
    """
    found = Gathered()
    names: dict[str, Schema] = {}
    for path in find(folder, "**/*.xsd"):
        name = path.relative_to(folder).as_posix()
        schema = _opened(path, name, f"{shown}/{name}", found)
        if schema is not None:
            names[name] = schema
    for name, schema in names.items():
        for child, location in _locations(schema):
            if _inside(location, posixpath.dirname(name)) not in found.parts:
                found.problems.append(_not_there(schema, child, location))
    found.schemas += _adopted(names)
    return found


def _adopted(names: dict[str, Schema]) -> list[Schema]:
    """The schemas; one without a namespace takes the namespace of each schema that includes it, as
    XSD requires.
    """
    spaces = {name: {schema.namespace} - {""} for name, schema in names.items()}
    own = {name for name, found in spaces.items() if found}
    for _ in names:
        before = sum(map(len, spaces.values()))
        for name, schema in names.items():
            for child, location in _locations(schema):
                inner = _inside(location, posixpath.dirname(name))
                if child.name != "import" and inner in names and inner not in own:
                    spaces[inner] |= spaces[name]
        if sum(map(len, spaces.values())) == before:
            break
    schemas: list[Schema] = []
    for name, schema in names.items():
        if name in own or not spaces[name]:
            schemas.append(schema)
        if name not in own:
            schemas += [
                Schema(
                    file=schema.file,
                    namespace=space,
                    prefixes={**schema.prefixes, "": space},
                    root=schema.root,
                )
                for space in sorted(spaces[name])
            ]
    return schemas


def _opened(path: Path, name: str, shown: str, found: Gathered) -> Schema | None:
    body = read_bytes(path, name="graph")
    found.parts[name] = hashlib.sha256(body).hexdigest()
    found.bodies[name] = body
    text, problem = decode(body, shown)
    if problem is not None:
        found.problems.append(problem)
        return None
    return _parsed(text, shown, found)


def _locations(schema: Schema) -> Iterator[tuple[Element, str]]:
    for child in schema.root.all("include", "import", "redefine", "override"):
        if "schemaLocation" in child.attributes:
            yield child, child.attributes["schemaLocation"].strip()


def _inside(location: str, at: str) -> str | None:
    """The name of a location below the folder; None for an address or a path outside it."""
    if ":" in location or location.startswith(("/", "\\")) or not location.lower().endswith(".xsd"):
        return None
    name = posixpath.normpath(posixpath.join(at, location))
    return None if name.startswith("..") else name


def _not_there(schema: Schema, child: Element, location: str) -> Diagnostic:
    return report(
        "FKG105",
        point(schema.file, child.line, child.column),
        f"the schema {location} is not followed: this folder has no file of this name",
        help="if you need its types, give the folder with all schemas; fedkg fetches nothing",
        severity="info",
    )


class _Builder:
    """The callbacks of one pass over a schema."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.root: Element | None = None
        self.stack: list[Element] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        space, _, local = name.rpartition(" ")
        element = Element(local if space == XSD_NAMESPACE else "", attributes, *self.place.now())
        if self.stack:
            self.stack[-1].children.append(element)
        else:
            self.root = element
        self.stack.append(element)

    def characters(self, text: str) -> None:
        if self.stack and self.stack[-1].name == "documentation":
            self.stack[-1].text.append(text)

    def end(self, name: str) -> None:
        del name
        self.stack.pop()


def _parsed(text: str, file: str, found: Gathered) -> Schema | None:
    builders: list[_Builder] = []
    prefixes: dict[str, str] = {}

    def begin(place: Place) -> tuple[Start, Callable[[str], None], Callable[[str], None]]:
        builders.append(_Builder(place))
        return builders[0].start, builders[0].end, builders[0].characters

    stopped = walk(text, file, begin, prefixes)
    found.problems += stopped
    root = builders[0].root
    if root is None or any(problem.code == "FKG107" for problem in stopped):
        return None
    if root.name != "schema":
        advice = "an XML schema begins with <schema>"
        found.problems.append(
            report(
                "FKG102",
                point(file, root.line, root.column),
                f"{file} is not an XML schema",
                help=advice,
            )
        )
        return None
    namespace = root.attributes.get("targetNamespace", "")
    if namespace and not is_absolute(namespace):
        found.problems.append(broken_iri(point(file, root.line, root.column), namespace))
        return None
    usable = {prefix: iri for prefix, iri in prefixes.items() if is_absolute(iri)}
    return Schema(file=file, namespace=namespace, prefixes=usable, root=root)
