"""Queries with pre-bound `$this`, for many focus nodes at once (W3C SHACL 2017, section 5.3.1).

The focus nodes are put into a named graph of the store, and the query joins with that graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyoxigraph as ox
from rdflib import BNode, Literal, URIRef
from rdflib.term import Node

from fedkg_compiler.frontends.shacl.data_graph import to_rdflib
from fedkg_compiler.graph.sparql_syntax.tokens import Token, tokens

FOCUS = ox.NamedNode("urn:fedkg:focus")
"""The named graph with the focus nodes of a query."""
_AGGREGATES = frozenset(
    (
        *("GROUP", "HAVING", "COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"),
        *("LIMIT", "OFFSET"),
    )
)
"""Words of queries that need one focus node at a time."""

Solution = dict[str, Node]
"""The bound variables of a solution, without `this`."""


def construct(store: ox.Store, text: str, nodes: Sequence[Node]) -> list[ox.Quad]:
    """The triples that a CONSTRUCT query makes for focus nodes.

    Raises:
        SyntaxError, ValueError, RuntimeError, OSError: the store cannot evaluate the query.
    """
    words = tokens(text)
    found: list[ox.Quad] = []
    if "this" in predicate_variables(words):
        # The store would read all triples for a pattern with any property.
        for node in nodes:
            if isinstance(node, URIRef):
                found += _constructed(store, with_constant(text, "this", node))
        return found
    query = with_focus_nodes(text)
    for group in _groups(words, nodes):
        with _marked(store, group):
            found += _constructed(store, query)
    return found


def select(
    store: ox.Store, text: str, nodes: Sequence[Node], prefixes: Mapping[str, str]
) -> list[tuple[Node, Solution]]:
    """The solutions of a SELECT query for focus nodes, each with its focus node.

    Args:
        prefixes: those of queries that do not state them.

    Raises:
        SyntaxError, ValueError, RuntimeError, OSError: the store cannot evaluate the query.
    """
    words = tokens(text)
    if "this" in predicate_variables(words):
        raise ValueError("$this is a property of this query")
    # The store changes how literals are written, so that a literal would not be found again.
    literals = [node for node in nodes if isinstance(node, Literal)]
    others = [node for node in nodes if not isinstance(node, Literal)]
    if len(nodes) > 1:
        text = _selecting_this(text)
    query = with_focus_nodes(text)
    found: list[tuple[Node, Solution]] = []
    for group in [*_groups(words, others), *([node] for node in literals)]:
        with _marked(store, group):
            answers = store.query(query, prefixes=dict(prefixes))
            if not isinstance(answers, ox.QuerySolutions):
                raise ValueError("it is not a SELECT query")
            names = [variable.value for variable in answers.variables]
            for answer in answers:
                solution = {
                    name: to_rdflib(term)
                    for name, term in zip(names, answer, strict=True)
                    if term is not None
                }
                this = solution.pop("this", group[0])
                found.append((this if len(group) > 1 else group[0], solution))
    return found


def _groups(words: Sequence[Token], nodes: Sequence[Node]) -> list[Sequence[Node]]:
    """The focus nodes that can be asked for together."""
    if names_word(words, _AGGREGATES):
        return [[node] for node in nodes]
    return [nodes] if nodes else []


@contextmanager
def _marked(store: ox.Store, nodes: Sequence[Node]) -> Iterator[None]:
    store.extend([ox.Quad(FOCUS, FOCUS, to_store(node), FOCUS) for node in nodes])
    try:
        yield
    finally:
        store.remove_graph(FOCUS)


def _constructed(store: ox.Store, query: str) -> list[ox.Quad]:
    found = store.query(query)
    if not isinstance(found, ox.QueryTriples):
        raise ValueError("it is not a CONSTRUCT query")
    return [ox.Quad(triple.subject, triple.predicate, triple.object) for triple in found]


def _selecting_this(text: str) -> str:
    """Add `$this` to the variables of a SELECT query."""
    words = tokens(text)
    at = next(
        (
            i
            for i, word in enumerate(words)
            if word.kind == "word" and word.text.upper() == "SELECT"
        ),
        None,
    )
    if at is None:
        raise ValueError("it is not a SELECT query")
    if words[at + 1].text.upper() in ("DISTINCT", "REDUCED"):
        at += 1
    for word in words[at + 1 :]:
        if word.text in ("*", "{") or word.text.upper() == "WHERE":
            break
        if word.kind == "variable" and word.text == "this":
            return text
    if words[at + 1].text == "*":
        return text
    end = words[at].end
    return f"{text[:end]} $this {text[end:]}"


def to_store(node: Node) -> ox.NamedNode | ox.BlankNode | ox.Literal:
    """A term of rdflib as the store has it."""
    if isinstance(node, Literal):
        if node.language:
            return ox.Literal(str(node), language=node.language)
        kind = None if node.datatype is None else ox.NamedNode(str(node.datatype))
        return ox.Literal(str(node), datatype=kind)
    return ox.BlankNode(str(node)) if isinstance(node, BNode) else ox.NamedNode(str(node))


def with_constant(text: str, name: str, node: URIRef) -> str:
    """Write an IRI into a query in place of a variable; `BOUND` of the variable is true."""
    parts, last = [], 0
    words = tokens(text)
    for at, word in enumerate(words):
        if word.kind != "variable" or word.text != name:
            continue
        start, end, constant = word.start, word.end, f"<{node}>"
        if words[at - 1].text == "(" and words[at - 2].text.upper() == "BOUND":
            start, end, constant = words[at - 2].start, words[at + 1].end, "(true)"
        parts += [text[last:start], constant]
        last = end
    return "".join([*parts, text[last:]])


def with_focus_nodes(text: str) -> str:
    """Bind `$this` in a query to the nodes of the named graph `FOCUS`.

    Each group that names `$this` gets the pattern, because nested groups do not see variables of
    the outer group, but pre-bound variables apply there too (W3C SHACL 2017, section 5.3.1).
    EXISTS sees them.

    Raises:
        ValueError: the query has no group.
    """
    words = tokens(text)
    bind = f" GRAPH {FOCUS} {{ {FOCUS} {FOCUS} $this }} "
    ends = _closing(words)
    places: list[int] = []
    start = _first_group(words)
    until = -1
    for at in range(start, len(words)):
        word = words[at]
        if word.text != "{" or word.kind != "mark" or at < until:
            continue
        before = words[at - 1].text.upper()
        inside = words[at + 1 : ends[at]]
        if before == "EXISTS" or _is_data_of_values(words, at):
            until = ends[at]
            continue
        if inside and inside[0].kind == "word" and inside[0].text.upper() == "SELECT":
            continue  # its own group follows
        if any(one.kind == "variable" and one.text == "this" for one in inside):
            places.append(word.end)
    parts, last = [], 0
    for place in places:
        parts += [text[last:place], bind]
        last = place
    query = "".join([*parts, text[last:]])
    if (
        start
        and words[start - 1].text.upper() == "WHERE"
        and words[start - 2].text.upper() == ("CONSTRUCT")
    ):  # the short form `CONSTRUCT WHERE { ... }` takes triples alone
        first, end = words[start].end, words[ends[start]].start
        head = text[: words[start - 1].start]
        query = f"{head}{{{text[first:end]}}} WHERE {query[words[start].start :]}"
    return query


def _first_group(words: Sequence[Token]) -> int:
    """The position of the `{` of the WHERE clause, after the template."""
    opening = [at for at, word in enumerate(words) if word.text == "{" and word.kind == "mark"]
    if not opening:
        raise ValueError("it has no group graph pattern")
    first = opening[0]
    if words[first - 1].text.upper() != "CONSTRUCT":
        return first
    end = _closing(words)[first]
    return next((at for at in opening if at > end), first)


def _closing(words: Sequence[Token]) -> dict[int, int]:
    """The position of the `}` of each `{`."""
    found: dict[int, int] = {}
    open_: list[int] = []
    for at, word in enumerate(words):
        if word.kind != "mark":
            continue
        if word.text == "{":
            open_.append(at)
        elif word.text == "}" and open_:
            found[open_.pop()] = at
    for at in open_:
        found[at] = len(words)
    return found


_TERMS = frozenset({"variable", "iri", "pname", "blank", "string", "number"})


def triple_to_store(triple: tuple[Node, Node, Node], graph: ox.NamedNode | None = None) -> ox.Quad:
    """A triple of rdflib as the store has it, in a named graph, or in the default graph."""
    subject, predicate, value = map(to_store, triple)
    # The types of subjects and predicates are those of triples that rdflib has accepted.
    return ox.Quad(subject, predicate, value, graph)  # type: ignore[arg-type]


def predicate_variables(words: Sequence[Token]) -> set[str]:
    """The variables that stand for properties: between two terms, or after `;`."""
    return {
        word.text
        for before, word, after in zip(words, words[1:], words[2:], strict=False)
        if word.kind == "variable"
        and (before.kind in _TERMS or before.text in (";", "]"))
        and (after.kind in _TERMS or after.text in ("[", "("))
    }


def has_negated_path(words: Sequence[Token]) -> bool:
    """Whether a property path excludes properties: it reads all others."""
    return any(
        word.text == "!" and (after.kind in ("iri", "pname") or after.text in ("^", "("))
        for word, after in itertools.pairwise(words)
    )


def names_word(words: Sequence[Token], wanted: frozenset[str]) -> bool:
    """Whether a query has one of these words, in capitals, that is no name."""
    return any(word.kind == "word" and word.text.upper() in wanted for word in words)


def iris_of(words: Sequence[Token]) -> set[str]:
    """All IRIs of a query, in full."""
    prefixes = {
        name.text.removesuffix(":"): iri.text[1:-1]
        for word, name, iri in zip(words, words[1:], words[2:], strict=False)
        if word.text.upper() == "PREFIX" and name.kind == "pname" and iri.kind == "iri"
    }
    found = {word.text[1:-1] for word in words if word.kind == "iri"}
    for word in words:
        prefix, colon, name = word.text.partition(":")
        if word.kind == "pname" and colon:
            found.add(prefixes.get(prefix, "") + name)
    return found


def _is_data_of_values(words: Sequence[Token], at: int) -> bool:
    """Whether a `{` begins the data of VALUES."""
    at -= 1
    if words[at].text == ")":
        while at > 0 and words[at].text != "(":
            at -= 1
    return at > 0 and words[at - 1].text.upper() == "VALUES"
