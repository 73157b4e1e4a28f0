"""Shapes as plain data: what a shapes graph says, before anything is known of the data; the checks
of the parameters of constraint components (SHACL, section 4); and the reader from a file of shapes
to `ShapesFile`: all of SHACL core, `sh:sparql`, custom components by name, SPARQL targets. Also the
graphs of shapes and data behind the interface of rdflib, what SHACL asks of the data, and warnings
about names that SHACL or the data does not know.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Any
from typing import Literal as OneOf

from rdflib import OWL, RDF, RDFS, XSD, BNode, Graph, Literal, Namespace, URIRef, Variable
from rdflib.paths import Path as RdflibPath
from rdflib.term import Node
from typing_extensions import override

from fedkg._internal.forked_worker import Crashed, run_apart
from fedkg._internal.name_matching import Suggestion, certain_match, nearest_name
from fedkg.limits import limit
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.frontends.shacl import linear_time_regex
from fedkg_compiler.frontends.shacl.xsd_lexical_forms import is_well_formed
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.ontologies import closest_name
from fedkg_compiler.graph.rdf_reader import Document, read_file
from fedkg_compiler.graph.rdf_terms import local_name
from fedkg_compiler.graph.sparql_syntax.tokens import asks_service
from fedkg_compiler.graph.standard_vocabularies import FKG, STANDARD_TERMS

SPACE = "http://www.w3.org/ns/shacl#"


class _Vocabulary(Namespace):
    """A namespace that makes each of its terms once; a large file asks for them very often."""

    @override
    def __getattr__(self, name: str) -> URIRef:
        term: URIRef = super().__getattr__(name)
        setattr(self, name, term)  # found before `__getattr__` the next time
        return term

    @override
    def __getitem__(self, name: str) -> URIRef:  # type: ignore[override]
        return self.__dict__.get(name) or self.__getattr__(name)


SH = _Vocabulary(SPACE)

_OFTEN = {str(term): term for term in (RDF.type, RDF.first, RDF.rest, RDF.nil, RDFS.subClassOf)}
"""Properties that are asked for very often."""


def behind_rdflib(store: ox.Store, *, everywhere: bool = False) -> Graph:
    """The default graph of a store behind the interface of rdflib.

    Args:
        everywhere: triples are those of all graphs, each once; queries still see the default graph.
    """
    from oxrdflib.store import OxigraphStore
    from rdflib.graph import DATASET_DEFAULT_GRAPH_ID

    class Everywhere(OxigraphStore):
        """A store in which a graph has the triples of all graphs."""

        @override
        def triples(
            self, triple_pattern: Any, context: Graph | None = None
        ) -> Iterator[tuple[Any, Iterator[Graph | None]]]:  # Any: triples of rdflib
            return iter(dict(super().triples(triple_pattern)).items())

        @override
        def __len__(self, context: Graph | None = None) -> int:
            return super().__len__()

    kind = Everywhere if everywhere else OxigraphStore
    return Graph(store=kind(store=store), identifier=DATASET_DEFAULT_GRAPH_ID)


class IndexedGraph(Graph):
    """A graph in dictionaries, several times faster than the store of rdflib for single patterns.

    It has one context, and no triple is ever removed.
    """

    def __init__(self) -> None:
        super().__init__(bind_namespaces="none")
        self._objects: dict[Node, dict[Node, dict[Node, None]]] = {}
        """Objects by subject and predicate, in the order in which they were added."""
        self._subjects: dict[Node, dict[Node, list[Node]]] = {}
        """Subjects by predicate and object."""
        self._size = 0

    @override
    def add(self, triple: tuple[Node, Node, Node]) -> IndexedGraph:
        self.add_all([triple])
        return self

    def add_all(self, triples: Iterable[tuple[Node, Node, Node]]) -> None:
        """Add many triples."""
        objects, subjects = self._objects, self._subjects
        for subject, predicate, value in triples:
            own = objects.get(subject)
            if own is None:
                own = objects[subject] = {}
            found = own.get(predicate)
            if found is None:
                found = own[predicate] = {}
            elif value in found:
                continue
            found[value] = None
            of_predicate = subjects.get(predicate)
            if of_predicate is None:
                of_predicate = subjects[predicate] = {}
            if value in of_predicate:
                of_predicate[value].append(subject)
            else:
                of_predicate[value] = [subject]
            self._size += 1

    @override
    def __len__(self) -> int:
        return self._size

    @override
    def __contains__(self, triple: Any) -> bool:
        subject, predicate, value = triple
        if subject is not None and value is not None and isinstance(predicate, URIRef):
            return value in self._objects.get(subject, {}).get(predicate, ())
        return any(True for _ in self.triples(triple))

    @override
    def triples(self, triple: Any) -> Iterator[tuple[Node, Node, Node]]:  # type: ignore[override]
        """The triples of a pattern; None stands for any term, and a path for its pairs."""
        subject, predicate, value = triple
        if isinstance(predicate, RdflibPath):
            for one, other in predicate.eval(self, subject, value):
                yield one, predicate, other  # type: ignore[misc]
        elif subject is not None:
            by_predicate = self._objects.get(subject, {})
            names = list(by_predicate) if predicate is None else (predicate,)
            for name in names:
                found = by_predicate.get(name, {})
                if value is None:
                    for one in list(found):
                        yield subject, name, one
                elif value in found:
                    yield subject, name, value
        else:
            names = list(self._subjects) if predicate is None else (predicate,)
            for name in names:
                by_object = self._subjects.get(name, {})
                for one in list(by_object) if value is None else (value,):
                    for subject in list(by_object.get(one, ())):
                        yield subject, name, one

    @override
    def objects(
        self, subject: Any = None, predicate: Any = None, unique: bool = False
    ) -> Generator[Node, None, None]:
        if not isinstance(predicate, URIRef) or (subject is None and not unique):
            return super().objects(subject, predicate, unique)
        if subject is None:
            return iter(list(self._subjects.get(predicate, ())))  # type: ignore[return-value]
        own = self._objects.get(subject)
        found = () if own is None else list(own.get(predicate, ()))
        # An iterator is enough of a generator, and much cheaper.
        return iter(found)  # type: ignore[return-value]

    @override
    def value(
        self,
        subject: Any = None,
        predicate: Any = RDF.value,
        object: Any = None,
        default: Any = None,
        any: bool = True,
    ) -> Any:
        if subject is None or object is not None or not any:
            return super().value(subject, predicate, object, default, any)
        own = self._objects.get(subject)
        return default if own is None else next(iter(own.get(predicate, ())), default)

    @override
    def subjects(
        self, predicate: Any = None, object: Any = None, unique: bool = False
    ) -> Generator[Node, None, None]:
        if object is None or not isinstance(predicate, URIRef):
            return super().subjects(predicate, object, unique)
        return (one for one in list(self._subjects.get(predicate, {}).get(object, ())))

    def values(self, nodes: Iterable[Node], predicate: Node) -> dict[Node, tuple[Node, ...]]:
        """The objects of a property for each of several nodes."""
        objects, nothing = self._objects, dict[Node, dict[Node, None]]()
        return {node: tuple(objects.get(node, nothing).get(predicate, ())) for node in nodes}

    def nodes(self) -> set[Node]:
        """All IRIs and blank nodes."""
        found = {*self._objects, *self._subjects}
        for values in self._subjects.values():
            found.update(value for value in values if not isinstance(value, Literal))
        return found

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return IndexedGraph, (), (self._objects, self._subjects, self._size)

    def __setstate__(self, state: Any) -> None:
        self._objects, self._subjects, self._size = state

    def copy(self) -> IndexedGraph:
        """A graph with the same triples that grows on its own."""
        found = IndexedGraph()
        found._objects = {
            node: {predicate: dict(values) for predicate, values in own.items()}
            for node, own in self._objects.items()
        }
        found._subjects = {
            predicate: {value: list(nodes) for value, nodes in own.items()}
            for predicate, own in self._subjects.items()
        }
        found._size = self._size
        return found

    @override
    def predicates(
        self, subject: Any = None, object: Any = None, unique: bool = False
    ) -> Generator[Node, None, None]:
        if object is not None or (subject is None and not unique):
            return super().predicates(subject, object, unique)
        found = self._subjects if subject is None else self._objects.get(subject, {})
        return (one for one in list(found))


def memory_graph(triples: Iterable[ox.Quad], terms: Terms | None = None) -> IndexedGraph:
    """Copy triples into a graph in memory, with literals as they are written.

    Args:
        terms: terms that are known from another graph.

    A store would write ``"4.0"^^xsd:decimal`` as ``4``. Plain texts have no datatype, as in files
    that rdflib reads itself.
    """
    terms = Terms() if terms is None else terms
    graph = IndexedGraph()
    add_triples(graph, triples, terms)
    return graph


def add_triples(graph: IndexedGraph, triples: Iterable[ox.Quad], terms: Terms) -> None:
    """Add triples to a graph in memory, as `memory_graph`."""
    graph.add_all(
        (terms[quad.subject], terms[quad.predicate], terms[quad.object]) for quad in triples
    )


class Terms(dict[object, Node]):
    """Terms of rdflib by those of the store's library; each is converted once."""

    def __missing__(self, term: object) -> Node:
        found = self[term] = to_rdflib(term)
        return found


