"""Asks the graph what SHACL asks: value nodes of a path, members of a class, focus nodes of a
target.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from typing import Any

import pyoxigraph as ox
from rdflib import RDF, RDFS, XSD, BNode, Graph, Literal, URIRef, Variable
from rdflib.paths import Path as RdflibPath
from rdflib.term import Node
from typing_extensions import override

from fedkg._internal.forked_worker import Crashed, run_apart
from fedkg_compiler.frontends.shacl.model import (
    Alternative,
    Inverse,
    Path,
    Repeat,
    Sequence,
    Shape,
    Step,
    Target,
)
from fedkg_compiler.graph.select_results import asks_service


class Data:
    """The data graph with the vocabularies; answers about classes are kept.

    Focus nodes come from the user's data alone. Whether they conform is decided by everything that
    is known.

    Args:
        graph: everything that is known.
        targets: the triples in which targets find focus nodes; default: `graph`.
        is_own: whether a node of `targets`, by its IRI or as ``_:label``, may be a focus node;
            default: all may.
        queried: the same triples as `targets` in a store, for queries of targets, in a process that
            has limits already; default: `targets`, with a process of its own for each query.
    """

    def __init__(
        self,
        graph: Graph,
        targets: Graph | None = None,
        *,
        is_own: Callable[[str], bool] | None = None,
        queried: ox.Store | None = None,
    ) -> None:
        self.graph, self._queried = graph, queried
        self._targets = graph if targets is None else targets
        self._is_own = is_own
        self._subclasses: dict[Node, set[Node]] = {}
        self._members: dict[Node, frozenset[Node]] = {}

    def forget(self, predicates: Collection[str]) -> None:
        """Forget what depends on triples with these properties, because there are new ones."""
        if str(RDFS.subClassOf) in predicates:
            self._subclasses.clear()
            self._members.clear()
        if str(RDF.type) in predicates:
            self._members.clear()

    def subclasses(self, kind: Node) -> set[Node]:
        """The class and all its subclasses."""
        if kind not in self._subclasses:
            self._subclasses[kind] = self._closure(kind, Inverse(Step(RDFS.subClassOf)))
        return self._subclasses[kind]

    def superclasses(self, kind: Node) -> set[Node]:
        """The class and all its superclasses."""
        return self._closure(kind, Step(RDFS.subClassOf))

    def members(self, kind: Node) -> frozenset[Node]:
        """The members of a class and of its subclasses."""
        if kind not in self._members:
            self._members[kind] = self._members_in(self.graph, kind)
        return self._members[kind]

    def _members_in(self, graph: Graph, kind: Node) -> frozenset[Node]:
        return frozenset(
            node for sub in self.subclasses(kind) for node in graph.subjects(RDF.type, sub)
        )

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
                return {node for subject, node in facts if self._may_be_focus(subject)}
            case _:
                found = self._targeted(target)
                return {node for node in found if self._may_be_focus(node)}

    def _may_be_focus(self, node: Node) -> bool:
        """Whether a node belongs to the user's data; literals do."""
        if self._is_own is None or isinstance(node, Literal):
            return True
        return self._is_own(f"_:{node}" if isinstance(node, BNode) else str(node))

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
            case Sequence():
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
        subject, predicate, value = triple
        found = self._objects.setdefault(subject, {}).setdefault(predicate, {})
        if value not in found:
            found[value] = None
            self._subjects.setdefault(predicate, {}).setdefault(value, []).append(subject)
            self._size += 1
        return self

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
        if subject is None or not isinstance(predicate, URIRef):
            return super().objects(subject, predicate, unique)
        return (one for one in list(self._objects.get(subject, {}).get(predicate, ())))

    @override
    def subjects(
        self, predicate: Any = None, object: Any = None, unique: bool = False
    ) -> Generator[Node, None, None]:
        if object is None or not isinstance(predicate, URIRef):
            return super().subjects(predicate, object, unique)
        return (one for one in list(self._subjects.get(predicate, {}).get(object, ())))

    @override
    def predicates(
        self, subject: Any = None, object: Any = None, unique: bool = False
    ) -> Generator[Node, None, None]:
        if object is not None or not unique:
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
    for quad in triples:
        graph.add((terms[quad.subject], terms[quad.predicate], terms[quad.object]))
    return graph


class Terms(dict[object, Node]):
    """Terms of rdflib by those of the store's library; each is converted once."""

    def __missing__(self, term: object) -> Node:
        found = self[term] = to_rdflib(term)
        return found


class StoredTerms(Terms):
    """Terms as `behind_rdflib` gives them: rdflib normalises their literals, and texts have a
    datatype.
    """

    @override
    def __missing__(self, term: object) -> Node:
        from oxrdflib._converter import from_ox

        found = self[term] = from_ox(term)  # type: ignore[arg-type, assignment]
        return found


def to_rdflib(term: object) -> Node:
    """A term of the store's library as rdflib has it."""
    match term:
        case ox.NamedNode():
            return URIRef(term.value)
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
