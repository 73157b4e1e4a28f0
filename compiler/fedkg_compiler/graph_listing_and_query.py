"""Lists the named graphs of a knowledge graph and answers queries (`fedkg graph list`, `query`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedkg.errors import UsageError
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.graph import Graph
from fedkg_compiler.graph.load import load_graph
from fedkg_compiler.graph.rdf_reader import GraphKind, kind_of
from fedkg_compiler.graph.select_query_execution import sparql_problem
from fedkg_compiler.graph.sparql_syntax.tokens import asks_service, tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphInfo:
    """One named graph.

    Attributes:
        iri: its name.
        kind: what its statements are.
        sources: the names of the files, stores and endpoints that state them; () for inferences.
        triples: the number of its triples.
    """

    iri: str
    kind: GraphKind
    sources: tuple[str, ...]
    triples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The answer to a query.

    Attributes:
        form: ``triples`` for CONSTRUCT and DESCRIBE.
        variables: the names without ``?``.
        rows: terms as SPARQL writes them, with IRIs in angle brackets; None for an unbound
            variable. Sorted, unless the query orders them. The triples of CONSTRUCT and DESCRIBE.
        holds: the answer to an ASK.
    """

    form: Literal["select", "triples", "ask"]
    variables: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    holds: bool = False


def list_graphs(
    files: Sequence[Path | str], uses: Sequence[str] = ()
) -> tuple[list[GraphInfo] | None, tuple[Diagnostic, ...]]:
    """Return the named graphs of files, stores and endpoints and of what they entail.

    None after an error.

    Args:
        files: the user's graphs.
        uses: further ontologies of the catalogue.
    """
    graph, problems = _loaded(files, uses)
    if graph is None:
        return None, problems
    assert graph.told is not None
    sources: dict[str, dict[str, None]] = {}
    for one in graph.told.graphs():
        sources.setdefault(one.iri, {})[Path(one.source).name] = None
    store = graph.with_named_graphs()
    counts = Counter(
        quad.graph_name.value for quad in store if isinstance(quad.graph_name, ox.NamedNode)
    )
    found = [
        GraphInfo(iri=iri, kind=kind_of(iri), sources=tuple(sources.get(iri, ())), triples=count)
        for iri, count in counts.items()
    ]
    return sorted(found, key=lambda one: (_ORDER.index(one.kind), one.iri)), problems


_ORDER: tuple[GraphKind, ...] = ("data", "inferred", "learned", "ontology", "vocabulary")


def query_graph(
    query: str, files: Sequence[Path | str], uses: Sequence[str] = ()
) -> tuple[Answers | None, tuple[Diagnostic, ...]]:
    """Return what a query finds in files, stores and endpoints and in what they entail.

    None after an error.

    Args:
        query: the query; it may use the prefixes of the files.
        files: the user's graphs.
        uses: further ontologies of the catalogue.

    Raises:
        UsageError: the text is not a query, or asks another server.
        LimitError: the answer takes too much time or memory.
    """
    graph, problems = _loaded(files, uses)
    if graph is None:
        return None, problems
    assert graph.told is not None
    prefixes = {**graph.told.prefixes(), **graph.vocabulary.prefixes}
    if asks_service(query):
        raise UsageError(
            "SERVICE asks another server, and fedkg contacts none for a query",
            help="give the address of the endpoint as a graph",
        )
    if (problem := sparql_problem(query, prefixes)) is not None:
        raise UsageError(
            f"the query is not SPARQL at line {problem[1]}, column {problem[2]}",
            expected="a query, such as SELECT ?s WHERE { GRAPH ?g { ?s ?p ?o } }",
            help="correct the query at this place",
        )
    try:
        empty = ox.Store().query(query, prefixes=prefixes)
        found = graph.solutions(query, prefixes)
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"the graph cannot answer this query: {error}", help="correct or simplify the query"
        ) from error
    if isinstance(empty, ox.QueryBoolean):
        holds = found.nodes == [ox.Literal(True)]
        return Answers(form="ask", variables=(), rows=(), holds=holds), problems
    rows = [tuple(None if node is None else str(node) for node in row) for row in found.rows]
    if not _is_ordered(query):
        rows.sort(key=lambda row: tuple(cell or "" for cell in row))
    is_select = isinstance(empty, ox.QuerySolutions)
    return Answers(
        form="select" if is_select else "triples",
        variables=tuple(found.names),
        rows=tuple(rows if is_select else dict.fromkeys(rows)),
    ), problems


def _is_ordered(query: str) -> bool:
    """Tell whether a query orders its solutions."""
    return any(word.kind == "word" and word.text.upper() == "ORDER" for word in tokens(query))


def _loaded(
    files: Sequence[Path | str], uses: Sequence[str]
) -> tuple[Graph | None, tuple[Diagnostic, ...]]:
    """The graph; None after an error."""
    here = Span(file=" ".join(map(str, files)), line=1, column=1, end_line=1, end_column=1)
    graph, problems, _ = load_graph([(name, here) for name in uses], {}, files)
    failed = any(problem.severity == "error" for problem in problems)
    return (None if failed else graph), problems
