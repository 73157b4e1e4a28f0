"""The RDF library pyoxigraph: terms, quads, syntaxes and the store.

Only this module imports it, and rules without a graph never import this module: the library has no
build for WebAssembly, so that a program in a browser runs without it.
"""

from __future__ import annotations

from pyoxigraph import (
    BlankNode,
    DefaultGraph,
    Literal,
    NamedNode,
    Quad,
    QueryBoolean,
    QueryResultsFormat,
    QuerySolutions,
    QueryTriples,
    RdfFormat,
    Store,
    Triple,
    Variable,
    parse,
    parse_query_results,
    serialize,
)

__all__ = [
    "BlankNode",
    "DefaultGraph",
    "Literal",
    "NamedNode",
    "Quad",
    "QueryBoolean",
    "QueryResultsFormat",
    "QuerySolutions",
    "QueryTriples",
    "RdfFormat",
    "Store",
    "Triple",
    "Variable",
    "parse",
    "parse_query_results",
    "serialize",
]
