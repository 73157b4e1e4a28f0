"""What exact mappings entail: two classes or two properties that match exactly are equivalent.

All other predicates of SKOS entail nothing; those of OWL and RDFS mean what they say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyoxigraph as ox

from fedkg_compiler.ontology.definitions import definitions
from fedkg_compiler.ontology.graph_terms import TermKind
from fedkg_compiler.ontology.rdf_reader import Document
from fedkg_compiler.ontology.standard_vocabularies import OWL, SKOS, SSSOM

_WORD = "mapping_justification"
MARK = SSSOM + _WORD
"""The property that every mapping in RDF has."""
_EXACT = ox.NamedNode(SKOS + "exactMatch")
_EQUIVALENT: dict[TermKind, ox.NamedNode] = {
    "class": ox.NamedNode(OWL + "equivalentClass"),
    "property": ox.NamedNode(OWL + "equivalentProperty"),
}


def exact_matches(documents: Iterable[Document]) -> list[ox.Quad]:
    """Return the exact mappings of the documents that hold mappings."""
    return [
        quad
        for document in documents
        if _WORD in document.text or MARK in document.marks
        for quad in document.triples
        if quad.predicate == _EXACT
    ]


def equivalences(exact: Iterable[ox.Quad], documents: Sequence[Document]) -> list[ox.Quad]:
    """Return the equivalences of exact mappings between two classes or two properties.

    Args:
        exact: triples with `skos:exactMatch`; others are skipped. documents: the files that define
            the terms, the smaller ones first. A term that none of them defines has no equivalent.
    """
    matches = [quad for quad in exact if quad.predicate == _EXACT]
    if not matches:
        return []
    kinds: dict[str, TermKind] = {}
    ends = {
        node.value
        for quad in matches
        for node in (quad.subject, quad.object)
        if isinstance(node, ox.NamedNode)
    }
    for document in documents:
        if len(kinds) == len(ends):
            break
        for iri, entry in definitions(document, "", individuals=False).items():
            if iri in ends:
                kinds.setdefault(iri, entry.kind)
    found = []
    for quad in matches:
        subject, target = quad.subject, quad.object
        if isinstance(subject, ox.NamedNode) and isinstance(target, ox.NamedNode):
            kind = kinds.get(subject.value)
            if kind is not None and kind == kinds.get(target.value) and kind in _EQUIVALENT:
                found.append(ox.Quad(subject, _EQUIVALENT[kind], target))
    return found
