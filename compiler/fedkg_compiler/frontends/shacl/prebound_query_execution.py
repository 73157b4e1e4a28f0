"""Queries with pre-bound `$this`, for many focus nodes at once (W3C SHACL 2017, section 5.3.1).

The focus nodes are put into a named graph of the store, and the query joins with that graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache

from rdflib import RDF, RDFS, BNode, Literal, URIRef
from rdflib.term import Node

from fedkg_compiler.frontends.shacl.shapes_graph_reader import to_rdflib
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.sparql_syntax.tokens import Token, tokens

StoreNode = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple
Functions = dict[ox.NamedNode, Callable[..., StoreNode | None]]
"""Functions that queries of the store may call, by IRI."""

FOCUS = ox.NamedNode("urn:fedkg:focus")
"""The named graph with the focus nodes of a query."""
_AGGREGATES = frozenset(
    (
        *("GROUP", "HAVING", "COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"),
        *("LIMIT", "OFFSET"),
    )
)
"""Words of queries that need one focus node at a time."""

_TERM_WORDS = frozenset({"A", "TRUE", "FALSE"})
"""Words that may stand in a pattern of triples."""

MEMBERS = ox.NamedNode("urn:fedkg:members")
"""The named graph with the members of each class, for `with_members`."""

SHAPES = ox.NamedNode("urn:fedkg:shapes")
"""The named graph that stands for ``$shapesGraph``."""

Solution = dict[str, Node]
"""The bound variables of a solution, without `this`."""


def construct(
    store: ox.Store, text: str, nodes: Sequence[Node], functions: Functions | None = None
) -> list[ox.Quad]:
    """The triples that a CONSTRUCT query makes for focus nodes.

    Args:
        functions: the functions that the query may call besides those of SPARQL.

    Raises:
        SyntaxError, ValueError, RuntimeError, OSError: the store cannot evaluate the query.
    """
    words = tokens(text)
    found: list[ox.Quad] = []
    if "this" in predicate_variables(words):
        # The store would read all triples for a pattern with any property.
        required = "this" in predicate_variables(_outermost(words))
        for node in nodes:
            if isinstance(node, URIRef) and not (required and _is_unused(store, node)):
                query = with_constant(text, "this", node)
                if not _lacks_required_triples(store, query):
                    found += _constructed(store, query, functions)
        return found
    query = with_focus_nodes(_with_new_triples(text))
    if _lacks_required_triples(store, text):
        # A syntax error is reported even if the query finds nothing.
        ox.Store().query(query, custom_functions=functions)
        return found
    for group in _groups(words, nodes):
        with _marked(store, group):
            found += _constructed(store, query, functions)
    return found


def _with_new_triples(text: str) -> str:
    """Leave out solutions of a CONSTRUCT query if all their triples are in the store already.

    Most are when rules run again. The store leaves them out much faster than Python could.
    """
    words = tokens(text)
    start = _first_group(words)
    first = next(at for at, word in enumerate(words) if word.text == "{")
    ends = _closing(words)
    if max(ends[first], ends[start]) >= len(words):  # the store reports what is wrong
        return text
    template = words[first + 1 : ends[first]]
    makes_nodes = any(word.kind == "blank" or word.text in ("[", "(") for word in template)
    if first == start or makes_nodes or words[start + 1].text.upper() == "SELECT":
        return text
    end = words[ends[start]].start
    triples = text[words[first].start : words[ends[first]].end]
    return f"{text[:end]} FILTER NOT EXISTS {triples} {text[end:]}"


def _lacks_required_triples(store: ox.Store, text: str) -> bool:
    """Whether no triples match the patterns that each solution needs for whatever focus node.

    The store would join the focus nodes with the other patterns first, and find nothing in the end.
    """
    words = tokens(text)
    form = next((at for at, word in enumerate(words) if word.text.upper() == "CONSTRUCT"), None)
    if form is None or names_word(words, frozenset({"FROM"})):
        return False
    blocks = _required_blocks(text, words)
    if not blocks:
        return False
    start = words[form].start
    with suppress(SyntaxError, ValueError, RuntimeError, OSError):  # of the whole query, then
        return not store.query(f"{text[:start]} ASK {{ {' . '.join(blocks)} }}")
    return False


def _required_blocks(text: str, words: Sequence[Token]) -> list[str]:
    """The patterns of triples outside of inner groups that do not name `$this`.

    Whatever follows a word such as FILTER without a point is left out.
    """
    return [
        text[words[first].start : words[end - 1].end]
        for first, end in _pieces(words, _first_group(words), _closing(words))
        if _is_triples(words[first:end]) and "this" not in _variables(words[first:end])
    ]


def _pieces(
    words: Sequence[Token], start: int, ends: Mapping[int, int]
) -> Iterator[tuple[int, int]]:
    """The inner groups of the group at `start` and the runs of words between them and between
    points, as positions of words.
    """
    first = at = start + 1
    until = min(ends[start], len(words))
    while at < until:
        word = words[at]
        if word.kind != "mark" or word.text not in "{.":
            at += 1
            continue
        if first < at:
            yield first, at
        end = ends.get(at, at)
        if word.text == "{":
            yield at, end + 1
        first = at = end + 1
    if first < until:
        yield first, until


def _is_triples(run: Sequence[Token]) -> bool:
    """Whether a piece of a group has triples and nothing else."""
    return (
        run[0].text != "{"
        and {word.text.upper() for word in run if word.kind == "word"} <= _TERM_WORDS
    )


def _variables(run: Sequence[Token]) -> set[str]:
    return {word.text for word in run if word.kind == "variable"}


def _is_unused(store: ox.Store, predicate: URIRef) -> bool:
    quads = store.quads_for_pattern(None, ox.NamedNode(predicate), None, ox.DefaultGraph())
    return next(iter(quads), None) is None


def _outermost(words: Sequence[Token]) -> list[Token]:
    """The words of the WHERE clause outside of inner groups: what each solution needs."""
    ends = _closing(words)
    start = _first_group(words)
    found: list[Token] = []
    at = start + 1
    while at < ends[start]:
        found.append(words[at])
        at = ends.get(at, at) + 1
    return found


def select(
    store: ox.Store,
    text: str,
    nodes: Sequence[Node],
    prefixes: Mapping[str, str],
    bound: str = "this",
    functions: Functions | None = None,
) -> list[tuple[Node, Solution]]:
    """The solutions of a SELECT query for focus nodes, each with its focus node.

    Args:
        prefixes: those of queries that do not state them.
        bound: the variable that stands for the focus nodes.
        functions: the functions that the query may call besides those of SPARQL.

    Raises:
        SyntaxError, ValueError, RuntimeError, OSError: the store cannot evaluate the query.
    """
    words = tokens(text)
    # The store changes how literals are written, so that a literal would not be found again.
    literals = [node for node in nodes if isinstance(node, Literal)]
    others = [node for node in nodes if not isinstance(node, Literal)]
    if len(nodes) > 1:
        text = _selecting(text, bound)
    query = with_focus_nodes(text, bound)
    found: list[tuple[Node, Solution]] = []
    for group in [*_groups(words, others, bound), *([node] for node in literals)]:
        with _marked(store, group):
            answers = store.query(query, prefixes=dict(prefixes), custom_functions=functions)
            if not isinstance(answers, ox.QuerySolutions):
                raise ValueError("it is not a SELECT query")
            names = [variable.value for variable in answers.variables]
            for answer in answers:
                solution = {
                    name: to_rdflib(term)
                    for name, term in zip(names, answer, strict=True)
                    if term is not None
                }
                this = solution.pop(bound, group[0])
                found.append((this if len(group) > 1 else group[0], solution))
    return found


def _groups(
    words: Sequence[Token], nodes: Sequence[Node], name: str = "this"
) -> list[Sequence[Node]]:
    """The focus nodes that can be asked for together."""
    if names_word(words, _AGGREGATES) and not _groups_by(words, name):
        return [[node] for node in nodes]
    return [nodes] if nodes else []


def _groups_by(words: Sequence[Token], name: str) -> bool:
    """Whether each SELECT of a query groups its solutions by a variable and takes all of them."""
    upper = [word.text.upper() if word.kind == "word" else "" for word in words]
    if "LIMIT" in upper or "OFFSET" in upper:
        return False
    grouped = 0
    for at, word in enumerate(upper):
        if word == "GROUP":
            clause = itertools.takewhile(lambda one: one.kind == "variable", words[at + 2 :])
            grouped += any(one.text == name for one in clause)
    return grouped == upper.count("SELECT")


@contextmanager
def _marked(store: ox.Store, nodes: Sequence[Node]) -> Iterator[None]:
    store.extend([ox.Quad(FOCUS, FOCUS, to_store(node), FOCUS) for node in nodes])
    try:
        yield
    finally:
        store.remove_graph(FOCUS)


def _constructed(store: ox.Store, query: str, functions: Functions | None) -> list[ox.Quad]:
    found = store.query(query, custom_functions=functions)
    if not isinstance(found, ox.QueryTriples):
        raise ValueError("it is not a CONSTRUCT query")
    return [ox.Quad(triple.subject, triple.predicate, triple.object) for triple in found]


def _selecting(text: str, name: str) -> str:
    """Add a variable to those that a SELECT query gives."""
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
        if word.kind == "variable" and word.text == name:
            return text
    if words[at + 1].text == "*":
        return text
    end = words[at].end
    return f"{text[:end]} ${name} {text[end:]}"


@lru_cache(maxsize=100_000)
def to_store(node: Node) -> ox.NamedNode | ox.BlankNode | ox.Literal:
    """A term of rdflib as the store has it."""
    if isinstance(node, Literal):
        if node.language:
            return ox.Literal(str(node), language=node.language)
        kind = None if node.datatype is None else ox.NamedNode(str(node.datatype))
        return ox.Literal(str(node), datatype=kind)
    return ox.BlankNode(str(node)) if isinstance(node, BNode) else ox.NamedNode(str(node))


def with_constant(text: str, name: str, node: Node) -> str:
    """Write a term into a query in place of a variable; `BOUND` of the variable is true.

    Raises:
        ValueError: the query has the variable and the node is blank: no query can name it.
    """
    constant = str(to_store(node))
    parts, last = [], 0
    words = tokens(text)
    for at, word in enumerate(words):
        if word.kind != "variable" or word.text != name:
            continue
        if isinstance(node, BNode):
            raise ValueError(f"${name} is a blank node, which a query cannot name")
        start, end, written = word.start, word.end, constant
        if words[at - 1].text == "(" and words[at - 2].text.upper() == "BOUND":
            start, end, written = words[at - 2].start, words[at + 1].end, "(true)"
        parts += [text[last:start], written]
        last = end
    return "".join([*parts, text[last:]])


def with_focus_nodes(text: str, name: str = "this") -> str:
    """Bind a variable in a query to the nodes of the named graph `FOCUS`.

    The outermost group and each group that names the variable get the pattern, because nested
    groups do not see variables of the outer group, but pre-bound variables apply there too (W3C
    SHACL 2017, section 5.3.1). EXISTS sees them.

    Raises:
        ValueError: the query has no group.
    """
    words = tokens(text)
    bind = f" GRAPH {FOCUS} {{ {FOCUS} {FOCUS} ${name} }} "
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
        if at == start or any(one.kind == "variable" and one.text == name for one in inside):
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


_NODES = frozenset({"variable", "iri", "pname"})
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


def with_members(text: str) -> str:
    """Ask the graph `MEMBERS` in place of the path ``rdf:type/rdfs:subClassOf*``.

    The store would follow the path for each pair of node and class again. Queries that count
    solutions stay as they are: the path has a solution for each class of a node.
    """
    words = tokens(text)
    if names_word(words, _AGGREGATES):
        return text
    prefixes = _prefixes(words)
    found, last = list[str](), 0
    for before, one, kind, slash, sub, star, other, after in zip(
        *(words[at:] for at in range(8)), strict=False
    ):
        if (
            (slash.text, star.text) == ("/", "*")
            and before.text in ("{", ".", "}")
            and one.kind in _NODES
            and (kind.text == "a" or _iri(kind, prefixes) == str(RDF.type))
            and _iri(sub, prefixes) == str(RDFS.subClassOf)
            and other.kind in _NODES
            and after.text in (".", "}")
        ):
            pattern = f"GRAPH {MEMBERS} {{ {text[one.start : one.end]} {MEMBERS} "
            found += [text[last : one.start], pattern, text[other.start : other.end], " }"]
            last = other.end
    return "".join([*found, text[last:]])


def hide_graphs(text: str) -> str:
    """Leave focus nodes, members and shapes out of ``GRAPH ?g { ... }``.

    Each becomes ``{ GRAPH ?g { ... } FILTER (?g NOT IN (...)) }``.
    """
    words = tokens(text)
    ends = _closing(words)
    hidden = f"{FOCUS}, {MEMBERS}, {SHAPES}"
    added: list[tuple[int, str]] = []
    for at, (word, graph) in enumerate(itertools.pairwise(words)):
        end = ends.get(at + 2, len(words))
        is_graph = word.kind == "word" and word.text.upper() == "GRAPH"
        if is_graph and graph.kind == "variable" and end < len(words):
            after = f" FILTER (?{graph.text} NOT IN ({hidden})) }}"
            added += [(word.start, "{ "), (words[end].end, after)]
    for place, part in sorted(added, reverse=True):  # where one begins, the one before has ended
        text = text[:place] + part + text[place:]
    return text


def with_closures_last(text: str) -> str:
    """Compare in a filter what EXISTS compares by closures such as ``?x rdfs:subClassOf* ?y``.

    ``{ ?a :is ?x . ?b :is ?y . { ?x :sub* ?y } UNION { ?y :sub* ?x } }`` becomes
    ``{ ?a :is ?x . ?b :is ?y . FILTER (EXISTS { ?x :sub* ?y } || EXISTS { ?y :sub* ?x }) }``.
    The store orders the parts at random. If a closure is the first one, it finds all pairs of the
    graph, for each solution of the query again: this takes hundreds of times longer.
    """
    words = tokens(text)
    ends = _closing(words)
    found, last = list[str](), 0
    for start, word in enumerate(words):
        if word.text != "{" or word.kind != "mark" or words[start - 1].text.upper() != "EXISTS":
            continue
        if ends[start] == len(words):  # it is not closed, which the store reports
            continue
        bound: set[str] = set()
        after_triples = True
        pieces = list(_pieces(words, start, ends))
        for number, (first, end) in enumerate(pieces):
            if words[first].start < last:
                continue  # a part of alternatives that are in a filter already
            run = words[first:end]
            closures = _alternative_closures(words, pieces[number:]) if after_triples else []
            if closures and all(_variables(words[a:b]) <= bound for a, b in closures):
                tests = (f"EXISTS {text[words[a].start : words[b - 1].end]}" for a, b in closures)
                found += [text[last : words[first].start], f"FILTER ({' || '.join(tests)})"]
                last = words[closures[-1][1] - 1].end
            after_triples = _is_triples(run)
            if after_triples:  # a closure knows the subjects and objects of the graph alone
                bound |= _variables(run) - predicate_variables(run)
    return "".join([*found, text[last:]])


def _alternative_closures(
    words: Sequence[Token], pieces: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The groups of the UNION at the beginning of pieces; [] if one is not ``{ ?x :p* ?y }``."""
    found: list[tuple[int, int]] = []
    for number, (first, end) in enumerate(pieces):
        run = words[first:end]
        if number % 2:
            if [word.text.upper() for word in run] != ["UNION"]:
                break
            continue
        inner = [word for word in run[1:-1] if word.text != "."]
        kinds = [word.kind for word in inner]
        if (
            run[0].text != "{"
            or len(inner) != 4
            or kinds[0] != "variable"
            or kinds[1] not in ("iri", "pname")
            or inner[2].text not in ("*", "+")
            or kinds[3] != "variable"
        ):
            return []
        found.append((first, end))
    return found


