"""Locates triples in their sources: the file, and the line that completes each triple.

The files are read again, line by line, and a triple belongs to the line that the reader has
reached. If a file is not RDF, or its triples do not come in the same order again, the span is that
of the subject's or the object's name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, cast

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.diagnostic_spans import point
from fedkg_compiler.graph.ontologies import find
from fedkg_compiler.graph.rdf_reader import Document, graph_name
from fedkg_compiler.graph.rdf_terms import split_iri
from fedkg_compiler.graph.standard_vocabularies import STANDARD_PREFIXES
from fedkg_compiler.input_files import detect_format

if TYPE_CHECKING:
    from fedkg_compiler.graph.rdf_reader import NamedGraph
    from fedkg_compiler.graph.reasoning.justifications import Reasons

Node = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple
TermTriple = tuple[Node, Node, Node]
_FORMATS = {
    "turtle": ox.RdfFormat.TURTLE,
    "n-triples": ox.RdfFormat.N_TRIPLES,
    "rdf-xml": ox.RdfFormat.RDF_XML,
    "trig": ox.RdfFormat.TRIG,
    "n-quads": ox.RdfFormat.N_QUADS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The inputs of a closure, to answer questions about it later.

    Attributes:
        documents: the documents that were read, the user's graphs first.
        triples: returns all asserted triples and those derived from them about columns
            (`derive_columns`); called only when they are needed.
        graphs: returns the named graphs of the asserted triples, the user's first.
        origins: returns the derived triples, each with the asserted triple that states it.
    """

    documents: tuple[Document, ...]
    triples: Callable[[], Sequence[ox.Quad]]
    graphs: Callable[[], Sequence[NamedGraph]]
    origins: Callable[[], Mapping[ox.Quad, ox.Quad]] = dict

    def reasons(self) -> Reasons:
        """Return what answers why something holds.

        The triples are closed once more for it, at the first question.
        """
        from fedkg_compiler.graph.reasoning.justifications import Reasons

        return Reasons(self.triples())

    def prefixes(self) -> dict[str, str]:
        """Return the prefixes that the documents declare, by which names are shown."""
        found = {
            prefix: space
            for document in reversed(self.documents)
            for prefix, space in document.prefixes.items()
        }
        return found | STANDARD_PREFIXES

    def name_graphs(self, triples: Collection[TermTriple]) -> dict[TermTriple, NamedGraph]:
        """Return the named graph that states each triple, the user's before others; triples that
        none states are omitted.
        """
        found: dict[TermTriple, NamedGraph] = {}
        for graph in self.graphs():
            for quad in graph.triples:
                triple = (quad.subject, quad.predicate, quad.object)
                if triple in triples:
                    found.setdefault(triple, graph)
        return found

    def locate(self, triples: Collection[TermTriple]) -> dict[TermTriple, Span]:
        """Return the source span of each triple, as `locate_triples` does.

        A derived triple has the span of the triple that states it.
        """
        origins = {_terms(quad): _terms(origin) for quad, origin in self.origins().items()}
        stated = {triple: origins.get(triple, triple) for triple in triples}
        found = locate_triples(self.documents, {*triples, *stated.values()})
        return {
            triple: found[place]
            for triple in triples
            for place in (triple if triple in found else stated[triple],)
            if place in found
        }


def _terms(quad: ox.Quad) -> TermTriple:
    return quad.subject, quad.predicate, quad.object


class _Lines:
    """Text for a parser, a line at a time."""

    def __init__(self, text: str) -> None:
        self._lines = iter(text.splitlines(keepends=True))
        self.count = 0

    def read(self, _: int = -1) -> bytes:
        """The next line, empty after the last."""
        line = next(self._lines, "")
        self.count += bool(line)
        return line.encode()


def locate_triples(
    documents: Sequence[Document], triples: Collection[TermTriple]
) -> dict[TermTriple, Span]:
    """Return the source span of each triple; triples that no document asserts are omitted."""
    found: dict[TermTriple, Span] = {}
    for document in documents:
        missing = {triple for triple in triples if triple not in found}
        if not missing:
            break
        said = (
            (i, (quad.subject, quad.predicate, quad.object))
            for i, quad in enumerate(document.triples)
        )
        here = {i: triple for i, triple in said if triple in missing}
        if not here:
            continue
        lines = _lines(document, max(here)) if document.text else []
        for i, triple in here.items():
            if triple not in found:
                found[triple] = (
                    _line_span(document, lines[i]) if i < len(lines) else _by_name(document, triple)
                )
    return found


def _lines(document: Document, last: int) -> list[int]:
    """The line of each triple up to the last that matters; [] if they do not come again as they
    came.
    """
    syntax = _FORMATS.get(str(detect_format(document.text, document.name)))
    if syntax is None:
        return []
    text = _Lines(document.text)
    base = "file:///" + PurePath(document.name).name.replace(" ", "%20")
    found: list[int] = []
    try:
        if document.graphs:
            return _lines_by_graph(document, _quads(text, syntax, base), text)
        for quad, known in zip(_quads(text, syntax, base), document.triples, strict=False):
            if quad.predicate != known.predicate:
                return []
            found.append(text.count)
            if len(found) > last:
                break
    except (SyntaxError, ValueError):
        return []
    return found


def _lines_by_graph(document: Document, quads: Iterator[ox.Quad], text: _Lines) -> list[int]:
    """The line of each triple of a file with named graphs, which orders them by graph."""
    found: dict[str, list[int]] = {iri: [] for iri, _ in document.graphs}
    for quad in quads:
        found.setdefault(graph_name(quad), []).append(text.count)
    if any(len(found[iri]) != count for iri, count in document.graphs):
        return []
    return [line for lines in found.values() for line in lines]


def _quads(text: _Lines, syntax: ox.RdfFormat, base: str) -> Iterator[ox.Quad]:
    return ox.parse(
        cast("IO[bytes]", text), format=syntax, base_iri=base
    )  # it calls nothing but `read`


def _line_span(document: Document, line: int) -> Span:
    text = document.text.split("\n", line)[line - 1] if line else ""
    indent = len(text) - len(text.lstrip())
    return point(document.name, line, indent + 1, width=max(len(text.strip()), 1))


def _by_name(document: Document, triple: TermTriple) -> Span:
    subject = triple[0]
    if isinstance(subject, ox.BlankNode):  # a quantity, for example, is where its property is
        subject = next(
            (quad.subject for quad in document.triples if quad.object == subject), subject
        )
    for node in (subject, triple[2], triple[1]):
        if isinstance(node, ox.NamedNode):
            span = find(document, node.value, *split_iri(node.value))
            if (span.line, span.column) != (1, 1):
                return span
    return point(document.name)
