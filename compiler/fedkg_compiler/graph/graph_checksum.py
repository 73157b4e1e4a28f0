"""The canonical content of graphs, independent of file and store: their triples as sorted lines,
and the checksum of the lines.

The lines are canonical N-Triples (W3C RDF 1.1 N-Triples, section 4), each once, in the order of
their code points; literals are as stores keep them, and blank nodes bear the names of
`blank_names`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from heapq import merge

import pyoxigraph as ox

from fedkg_compiler.graph.blank_node_names import names_by_content, renamed
from fedkg_compiler.graph.rdf_reader import Document, labels_of, sections_of


def lines_of(triples: Iterable[ox.Quad]) -> list[bytes]:
    """Return the sorted lines of these triples, without line ends."""
    text = ox.serialize(triples, format=ox.RdfFormat.N_TRIPLES)
    assert text is not None
    lines = dict.fromkeys(text.split(b"\n"))  # in their order, in which runs are sorted already
    lines.pop(b"", None)
    changed = _store_forms({line.split(b" ", 2)[2] for line in lines if b'"^^<' in line})
    others = (
        [line for line in lines if b'"^^<' in line and line.split(b" ", 2)[2] in changed]
        if changed
        else []
    )
    for line in others:
        del lines[line]
        subject, predicate, end = line.split(b" ", 2)
        lines[b" ".join((subject, predicate, changed[end]))] = None
    return sorted(lines)


def document_lines(document: Document) -> list[bytes]:
    """Return the sorted lines of a document; those of its named graphs as canonical N-Quads."""
    sections = sections_of(document)
    if not any(iri for iri, _ in sections):
        return lines_of(document.triples)
    return sorted(line for iri, triples in sections for line in quad_lines(lines_of(triples), iri))


def quad_lines(lines: Iterable[bytes], graph: str) -> Iterable[bytes]:
    """Return lines of N-Triples, with or without line ends, as lines of N-Quads; as they are for
    the graph "".

    Lines in one order stay in it.
    """
    if not graph:
        return lines
    name = f" {ox.NamedNode(graph)}".encode()
    ends = ((line, line.rindex(b" .")) for line in lines)
    return (line[:end] + name + line[end:] for line, end in ends)


def _store_forms(objects: Set[bytes]) -> dict[bytes, bytes]:
    """The line ends that a store writes in another form (`as_kept`), with that form."""
    given = sorted(objects)
    store = ox.Store()
    lines = b"".join(b"<n:%d> <n:p> %s\n" % (number, end) for number, end in enumerate(given))
    store.bulk_load(
        lines, format=ox.RdfFormat.N_TRIPLES, lenient=True
    )  # datatypes that are not quite IRIs are taken as they are
    text = store.dump(format=ox.RdfFormat.N_TRIPLES, from_graph=ox.DefaultGraph())
    assert text is not None
    found = (line.split(b" ", 2) for line in text.splitlines())
    forms = ((given[int(subject[3:-1])], form) for subject, _, form in found)
    return {end: form for end, form in forms if end != form}


def checksum(documents: Sequence[Document]) -> str:
    """Return the SHA-256 of everything that these documents say together: of their lines, each with
    its end.
    """
    if len(documents) == 1 and documents[0].content:
        return documents[0].content
    if len(documents) == 1:
        return hashlib.sha256(
            b"".join([line + b"\n" for line in document_lines(documents[0])])
        ).hexdigest()
    found = hashlib.sha256()
    last = b""
    for line in merge(*map(document_lines, documents)):
        if line != last:
            found.update(line + b"\n")
            last = line
    return found.hexdigest()


def rename_shared_blank_nodes(documents: Sequence[Document]) -> list[Document]:
    """Return the documents with blank nodes named as in one document: equal nodes of two documents
    stay two nodes.
    """
    if sum(not document.plain for document in documents) < 2:
        return list(documents)
    labels = [labels_of(document) for document in documents if not document.plain]
    if sum(map(len, labels)) == len(frozenset().union(*labels)):
        return list(documents)
    own = [
        [
            _owned(quad, number)
            for quad in document.triples
            if isinstance(quad.subject, ox.BlankNode) or isinstance(quad.object, ox.BlankNode)
        ]
        for number, document in enumerate(documents)
    ]
    names = names_by_content(quad for quads in own for quad in quads)
    return [
        replace(
            document,
            triples=tuple(renamed((_owned(quad, number) for quad in document.triples), names)),
            content="",
            labels=None,
        )
        for number, document in enumerate(documents)
    ]


def _owned(quad: ox.Quad, number: int) -> ox.Quad:
    """A triple with the blank nodes of one document."""
    subject, value = quad.subject, quad.object
    if isinstance(subject, ox.BlankNode):
        subject = ox.BlankNode(f"d{number}x{subject.value}")
    if isinstance(value, ox.BlankNode):
        value = ox.BlankNode(f"d{number}x{value.value}")
    return ox.Quad(subject, quad.predicate, value)