def names_word(words: Sequence[Token], wanted: frozenset[str]) -> bool:
    """Whether a query has one of these words, in capitals, that is no name."""
    return any(word.kind == "word" and word.text.upper() in wanted for word in words)


def iris_of(words: Sequence[Token]) -> set[str]:
    """All IRIs of a query, in full."""
    prefixes = _prefixes(words)
    return {iri for word in words if (iri := _iri(word, prefixes))}


def _prefixes(words: Sequence[Token]) -> dict[str, str]:
    return {
        name.text.removesuffix(":"): iri.text[1:-1]
        for word, name, iri in zip(words, words[1:], words[2:], strict=False)
        if word.text.upper() == "PREFIX" and name.kind == "pname" and iri.kind == "iri"
    }


def _iri(word: Token, prefixes: Mapping[str, str]) -> str:
    """The IRI that a word stands for; "" if it is none."""
    if word.kind == "iri":
        return word.text[1:-1]
    prefix, colon, name = word.text.partition(":")
    return prefixes.get(prefix, "") + name if word.kind == "pname" and colon else ""


def _is_data_of_values(words: Sequence[Token], at: int) -> bool:
    """Whether a `{` begins the data of VALUES."""
    at -= 1
    if words[at].text == ")":
        while at > 0 and words[at].text != "(":
            at -= 1
    return at > 0 and words[at - 1].text.upper() == "VALUES"
