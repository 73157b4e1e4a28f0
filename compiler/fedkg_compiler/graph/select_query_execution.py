"""Answers of the store to whole SELECT queries, as plain values, and the store's word on whether a
text is SPARQL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.node_values import Node, literal
from fedkg_compiler.graph.query_process import QueryProcess
from fedkg_compiler.graph.rdf_terms import Iri, Literal
from fedkg_compiler.graph.sparql_syntax.tokens import asks_service

_PLACE = re.compile(r"error at (\d+):(\d+)")


Plain = Iri | Literal | None


def numbered_answers(
    process: QueryProcess, query: str, known: dict[Node | None, Plain], *, everywhere: bool = False
) -> tuple[list[Plain], list[tuple[int, ...]]]:
    """Return the terms in the solutions of a SELECT, and the solutions, in the order in which the
    store gives them, as positions of their terms.

    A node stays a node, whatever number it has.

    Args:
        process: the process that answers it.
        query: the text of the SELECT.
        known: the plain values of nodes that queries gave before; new ones are added.

    Raises:
        ValueError: the store cannot answer it. LimitError: it takes too long.
    """
    try:
        found = process.select(query, everywhere=everywhere)
    except (OSError, SyntaxError, RuntimeError) as error:
        raise ValueError(str(error)) from error
    for node in found.nodes:
        if node not in known:
            known[node] = None if node is None else _plain(node)
    return [known[node] for node in found.nodes], found.numbers


def _plain(node: Node) -> Iri | Literal:
    match node:
        case ox.Literal():
            return literal(node)
        case ox.NamedNode():
            return Iri(node.value)
        case ox.BlankNode():
            return Iri(f"_:{node.value}")
        case _:
            return Iri(str(node))


def sparql_problem(text: str, prefixes: Mapping[str, str]) -> tuple[str, int, int] | None:
    """Return what the store's parser says of a query that is not SPARQL, with line and column where
    it stopped; None for a good one.
    """
    if asks_service(text):
        return None  # the store would ask that server to find out whether the query is one
    try:
        ox.Store().query(text, prefixes=dict(prefixes))
    except SyntaxError as error:
        place = _PLACE.search(str(error))
        return str(error), int(place.group(1)) if place else 1, int(place.group(2)) if place else 1
    except (OSError, ValueError, RuntimeError):
        return None
    return None
