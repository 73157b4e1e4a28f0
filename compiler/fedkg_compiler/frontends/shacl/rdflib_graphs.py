"""Graphs behind the interface of rdflib: a store's, and one in dictionaries."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any

import pyoxigraph as ox
from rdflib import RDF, RDFS, XSD, BNode, Graph, Literal, Namespace, URIRef
from rdflib.paths import Path as RdflibPath
from rdflib.term import Node
from typing_extensions import override

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