class StoredTerms(Terms):
    """Terms as `behind_rdflib` gives them: rdflib normalises their literals, and texts have a
    datatype.

    It would make a well-formed literal of an ill-formed one and an ill-formed one of INF, and drop
    the zone of a date: these stay as they are.
    """

    @override
    def __missing__(self, term: object) -> Node:
        if isinstance(term, ox.Literal) and not term.language:
            kind = URIRef(term.datatype.value)
            found: Node = Literal(term.value, datatype=kind)
            if str(found) != term.value and (
                kind == XSD.date
                or term.value.lstrip("-") in ("INF", "NaN")
                or is_well_formed(term.value, kind) is False
            ):
                found = Literal(term.value, datatype=kind, normalize=False)
        else:
            found = to_rdflib(term)
        self[term] = found
        return found


def restore_iri(iri: str) -> URIRef:
    """An IRI as a term: of SHACL, the same object as in the code, which a dictionary finds without
    comparing texts.
    """
    return SH[iri[len(SPACE) :]] if iri.startswith(SPACE) else _OFTEN.get(iri) or URIRef(iri)


def to_rdflib(term: object) -> Node:
    """A term of the store's library as rdflib has it."""
    match term:
        case ox.NamedNode():
            return restore_iri(term.value)
        case ox.BlankNode():
            return BNode(term.value)
        case ox.Literal():
            if term.language:
                return Literal(term.value, lang=term.language)
            kind = URIRef(term.datatype.value)
            return Literal(
                term.value, datatype=None if kind == XSD.string else kind, normalize=False
            )
        case _:
            raise TypeError(f"{term} is not an RDF 1.1 term")


@contextmanager
def quiet() -> Iterator[None]:
    """Silence logs and warnings: rdflib logs a traceback for each ill-formed literal, and a shape
    may contain such literals on purpose.
    """
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


# Shapes, their checks, and their reader.

