"""The report of a validation: RDF as the recommendation defines it, and JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from typing import Literal as OneOf

from rdflib import RDF, RDFS, XSD, BNode, Graph, Literal, URIRef
from rdflib.term import Node
from typing_extensions import override

from fedkg._internal.notebook_html import notebook_html
from fedkg_compiler.frontends.shacl.shapes_graph_reader import (
    SH,
    Alternative,
    Inverse,
    Path,
    PathSequence,
    Repeat,
    ShapesFile,
    Step,
    path_text,
)
from fedkg_compiler.graph.rdf_terms import local_name

Format = OneOf["turtle", "json-ld", "n-triples"]
FORMATS: Mapping[Format, str] = {"turtle": "turtle", "json-ld": "json-ld", "n-triples": "nt"}
"""The syntaxes of a report in RDF, by the name that rdflib gives them."""

_PLACEHOLDER = re.compile(r"\{[?$](\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One `sh:ValidationResult` (W3C SHACL 2017, section 3.6.2).

    Attributes:
        focus, value: the focus node, and the value node that does not conform; None if the result
            is about no single value.
        path: the path from the focus node to the value; None for node shapes.
        severity: the IRI of `sh:severity`, by default `sh:Violation`.
        component: the IRI of the constraint component.
        shape: the shape with the component. constraint: the node of a SPARQL constraint, else None.
        messages: each a literal, with its language.
        details: for `sh:node`, the results of the value node, which are no results of the report.
    """

    focus: Node
    value: Node | None
    path: Path | None
    severity: URIRef
    component: URIRef
    shape: Node
    constraint: Node | None
    messages: tuple[Literal, ...]
    details: tuple[Result, ...] = ()

    @property
    def level(self) -> str:
        """The name of the severity: ``violation``, ``warning``, ``info`` or another."""
        return local_name(str(self.severity)).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The file and line of a shape."""

    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """All results of a validation, sorted by focus node, shape, component and value.

    Attributes:
        shapes: the shapes graph, which describes blank source shapes.
        inferred: the number of triples that rules (`sh:rule`) added before the validation.
        focus_nodes: the number of focus nodes, each counted once.
        unchecked: the number of constraints that were not checked: SHACL lacks their word, the
            shapes lack the shape that they name, fedkg cannot check them on a table, or no row of
            the table is about their focus nodes.
        notes: what else a table lacks or has too much of, such as rows about no focus node.
    """

    results: tuple[Result, ...]
    shapes: ShapesFile
    place: Callable[[Node], Place | None]
    inferred: int = 0
    focus_nodes: int = 0
    unchecked: int = 0
    notes: tuple[str, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)

    @property
    def conforms(self) -> bool:
        """Whether there is no result, of whatever severity, and every constraint was checked."""
        return not self.results and not self.unchecked

    def _repr_html_(self) -> str:
        """The results as a notebook shows them."""
        found = (self.lines(result) for result in self.results)
        unchecked = f", {self.unchecked:,} constraints not checked" if self.unchecked else ""
        return notebook_html(
            "Validation report",
            "conforms" if self.conforms else f"{len(self.results):,} results{unchecked}",
            ("result", "message"),
            ((first, " ".join(map(str.strip, more))) for first, *more in found),
            len(self.results),
        )

    def graph(self) -> Graph:
        """The report as a graph with one `sh:ValidationReport`."""
        graph = Graph(bind_namespaces="none")
        for prefix, namespace in {**self.prefixes, "sh": str(SH), "xsd": str(XSD)}.items():
            graph.bind(prefix, namespace)
        report, blank = BNode("report"), BlankNodes()
        graph.add((report, RDF.type, SH.ValidationReport))
        graph.add((report, SH.conforms, Literal(self.conforms)))
        if self.unchecked:
            note = Literal(f"constraints that were not checked: {self.unchecked}")
            graph.add((report, RDFS.comment, note))
        described: set[Node] = set()
        for result in self.results:
            graph.add((report, SH.result, self._write(result, graph, blank, described)))
        return graph

    def _write(self, result: Result, graph: Graph, blank: BlankNodes, described: set[Node]) -> Node:
        """Write one result and its details; return its node."""
        node = next(blank)
        graph.add((node, RDF.type, SH.ValidationResult))
        graph.add((node, SH.focusNode, plain(result.focus)))
        graph.add((node, SH.resultSeverity, result.severity))
        graph.add((node, SH.sourceConstraintComponent, result.component))
        graph.add((node, SH.sourceShape, result.shape))
        if result.value is not None:
            graph.add((node, SH.value, plain(result.value)))
        if result.path is not None:
            graph.add((node, SH.resultPath, path_node(result.path, graph, blank)))
        if result.constraint is not None:
            graph.add((node, SH.sourceConstraint, result.constraint))
        for message in result.messages:
            graph.add((node, SH.resultMessage, plain(message)))
        for source in (result.shape, result.constraint):
            self._describe(source, graph, described)
        for detail in result.details:
            graph.add((node, SH.detail, self._write(detail, graph, blank, described)))
        return node

    def serialized(self, form: Format) -> str:
        """The report in a syntax of RDF."""
        graph = self.graph()
        options: dict[str, Any] = {}
        if form == "json-ld":
            options = {"auto_compact": True, "sort_keys": True}
        text: str = graph.serialize(format=FORMATS[form], **options)
        if form != "n-triples":
            return text
        return "".join(sorted(text.splitlines(keepends=True)))

    def to_json(self) -> dict[str, Any]:
        """The report as plain data. `Any`: JSON."""
        return {
            "conforms": self.conforms,
            "unchecked_constraints": self.unchecked,
            "inferred_triples": self.inferred,
            "notes": list(self.notes),
            "results": [self._result_json(result) for result in self.results],
        }

    def _result_json(self, result: Result) -> dict[str, Any]:
        place = self.place(result.shape)
        return {
            "focus_node": term_json(result.focus),
            "path": None if result.path is None else path_sparql(result.path),
            "value": None if result.value is None else term_json(result.value),
            "severity": result.level,
            "component": str(result.component),
            "shape": term_json(result.shape),
            "file": None if place is None else place.file,
            "line": None if place is None else place.line,
            "messages": [str(message) for message in result.messages],
        }

    def shown(self, node: Node) -> str:
        """A term as the text report shows it: with a prefix where one is known."""
        if isinstance(node, BNode):
            return f"_:{node}"
        if isinstance(node, Literal):
            kind = node.datatype
            if node.language:
                return f'"{node}"@{node.language}'
            if kind is None or kind == XSD.string:
                return f'"{node}"'
            return str(node) if kind in _PLAIN else f'"{node}"^^{self.shown(kind)}'
        for prefix, namespace in sorted(self.prefixes.items(), key=lambda item: -len(item[1])):
            if namespace and str(node).startswith(namespace):
                rest = str(node)[len(namespace) :]
                if re.fullmatch(r"[\w.-]*", rest):
                    return f"{prefix}:{rest}"
        return f"<{node}>"

    def lines(self, result: Result) -> list[str]:
        """One result as text: a line about what and where, and a line for each message."""
        name = local_name(str(result.component)).removesuffix("ConstraintComponent")
        path = "" if result.path is None else f" {path_text(result.path)}"
        value = ""
        if result.value is not None and (result.path is not None or result.value != result.focus):
            value = f" {self.shown(result.value)}"
        known = self.shapes.shapes.get(result.shape)
        place = self.place(result.shape)
        where = "" if place is None else f"{place.file}:{place.line}"
        shape = known.name if known is not None else ""
        source = ", ".join(part for part in (shape, where) if part)
        head = (
            f"{result.level}: {self.shown(result.focus)}{path}{value}:"
            f" {name}{f' ({source})' if source else ''}"
        )
        return [head, *(f"  {message}" for message in result.messages)]

    def _describe(self, node: Node | None, graph: Graph, described: set[Node]) -> None:
        """Copy the description of a blank node of the shapes graph, with further blank nodes."""
        if not isinstance(node, BNode) or node in described:
            return
        described.add(node)
        for _, predicate, value in self.shapes.graph.triples((node, None, None)):
            graph.add((node, predicate, value))
            self._describe(value, graph, described)


_PLAIN = frozenset({XSD.integer, XSD.decimal, XSD.double, XSD.boolean, XSD.float, XSD.int})


def plain(node: Node) -> Node:
    """A literal of type `xsd:string` without its datatype; other terms as they are."""
    if isinstance(node, Literal) and node.datatype == XSD.string:
        return Literal(str(node))
    return node


class BlankNodes(Iterator[BNode]):
    """New blank nodes, numbered, so that the same report is always the same text."""

    def __init__(self) -> None:
        self._numbers = count(1)

    @override
    def __next__(self) -> BNode:
        return BNode(f"node{next(self._numbers)}")


def path_node(path: Path, graph: Graph, blank: Iterator[BNode]) -> Node:
    """Write a path into a graph, with these blank nodes; return its node."""
    if isinstance(path, Step):
        return path.property
    if isinstance(path, PathSequence):
        return _list([path_node(part, graph, blank) for part in path.paths], graph, blank)
    node = next(blank)
    match path:
        case Inverse():
            graph.add((node, SH.inversePath, path_node(path.path, graph, blank)))
        case Repeat():
            name = "zeroOrOnePath"
            if path.many:
                name = "oneOrMorePath" if path.least else "zeroOrMorePath"
            graph.add((node, SH[name], path_node(path.path, graph, blank)))
        case Alternative():
            parts = [path_node(part, graph, blank) for part in path.paths]
            graph.add((node, SH.alternativePath, _list(parts, graph, blank)))
    return node


def _list(members: Sequence[Node], graph: Graph, blank: Iterator[BNode]) -> Node:
    head: Node = RDF.nil
    for member in reversed(members):
        rest, head = head, next(blank)
        graph.add((head, RDF.first, member))
        graph.add((head, RDF.rest, rest))
    return head


def path_sparql(path: Path) -> str:
    """A path in SPARQL's notation with full IRIs."""
    match path:
        case Step():
            return f"<{path.property}>"
        case Inverse():
            return f"^({path_sparql(path.path)})"
        case Repeat():
            mark = "?" if not path.many else "+" if path.least else "*"
            return f"({path_sparql(path.path)}){mark}"
        case PathSequence():
            return "/".join(f"({path_sparql(part)})" for part in path.paths)
        case Alternative():
            return "|".join(f"({path_sparql(part)})" for part in path.paths)


