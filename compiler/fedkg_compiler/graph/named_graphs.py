"""The named graphs of the knowledge graph: one IRI for each, by the kind of its statements.

The default graph holds the user's data and what it entails. Rules, shapes and queries see it. Every
statement is in a named graph too, which a query addresses with `GRAPH <iri>`:

| kind | IRI | statements |
|---|---|---|
| data | `file:///NAME`, the address of an endpoint, or the user's own IRI | what a file states |
| ontology | `urn:fedkg:ontology:NAME` | an ontology that the user added to the catalogue |
| vocabulary | `urn:fedkg:vocabulary:NAME` | an ontology that ships with fedkg, or an alignment |
| inferred | `INFERRED` | what follows from the data, alone or with the other graphs |
| inferred | `VOCABULARY_INFERRED` | what follows from ontologies and vocabularies alone |
| learned | `urn:fedkg:run:DIGEST` | the findings of a run; nothing follows from them |

Only ontologies, vocabularies, findings and what vocabularies entail are stored under their names.
The graphs of data and of what it entails would be copies of the default graph, so a query that
names a graph makes them (`Graph.select`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal as OneOf
from urllib.parse import quote

import pyoxigraph as ox

from fedkg_compiler.graph.rdf_reader import Document, sections_of
from fedkg_compiler.graph.sparql_syntax.tokens import tokens
from fedkg_compiler.graph.stores.triple_files import StoredTriples
from fedkg_compiler.input_tracking import is_endpoint

GraphKind = OneOf["data", "ontology", "vocabulary", "inferred", "learned"]

DEFAULT = ox.DefaultGraph()
INFERRED = "urn:fedkg:inferred"
VOCABULARY_INFERRED = "urn:fedkg:inferred:vocabulary"
_ONTOLOGY, _VOCABULARY = "urn:fedkg:ontology:", "urn:fedkg:vocabulary:"
RUN = "urn:fedkg:run:"
"""The beginning of the IRI of a run, which is the graph of its findings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedGraph:
    """One named graph.

    Attributes:
        iri: its name.
        source: the file, store or endpoint that the statements come from; "" for inferences.
        triples: its statements, in the default graph.
    """

    iri: str
    source: str
    triples: Sequence[ox.Quad]

    @property
    def kind(self) -> GraphKind:
        """What its statements are."""
        return kind_of(self.iri)

    def quads(self) -> Iterator[ox.Quad]:
        """The statements in this graph."""
        return in_graph(self.triples, self.iri)


def file_graph(name: str) -> str:
    """Return the IRI of the graph of a file, or of an endpoint by its address.

    The folder does not matter, so that a rule gives the same rows on every machine: files of one
    name are one graph.
    """
    return name if is_endpoint(name) else f"file:///{quote(PurePath(name).name)}"


def ontology_graph(name: str, *, bundled: bool) -> str:
    """Return the IRI of the graph of an ontology of the catalogue."""
    return f"{_VOCABULARY if bundled else _ONTOLOGY}{quote(name)}"


def inferred_graph(premises: Iterable[str]) -> str:
    """Return the graph of an inference from triples in these graphs."""
    own = {VOCABULARY_INFERRED, ""}
    is_data = any(iri not in own and kind_of(iri) in ("data", "inferred") for iri in premises)
    return INFERRED if is_data else VOCABULARY_INFERRED


def kind_of(iri: str) -> GraphKind:
    """Return the kind of a graph."""
    for start, kind in _KINDS:
        if iri.startswith(start):
            return kind
    return "data"


_KINDS: tuple[tuple[str, GraphKind], ...] = (
    (INFERRED, "inferred"),
    (_ONTOLOGY, "ontology"),
    (_VOCABULARY, "vocabulary"),
    (RUN, "learned"),
)


def graphs_of(document: Document) -> list[NamedGraph]:
    """Return the graphs of a file, a store or an endpoint."""
    if isinstance(document.triples, StoredTriples):
        names = [part.name for part in document.triples.parts]
    else:
        names = [document.name] * max(len(document.graphs), 1)
    return [
        NamedGraph(iri=iri or file_graph(name), source=name, triples=triples)
        for name, (iri, triples) in zip(names, sections_of(document), strict=True)
    ]


def stated(document: Document) -> Iterable[ox.Quad]:
    """Return the triples of a document that are the user's data: not what runs have learned."""
    graphs = graphs_of(document)
    if all(graph.kind == "data" for graph in graphs):
        return document.triples
    return (quad for graph in graphs if graph.kind != "learned" for quad in graph.triples)


def in_graph(triples: Iterable[ox.Quad], iri: str) -> Iterator[ox.Quad]:
    """Yield triples as quads of a named graph."""
    name = ox.NamedNode(iri)
    for quad in triples:
        yield ox.Quad(quad.subject, quad.predicate, quad.object, name)


def names_graph(query: str) -> bool:
    """Tell whether a query may address a named graph."""
    return any(
        word.kind == "word" and word.text.upper() in ("GRAPH", "FROM") for word in tokens(query)
    )


def with_named_graphs(
    store: ox.Store, named: Callable[[ox.Store], Iterable[ox.Quad]] | None
) -> ox.Store:
    """Return a store in memory with every named graph.

    Args:
        store: what is stored; it may be read-only.
        named: gives the quads of the graphs that a store lacks; None: it lacks none.
    """
    whole = ox.Store()
    whole.extend(store)
    if named is not None:
        whole.extend(named(store))
    return whole
