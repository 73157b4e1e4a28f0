"""The triples that a pattern or a query met for one of its solutions: those by which a row came
into a bank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from fedkg_compiler.frontends.fkg.binding.column_assignment_triples import (
    TermTriple,
    facts_of_column,
)
from fedkg_compiler.frontends.sparql.branch_tree import Branch, Reduced, Within
from fedkg_compiler.frontends.sparql.graph_table_split import Splitter
from fedkg_compiler.frontends.sparql.observed_columns import Observations
from fedkg_compiler.frontends.sparql.observed_entity_enumeration import enumerated
from fedkg_compiler.graph.diagnostic_spans import point
from fedkg_compiler.graph.graph import Graph, Resource
from fedkg_compiler.graph.sparql_syntax.parser import parse_query
from fedkg_compiler.graph.sparql_syntax.printer import Show, node_text, parts_text, path_text
from fedkg_compiler.graph.sparql_syntax.query_form_and_constants import Reader
from fedkg_compiler.graph.sparql_syntax.query_text import QueryText
from fedkg_compiler.graph.sparql_syntax.tree import (
    Const,
    Expr,
    Group,
    InGraph,
    Node,
    Optional,
    Part,
    Path,
    Predicate,
    Query,
    SubSelect,
    Triple,
    Union,
    Var,
    walk,
)
from fedkg_compiler.graph.sparql_syntax.variable_scope import in_scope

Values = Mapping[str, Resource]
Ask = Callable[..., list[dict[str, Resource]]]
"""Gives the solutions of a query, as `Graph.nodes` does."""
MOST = 20
"""Solutions with the triples that they match."""
_FARTHEST = 10_000


def facts_of_pattern(graph: Graph, query: str, given: Values) -> list[TermTriple]:
    """Return the triples that a query's pattern met, once each, for its first `MOST` solutions.

    Args:
        graph: the ontologies and graphs.
        query: a whole SELECT that reads nothing from the table.
        given: the values of some of its variables.

    Parts behind OPTIONAL and UNION count where they are met; what must not be there (NOT EXISTS,
    MINUS) leaves no triple.
    """
    text = replace(Reader(graph.vocabulary.prefixes).read(query), place=point(""))
    found: dict[TermTriple, None] = {}
    for row in graph.nodes(query, given)[:MOST]:
        found |= dict.fromkeys(
            _facts(graph, parse_query(text.tokens).where.parts, text.value, {**given, **row})
        )
    return [*found]


def facts_of_query(
    query: QueryText,
    tree: Query,
    observations: Observations,
    given: Values,
    fixed: frozenset[str],
    is_meant: Callable[[str], bool],
) -> list[TermTriple]:
    """Return the triples behind the rows of a violation query for one entity: what its static parts
    met, and what names its columns.

    Args:
        query: the text of the query.
        tree: the tree of the query.
        observations: the observed properties and the entities that have them.
        given: the values of some of its variables.
        fixed: the variables that have values before the query begins.
        is_meant: whether an IRI is an entity that the solutions name or that the query reads.

    Raises:
        SparqlProblem: the query cannot be split.
    """
    found: dict[TermTriple, None] = {}
    for branch in Splitter(query, observations).split(tree, fixed):
        found |= dict.fromkeys(
            _Branches(query, observations).facts_of_entity(branch, given, is_meant)
        )
    return [*found]


class _Branches:
    """The facts of one query's branches."""

    def __init__(self, query: QueryText, observations: Observations) -> None:
        assert observations.sources.graph is not None, "queries ask a graph"
        self.query, self.observations, self.graph = query, observations, observations.sources.graph

    def facts_of_entity(
        self, branch: Branch, given: Values, is_meant: Callable[[str], bool]
    ) -> Iterator[TermTriple]:
        """What put the rows of the entity there; nothing where the branch has none of it."""
        for row in self._rows(branch, given):
            named = [*row.values(), *(self._node(item.subject, row) for item in branch.observed)]
            if any(
                is_meant(getattr(node, "value", "")) for node in named if str(node).startswith("<")
            ):
                yield from self._facts_of_row(branch, row)

    def _rows(self, branch: Branch, given: Values) -> list[dict[str, Resource]]:
        parts = enumerated(
            branch, self.observations, lambda const: self.query.value(const)[1:-1], frozenset(given)
        )
        if not parts:
            return [{**given}]
        return _answers(self.graph, parts, self.query.value, given)

    def _facts_of_row(self, branch: Branch, row: Values) -> Iterator[TermTriple]:
        yield from _facts(self.graph, branch.static, self.query.value, row)
        for item in branch.observed:
            subject, read = self._node(item.subject, row), self._node(item.property, row)
            if read is not None:
                yield from facts_of_column(
                    self.observations.sources, getattr(read, "value", ""), subject
                )
        for expr in (*branch.conditions, *(expr for _, expr in branch.defined)):
            for inner in _inside(expr):
                for met in self._rows(inner, row)[:MOST]:
                    yield from self._facts_of_row(inner, met)

    def _node(self, term: Var | Const, row: Values) -> Resource | None:
        return (
            row.get(term.name)
            if isinstance(term, Var)
            else _constant(self.graph.nodes, self.query.value(term))
        )


def _inside(expr: Expr) -> Iterator[Branch]:
    """The branches of EXISTS and of aggregates in a condition."""
    for node in walk(expr):
        if isinstance(node, Within):
            yield from node.branches
        elif isinstance(node, Reduced):
            yield from (item.branch for item in node.over)


