"""The triples behind the rows of a shape's component: what makes a node its focus, what its paths
met, and the columns that it reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import product

from rdflib import RDF, BNode, URIRef
from rdflib.term import Node

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.column_assignment_triples import (
    TermTriple,
    facts_of_column,
    facts_of_key,
    facts_of_sensor,
)
from fedkg_compiler.frontends.shacl.bind import Part, ShapesBinder
from fedkg_compiler.frontends.shacl.shape_conditions import PASSING, Refused
from fedkg_compiler.frontends.shacl.shapes_graph_reader import (
    PAIRS,
    SHAPE_VALUED,
    Alternative,
    Constraint,
    Path,
    PathSequence,
    Shape,
    Step,
    Target,
    said_of,
    shape_name,
    shape_path,
)
from fedkg_compiler.frontends.shacl.validation_report import path_sparql
from fedkg_compiler.frontends.sparql.solution_triples import MOST, facts_of_pattern
from fedkg_compiler.graph.graph import Resource
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem

_DEEPEST = 8
"""Depth of nested shapes up to which facts are collected."""
_TARGETS = {
    "class": "targetClass",
    "node": "targetNode",
    "subjects": "targetSubjectsOf",
    "objects": "targetObjectsOf",
    "sparql": "target",
}


def statements(binder: ShapesBinder, part: Part, focus: URIRef) -> list[tuple[str, Span]]:
    """The facts of the shape itself for a focus node, with their positions: its targets that select
    the node, and the component.
    """
    head = Span(
        file=binder.shapes.name,
        line=part.root.line,
        column=1,
        end_line=part.root.line,
        end_column=2,
    )
    graph = binder.sources.graph
    found = []
    facts = _Facts(binder)
    for target in part.root.targets:
        if facts.is_target(target, focus):
            said = (
                "[...]"
                if isinstance(target.value, BNode) or graph is None
                else graph.vocabulary.shorten(str(target.value))
            )
            found.append((f"{shape_name(part.root)} sh:{_TARGETS[target.kind]} {said}", head))
    path = "" if part.shape.path is None else f"sh:path {shape_path(part.shape)} ; "
    said = said_of(part.constraint) or "[...]"
    line, column, width = binder.shapes.locate(part.shape.line, part.constraint.name)
    here = Span(
        file=binder.shapes.name, line=line, column=column, end_line=line, end_column=column + width
    )
    return [*found, (f"{shape_name(part.root)}: {path}sh:{part.constraint.name} {said}", here)]


def facts_of_part(binder: ShapesBinder, part: Part, focus: URIRef) -> list[TermTriple]:
    """Return the triples behind the rows that a component has for a focus node, once each."""
    return [*dict.fromkeys(_Facts(binder).facts_of(part, focus))]


class _Facts:
    """The facts of one file's shapes."""

    def __init__(self, binder: ShapesBinder) -> None:
        assert binder.sources.graph is not None, "the pipeline loads a graph where shapes are"
        self.binder, self.sources, self.graph = binder, binder.sources, binder.sources.graph
        self.observer, self.queries, self.shapes = (
            binder.observer,
            binder.partial.queries,
            binder.shapes.shapes,
        )

    def facts_of(self, part: Part, focus: URIRef) -> Iterator[TermTriple]:
        """The facts that make the node a focus node of the component's shape, and the facts that
        the component reads.
        """
        yield from self._targets(part.root, focus)
        yield from facts_of_key(self.graph, self.graph.node(str(focus)))
        nodes: list[Node] = [focus]
        for shape in self._way(part.root, part.shape):
            if shape is part.shape:
                break
            met = [self._path(shape.path, node) for node in nodes] if shape.path is not None else []
            yield from (fact for facts, _ in met for fact in facts)
            nodes = [end for _, ends in met for end in ends] if shape.path is not None else nodes
        for node in nodes[:MOST]:
            yield from self._component(part.shape, part.constraint, node, 0)

    def _way(self, start: Shape, end: Shape) -> list[Shape]:
        """The shapes from one to a property shape inside it, both among them."""
        ways = [[start]]
        while ways:
            way = ways.pop(0)
            if way[-1] is end:
                return way
            inner = [
                self.shapes.get(one.values[0])
                for one in way[-1].constraints
                if one.name == "property"
            ]
            ways += [[*way, shape] for shape in inner if shape is not None and shape not in way]
        return [end]

    def is_target(self, target: Target, focus: URIRef) -> bool:
        """Whether a focus node may be one by this target.

        What a query finds may be in the table alone.
        """
        if target.kind in ("node", "sparql"):
            return target.kind == "sparql" or target.value == focus
        return any(True for _ in self._target(target, focus))

    def _targets(self, shape: Shape, focus: URIRef) -> Iterator[TermTriple]:
        for target in shape.targets:
            yield from self._target(target, focus)

    def _target(self, target: Target, focus: URIRef) -> Iterator[TermTriple]:
        match target.kind:
            case "class":
                yield from self._pattern_facts(focus, f"?this <{RDF.type}> <{target.value}>")
            case "subjects":
                yield from self._pattern_facts(focus, f"?this <{target.value}> ?v")
                yield from self._column(URIRef(str(target.value)), focus)
            case "objects":
                yield from self._pattern_facts(focus, f"?v <{target.value}> ?this")
            case "sparql":
                with suppress(SparqlProblem):  # already reported when the shapes were bound
                    yield from self.queries.target_facts(target.select, focus, self.observer.span)
            case "node" | "unknown":
                pass

    def _component(
        self, shape: Shape, constraint: Constraint, focus: Node, depth: int
    ) -> Iterator[TermTriple]:
        if constraint.is_query:
            if isinstance(focus, URIRef):
                with suppress(Refused, SparqlProblem):  # likewise
                    yield from self.queries.facts(shape, constraint, focus, self.observer.span)
            return
        facts, ends = ([], [focus]) if shape.path is None else self._path(shape.path, focus)
        yield from facts
        if constraint.name in PAIRS and isinstance(constraint.values[0], URIRef):
            yield from self._path(Step(constraint.values[0]), focus)[0]
        for end in ends[:MOST]:
            if constraint.name == "class" and isinstance(end, URIRef):
                yield from self._pattern_facts(end, f"?this <{RDF.type}> <{constraint.values[0]}>")
            for node in (
                constraint.values if constraint.name in SHAPE_VALUED and depth < _DEEPEST else ()
            ):
                inner = self.shapes.get(node)
                for one in () if inner is None or inner.deactivated else inner.constraints:
                    assert inner is not None
                    yield from self._component(inner, one, end, depth + 1)

    def _path(self, path: Path, node: Node) -> tuple[list[TermTriple], list[Node]]:
        """The triples on a path from a node, and the graph nodes at its ends.

        Columns are not nodes.
        """
        found: list[TermTriple] = []
        ends: list[Node] = []
        for steps, read in self._ways(path):
            text = (
                f"SELECT * WHERE "
                f"{{ ?this {'/'.join(f'({path_sparql(step)})' for step in steps)} ?v }}"
            )
            given = {"this": self._node(node)}
            at = [row["v"] for row in self.graph.nodes(text, given)] if steps else [given["this"]]
            for end in at[:MOST]:
                columns = [] if read is None else [*self._reads(read, end)]
                if read is None or columns:
                    found += (
                        facts_of_pattern(self.graph, text, {**given, "v": end}) if steps else []
                    )
                    found += columns
                if read is None and (iri := getattr(end, "value", "")) and str(end).startswith("<"):
                    ends.append(URIRef(iri))
        return found, ends

    def _ways(self, path: Path) -> list[tuple[tuple[Path, ...], URIRef | None]]:
        """The alternatives of a path: the steps that the graph knows, and the property behind them
        that the table has.
        """
        match path:
            case Step() if self.observer.is_observed(path.property) or path.property in PASSING:
                return [((), path.property)]
            case PathSequence():
                found: list[tuple[tuple[Path, ...], URIRef | None]] = []
                for parts in product(*(self._ways(part) for part in path.paths)):
                    steps: tuple[Path, ...] = ()
                    read = None
                    for more, read in parts:
                        steps += more
                        if read is not None:
                            break
                    found.append((steps, read))
                return found
            case Alternative():
                return [way for part in path.paths for way in self._ways(part)]
            case _:
                return [((path,), None)]

    def _reads(self, read: URIRef, node: Resource) -> Iterator[TermTriple]:
        """The triples that name the column of a node's property, or of the value of a sensor or a
        node with a column.
        """
        if read in PASSING:
            yield from facts_of_sensor(self.graph, node, None)
            for row in self.graph.nodes(
                "PREFIX sosa: <http://www.w3.org/ns/sosa/> SELECT * WHERE { ?s sosa:observes ?p }",
                {"s": node},
            ):
                yield from facts_of_sensor(self.graph, row["p"], None)
        elif iri := getattr(node, "value", ""):
            yield from self._column(read, URIRef(iri))

    def _column(self, read: URIRef, node: Node) -> Iterator[TermTriple]:
        if self.observer.is_observed(read):
            yield from facts_of_column(self.sources, str(read), self._node(node))

    def _pattern_facts(self, node: URIRef, pattern: str) -> Iterator[TermTriple]:
        yield from facts_of_pattern(
            self.graph, f"SELECT * WHERE {{ {pattern} }}", {"this": self._node(node)}
        )

    def _node(self, node: Node) -> Resource:
        return self.graph.node(str(node))
