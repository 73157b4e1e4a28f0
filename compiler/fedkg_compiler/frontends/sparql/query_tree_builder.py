"""The tree of a query, once the store has found that it is SPARQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any
from urllib.parse import urlsplit

from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.frontends.sparql.having_aliases import without_aliases
from fedkg_compiler.frontends.sparql.observed_columns import Observations
from fedkg_compiler.graph.graph_pattern_answers import too_large
from fedkg_compiler.graph.sparql_syntax.parser import parse_query
from fedkg_compiler.graph.sparql_syntax.query_text import QueryText, SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tree import Const, Group, Node, Query


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
    if found is not None and sources.graph.sparql_problem(_as_select(query)) is not None:
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
                f"fedkg reads ?{name.name} as its expression; write "
                f"`{each.written(expr.at)}` in its place",
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
                "remove it: the order and number of violations do not matter",
            )
        elif ordered is not None:
            message = "ORDER BY is left out: violations have no order"
            problems.info(
                "FKG357",
                query.span((ordered, ordered)),
                message,
                "remove it: it has no effect in a violation query",
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
    parse_query(query.tokens)
    shown = query.written((at, at)) if query.tokens else "its end"
    raise SparqlProblem("FKG341", (at, at), f"the query is not SPARQL near `{shown}`")


def _as_select(query: QueryText) -> str:
    """An ASK query as SELECT: the store has GROUP BY and HAVING, of SPARQL 1.1, in SELECT alone."""
    ask = next((word for word in query.tokens if word.text.upper() == "ASK"), None)
    if ask is None:
        return query.text
    return f"{query.text[: ask.start]}SELECT (COUNT(*) AS ?_){query.text[ask.end :]}"


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
