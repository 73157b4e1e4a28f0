"""The triples that a pattern met for one of its solutions: those by which a row came into a bank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from fedkg_compiler.ontology.graph import Graph, Resource
from fedkg_compiler.ontology.pattern import Token, tokens
from fedkg_compiler.sparql.parser import parse_query
from fedkg_compiler.sparql.tree import Const, Exists, Group, Minus, Node, Optional, Path, Predicate, Triple, Union, Var, children

Spoken = tuple[Resource, Resource, Resource]
Values = Mapping[str, Resource]
MOST = 20
"""Solutions whose triples are told."""
_FARTHEST = 10_000


def facts_of_pattern(graph: Graph, query: str, given: Values) -> list[Spoken]:
    """Return the triples that a query's pattern met, once each, for its first `MOST` solutions.

    Args:
        query: a whole SELECT. given: what some of its variables stand for.

    Parts behind OPTIONAL and UNION count where they are met; what must not be there (NOT EXISTS, MINUS) leaves no triple.
    """
    words = tuple(tokens(query))
    where = parse_query(words).where
    surely, perhaps = _triples(where, words)
    found: dict[Spoken, None] = {}
    for row in graph.nodes(query, given)[:MOST]:
        values = {**given, **row}
        pattern = " . ".join(f"{_text(one.subject, words)} {_path(one.predicate, words)} {_text(one.object, words)}" for one in surely)
        known = {name: node for name, node in values.items() if f"?{name}" in pattern}
        whole = graph.nodes(f"SELECT * WHERE {{ {pattern} }} LIMIT 1", known) if surely else []
        values |= whole[0] if whole else {}
        for one in [*surely, *perhaps]:
            ends = _end(one.subject, values, words, graph), _end(one.object, values, words, graph)
            if ends[0] is not None and ends[1] is not None:
                found |= dict.fromkeys(_steps(graph, ends[0], one.predicate, ends[1], values, words))
    return [*found]


def _triples(group: Node, words: Sequence[Token]) -> tuple[list[Triple], list[Triple]]:
    """The triples that every solution meets, and those that some do."""
    surely: list[Triple] = []
    perhaps: list[Triple] = []
    for part in children(group):
        match part:
            case Triple():
                surely.append(part)
            case Group():
                inner = _triples(part, words)
                surely += inner[0]
                perhaps += inner[1]
            case Optional() | Union():
                inner = _triples(part, words)
                perhaps += [*inner[0], *inner[1]]
            case Minus() | Exists():
                pass
            case _:
                pass
    return surely, perhaps


def _text(term: Var | Const, words: Sequence[Token]) -> str:
    if isinstance(term, Var):
        return f"?{_name(term)}"
    return term.text if term.token < 0 else f"{term.sign}{_written(words, term)}"


def _written(words: Sequence[Token], term: Const) -> str:
    """A constant as it was written, with its language or datatype."""
    return " ".join(word.text for word in words[term.at[0] : term.at[1] + 1])


def _name(variable: Var) -> str:
    return variable.name if not variable.name.startswith("_") else f"blank{''.join(c for c in variable.name if c.isalnum())}"


def _path(path: Predicate, words: Sequence[Token]) -> str:
    if not isinstance(path, Path):
        return _text(path, words)
    parts = [_path(arg, words) for arg in path.args]
    match path.op:
        case "/" | "|":
            return f"({path.op.join(parts)})"
        case "^" | "!":
            return f"{path.op}({'|'.join(parts)})"
        case _:
            return f"({parts[0]}){path.op}"


def _end(term: Var | Const, values: Values, words: Sequence[Token], graph: Graph) -> Resource | None:
    if isinstance(term, Var):
        return values.get(_name(term))
    rows = graph.nodes(f"SELECT ?x WHERE {{ VALUES ?x {{ {_text(term, words)} }} }}")
    return rows[0].get("x") if rows else None


def _steps(graph: Graph, start: Resource, path: Predicate, end: Resource, values: Values, words: Sequence[Token]) -> Iterator[Spoken]:
    """The triples by which a path leads from one node to another; none where it does not."""
    text = _path(path, words)
    if not isinstance(path, Path):
        node = _end(path, values, words, graph)
        if node is not None and _leads(graph, start, text if isinstance(path, Const) else str(node), end):
            yield start, node, end
        return
    match path.op:
        case "^":
            yield from _steps(graph, end, path.args[0], start, values, words)
        case "|":
            for arg in path.args:
                if _leads(graph, start, _path(arg, words), end):
                    yield from _steps(graph, start, arg, end, values, words)
                    return
        case "/":
            rest = path.args[1] if len(path.args) == 2 else Path(at=path.at, op="/", args=path.args[1:])
            query = f"SELECT * WHERE {{ ?s {_path(path.args[0], words)} ?m . ?m {_path(rest, words)} ?o }} LIMIT 1"
            for row in graph.nodes(query, {"s": start, "o": end}):
                yield from _steps(graph, start, path.args[0], row["m"], values, words)
                yield from _steps(graph, row["m"], rest, end, values, words)
        case "*" | "+" | "?":
            chain = _chain(graph, start, _path(path.args[0], words), end)
            for one, other in pairwise(chain):
                yield from _steps(graph, one, path.args[0], other, values, words)
        case "!":
            return


def _leads(graph: Graph, start: Resource, path: str, end: Resource) -> bool:
    return bool(graph.nodes(f"SELECT * WHERE {{ ?s {path} ?o }} LIMIT 1", {"s": start, "o": end}))


def _chain(graph: Graph, start: Resource, path: str, end: Resource) -> list[Resource]:
    """The nodes of the shortest way by a path, start and end among them; [] where there is none."""
    before: dict[Resource, Resource] = {}
    waiting = [start]
    while waiting and end not in before and len(before) < _FARTHEST:
        node = waiting.pop(0)
        for row in graph.nodes(f"SELECT DISTINCT * WHERE {{ ?s {path} ?o }}", {"s": node}):
            if row["o"] not in before:
                before[row["o"]] = node
                waiting.append(row["o"])
    if end not in before:
        return []
    chain = [end]
    while chain[-1] != start or len(chain) == 1:
        chain.append(before[chain[-1]])
    return chain[::-1]
