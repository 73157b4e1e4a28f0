"""Schema.org has two names for each of its terms, ``http://schema.org/X`` and
``https://schema.org/X``: they are taken as one.

Both are in use. Where a compilation meets both, each term in the older spelling is declared
equivalent to that in the newer one, so that the closure applies statements with either spelling to
both; statements of a graph about a term apply to the newer spelling too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import pyoxigraph as ox

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.closure import SAME_CLASS, SAME_PROPERTY
from fedkg_compiler.graph.definitions import find
from fedkg_compiler.graph.rdf_reader import Document
from fedkg_compiler.graph.spans import report

N = TypeVar("N")
OLDER, NEWER = "http://schema.org/", "https://schema.org/"


def one_of_two_names(
    graphs: Sequence[Document], ontologies: Iterable[Document], namespaces: Iterable[str]
) -> tuple[list[ox.Quad], list[Diagnostic]]:
    """Return what makes the two spellings one for the terms that `graphs` have in the older one,
    and a note for each such graph.

    Args:
        graphs: the user's graphs.
        ontologies: the ontologies that are loaded with the graphs.
        namespaces: the namespaces of the prefixes that the rule files declare.

    Nothing is returned where nobody uses the newer spelling.
    """
    older = [document for document in graphs if OLDER in document.text or OLDER in document.marks]
    newer = NEWER in namespaces or any(
        NEWER in document.text or NEWER in document.marks for document in (*graphs, *ontologies)
    )
    if not older or not newer:
        return [], []
    terms: set[ox.NamedNode] = set()
    quads: list[ox.Quad] = []
    said: list[Diagnostic] = []
    for document in older:
        found = {
            node
            for quad in document.triples
            for node in (quad.subject, quad.predicate, quad.object)
            if _is_older(node)
        }
        if not found:
            continue
        message, advice = (
            f"terms of <{OLDER}> are taken as those of <{NEWER}>",
            f"write <{NEWER}>, and there is one name for each",
        )
        said.append(
            report(
                "FKG117", find(document, OLDER, OLDER, ""), message, help=advice, severity="info"
            )
        )
        about = (quad for quad in document.triples if quad.subject in found or quad.object in found)
        quads += [
            ox.Quad(_newer(quad.subject), _newer(quad.predicate), _newer(quad.object))
            for quad in about
        ]
        terms |= {node for node in found if isinstance(node, ox.NamedNode)}
    quads += [
        ox.Quad(term, SAME_CLASS if _is_class(term) else SAME_PROPERTY, _newer(term))
        for term in terms
    ]
    return quads, said


def _is_older(node: object) -> bool:
    return (
        isinstance(node, ox.NamedNode)
        and node.value.startswith(OLDER)
        and node.value[len(OLDER) :].isidentifier()
    )


def _newer(node: N) -> N | ox.NamedNode:
    return (
        ox.NamedNode(NEWER + node.value.removeprefix(OLDER))
        if isinstance(node, ox.NamedNode) and _is_older(node)
        else node
    )


def _is_class(term: ox.NamedNode) -> bool:
    """Schema.org's classes begin with a capital, its properties with a small letter."""
    return not term.value[len(OLDER)].islower()
