"""Checks for names that are declared as two kinds of thing, or that two files define
differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyoxigraph as ox

from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.graph.definitions import Definition, find
from fedkg_compiler.graph.graph_terms import split_iri
from fedkg_compiler.graph.rdf_reader import Document
from fedkg_compiler.graph.spans import report
from fedkg_compiler.graph.standard_vocabularies import RDF, STANDARD_TERMS

_CONFLICTS = (
    ("class", "object property", "class"),
    ("class", "data property", "class"),
    ("class", "annotation property", "class"),
    ("class", "datatype", "class"),
    ("object property", "data property", "property"),
)
"""Two kinds that no name can have, and what it is taken as. A class or a property that is an
individual too is allowed by OWL 2."""
_MOST_REPORTED = 20
_TYPE = ox.NamedNode(RDF + "type")


def two_kinds(
    found: Mapping[str, Definition], documents: Sequence[Document]
) -> tuple[Diagnostic, ...]:
    """Return a warning for each name with two kinds that exclude each other, at the first place in
    `documents` that has it.
    """
    clashes: dict[str, tuple[str, str, str]] = {}
    for iri, entry in sorted(found.items()):
        if len(entry.kinds) < 2 or iri.startswith(tuple(STANDARD_TERMS)):
            continue
        clash = next((clash for clash in _CONFLICTS if {*clash[:2]} <= entry.kinds), None)
        if clash is not None and len(clashes) < _MOST_REPORTED:
            clashes[iri] = clash
    places = _first_places(clashes, documents)
    problems: list[Diagnostic] = []
    for iri, (one, other, taken) in clashes.items():
        article = "an" if other[0] in "ao" else "a"
        problems.append(
            report(
                "FKG120",
                places[iri],
                f"<{iri}> is declared to be {'an' if one[0] in 'ao' else 'a'} {one} and "
                f"{article} {other}",
                help=f"it is taken as a {taken}; give the two things two names",
                severity="warning",
            )
        )
    return tuple(problems)


def _first_places(iris: Iterable[str], documents: Sequence[Document]) -> dict[str, Span]:
    """The span at which the first document that states a kind for each name writes it."""
    waiting = {ox.NamedNode(iri) for iri in iris}
    places: dict[str, Span] = {}
    for document in documents:
        if not waiting:
            break
        said = {
            quad.subject
            for quad in document.triples
            if quad.predicate == _TYPE and quad.subject in waiting
        }
        for node in said:
            assert isinstance(node, ox.NamedNode)
            places[node.value] = find(document, node.value, *split_iri(node.value))
        waiting -= said
    return places


def told_twice(iri: str, old: Definition, new: Definition, document: Document) -> Diagnostic | None:
    """Return a warning where two files call one class or property by different labels in one
    language; None if they agree.
    """
    for language, text in sorted(new.labels):
        others = {label for known, label in old.labels if known == language}
        if others and text not in others:
            return report(
                "FKG119",
                find(document, iri, *split_iri(iri)),
                f'<{iri}> is "{text}" here, and "{min(others)}" in {Path(old.ontology).name}; both'
                " are taken",
                help="two versions of one ontology? then leave one of them out",
                severity="warning",
            )
    return None
