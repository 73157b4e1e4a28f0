"""Asks the graph what SHACL asks: value nodes of a path, members of a class, focus nodes of a
target.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set

import pyoxigraph as ox
from rdflib import RDF, RDFS, Graph, Literal, URIRef, Variable
from rdflib.term import Node

from fedkg._internal.forked_worker import Crashed, run_apart
from fedkg_compiler.frontends.shacl.model import (
    Alternative,
    Inverse,
    Path,
    PathSequence,
    Repeat,
    Shape,
    Step,
    Target,
)
from fedkg_compiler.frontends.shacl.rdflib_graphs import IndexedGraph, to_rdflib
from fedkg_compiler.graph.sparql_syntax.tokens import asks_service


class Data:
    """The data graph with the vocabularies; answers about classes are kept.

    Focus nodes come from the user's data alone. Whether they conform is decided by everything that
    is known.

    Args:
        graph: everything that is known.
        targets: the triples in which targets find focus nodes; default: `graph`.
        foreign: nodes of `targets` that may not be focus nodes.
        queried: the same triples as `targets` in a store, for queries of targets, in a process that
            has limits already; default: `targets`, with a process of its own for each query.
    """

    def __init__(
        self,
        graph: Graph,
        targets: Graph | None = None,
        *,
        foreign: Set[Node] = frozenset(),
        queried: ox.Store | None = None,
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
                return ()

    def _selected(self, select: str) -> set[Node]:
        if asks_service(select):
            raise ValueError("SERVICE asks another server, and fedkg contacts none for a query")

        try:
            if self._queried is not None:
                return _selected_nodes(self._queried.query(select))
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
