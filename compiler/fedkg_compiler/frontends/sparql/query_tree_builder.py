"""The tree of a query, once the store has found that it is SPARQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any
from urllib.parse import urlsplit

from fedkg._internal.name_matching import nearest_name
from fedkg_compiler.diagnostics.problems import Problems
from fedkg_compiler.frontends.sparql.having_aliases import without_aliases
from fedkg_compiler.frontends.sparql.observed_columns import Observations
from fedkg_compiler.frontends.sparql.query_parser import parse_query
from fedkg_compiler.frontends.sparql.query_tree import Const, Group, Node, Op, Query, walk
from fedkg_compiler.frontends.sparql.tokenised_query import QueryText, SparqlProblem
from fedkg_compiler.graph.query import too_large

_OWN = ("neg", "call", "in")
_FUNCTIONS = """STR LANG LANGMATCHES DATATYPE BOUND IRI URI BNODE RAND ABS CEIL FLOOR ROUND CONCAT
STRLEN UCASE LCASE ENCODE_FOR_URI CONTAINS STRSTARTS STRENDS STRBEFORE STRAFTER YEAR MONTH DAY HOURS
MINUTES SECONDS TIMEZONE TZ NOW UUID STRUUID MD5 SHA1 SHA256 SHA384 SHA512 COALESCE IF STRLANG STRDT
SAMETERM ISIRI ISURI ISBLANK ISLITERAL ISNUMERIC REGEX SUBSTR REPLACE"""
"""The functions of SPARQL 1.1 (section 17.4)."""


def read_tree(alike: Sequence[QueryText], observations: Observations) -> Query:
    """Build the tree of queries of one shape.

    Reports HAVING that reads names of SELECT, and ORDER BY and LIMIT, which have no effect.

    Raises:
        SparqlProblem: if the text is not SPARQL, or is neither SELECT nor ASK.
    """
    query, sources = alike[0], observations.sources
    assert sources.graph is not None, "queries ask a graph"
    if (large := too_large(list(query.tokens))) is not None:
        last = max(len(query.tokens) - 1, 0)
        raise SparqlProblem(
            "FKG352", (0, last), large.replace("pattern", "query"), "write it as several queries"
        )
    found = sources.graph.sparql_problem(query.text)
    if found is not None:
        _refuse(query, found[1], found[2])
    tree, uses = without_aliases(
        parse_query(query.tokens, classes_closed=sources.names.rows_class is not None)
    )
    _tell_order(tree, alike, sources.problems)
    for name, expr in uses:
        for each in alike:
            sources.problems.warning(
                "FKG355",
                each.span(name.at),
                f"SELECT gives ?{name.name} its value after HAVING: by the standard this condition"
                " is an error, and nothing is found",
                f"here the name is an alias; write `{each.written(expr.at)}` in its place",
            )
    return _closed(tree)


def _tell_order(tree: Query, alike: Sequence[QueryText], problems: Problems) -> None:
    """Tell of each query that ORDER BY and LIMIT of violations mean nothing; ASK with LIMIT asks
    the same anyway.
    """
    ordered = tree.orders[0].at[0] if tree.orders else None
    for query in alike if tree.form == "select" else ():
        if tree.limit is not None:
            limit = query.written((tree.limit, tree.limit))
            told = f"ORDER BY and LIMIT {limit} are" if tree.orders else f"LIMIT {limit} is"
            message = (
                f"{told} left out: every solution is a violation, and all of them are reported"
            )
            problems.info(
                "FKG357",
                query.span((tree.limit - 1, tree.limit)),
                message,
                "violations have no order and no end: leave it out",
            )
        elif ordered is not None:
            message = "ORDER BY is left out: violations have no order"
            problems.info(
                "FKG357",
                query.span((ordered, ordered)),
                message,
                "it means nothing in a violation query: leave it out",
            )


def _refuse(query: QueryText, line: int, column: int) -> None:
    """Say where the store stopped reading; our own parser and prefixes say it better where they
    find something.
    """
    for token in query.form.holes:
        iri = query.constant(token)
        if (
            query.form.kinds[token] == "iri"
            and not query.prologue.base
            and not urlsplit(iri[1:-1]).scheme
        ):
            raise SparqlProblem(
                "FKG341",
                (token, token),
                f"`{iri}` is relative, and the query has no base",
                "write it in full, or add BASE",
            )
    lines = query.text.split("\n")
    offset = sum(len(text) + 1 for text in lines[: line - 1]) + column - 1
    at = next(
        (i for i, word in enumerate(query.tokens) if word.end > offset),
        max(len(query.tokens) - 1, 0),
    )
    for node in walk(parse_query(query.tokens)):
        if (
            isinstance(node, Op)
            and node.name.isidentifier()
            and node.name not in _OWN
            and node.name.upper() not in _FUNCTIONS.split()
        ):
            start = node.at[0]
            raise SparqlProblem(
                "FKG341",
                (start, start),
                f"SPARQL has no function {query.written((start, start))}()",
                _instead(node.name),
            )
    shown = query.written((at, at)) if query.tokens else "its end"
    raise SparqlProblem("FKG341", (at, at), f"the query is not SPARQL near `{shown}`")


def _instead(name: str) -> str:
    """What to write in place of a function that SPARQL lacks."""
    near = nearest_name(name.upper(), _FUNCTIONS.split())
    return (
        f"did you mean `{near}`?"
        if near
        else "it has ABS, ROUND, CEIL and FLOOR of numbers; compute others in the data, as a column"
    )


def _closed(tree: Query) -> Query:
    """Close the constants inside groups, because a variable does not reach into them."""
    return replace(tree, where=_close(tree.where)) if tree.aggregates else tree


def _close(group: Group) -> Group:
    def closed(node: Any) -> Any:  # Any: a node, a tuple of them, or a plain value
        if isinstance(node, Const):
            return replace(node, open=False)
        if isinstance(node, Node):
            return replace(
                node,
                **{f.name: closed(getattr(node, f.name)) for f in fields(node) if f.name != "at"},
            )
        return tuple(closed(item) for item in node) if isinstance(node, tuple) else node

    found = closed(group)
    assert isinstance(found, Group)
    return found