def term_json(node: Node) -> dict[str, str]:
    """A term as in the JSON results of SPARQL: `type` and `value`, and `datatype` or `xml:lang`."""
    if isinstance(node, BNode):
        return {"type": "bnode", "value": str(node)}
    if isinstance(node, Literal):
        found = {"type": "literal", "value": str(node)}
        if node.language:
            return found | {"xml:lang": node.language}
        return found if node.datatype is None else found | {"datatype": str(node.datatype)}
    return {"type": "uri", "value": str(node)}


def fill(message: Literal, values: Mapping[str, str]) -> Literal:
    """Fill the placeholders `{?name}` and `{$name}` of a message; unknown names stay as they are.

    Source: W3C SHACL 2017, section 5.3.2.
    """
    if "{" not in message:
        return message
    text = _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), message)
    return Literal(text, lang=message.language, datatype=message.datatype)


def message_values(focus: Node, value: Node | None, path: Path | None) -> dict[str, str]:
    """The texts of a result for the placeholders `this`, `value`, `path` and `PATH`."""
    texts = {"this": message_text(focus)}
    if value is not None:
        texts["value"] = message_text(value)
    if path is not None:
        texts["path"] = texts["PATH"] = path_sparql(path).strip("<>")
    return texts


def message_text(term: Node) -> str:
    """A term inside a message."""
    return f"_:{term}" if isinstance(term, BNode) else str(term)


def fill_message(
    shapes: Graph, shape: Node, message: Literal, values: Mapping[str, str]
) -> Literal:
    """Fill the placeholders of a message with values, and with the parameters of its shape.

    Args:
        values: texts by name: `this`, `value`, `path`, and variables of a query.
    """
    if "{" not in message:
        return message
    own = {
        str(predicate).removeprefix(str(SH)): str(value)
        for predicate, value in shapes.predicate_objects(shape)
        if str(predicate).startswith(str(SH)) and not isinstance(value, BNode)
    }
    return fill(message, {**own, **values})


def sorted_results(results: Sequence[Result]) -> tuple[Result, ...]:
    """Results in an order that depends on their contents alone."""
    return tuple(
        sorted(
            results,
            key=lambda result: (
                str(result.focus),
                str(result.shape),
                str(result.component),
                str(result.value),
                "" if result.path is None else path_sparql(result.path),
                result.messages,
            ),
        )
    )
