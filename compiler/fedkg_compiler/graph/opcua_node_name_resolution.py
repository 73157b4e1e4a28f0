"""Joins OPC UA node sets: a node that one file refers to by its number gets the name that another
file gives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.rdf_reader import Document

N = TypeVar("N")
_MOST_REPORTED = 20


def linked(
    documents: Sequence[Document], others: Sequence[Document] = ()
) -> tuple[list[Document], list[Diagnostic]]:
    """Return the documents with names in place of numbers, and a warning for each node that no
    loaded node set of its namespace has.

    Args:
        others: further node sets that name nodes.
    """
    sets = [document.nodes for document in (*documents, *others) if document.nodes is not None]
    named = {number: name for nodes in sets for number, name in nodes.named.items()}
    spaces = frozenset().union(*(nodes.spaces for nodes in sets))
    found: list[Document] = []
    problems: list[Diagnostic] = []
    for document in documents:
        awaited = {} if document.nodes is None else document.nodes.awaited
        names = {
            ox.NamedNode(number): ox.NamedNode(named[number])
            for number in awaited
            if named.get(number)
        }
        found.append(_renamed(document, names) if names else document)
        missing = [
            node for number, node in awaited.items() if number not in named and node.space in spaces
        ]
        for i, node in enumerate(missing[:_MOST_REPORTED]):
            more = len(missing) - _MOST_REPORTED if i == _MOST_REPORTED - 1 else 0
            problems.append(
                report(
                    "FKG121",
                    point(document.name, node.line, node.column),
                    f"no loaded node set has the node {node.written} of <{node.space}>"
                    + (f", nor {more} other{'s' * (more > 1)}" if more > 0 else ""),
                    help="correct the NodeId, or give the node set that defines it as a graph file"
                    " too",
                    severity="warning",
                )
            )
    return found, problems


def _renamed(document: Document, names: dict[ox.NamedNode, ox.NamedNode]) -> Document:
    """The document with these nodes under their names."""

    def name(node: N) -> N | ox.NamedNode:
        return names.get(node, node) if isinstance(node, ox.NamedNode) else node

    triples = tuple(
        ox.Quad(name(quad.subject), name(quad.predicate), name(quad.object))
        for quad in document.triples
    )
    return replace(document, triples=triples)