Severity = OneOf["violation", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Step:
    """One property, from subject to object."""

    property: URIRef


@dataclass(frozen=True, slots=True)
class Inverse:
    """A path walked backwards."""

    path: Path


@dataclass(frozen=True, slots=True)
class PathSequence:
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


Path = Step | Inverse | PathSequence | Alternative | Repeat


@dataclass(frozen=True, slots=True)
class Target:
    """A source of focus nodes.

    Attributes:
        kind: ``class``, ``node``, ``subjects`` (of a property), ``objects``, ``sparql`` (a SELECT
            for ``?this``), or ``unknown``: a kind of target that fedkg does not support.
        value: the class, node or property; for ``sparql`` and ``unknown`` the node of the target.
        select: the text of the query with its prefixes, "" for other kinds.
    """

    kind: OneOf["class", "node", "subjects", "objects", "sparql", "unknown"]
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

    @property
    def target_queries(self) -> tuple[str, ...]:
        """The queries of its targets, with their prefixes."""
        return tuple(target.select for target in self.targets if target.kind == "sparql")


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
        case PathSequence() | Alternative():
            for part in path.paths:
                yield from steps_in(part)


def path_text(path: Path) -> str:
    """A path for people, in SPARQL's notation with local names: ``feeds*/pressure``."""
    match path:
        case Step():
            return local_name(str(path.property))
        case Inverse():
            return f"^{path_text(path.path)}"
        case Repeat():
            inner = path_text(path.path)
            inner = inner if isinstance(path.path, Step) else f"({inner})"
            return inner + ("?" if not path.many else "+" if path.least else "*")
        case PathSequence():
            return "/".join(
                f"({path_text(part)})" if isinstance(part, Alternative) else path_text(part)
                for part in path.paths
            )
        case Alternative():
            return "|".join(path_text(part) for part in path.paths)


def said_of(constraint: Constraint) -> str:
    """The arguments of a component, blank nodes left out."""
    texts = [
        str(value) if isinstance(value, Literal) else local_name(str(value))
        for value in constraint.values
    ]
    return ", ".join(
        text
        for text, value in zip(texts, constraint.values, strict=True)
        if not isinstance(value, BNode)
    )


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


_COUNTS = frozenset(
    {"minCount", "maxCount", "minLength", "maxLength", "qualifiedMinCount", "qualifiedMaxCount"}
)
_NAMES = frozenset(
    {"class", "datatype", "nodeKind", "equals", "disjoint", "lessThan", "lessThanOrEquals"}
)
_LIMITS = frozenset({"minExclusive", "minInclusive", "maxExclusive", "maxInclusive"})
_BOOLEANS = ("closed", "deactivated", "optional", "qualifiedValueShapesDisjoint", "uniqueLang")
_QUALIFIED = ("qualifiedMinCount", "qualifiedMaxCount")
_OF_PATHS = ("minCount", "maxCount", "lessThan", "lessThanOrEquals", "uniqueLang")
"""Parameters that node shapes must not have (SHACL, sections 4.2, 4.4.5, 4.5.3 and 4.5.4)."""
_SHAPES = frozenset({"not", "node", "property", "and", "or", "xone"})


KNOWN = (
    _COUNTS
    | _NAMES
    | _LIMITS
    | _SHAPES
    | {
        "pattern",
        "flags",
        "in",
        "languageIn",
        "hasValue",
        "uniqueLang",
        "closed",
        "ignoredProperties",
        "sparql",
    }
    | {
        "qualifiedValueShape",
        "qualifiedValueShapesDisjoint",
        "path",
        "inversePath",
        "alternativePath",
    }
    | {
        "zeroOrMorePath",
        "oneOrMorePath",
        "zeroOrOnePath",
        "target",
        "targetClass",
        "targetNode",
        "targetSubjectsOf",
        "targetObjectsOf",
    }
    | {
        "severity",
        "message",
        "resultMessage",
        "resultSeverity",
        "deactivated",
        "name",
        "description",
        "order",
        "group",
        "defaultValue",
        "entailment",
        "shapesGraph",
    }
    | {
        "rule",
        "values",
        "expression",
        "js",
        "condition",
        "prefixes",
        "declare",
        "suggestedShapesGraph",
        "parameter",
        "labelTemplate",
    }
    | {
        "validator",
        "nodeValidator",
        "propertyValidator",
        "select",
        "ask",
        "construct",
        "update",
        "returnType",
        "optional",
    }
)
"""The properties, without namespace, that SHACL and its advanced features give to shapes."""


def what_is_wrong(name: str, value: Node) -> str:
    """Why `value` cannot be the value of ``sh:name``; "" if its form is valid."""
    shown = f"its sh:{name} is `{value}`"
    if name in _COUNTS and not _is_count(value):
        return f"{shown}; it must be a whole number without quotes"
    if name in _NAMES and not isinstance(value, URIRef):
        return (
            f"{shown}; it must be the name of a "
            f"{'property' if name not in ('class', 'datatype', 'nodeKind') else name}"
        )
    if name in _LIMITS and not isinstance(value, Literal):
        return f"{shown}; it must be a number or a date"
    if name in _SHAPES and isinstance(value, Literal):
        return f"{shown}; it must be a shape"
    if name == "pattern":
        wrong = "which is not a regular expression"
        if isinstance(value, Literal):
            wrong = linear_time_regex.what_is_wrong(str(value))
        return f"{shown}, {wrong}" if wrong else ""
    return ""


def items(graph: Graph, head: Node) -> tuple[Node, ...] | None:
    """The members of an RDF list; None if it is none, has no end, or branches."""
    found: list[Node] = []
    seen: set[Node] = set()
    at = head
    while at != RDF.nil:
        first, rest = ([*graph.objects(at, RDF.first)], [*graph.objects(at, RDF.rest)])
        if at in seen or len(first) != 1 or len(rest) != 1:
            return None
        seen.add(at)
        found += first
        [at] = rest
    return tuple(found)


def _is_count(value: Node) -> bool:
    return (
        isinstance(value, Literal)
        and isinstance(value.value, int)
        and re.fullmatch(r"\+?\d{1,18}", str(value)) is not None
    )


_SINGLE: tuple[str, ...] = (
    *(
        "class",
        "datatype",
        "nodeKind",
        "minCount",
        "maxCount",
        "minExclusive",
        "minInclusive",
        "maxExclusive",
        "maxInclusive",
    ),
    *(
        "minLength",
        "maxLength",
        "equals",
        "disjoint",
        "lessThan",
        "lessThanOrEquals",
        "hasValue",
        "not",
        "node",
        "property",
    ),
    *("expression", "js"),
)
_LISTS = ("languageIn", "and", "or", "xone", "in")
_PARAMETERS = frozenset(
    (
        *(*_SINGLE, *_LISTS, "sparql", "rule", "pattern", "closed", "uniqueLang"),
        "qualifiedValueShape",
    )
)
"""Properties that make a node a shape."""
_SEVERITIES: dict[Node, Severity] = {
    SH.Violation: "violation",
    SH.Warning: "warning",
    SH.Info: "info",
}
_NO_SHAPES = frozenset(
    (
        *(SH.Parameter, SH.SPARQLConstraint, SH.ValidationResult),
        *(SH.ConstraintComponent, SH.SPARQLTargetType),
    )
)
"""The classes of nodes that have parameters of shapes but are none."""
_TARGETS = {
    "targetClass": "class",
    "targetNode": "node",
    "targetSubjectsOf": "subjects",
    "targetObjectsOf": "objects",
}
_KINDS = frozenset({"temporal", "causal", "capacity", "physical", "other"})


def read_shapes(path: FilePath) -> tuple[ShapesFile | None, tuple[Diagnostic, ...]]:
    """The shapes of a file (Turtle, N-Triples, RDF/XML or JSON-LD) and what is wrong with its RDF.

    None if it is none, or if no triple has a term of SHACL.

    Raises:
        RecursionError: blank shapes are nested deeper than the limit `depth`.
    """
    document, problems = read_file(path)
    return None if document is None else shapes_of([document]), problems


def shapes_of(
    documents: Sequence[Document], graph: IndexedGraph | None = None
) -> ShapesFile | None:
    """The shapes of documents as one file; None if no triple has a term of SHACL.

    Lines count through the texts of all documents, one after the other.

    Args:
        graph: the triples of the documents, if they are in a graph already.

    Raises:
        RecursionError: blank shapes are nested deeper than the limit `depth`.
    """
    if not any(_names_shacl(triple) for document in documents for triple in document.triples):
        return None
    if graph is None:
        graph = _stored([triple for document in documents for triple in document.triples])
    prefixes = {
        prefix: iri for document in reversed(documents) for prefix, iri in document.prefixes.items()
    }
    text = "\n".join(document.text for document in documents)
    return _Reader(graph, text, prefixes).file(documents[0].name, documents[0].sha256)


def _stored(triples: Sequence[ox.Quad]) -> IndexedGraph:
    """Triples with literals as the store has them, so that they equal those of its data."""
    store = ox.Store()
    store.bulk_extend(triples)
    return memory_graph(store, StoredTerms())


def _names_shacl(triple: ox.Quad) -> bool:
    """Whether the predicate or the object is a term of SHACL."""
    namespace = str(SH)
    return triple.predicate.value.startswith(namespace) or (
        isinstance(triple.object, ox.NamedNode) and triple.object.value.startswith(namespace)
    )


class _Reader:
    """One pass over a shapes graph."""

    def __init__(self, graph: IndexedGraph, text: str, prefixes: dict[str, str]) -> None:
        self.graph, self.text, self.prefixes = graph, text, prefixes
        self.problems: list[tuple[Node, str, str]] = []
        self.custom = self._custom()
        # Section 2.1.3.3: a shape is its own target if it is a SHACL instance of rdfs:Class.
        self.classes = {OWL.Class, *graph.transitive_subjects(RDFS.subClassOf, RDFS.Class)}
        self.lines = _line_index(text, prefixes)
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.around: dict[Node, Node] = {}

    def file(self, name: str, sha256: str) -> ShapesFile:
        nodes = self._nodes()
        shapes: dict[Node, Shape] = {}
        for node, line in nodes.items():
            shape = self._shape(node, line)
            if shape is not None:
                shapes[node] = shape
        return ShapesFile(
            name=name,
            sha256=sha256,
            shapes=shapes,
            graph=self.graph,
            problems=tuple(self.problems),
            lines=nodes,
            text=self.text,
            prefixes=self.prefixes,
        )

    def _custom(self) -> list[tuple[URIRef, tuple[URIRef, ...]]]:
        """Custom components, each with its mandatory parameters."""
        found: list[tuple[URIRef, tuple[URIRef, ...]]] = []
        for component in sorted(set(self.graph.subjects(SH.parameter, None)), key=str):
            if not isinstance(component, URIRef) or self._builtin(component):
                continue
            wanted = []
            for parameter in self.graph.objects(component, SH.parameter):
                path = self.graph.value(parameter, SH.path)
                self._check_booleans(parameter)
                if isinstance(path, URIRef) and not is_true(
                    self.graph.value(parameter, SH.optional)
                ):
                    wanted.append(path)
            if wanted:
                found.append((component, tuple(sorted(wanted))))
        return found

    def _builtin(self, component: URIRef) -> bool:
        """Whether parameters of a term are not those of a custom component."""
        return str(component).startswith(str(SH)) or any(
            (component, RDF.type, kind) in self.graph
            for kind in (SH.SPARQLTargetType, SH.SPARQLFunction)
        )

    def _nodes(self) -> dict[Node, int]:
        """Every node that is a shape, in the order of the file where that is known."""
        graph, found = self.graph, dict[Node, None]()
        for kind in (SH.NodeShape, SH.PropertyShape):
            found.update(dict.fromkeys(graph.subjects(RDF.type, kind)))
        parameters = {
            p
            for p in graph.predicates(unique=True)
            if isinstance(p, URIRef) and p.startswith(SH) and p[len(SH) :] in _PARAMETERS
        }
        own = [required[0] for _, required in self.custom]
        for predicate in (*(SH[name] for name in (*_TARGETS, "target")), *parameters, *own):
            found.update(
                dict.fromkeys(
                    subject
                    for subject in graph.subjects(predicate)
                    if not self._is_no_shape(subject)
                )
            )
        for predicate in (SH["not"], SH.node, SH.property, SH.qualifiedValueShape):
            found.update(
                dict.fromkeys(
                    node for node in graph.objects(None, predicate) if not isinstance(node, Literal)
                )
            )
        for predicate in (SH["and"], SH["or"], SH.xone):
            for head in graph.objects(None, predicate):
                found.update(
                    dict.fromkeys(
                        node for node in items(graph, head) or () if not isinstance(node, Literal)
                    )
                )
        self.around = self._parents(found)
        lines = {node: self._line(node, self.around) for node in found}
        return dict(sorted(lines.items(), key=lambda item: (item[1], str(item[0]))))

    def _is_no_shape(self, node: Node) -> bool:
        """Whether a subject of SHACL parameters is something else: a parameter of a component, a
        SPARQL constraint, a test's result.
        """
        kinds = self.graph.objects(node, RDF.type)
        return any(kind in _NO_SHAPES for kind in kinds) or (None, SH.parameter, node) in self.graph

    def _parents(self, nodes: Iterable[Node]) -> dict[Node, Node]:
        """The enclosing subject of each blank node, through lists.

        Raises:
            RecursionError: blank shapes are nested deeper than the limit `depth`.
        """
        found: dict[Node, Node] = {}
        above: dict[Node, Node | None] = {}
        shapes, deepest = set(nodes), limit("depth")
        for node in shapes:
            at: Node | None = node
            depth = 0
            for _ in range(200):
                if not isinstance(at, BNode):
                    break
                depth += at in shapes
                if depth > deepest:
                    raise RecursionError(f"blank shapes are nested more than {deepest} deep")
                if at not in above:
                    subjects = self.graph.subject_predicates(at)
                    above[at] = next((s for s, p in subjects if p != SH.sourceShape), None)
                at = above[at]
            if at is not None and at != node:
                found[node] = at
        return found

    def _line(self, node: Node, parents: dict[Node, Node]) -> int:
        """The line of a shape: of a named one by its name, of a blank one by its path after the
        enclosing shape.
        """
        named = node if isinstance(node, URIRef) else parents.get(node)
        line = self.lines.get(str(named), 1) if named is not None else 1
        path = self.graph.value(node, SH.path)
        if isinstance(node, BNode) and isinstance(path, URIRef) and self.text:
            start = self.starts[min(line, len(self.starts)) - 1]
            found = _find_name(self.text, local_name(str(path)), start)
            line = line + self.text.count("\n", start, found) if found >= 0 else line
        return line

    def _shape(self, node: Node, line: int) -> Shape | None:
        graph = self.graph
        at = graph.value(node, SH.path)
        if at is None and (None, SH.property, node) in graph and (node, None, None) in graph:
            self.problems.append((node, "", "a shape in sh:property has no sh:path"))
            return None
        path = None
        if at is not None:
            path = read_path(self.graph, at)
            if path is None:
                self.problems.append((node, "path", "its sh:path is not a SHACL path"))
                return None
            # A shape that two files state has two blank nodes for one path.
            if any(read_path(graph, other) != path for other in graph.objects(node, SH.path)):
                self.problems.append((node, "path", "it has several paths in sh:path"))
                return None
        for name in _OF_PATHS if path is None else ():
            if (node, SH[name], None) in graph:
                reason = f"it has sh:{name}, but no sh:path: put both into sh:property [ ... ]"
                self.problems.append((node, name, reason))
        for part in (node, *graph.objects(node, SH.sparql), *graph.objects(node, SH.rule)):
            self._check_booleans(part)
        return Shape(
            node=node,
            name=self._name(node),
            path=path,
            constraints=tuple(
                constraint
                for constraint in self._constraints(node)
                if self._is_sound(node, constraint)
            ),
            targets=tuple(self._targets(node)),
            deactivated=is_true(graph.value(node, SH.deactivated)),
            severity=_SEVERITIES.get(graph.value(node, SH.severity) or SH.Violation, "violation"),
            message=_text(graph.objects(node, SH.message)),
            title=_text(graph.objects(node, SH.name)),
            kind=self._kind(node),
            weight=_number(graph.value(node, URIRef(FKG + "weight")), 1.0),
            line=line,
        )

    def _name(self, node: Node) -> str:
        """The name of a shape for people, from its own IRI or that of the enclosing shape; ""
        without a name.
        """
        named = self.around.get(node, node)
        if isinstance(named, URIRef):
            return local_name(str(named))
        return _text(self.graph.objects(node, RDFS.label)) or _text(
            self.graph.objects(node, SH.name)
        )

    def _kind(self, node: Node) -> str:
        value = self.graph.value(node, URIRef(FKG + "kind"))
        word = (
            ""
            if value is None
            else local_name(str(value))
            if isinstance(value, URIRef)
            else str(value)
        )
        return word if word in _KINDS else "other"

    def _constraints(self, node: Node) -> Iterable[Constraint]:
        graph = self.graph
        # Most shapes have a few of the parameters, and one pass over their triples finds these.
        present = {str(predicate) for predicate in graph.predicates(node)}
        for name in (name for name in _SINGLE if str(SH) + name in present):
            for value in _sorted(graph.objects(node, SH[name])):
                yield Constraint(name, SH[name], (value,), value)
        for value in _sorted(graph.objects(node, SH.sparql)):
            message, off = (
                _text(graph.objects(value, SH.message)),
                is_true(graph.value(value, SH.deactivated)),
            )
            yield Constraint("sparql", SH.sparql, (value,), value, message=message, deactivated=off)
        for name in (name for name in _LISTS if str(SH) + name in present):
            for head in _sorted(graph.objects(node, SH[name])):
                yield Constraint(name, SH[name], self._items(node, name, head), head)
        for value in _sorted(graph.objects(node, SH.pattern)):
            yield Constraint(
                "pattern", SH.pattern, (value,), value, flags=str(graph.value(node, SH.flags) or "")
            )
        closed: Node | None = graph.value(node, SH.closed)
        if closed is not None and is_true(closed):
            ignored = graph.value(node, SH.ignoredProperties)
            yield Constraint(
                "closed",
                SH.closed,
                () if ignored is None else self._items(node, "ignoredProperties", ignored),
                closed,
            )
        unique = graph.value(node, SH.uniqueLang)
        # Section 4.4.5: only the literal `true` switches it on, not "1"^^xsd:boolean.
        if unique is not None and is_true(unique) and str(unique) == "true":
            yield Constraint("uniqueLang", SH.uniqueLang, (unique,), unique)
        yield from self._qualified(node)
        for component, parameters in self.custom:
            first = parameters[0]
            if all((node, parameter, None) in graph for parameter in parameters):
                # Section 6.2.1: each value of an only parameter is a constraint; of several
                # parameters, each has one value.
                arguments = _sorted(graph.objects(node, first))
                for argument in arguments if len(parameters) == 1 else arguments[:1]:
                    yield Constraint(
                        local_name(str(component)),
                        URIRef(str(first)),
                        (argument,),
                        argument,
                        custom=True,
                        component=component,
                    )

    def _items(self, shape: Node, name: str, head: Node) -> tuple[Node, ...]:
        """The members of a list in a shape; () after a diagnostic if it is not a list."""
        found = items(self.graph, head)
        if found is None:
            self.problems.append(
                (shape, name, f"its sh:{name} is not a list, or a list that branches or has no end")
            )
        return found or ()

    def _is_sound(self, shape: Node, constraint: Constraint) -> bool:
        """Whether the values of a component are of the kind that it needs; reports them if not."""
        counted = constraint.name.startswith("qualified")
        wrong = (
            ""
            if constraint.custom
            else next(
                (
                    said
                    for value in ((constraint.node,) if counted else constraint.values)
                    if (said := what_is_wrong(constraint.name, value))
                ),
                "",
            )
        )
        if wrong:
            self.problems.append((shape, constraint.name, wrong))
        return not wrong

    def _check_booleans(self, node: Node) -> None:
        """Report parameters of a node that must be true or false and are something else."""
        for name in _BOOLEANS:
            for value in self.graph.objects(node, SH[name]):
                if not (
                    isinstance(value, Literal)
                    and value.datatype == XSD.boolean
                    and str(value) in ("true", "false", "1", "0")
                ):
                    wrong = f"its sh:{name} is `{value}`; it must be true or false without quotes"
                    self.problems.append((node, name, wrong))

    def _qualified(self, node: Node) -> Iterable[Constraint]:
        disjoint = is_true(self.graph.value(node, SH.qualifiedValueShapesDisjoint))
        for shape in _sorted(self.graph.objects(node, SH.qualifiedValueShape)):
            for name in _QUALIFIED:
                value = self.graph.value(node, SH[name])
                if value is not None:
                    yield Constraint(
                        name,
                        SH[name],
                        (shape,),
                        value,
                        count=int(_number(value, 0)),
                        disjoint=disjoint,
                    )

    def _targets(self, node: Node) -> Iterable[Target]:
        graph = self.graph
        for name, kind in _TARGETS.items():
            for value in _sorted(graph.objects(node, SH[name])):
                if name != "targetNode" and not isinstance(value, URIRef):
                    self.problems.append((node, name, f"its sh:{name} is not an IRI"))
                # the dict's values are the kinds
                yield Target(kind, value)  # type: ignore[arg-type]
        kinds = set(graph.objects(node, RDF.type))
        if kinds & self.classes and (SH.NodeShape in kinds or SH.PropertyShape in kinds):
            yield Target("class", node)
        for target in _sorted(graph.objects(node, SH.target)):
            yield self._target(target)

    def _target(self, target: Node) -> Target:
        """A target of SHACL-AF: a SELECT, or the SELECT of a target type with parameters."""
        graph = self.graph
        select = graph.value(target, SH.select)
        kind = next(
            (k for k in graph.objects(target, RDF.type) if (k, SH.select, None) in graph), None
        )
        if select is None and kind is None:
            return Target("unknown", target)
        owner = target if select is not None else kind
        assert owner is not None
        text = str(select if select is not None else graph.value(owner, SH.select))
        if kind is not None:
            for parameter in graph.objects(kind, SH.parameter):
                path = graph.value(parameter, SH.path)
                value = graph.value(target, path) if path is not None else None
                if path is not None and isinstance(value, URIRef | Literal):
                    text = re.sub(
                        rf"[$?]{re.escape(local_name(str(path)))}\b",
                        value.n3().replace("\\", r"\\"),
                        text,
                    )
        prefixes = "".join(
            f"PREFIX {name}: <{iri}>\n"
            for name, iri in sorted(declared_prefixes(graph, owner).items())
        )
        return Target("sparql", target, prefixes + text)


_PATH_KINDS = (
    *(SH.inversePath, SH.alternativePath),
    *(SH.zeroOrMorePath, SH.oneOrMorePath, SH.zeroOrOnePath),
)
"""A blank node that is a path and not a list has one of them (SHACL, section 2.3.1)."""
MOST_NESTED_PATHS = 50
"""Paths inside paths that are read; a path in a blank node may contain itself."""


def read_path(graph: Graph, node: Node, depth: int = 0) -> Path | None:
    """The path that a node of a shapes graph describes (SHACL, section 2.3.1); None if none."""
    if depth > MOST_NESTED_PATHS:
        return None
    if isinstance(node, URIRef):
        return None if node == RDF.nil else Step(node)
    if (node, RDF.first, None) in graph:  # the W3C suite reads such a node as a list in any case
        return _read_paths(graph, node, PathSequence, depth)
    if sum(len(list(graph.objects(node, kind))) for kind in _PATH_KINDS) != 1:
        return None
    for predicate, least, many in (
        (SH.zeroOrMorePath, 0, True),
        (SH.oneOrMorePath, 1, True),
        (SH.zeroOrOnePath, 0, False),
    ):
        if (inner := graph.value(node, predicate)) is not None:
            path = read_path(graph, inner, depth + 1)
            return None if path is None else Repeat(path, least, many)
    if (back := graph.value(node, SH.inversePath)) is not None:
        path = read_path(graph, back, depth + 1)
        return None if path is None else Inverse(path)
    if (choice := graph.value(node, SH.alternativePath)) is not None:
        return _read_paths(graph, choice, Alternative, depth)
    return None


def _read_paths(
    graph: Graph, head: Node, form: type[PathSequence] | type[Alternative], depth: int
) -> Path | None:
    parts = [read_path(graph, node, depth + 1) for node in items(graph, head) or ()]
    known = [part for part in parts if part is not None]
    return form(tuple(known)) if len(known) == len(parts) > 1 else None


def declared_prefixes(graph: Graph, node: Node) -> dict[str, str]:
    """The prefixes of a query: what `sh:prefixes` names, and what that imports, declares (SHACL,
    section 5.2.1).
    """
    found: dict[str, str] = {}
    for ontology in graph.objects(node, SH.prefixes):
        for place in _sorted(
            {node for node in graph.transitive_objects(ontology, OWL.imports) if node is not None}
        ):
            for declaration in _sorted(graph.objects(place, SH.declare)):
                prefix, namespace = (
                    graph.value(declaration, SH.prefix),
                    graph.value(declaration, SH.namespace),
                )
                if prefix is not None and namespace is not None:
                    found.setdefault(str(prefix), str(namespace))
    return found


def _sorted(nodes: Iterable[Node]) -> Sequence[Node]:
    return sorted(nodes, key=lambda node: (isinstance(node, BNode), str(node)))


def is_true(value: Node | None) -> bool:
    """Whether a node is the boolean true."""
    return isinstance(value, Literal) and value.value is True


def _number(value: Node | None, otherwise: float) -> float:
    try:
        return otherwise if value is None else float(str(value))
    except ValueError:
        return otherwise


def _text(values: Iterable[Node]) -> str:
    """The English text, else one without a language, else any."""
    found = [value for value in values if isinstance(value, Literal)]
    rank = {"en": 0, None: 1}
    return (
        str(min(found, key=lambda item: (rank.get(item.language, 2), str(item)))) if found else ""
    )


def _find_name(text: str, name: str, start: int) -> int:
    """Where a local name stands after a prefix or inside an IRI; -1 if nowhere."""
    at = text.find(name, start + 1) if name else -1
    while at >= 0:
        after = text[at + len(name) : at + len(name) + 1]
        if text[at - 1] in ":#/<" and not (after.isalnum() or after in ("_", "-")):
            return at
        at = text.find(name, at + 1)
    return -1


_LINE_START = re.compile(
    r"^[^\S\n]*(?:<([^>\s]*)>|([\w.-]*):([\w.%-]*[\w%-])?)(?=\s|\Z)", re.MULTILINE
)
"""A name at the start of a line of Turtle."""


def _line_index(text: str, prefixes: dict[str, str]) -> dict[str, int]:
    """The line in which each subject of a Turtle file begins, by IRI."""
    found: dict[str, int] = {}
    number, seen = 1, 0
    for match in _LINE_START.finditer(text):
        number += text.count("\n", seen, match.start())
        seen = match.start()
        iri = (
            match[1]
            if match[1] is not None
            else prefixes.get(match[2] or "", "") + (match[3] or "")
            if match[2] in prefixes
            else ""
        )
        if iri:
            found.setdefault(iri, number)
    return found


# Asks the graph what SHACL asks: value nodes of a path, members of a class, focus nodes of a
# target.


class Data:
    """The data graph with the vocabularies; answers about classes are kept.

    Focus nodes come from the user's data alone. Whether they conform is decided by everything that
    is known.

    Args:
        graph: everything that is known.
        targets: the triples in which targets find focus nodes; default: `graph`.
        foreign: nodes of `targets` that may not be focus nodes.
        queried: answers the queries of targets, in a process that has limits already; default: the
            triples of `targets`, with a process of its own for each query.
    """

    def __init__(
        self,
        graph: Graph,
        targets: Graph | None = None,
        *,
        foreign: Set[Node] = frozenset(),
        queried: Callable[[str], object] | None = None,
    ) -> None:
        self.graph, self._queried = graph, queried
        self._targets = graph if targets is None else targets
        self._foreign = foreign
        self._subclasses: dict[Node, set[Node]] = {}
        self._superclasses: dict[Node, set[Node]] = {}
        self._members: dict[Node, frozenset[Node]] = {}
        self._used_subclasses: dict[Node, list[Node]] | None = None
        """The subclasses that have members, of each class that has such ones."""

    def forget(self, predicates: Collection[str]) -> None:
        """Forget what depends on triples with these properties, because there are new ones."""
        if str(RDFS.subClassOf) in predicates:
            self._subclasses.clear()
            self._superclasses.clear()
        if not {str(RDFS.subClassOf), str(RDF.type)}.isdisjoint(predicates):
            self._members.clear()
            self._used_subclasses = None

    def subclasses(self, kind: Node) -> set[Node]:
        """The class and all its subclasses."""
        if kind not in self._subclasses:
            self._subclasses[kind] = self._closure(kind, Inverse(Step(RDFS.subClassOf)))
        return self._subclasses[kind]

    def superclasses(self, kind: Node) -> set[Node]:
        """The class and all its superclasses."""
        if kind not in self._superclasses:
            self._superclasses[kind] = self._closure(kind, Step(RDFS.subClassOf))
        return self._superclasses[kind]

    def members(self, kind: Node) -> frozenset[Node]:
        """The members of a class and of its subclasses."""
        if kind not in self._members:
            self._members[kind] = self._members_in(self.graph, kind)
        return self._members[kind]

    def _members_in(self, graph: Graph, kind: Node) -> frozenset[Node]:
        subclasses = (
            self._subclasses_with_members(kind)
            if isinstance(graph, IndexedGraph) and graph is self.graph
            else self.subclasses(kind)
        )
        return frozenset(node for sub in subclasses for node in graph.subjects(RDF.type, sub))

    def _subclasses_with_members(self, kind: Node) -> Sequence[Node]:
        """The class and its subclasses, without those that have no direct members.

        An ontology has far more classes than a graph uses, and shapes for most of them.
        """
        if self._used_subclasses is None:
            self._used_subclasses = {}
            for used in self.graph.objects(None, RDF.type, unique=True):
                for above in self.superclasses(used):
                    self._used_subclasses.setdefault(above, []).append(used)
        return self._used_subclasses.get(kind, ())

    def values(self, node: Node, path: Path) -> list[Node]:
        """The distinct value nodes of a path, in the order of their texts."""
        return sorted(set(self._walk({node}, path, forwards=True)), key=str)

    def focus_nodes(self, shape: Shape) -> list[Node]:
        """The focus nodes of a shape in the graph, sorted.

        Raises ValueError if a target's query is wrong.
        """
        return sorted(
            {node for target in shape.targets for node in self.target_nodes(target)}, key=str
        )

    def target_nodes(self, target: Target) -> Iterable[Node]:
        """The focus nodes of one target, without nodes of vocabularies alone.

        Raises ValueError if its query is wrong.
        """
        match target.kind:
            case "node":
                return (target.value,)
            case "objects":
                facts = self._targets.subject_objects(target.value)
                return {node for subject, node in facts if subject not in self._foreign}
            case _:
                return set(self._targeted(target)) - self._foreign

    def _targeted(self, target: Target) -> Iterable[Node]:
        match target.kind:
            case "class" if self._targets is self.graph:
                return self.members(target.value)
            case "class":
                return self._members_in(self._targets, target.value)
            case "subjects":
                return set(self._targets.subjects(target.value))
            case "sparql":
                return self._selected(target.select)
            case _:
                raise ValueError("fedkg does not support its kind; give it a query in sh:select")

    def _selected(self, select: str) -> set[Node]:
        if asks_service(select):
            raise ValueError("SERVICE asks another server, and fedkg contacts none for a query")

        try:
            if self._queried is not None:
                return _selected_nodes(self._queried(select))
            return run_apart(lambda: self._select_by_rdflib(select), "the query of a target")
        except (SyntaxError, RuntimeError, OSError, Crashed) as error:  # what the store raises
            raise ValueError(str(error).strip().split("\n")[0]) from error

    def _select_by_rdflib(self, select: str) -> set[Node]:
        found, this = self._targets.query(select), Variable("this")
        if found.type != "SELECT" or this not in (found.vars or ()):
            raise ValueError(_NO_THIS)
        return {solution[this] for solution in found.bindings if this in solution}

    def _walk(self, nodes: set[Node], path: Path, *, forwards: bool) -> set[Node]:
        match path:
            case Step():
                return {
                    node
                    for start in nodes
                    for node in self._neighbours(start, path.property, forwards)
                }
            case Inverse():
                return self._walk(nodes, path.path, forwards=not forwards)
            case PathSequence():
                for part in path.paths if forwards else reversed(path.paths):
                    nodes = self._walk(nodes, part, forwards=forwards)
                return nodes
            case Alternative():
                return {
                    node
                    for part in path.paths
                    for node in self._walk(nodes, part, forwards=forwards)
                }
            case Repeat():
                return self._repeat(nodes, path, forwards)

    def _repeat(self, nodes: set[Node], path: Repeat, forwards: bool) -> set[Node]:
        found = set() if path.least else set(nodes)
        edge = self._walk(nodes, path.path, forwards=forwards)
        while not edge <= found:
            edge = edge - found
            found |= edge
            if not path.many:
                break
            edge = self._walk(edge, path.path, forwards=forwards)
        return found

    def _neighbours(self, node: Node, predicate: URIRef, forwards: bool) -> Iterable[Node]:
        if not forwards:
            return self.graph.subjects(predicate, node)
        return () if isinstance(node, Literal) else self.graph.objects(node, predicate)

    def _closure(self, kind: Node, path: Path) -> set[Node]:
        return self._repeat({kind}, Repeat(path, 0, True), True)


_NO_THIS = "it does not select ?this"


def _selected_nodes(answers: object) -> set[Node]:
    """The values of ``?this`` in the answer to a SELECT query. Raises ValueError for others."""
    this = ox.Variable("this")
    if not isinstance(answers, ox.QuerySolutions) or this not in answers.variables:
        raise ValueError(_NO_THIS)
    return {to_rdflib(node) for answer in answers if (node := answer[this]) is not None}


# The names that shapes use: those that SHACL or the graph does not know.

_CLOSED = {
    "severity": ("Violation", "Warning", "Info"),
    "nodeKind": (
        "BlankNode",
        "IRI",
        "Literal",
        "BlankNodeOrIRI",
        "BlankNodeOrLiteral",
        "IRIOrLiteral",
    ),
}
"""Properties of SHACL with a closed list of values."""


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A component that fedkg does not check, and the reason."""

    part: str
    span: Span
    reason: str


class ShapeNames:
    """The names in the shapes of one file, or of several read as one.

    Args:
        graph: the triples that can use the names.
        problems: receives the warnings.
        place: the span of a line, a column and a width in the text of the shapes.
    """

    def __init__(
        self,
        shapes: ShapesFile,
        graph: Graph,
        problems: Problems,
        place: Callable[[int, int, int], Span],
    ) -> None:
        self.shapes, self.graph, self.problems, self._place = shapes, graph, problems, place
        self._used: dict[URIRef, bool] = {}

    def tell_unknown(self) -> list[Unchecked]:
        """Warn of properties in SHACL's namespace that mean nothing: SHACL does not define them, or
        the shape lacks another one.
        """
        refused = []
        for shape in self.shapes.shapes.values():
            predicates = sorted(
                {
                    str(one)
                    for one in self.shapes.graph.predicates(shape.node)
                    if str(one).startswith(SPACE)
                }
            )
            for name in (one[len(SPACE) :] for one in predicates):
                if name not in KNOWN:
                    reason, advice = f"SHACL has no `sh:{name}`", suggest_word(name, sorted(KNOWN))
                elif (
                    name in _QUALIFIED
                    and shape.path is not None  # node shapes may have them, without effect
                    and SPACE + "qualifiedValueShape" not in predicates
                ):
                    reason = "the shape has no `sh:qualifiedValueShape`"
                    advice = f"add it, or write `sh:{name[9].lower()}{name[10:]}`"
                else:
                    continue
                part = part_name(shape, "" if shape.path is None else path_text(shape.path), name)
                place = self._at(shape, name)
                refused.append(Unchecked(part=part, span=place, reason=reason))
                message = f"{part} is not checked: {reason}"
                self.problems.warning("FKG312", place, message, advice)
        return refused

    def tell_lost(self) -> dict[tuple[Shape, Constraint], Unchecked]:
        """Warn of references to shapes that the file does not contain.

        Returns the constraints with such references, which are not checked.
        """
        lost: dict[tuple[Shape, Constraint], Unchecked] = {}
        for shape in self._live():
            for constraint in shape.constraints:
                for node in constraint.values if constraint.name in SHAPE_VALUED else ():
                    if not isinstance(node, URIRef) or (node, None, None) in self.shapes.graph:
                        continue
                    part = part_name(
                        shape, "" if shape.path is None else path_text(shape.path), constraint.name
                    )
                    place, shown = self._span_and_text(shape, node)
                    reason = f"this file has no shape `{shown}`"
                    lost[shape, constraint] = Unchecked(part=part, span=place, reason=reason)
                    names = [
                        str(one).removeprefix(namespace_of(node))
                        for one in self.shapes.shapes
                        if isinstance(one, URIRef) and one != node
                    ]
                    advice = suggest_name(shown, node, names) or "state it in this file"
                    self.problems.warning(
                        "FKG312", place, f"{part} is not checked: {reason}", advice
                    )
        return lost

    def tell_values(self) -> None:
        """Warn of severities and node kinds that SHACL does not define."""
        for shape in self._live():
            for word, known in _CLOSED.items():
                value = self.shapes.graph.value(shape.node, URIRef(SPACE + word))
                name = str(value).removeprefix(SPACE)
                if isinstance(value, URIRef) and name != str(value) and name not in known:
                    place = self._at(shape, name)
                    message = (
                        f"sh:{word} of {shape_name(shape)} means nothing: SHACL has no `sh:{name}`"
                    )
                    self.problems.warning("FKG312", place, message, suggest_word(name, known))

    def tell_class(self, shape: Shape) -> bool:
        """Warn if a shape without focus nodes targets a class that no source uses.

        Returns whether it does.
        """
        lost = [node for node in target_classes(shape) if not self.is_used(node)]
        for node in lost:
            place, shown = self._span_and_text(shape, node)
            message = (
                f"{shape_name(shape)} has no focus node: the graph does not use "
                f"its target `{shown}`"
            )
            advice = (
                self.near_class(shape)
                or "check the spelling against the graph, or load the graph that has it"
            )
            self.problems.warning("FKG313", place, message, advice)
        return bool(lost)

    def near_class(self, shape: Shape) -> str:
        """``did you mean `plant:Pump`?`` for the first target of a shape that is spelt like a class
        with members; "" for none.
        """
        for node in target_classes(shape):
            space = namespace_of(node)
            names = [
                name for kind in self._with_members() if (name := kind.removeprefix(space)) != kind
            ]
            if near := suggest_name(self._span_and_text(shape, node)[1], node, names):
                return near
        return ""

    def is_used(self, iri: URIRef) -> bool:
        """Whether a column of the table has this IRI, or a triple uses or declares it.

        The triples of shapes do not count.
        """
        if iri not in self._used:
            self._used[iri] = self._find_use(iri)
        return self._used[iri]

    def _find_use(self, iri: URIRef) -> bool:
        graph, space = self.graph, namespace_of(iri)
        if space == SPACE or local_name(str(iri)) in STANDARD_TERMS.get(space, ()):
            return True
        if (None, iri, None) in graph or any(
            kind not in (RDFS.Resource, OWL.Thing) for _, kind in graph.predicate_objects(iri)
        ):
            return True
        return any(
            not str(predicate).startswith(SPACE) and predicate != RDF.first
            for predicate in graph.predicates(None, iri)
        )

    def span(self, line: int, column: int = 1, width: int = 1) -> Span:
        """A place of the file."""
        return self._place(line, column, width)

    def _at(self, shape: Shape, word: str) -> Span:
        """The span of a SHACL word in a shape."""
        return self.span(*self.shapes.locate(shape.line, word, SPACE))

    def _live(self) -> list[Shape]:
        """The shapes that are checked: those with targets, and what they refer to."""
        waiting = [shape for shape in self.shapes.targeted() if not shape.deactivated]
        found: dict[Node, Shape] = {}
        while waiting:
            shape = waiting.pop(0)
            if shape.node in found or shape.deactivated:
                continue
            found[shape.node] = shape
            nodes = (
                node for one in shape.constraints if one.name in SHAPE_VALUED for node in one.values
            )
            waiting += [
                inner for node in nodes if (inner := self.shapes.shapes.get(node)) is not None
            ]
        return list(found.values())

    def _span_and_text(self, shape: Shape, iri: URIRef) -> tuple[Span, str]:
        """The span at which a shape names a term, and its text there."""
        place = self.shapes.locate(shape.line, local_name(str(iri)), namespace_of(iri))
        return self.span(*place), self.shapes.written(place) if place[2] > 1 else self._shorten(iri)

    def _shorten(self, iri: URIRef) -> str:
        return f"<{iri}>"

    def _with_members(self) -> list[str]:
        """The classes with members that messages may name."""
        kinds = set(self.graph.objects(None, RDF.type))
        return sorted(str(kind) for kind in kinds if isinstance(kind, URIRef))


def suggest_word(name: str, known: Iterable[str]) -> str:
    """A help text with the most similar name in SHACL's namespace; "" if there is none."""
    near = nearest_name(name, known)
    return f"did you mean `sh:{near}`?" if near else ""


def target_classes(shape: Shape) -> list[URIRef]:
    """The classes that a shape targets."""
    return [
        target.value
        for target in shape.targets
        if target.kind == "class" and isinstance(target.value, URIRef)
    ]


def namespace_of(iri: URIRef) -> str:
    """The namespace of a name."""
    return str(iri).removesuffix(local_name(str(iri)))


def suggest_name(shown: str, iri: URIRef, names: list[str]) -> str:
    """``did you mean `plant:Pump`?``, written as the term is; "" if nothing is near."""
    name = local_name(str(iri))
    near = closest_name(name, names)
    if near is None:
        return ""
    right = shown.replace(name, near)
    said = f"did you mean `{right}`?"
    return Suggestion(said, shown, right) if certain_match(name, names) == near else said
