"""Separates nodes of the user's data from nodes that only the vocabularies describe.

The store of a graph joins the user's graphs with the vocabularies that fedkg loads, so that
patterns can join a pump with the label of its unit. Rows, members and focus nodes come from the
user's data alone. SPARQL asks for that with the function `IS_OWN`, which every query of the graph
knows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Set

import pyoxigraph as ox

from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, RDFS

Node = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple
Functions = dict[ox.NamedNode, Callable[..., Node | None]]

IS_OWN = "https://w3id.org/fedkg/internal#isOwn"
"""The SPARQL function that is true of nodes of the user's data, and false of literals, which are
nobody's."""

_TYPE = ox.NamedNode(RDF + "type")
_AXIOMS = frozenset(
    ox.NamedNode(RDFS + name) for name in ("subClassOf", "subPropertyOf", "domain", "range")
)
_TRUE, _FALSE = ox.Literal(True), ox.Literal(False)


def nodes_of(vocabularies: Iterable[ox.Quad]) -> set[Node]:
    """Return the nodes that the triples of vocabularies mention, without literals."""
    found: set[Node] = set()
    for quad in vocabularies:
        found.update((quad.subject, quad.predicate, quad.object))
    return {node for node in found if isinstance(node, ox.NamedNode | ox.BlankNode)}


def described_again(nodes: Set[Node], graphs: Iterable[ox.Quad]) -> set[Node]:
    """Return the nodes of vocabularies that the user's graphs describe too.

    An axiom about a term (its class, its place in a hierarchy, a mapping) does not make the term
    part of the user's data.

    Args:
        nodes: the nodes of vocabularies.
        graphs: the triples of the user's graphs.
    """
    return {quad.subject for quad in graphs if quad.subject in nodes and not _is_axiom(quad)}


def _is_axiom(quad: ox.Quad) -> bool:
    predicate, target = quad.predicate, quad.object
    if predicate == _TYPE:
        return isinstance(target, ox.NamedNode) and target.value.startswith((OWL, RDFS, RDF))
    return predicate in _AXIOMS or predicate.value.startswith(OWL)


def own_node_function(foreign: Collection[Node]) -> Functions:
    """Return `IS_OWN` for queries; `foreign`: the nodes that only vocabularies describe."""

    def is_own(node: Node) -> Node:
        return _FALSE if node in foreign or isinstance(node, ox.Literal) else _TRUE

    return {ox.NamedNode(IS_OWN): is_own}
