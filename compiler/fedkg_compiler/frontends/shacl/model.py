"""Shapes as plain data: what a shapes graph says, before anything is known of the data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rdflib.term import Node, URIRef

    from fedkg_compiler.frontends.shacl.rdflib_graphs import IndexedGraph

Severity = Literal["violation", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Step:
    """One property, from subject to object."""

    property: URIRef


@dataclass(frozen=True, slots=True)
class Inverse:
    """A path walked backwards."""

    path: Path


@dataclass(frozen=True, slots=True)
class Sequence:
    """Paths one after the other."""

    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    """Any of several paths."""

    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A path walked again and again (`many`) or at most once, `least` (0 or 1) times at least."""

    path: Path
    least: int
    many: bool


Path = Step | Inverse | Sequence | Alternative | Repeat


@dataclass(frozen=True, slots=True)
class Target:
    """A source of focus nodes.

    Attributes:
        kind: ``class``, ``node``, ``subjects`` (of a property), ``objects``, ``sparql`` (a SELECT
            for ``?this``), or ``unknown``: a kind of target that fedkg does not support.
        value: the class, node or property; for ``sparql`` and ``unknown`` the node of the target.
        select: the text of the query with its prefixes, "" for other kinds.
    """

    kind: Literal["class", "node", "subjects", "objects", "sparql", "unknown"]
    value: Node
    select: str = ""


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint component of a shape.

    Attributes:
        name: local name of its parameter: ``minInclusive``, ``or``, ``property``; for a custom
            component, the local name of its class.
        predicate: IRI of that parameter.
        values: its values: a literal, the members of a list, or shapes (nodes of the shapes graph).
        node: the node of the value in the shapes graph (the head of a list).
        count: the number of ``qualifiedMinCount`` or ``qualifiedMaxCount``; 0 for other components.
        flags: the flags of ``pattern``, or "".
        disjoint: whether `sh:qualifiedValueShapesDisjoint` is true.
        custom: whether it comes from a `sh:ConstraintComponent`.
        component: the IRI of a custom component.
        message: the message that a ``sparql`` constraint states itself, or "".
        deactivated: whether a ``sparql`` constraint states that it is deactivated.
    """

    name: str
    predicate: URIRef
    values: tuple[Node, ...]
    node: Node
    count: int = 0
    flags: str = ""
    disjoint: bool = False
    custom: bool = False
    component: Node | None = None
    message: str = ""
    deactivated: bool = False

    @property
    def is_query(self) -> bool:
        """Whether a SPARQL query decides it."""
        return self.custom or self.name == "sparql"


SHAPE_VALUED = frozenset(
    {"and", "or", "xone", "not", "node", "property", "qualifiedMinCount", "qualifiedMaxCount"}
)
"""Components with shapes as values."""

PAIRS = ("equals", "disjoint", "lessThan", "lessThanOrEquals")
"""Components with a property as their value; its values are compared with the values of the path.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A node shape (`path` None) or property shape.

    Attributes:
        node: the node of the shape in the shapes graph.
        name: the local name of its IRI, or of the IRI of the shape around it; else its label or
            `sh:name`, else "".
        path: the path of a property shape, None for a node shape.
        constraints: its constraint components.
        targets: the sources of its focus nodes.
        deactivated: whether `sh:deactivated` is true.
        severity: the severity of its violations.
        message: `sh:message`, or "".
        title: `sh:name`, or "".
        kind: `fkg:kind`, which the pack contains.
        weight: `fkg:weight`, which the pack contains.
        line: its line in the file, 1 if it is not found.
    """

    node: Node
    name: str
    path: Path | None
    constraints: tuple[Constraint, ...]
    targets: tuple[Target, ...]
    deactivated: bool = False
    severity: Severity = "violation"
    message: str = ""
    title: str = ""
    kind: str = "other"
    weight: float = 1.0
    line: int = 1


_PREFIX = re.compile(r"(?im)^\s*@?prefix\s+([\w.-]*):\s*<([^<>]*)>")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShapesFile:
    """All shapes of one file.

    Attributes:
        name: the file as the user named it.
        sha256: the checksum of the file.
        shapes: the shapes by node, in the order of the file.
        graph: the triples of the file.
        problems: shapes that are not well formed: node, SHACL property with the mistake, message.
    """

    name: str
    sha256: str
    shapes: Mapping[Node, Shape]
    graph: IndexedGraph
    problems: tuple[tuple[Node, str, str], ...] = ()
    lines: Mapping[Node, int] = field(default_factory=dict)
    text: str = ""
    prefixes: Mapping[str, str] = field(default_factory=dict)

    def locate(self, line: int, word: str, space: str = "") -> tuple[int, int, int]:
        """Line, column and width of a name with this local name at or after a line, within a
        shape's length of it; else the line itself.

        `space`: its namespace, where the file says prefixes for it and other names could end alike.
        """
        rows = lines_of(self.text)
        prefixes = [prefix for prefix, iri in _declared(self.text) if iri == space]
        head = f"(?:{'|'.join(map(re.escape, prefixes))})" if prefixes else r"[\w.-]*"
        name = re.compile(
            rf"(?<![\w.-]){head}:{re.escape(word)}(?![\w-])|<[^<>\s]*[/#:]{re.escape(word)}>"
        )
        for number in range(line, min(line + 30, len(rows)) + 1):
            found = name.search(rows[number - 1])
            if found:
                return number, found.start() + 1, found.end() - found.start()
        return line, 1, 1

    def written(self, place: tuple[int, int, int]) -> str:
        """The text at a place."""
        line, column, width = place
        return lines_of(self.text)[line - 1][column - 1 : column - 1 + width]

    def targeted(self) -> Iterator[Shape]:
        """The shapes that say where they hold."""
        return (shape for shape in self.shapes.values() if shape.targets)


@lru_cache(maxsize=4)
def lines_of(text: str) -> list[str]:
    """The lines of a shapes file; a large file has thousands of places to name."""
    return text.split("\n")


@lru_cache(maxsize=4)
def _declared(text: str) -> list[tuple[str, str]]:
    return _PREFIX.findall(text)


def steps_in(path: Path) -> Iterator[Step]:
    """Every property of a path."""
    match path:
        case Step():
            yield path
        case Inverse() | Repeat():
            yield from steps_in(path.path)
        case Sequence() | Alternative():
            for part in path.paths:
                yield from steps_in(part)


def path_text(path: Path) -> str:
    """A path for people, in SPARQL's notation with local names: ``feeds*/pressure``."""
    from fedkg_compiler.graph.graph_terms import local_name

    match path:
        case Step():
            return local_name(str(path.property))
        case Inverse():
            return f"^{path_text(path.path)}"
        case Repeat():
            inner = path_text(path.path)
            inner = inner if isinstance(path.path, Step) else f"({inner})"
            return inner + ("?" if not path.many else "+" if path.least else "*")
        case Sequence():
            return "/".join(
                f"({path_text(part)})" if isinstance(part, Alternative) else path_text(part)
                for part in path.paths
            )
        case Alternative():
            return "|".join(path_text(part) for part in path.paths)


def shape_name(shape: Shape) -> str:
    """A shape."""
    return shape.name or "a shape without a name"


def part_name(root: Shape, path: str, word: str) -> str:
    """A component as reports and rules call it: ``PumpShape.pressure.minInclusive``."""
    head = root.name or f"shape_{root.line}"
    return ".".join(part for part in (re.sub(r"\s+", "_", head), path, word) if part)


def shape_path(shape: Shape) -> str:
    """The path of a shape from its focus node."""
    return "the focus node" if shape.path is None else path_text(shape.path)
