"""Asks the graph what SHACL asks: value nodes of a path, members of a class, focus nodes of a
target.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Set
from collections.abc import Sequence as Sequence_
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
from fedkg_compiler.frontends.shacl.parameters import SH, SPACE
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

    def _subclasses_with_members(self, kind: Node) -> Sequence_[Node]:
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


_OFTEN = {str(term): term for term in (RDF.type, RDF.first, RDF.rest, RDF.nil, RDFS.subClassOf)}
"""Properties that are asked for very often."""
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
        # An iterator is enough of a generator, and much cheaper.
        return iter(() if own is None else list(own.get(predicate, ())))  # type: ignore[return-value]

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
    """

    @override
    def __missing__(self, term: object) -> Node:
        if isinstance(term, ox.Literal) and not term.language:
            found: Node = Literal(term.value, datatype=URIRef(term.datatype.value))
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