def _facts(graph: Graph, parts: Sequence[Part], show: Show, given: Values) -> Iterator[TermTriple]:
    """Return the triples that parts of a pattern match for the values of a solution."""
    surely, perhaps, apart, named = _triples(parts)
    names = {node.name for one in surely for node in walk(one) if isinstance(node, Var)}
    known = {name: node for name, node in given.items() if name in names}
    whole = _answers(graph, tuple(surely), show, known) if names - set(known) else []
    values = {**given, **(whole[0] if whole else {})}
    everywhere = partial(graph.nodes, everywhere=True)
    for one in [*surely, *perhaps, *named]:
        ask = everywhere if one in named else graph.nodes
        start, end = _end(ask, one.subject, show, values), _end(ask, one.object, show, values)
        if start is not None and end is not None:
            yield from _steps(ask, start, one.predicate, end, show, values)
    for inner in apart:
        shown = (
            {item.variable.name for item in inner.projection}
            if inner.projection is not None
            else set(values)
        )
        within = {name: node for name, node in values.items() if name in shown}
        for row in _answers(graph, inner.where.parts, show, within)[:MOST]:
            yield from _facts(graph, inner.where.parts, show, row)


def _answers(
    graph: Graph, parts: tuple[Part, ...], show: Show, given: Values
) -> list[dict[str, Resource]]:
    """The solutions of a pattern in which some variables have their values, with these."""
    written = {name: node for name, node in given.items() if not str(node).startswith("_:")}
    values = (
        f"VALUES ({' '.join(f'?{name}' for name in written)}) {{"
        f" ({' '.join(map(str, written.values()))}) }}"
        if written
        else ""
    )
    scope = in_scope(parts)
    blank = {name: node for name, node in given.items() if name not in written and name in scope}
    rows = graph.nodes(f"SELECT DISTINCT * WHERE {{ {values} {parts_text(parts, show)} }}", blank)
    return [{**given, **row} for row in rows]


def _triples(parts: Sequence[Part]) -> tuple[list[Triple], list[Triple], list[Query], list[Triple]]:
    """The triples that every solution meets, those that some do, queries inside, and triples of
    named graphs.
    """
    surely: list[Triple] = []
    perhaps: list[Triple] = []
    apart: list[Query] = []
    named: list[Triple] = []
    for part in parts:
        match part:
            case Triple():
                surely.append(part)
            case InGraph():
                named += [one for one in walk(part.group) if isinstance(one, Triple)]
            case Group():
                inner = _triples(part.parts)
                surely += inner[0]
                perhaps += inner[1]
                apart += inner[2]
                named += inner[3]
            case Optional() | Union():
                for group in (part.group,) if isinstance(part, Optional) else part.groups:
                    inner = _triples(group.parts)
                    perhaps += [*inner[0], *inner[1]]
                    apart += inner[2]
                    named += inner[3]
            case SubSelect():
                apart.append(part.query)
            case _:  # conditions, values, and what must not be there
                pass
    return surely, perhaps, apart, named


def _end(ask: Ask, term: Node, show: Show, values: Values) -> Resource | None:
    if isinstance(term, Var):
        return values.get(term.name)
    return _constant(ask, show(term)) if isinstance(term, Const) else None


def _constant(ask: Ask, text: str) -> Resource | None:
    rows = ask(f"SELECT ?x WHERE {{ VALUES ?x {{ {text} }} }}")
    return rows[0].get("x") if rows else None


def _steps(
    ask: Ask, start: Resource, path: Predicate, end: Resource, show: Show, values: Values
) -> Iterator[TermTriple]:
    """The triples by which a path leads from one node to another; none where it does not."""
    if not isinstance(path, Path):
        node = _end(ask, path, show, values)
        if node is not None and _leads(
            ask, start, node_text(path, show) if isinstance(path, Const) else str(node), end
        ):
            yield start, node, end
        return
    match path.op:
        case "^":
            yield from _steps(ask, end, path.args[0], start, show, values)
        case "|":
            for arg in path.args:
                if _leads(ask, start, path_text(arg, show), end):
                    yield from _steps(ask, start, arg, end, show, values)
                    return
        case "/":
            rest = (
                path.args[1]
                if len(path.args) == 2
                else Path(at=path.at, op="/", args=path.args[1:])
            )
            query = (
                f"SELECT * WHERE {{ ?s {path_text(path.args[0], show)} ?m . ?m"
                f" {path_text(rest, show)} ?o }} LIMIT 1"
            )
            for row in ask(query, {"s": start, "o": end}):
                yield from _steps(ask, start, path.args[0], row["m"], show, values)
                yield from _steps(ask, row["m"], rest, end, show, values)
        case "*" | "+" | "?":
            chain = _chain(ask, start, path_text(path.args[0], show), end)
            for one, other in pairwise(chain):
                yield from _steps(ask, one, path.args[0], other, show, values)
        case "!":
            return


def _leads(ask: Ask, start: Resource, path: str, end: Resource) -> bool:
    return bool(ask(f"SELECT * WHERE {{ ?s {path} ?o }} LIMIT 1", {"s": start, "o": end}))


def _chain(ask: Ask, start: Resource, path: str, end: Resource) -> list[Resource]:
    """The nodes of the shortest way by a path, start and end among them; [] where there is none."""
    before: dict[Resource, Resource] = {}
    waiting = [start]
    while waiting and end not in before and len(before) < _FARTHEST:
        node = waiting.pop(0)
        for row in ask(f"SELECT DISTINCT * WHERE {{ ?s {path} ?o }}", {"s": node}):
            if row["o"] not in before:
                before[row["o"]] = node
                waiting.append(row["o"])
    if end not in before:
        return []
    chain = [end]
    while chain[-1] != start or len(chain) == 1:
        chain.append(before[chain[-1]])
    return chain[::-1]
