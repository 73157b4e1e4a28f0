"""From a file of shapes to `ShapesFile`: all of SHACL core, `sh:sparql`, custom components by name,
SPARQL targets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

import pyoxigraph as ox
from rdflib import OWL, RDF, RDFS, BNode, Graph, Literal, URIRef
from rdflib.term import Node

from fedkg.limits import limit
from fedkg_compiler.frontends.shacl.model import (
    Alternative,
    Constraint,
    Inverse,
    Path,
    Repeat,
    Severity,
    Shape,
    ShapesFile,
    Step,
    Target,
)
from fedkg_compiler.frontends.shacl.model import Sequence as PathSequence
from fedkg_compiler.frontends.shacl.parameters import SH, items, what_is_wrong
from fedkg_compiler.frontends.shacl.rdflib_graphs import IndexedGraph, StoredTerms, memory_graph
from fedkg_compiler.graph.graph_terms import local_name
from fedkg_compiler.graph.rdf_reader import Document, read_file
from fedkg_compiler.graph.standard_vocabularies import FKG

if TYPE_CHECKING:
    from fedkg_compiler.diagnostics.record import Diagnostic


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

    def _custom(self) -> dict[Node, tuple[URIRef, tuple[URIRef, ...]]]:
        """The mandatory parameters of custom components, by the first of them: the component and
        all of them.
        """
        found: dict[Node, tuple[URIRef, tuple[URIRef, ...]]] = {}
        for component in sorted(set(self.graph.subjects(SH.parameter, None)), key=str):
            if not isinstance(component, URIRef) or self._builtin(component):
                continue
            wanted = []
            for parameter in self.graph.objects(component, SH.parameter):
                path = self.graph.value(parameter, SH.path)
                optional = self.graph.value(parameter, SH.optional)
                if isinstance(path, URIRef) and not (
                    isinstance(optional, Literal) and optional.value is True
                ):
                    wanted.append(path)
            if wanted:
                found[min(wanted)] = (component, tuple(sorted(wanted)))
        return found

    def _builtin(self, component: URIRef) -> bool:
        return (
            str(component).startswith(str(SH))
            or (component, RDF.type, SH.SPARQLTargetType) in self.graph
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
        for predicate in (*(SH[name] for name in (*_TARGETS, "target")), *parameters, *self.custom):
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
            deactivated=_true(graph.value(node, SH.deactivated)),
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
                _true(graph.value(value, SH.deactivated)),
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
        if closed is not None and _true(closed):
            ignored = graph.value(node, SH.ignoredProperties)
            yield Constraint(
                "closed",
                SH.closed,
                () if ignored is None else self._items(node, "ignoredProperties", ignored),
                closed,
            )
        unique = graph.value(node, SH.uniqueLang)
        # Section 4.4.5: only the literal `true` switches it on, not "1"^^xsd:boolean.
        if unique is not None and _true(unique) and str(unique) == "true":
            yield Constraint("uniqueLang", SH.uniqueLang, (unique,), unique)
        yield from self._qualified(node)
        for first, (component, parameters) in self.custom.items():
            if all((node, parameter, None) in graph for parameter in parameters):
                argument = graph.value(node, first)
                assert argument is not None
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
                (shape, name, f"its sh:{name} is not a list, or it is a list without an end")
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

    def _qualified(self, node: Node) -> Iterable[Constraint]:
        disjoint = _true(self.graph.value(node, SH.qualifiedValueShapesDisjoint))
        for shape in _sorted(self.graph.objects(node, SH.qualifiedValueShape)):
            for name in ("qualifiedMinCount", "qualifiedMaxCount"):
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


MOST_NESTED_PATHS = 50
"""Paths inside paths that are read; a path in a blank node may contain itself."""


def read_path(graph: Graph, node: Node, depth: int = 0) -> Path | None:
    """The path that a node of a shapes graph describes (SHACL, section 2.3.1); None if none."""
    if depth > MOST_NESTED_PATHS:
        return None
    if isinstance(node, URIRef):
        return Step(node)
    if (node, RDF.first, None) in graph:
        return _read_paths(graph, node, PathSequence, depth)
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
    return form(tuple(known)) if known and len(known) == len(parts) else None


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


def _true(value: Node | None) -> bool:
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
