"""Analyses the queries of SPARQL constraints: properties that they need, and unbound variables."""

from __future__ import annotations

from collections.abc import Iterator

from rdflib import URIRef

from fedkg_compiler.frontends.shacl.shapes_graph_reader import Constraint, Shape
from fedkg_compiler.frontends.shacl.sparql_constraint_binding import Queries, iri_of
from fedkg_compiler.graph.sparql_syntax.tree import (
    Bind,
    Const,
    Exists,
    InGraph,
    Minus,
    Node,
    Optional,
    Path,
    Projection,
    Triple,
    Union,
    Values,
    Var,
    walk,
)

MAYBE = (Optional, Exists, Minus, Union)
"""Patterns with optional contents, as the query itself states."""


def asked_properties(
    queries: Queries, shape: Shape, constraint: Constraint
) -> Iterator[tuple[URIRef, bool]]:
    """The properties in the patterns of a constraint's query, and whether the query says that they
    may be absent.
    """
    found = queries.tree(shape, constraint)
    if found is None:
        return
    tree, query, _ = found
    loose = {id(triple) for part in walk(tree) if isinstance(part, MAYBE) for triple in walk(part)}
    for triple in walk(tree):
        if isinstance(triple, Triple):
            for step in walk(triple.predicate):
                if isinstance(step, Const) and (iri := iri_of(step, query)):
                    yield URIRef(iri), id(triple) in loose or _may_be_empty(triple.predicate)


def unbound(
    queries: Queries, shape: Shape, constraint: Constraint
) -> Iterator[tuple[str, list[str]]]:
    """The variables that a query reads and nothing in it binds, as they are written, each with
    those that are bound.
    """
    found = queries.tree(shape, constraint)
    if found is None:
        return
    tree, query, before = found
    bound = set(before) | {name for node in walk(tree) for name in _binds(node)}
    seen: set[str] = set()
    for word in query.tokens:
        if word.kind == "variable" and word.text not in bound and word.text not in seen:
            seen.add(word.text)
            yield word.text, sorted(bound - before)


def _binds(node: Node) -> Iterator[str]:
    """The variables to which a node of the tree itself gives values."""
    match node:
        case Triple():
            yield from (item.name for item in walk(node) if isinstance(item, Var))
        case Bind():
            yield node.variable.name
        case InGraph(name=Var() as name):
            yield name.name
        case Projection() if node.expr is not None:
            yield node.variable.name
        case Values():
            yield from (variable.name for variable in node.variables)


def _may_be_empty(predicate: Node) -> bool:
    return isinstance(predicate, Path) and predicate.op in ("*", "?", "!", "|")
