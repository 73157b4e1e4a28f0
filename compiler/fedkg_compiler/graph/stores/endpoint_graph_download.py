"""The default graph of an endpoint: counted first, fetched page by page, and counted again.

A small graph is fetched whole, a large one without the triples that the rules do not touch
(`relevant_terms`): first the axioms, then the properties and classes that matter.

Triples without blank nodes come property by property, many small properties in one query and large
ones in pages of a fixed order, so that a server need not sort everything for every page. Triples
with blank nodes come in one answer, because their labels hold within one answer only (SPARQL 1.1
Query Results JSON Format, section 3.2.2). A server that gives fewer rows than were asked for is
asked for smaller pages. Inconsistent pages are fetched again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.rdf_reader import (
    Document,
    as_kept,
    has_blank_node,
    lines_of,
    names_by_content,
    renamed,
)
from fedkg_compiler.graph.standard_vocabularies import OWL
from fedkg_compiler.graph.stores.endpoint import Endpoint, Patience, Solution, open_endpoint, shown
from fedkg_compiler.graph.stores.mapping_marker_scan import marks_in
from fedkg_compiler.graph.stores.problem import StoreProblem
from fedkg_compiler.graph.stores.relevant_terms import TYPE, Relevance, is_axiom
from fedkg_compiler.input_files import note_held, note_remote

PAGE = 50_000
"""The most triples that are asked for at once."""
MOST = 5_000_000
"""The most triples that are fetched: in memory, with their closure, they take several GB."""
SMALL = 200_000
"""Triples up to which a graph is fetched whole: its checksum, which the pack records, is then that
of the same graph in a file."""
_ATTEMPTS = 3
_MOST_PROPERTIES = 200

_NAMED = "FILTER(!isBlank(?s) && !isBlank(?o))"
_CLASSES = (
    f"SELECT ?c (COUNT(*) AS ?n) WHERE {{ ?s {TYPE} ?c FILTER(!isBlank(?s) && isIRI(?c)) }}"
    " GROUP BY ?c"
)
_COUNTS = f"SELECT ?p (COUNT(*) AS ?n) WHERE {{ ?s ?p ?o {_NAMED} }} GROUP BY ?p"
_BLANK = "?s ?p ?o FILTER(isBlank(?s) || isBlank(?o))"
_BLANK_COUNT = f"SELECT (COUNT(*) AS ?n) WHERE {{ {_BLANK} }}"
_IMPORTS = ox.NamedNode(OWL + "imports")

Counts = dict[ox.NamedNode, int]


class _Changed(Exception):
    """The fetched triples differ from the counted ones."""


def read_endpoint(
    address: str,
    patience: Patience | None = None,
    page: int = PAGE,
    relevance: Relevance | None = None,
) -> tuple[Document | None, tuple[Diagnostic, ...]]:
    """Return what the default graph of an endpoint says, or None with the reason.

    Args:
        address: the address of the query service; ``?default-graph-uri=IRI`` in it chooses a named
            graph (SPARQL 1.1 Protocol, section 2.1.4).
        patience: the time limits; default: those of `Patience`.
        page: the largest number of triples in one request.
        relevance: what matters of a graph that is not `SMALL`; None: everything.
    """
    name = shown(address)
    note_remote(name)
    try:
        quads = _fetched(open_endpoint(address, patience), page, relevance)
    except StoreProblem as problem:
        return None, (problem.diagnostic(name),)
    quads = as_kept(quads)
    blank = [
        quad
        for quad in quads
        if isinstance(quad.subject, ox.BlankNode) or isinstance(quad.object, ox.BlankNode)
    ]
    triples = tuple(renamed(quads, names_by_content(blank)) if blank else quads)
    imports = (
        quad.object.value
        for quad in triples
        if quad.predicate == _IMPORTS and isinstance(quad.object, ox.NamedNode)
    )
    lines = b"".join(line + b"\n" for line in lines_of(triples))
    digest = hashlib.sha256(lines).hexdigest()
    note_held(name, len(triples), digest)
    document = Document(
        name=name,
        sha256=digest,
        triples=triples,
        prefixes={},
        imports=tuple(dict.fromkeys(imports)),
        text="",
        plain=not blank,
        content=digest,
        marks=marks_in(lines),
    )
    return document, ()


def _fetched(
    endpoint: Endpoint, page: int, relevance: Relevance | None = None
) -> Sequence[ox.Quad]:
    """All triples of the default graph, or those that matter, each once, with the labels of one
    answer for its blank nodes.
    """
    for _ in range(_ATTEMPTS):
        counts, blank = _counted(endpoint)
        total = sum(counts.values()) + blank
        if not total:
            _complain_of_nothing(endpoint)
        if relevance is not None and total > SMALL:
            found_part = _relevant(endpoint, counts, page, relevance)
            if found_part is None or _counted(endpoint) != (counts, blank):
                continue
            return found_part
        _require_few(endpoint, total, f"holds {total:,} triples")
        try:
            found = set(_named(endpoint, counts, page))
            found.update(_with_blanks(endpoint, blank))
        except _Changed:
            continue
        if len(found) == total and _counted(endpoint) == (counts, blank):
            return list(found)
    message = f"{endpoint.name} gives other triples than it counts, {_ATTEMPTS} times over"
    raise StoreProblem(
        "FKG141",
        message,
        help="is the graph being written? run the command again when it is at rest",
    )


def _require_few(endpoint: Endpoint, count: int, holds: str) -> None:
    if count > MOST:
        raise StoreProblem(
            "FKG140",
            f"{endpoint.name} {holds}; at most {MOST:,} are fetched",
            help="put the triples that the rules need into a separate graph, and add "
            "?default-graph-uri=IRI to the address",
        )


def _relevant(
    endpoint: Endpoint, counts: Counts, page: int, relevance: Relevance
) -> list[ox.Quad] | None:
    """The triples that matter; None if they are others than were counted."""
    axioms = {name: count for name, count in counts.items() if is_axiom(name)}
    try:
        found = {*_named(endpoint, axioms, page), *_blanks_of(endpoint, [*axioms])}
        matters = relevance.matters(counts, found)
        classes = _grouped(endpoint, _CLASSES) if TYPE in counts else {}
        kinds = {
            kind: count for kind, count in classes.items() if relevance.rules.types or matters(kind)
        }
        wanted = {
            name: count
            for name, count in counts.items()
            if name != TYPE and name not in axioms and matters(name)
        }
        count = sum(map(sum, (axioms.values(), kinds.values(), wanted.values())))
        _require_few(endpoint, count, f"holds {count:,} triples that the rules may need")
        found.update(_named(endpoint, wanted, page), _typed(endpoint, kinds, page))
        named = sum(not has_blank_node(quad) for quad in found)
        found.update(_blanks_of(endpoint, [*wanted, TYPE]))
    except _Changed:
        return None
    return list(found) if named == count else None


def _counted(endpoint: Endpoint) -> tuple[Counts, int]:
    """The number of triples without blank nodes of each property, and the number of triples with
    blank nodes.
    """
    counts = _grouped(endpoint, _COUNTS)
    match endpoint.ask(_BLANK_COUNT):
        case [(ox.Literal() as number,)]:
            return counts, _number(endpoint, number)
        case _:
            raise _odd(endpoint)


def _grouped(endpoint: Endpoint, query: str) -> Counts:
    """The numbers that a query gives for IRIs."""
    counts: Counts = {}
    for row in endpoint.ask(query):
        match row:
            case (ox.NamedNode() as name, ox.Literal() as number):
                counts[name] = _number(endpoint, number)
            case (None, ox.Literal() as number) if number.value == "0":
                pass  # some servers group nothing into one row
            case _:
                raise _odd(endpoint)
    return counts


def _number(endpoint: Endpoint, literal: ox.Literal) -> int:
    if not literal.value.isdigit():
        raise _odd(endpoint)
    return int(literal.value)


def _odd(endpoint: Endpoint) -> StoreProblem:
    return StoreProblem(
        "FKG141",
        f"{endpoint.name} gives an unexpected answer",
        help="check that it is a SPARQL 1.1 endpoint",
    )


def _named(endpoint: Endpoint, counts: Counts, page: int) -> Iterator[ox.Quad]:
    """The triples without blank nodes."""
    together: list[ox.NamedNode] = []
    size = 0
    for predicate in sorted(counts, key=lambda node: (counts[node], node.value)):
        if size + counts[predicate] > page or len(together) == _MOST_PROPERTIES:
            yield from _small(endpoint, together, counts, page)
            together, size = [], 0
        if counts[predicate] > page:
            yield from _large(endpoint, predicate, counts[predicate], page)
        else:
            together.append(predicate)
            size += counts[predicate]
    yield from _small(endpoint, together, counts, page)


def _small(
    endpoint: Endpoint, predicates: list[ox.NamedNode], counts: Counts, page: int
) -> Iterator[ox.Quad]:
    """The triples of several properties by one query.

    A server that keeps some back is asked for each property in pages.
    """
    if not predicates:
        return
    values = " ".join(str(predicate) for predicate in predicates)
    rows = endpoint.ask(f"SELECT ?s ?p ?o WHERE {{ VALUES ?p {{ {values} }} ?s ?p ?o {_NAMED} }}")
    if len(rows) == sum(counts[predicate] for predicate in predicates):
        yield from (_quad(endpoint, row) for row in rows)
        return
    for predicate in predicates:
        yield from _large(endpoint, predicate, counts[predicate], max(1, min(page, len(rows))))


def _typed(endpoint: Endpoint, kinds: Counts, page: int) -> Iterator[ox.Quad]:
    """The members of classes that are no blank nodes."""
    for kind, count in kinds.items():
        offset = 0
        while offset < count:
            rows = endpoint.ask(
                f"SELECT ?s WHERE {{ ?s {TYPE} {kind} FILTER(!isBlank(?s)) }} ORDER BY STR(?s)"
                f" LIMIT {page} OFFSET {offset}"
            )
            if not rows or len(rows) > page:
                raise _Changed
            yield from (_quad(endpoint, (row[0], TYPE, kind)) for row in rows)
            offset += len(rows)


def _blanks_of(endpoint: Endpoint, properties: Sequence[ox.NamedNode]) -> list[ox.Quad]:
    """The triples of properties with blank nodes, in one answer."""
    if not properties:
        return []
    values = " ".join(map(str, properties))
    rows = endpoint.ask(f"SELECT ?s ?p ?o WHERE {{ VALUES ?p {{ {values} }} {_BLANK} }}")
    return [_quad(endpoint, row) for row in rows]


def _large(endpoint: Endpoint, predicate: ox.NamedNode, count: int, page: int) -> Iterator[ox.Quad]:
    """The triples of one property in pages, in an order that tells any two of them apart."""
    order = "ORDER BY STR(?s) STR(?o) DATATYPE(?o) LANG(?o)"
    offset = 0
    while offset < count:
        rows = endpoint.ask(
            f"SELECT ?s ?o WHERE {{ ?s {predicate} ?o {_NAMED} }} {order} LIMIT {page} "
            f"OFFSET {offset}"
        )
        if not rows or len(rows) > page:
            raise _Changed
        yield from (_quad(endpoint, (row[0], predicate, row[-1])) for row in rows)
        offset += len(rows)
        page = min(page, len(rows)) if offset < count else page


def _with_blanks(endpoint: Endpoint, count: int) -> list[ox.Quad]:
    """The triples with blank nodes, in one answer."""
    if not count:
        return []
    rows = endpoint.ask(f"SELECT ?s ?p ?o WHERE {{ {_BLANK} }}")
    if len(rows) < count:
        message = (
            f"{endpoint.name} gives {len(rows):,} of {count:,} triples with blank "
            f"nodes, which cannot be asked for in pages"
        )
        raise StoreProblem(
            "FKG141", message, help="raise the server's limit of rows, or give the nodes names"
        )
    return [_quad(endpoint, row) for row in rows]


def _quad(endpoint: Endpoint, row: Solution) -> ox.Quad:
    match row:
        case (ox.NamedNode() | ox.BlankNode() as subject, ox.NamedNode() as predicate, value) if (
            value is not None
        ):
            return ox.Quad(subject, predicate, value)
        case _:
            raise _odd(endpoint)


def _complain_of_nothing(endpoint: Endpoint) -> None:
    graphs = endpoint.ask("SELECT DISTINCT ?g WHERE { GRAPH ?g { ?s ?p ?o } } LIMIT 1")
    named = graphs[0][0] if graphs and graphs[0] else None
    advice = (
        f"it has named graphs: add ?default-graph-uri={named.value} to the address"
        if isinstance(named, ox.NamedNode)
        else "check that the data has been loaded into the endpoint"
    )
    raise StoreProblem("FKG140", f"the default graph of {endpoint.name} is empty", help=advice)
