"""A query through the compiler, and the same query on the data written as triples.

Both must find the same violations.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyoxigraph as ox
import pytest

from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.pack import Pack
from fedkg_compiler import compile_rules
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.frontends.sparql import query_binder
from fedkg_compiler.graph import Graph, load_graph
from fedkg_compiler.graph.node_values import literal
from fedkg_compiler.graph.rdf_terms import local_name
from fedkg_compiler.graph.sparql_syntax.parser import parse_query
from fedkg_compiler.graph.sparql_syntax.query_form_and_constants import Reader
from fedkg_compiler.graph.sparql_syntax.tokens import tokens
from fedkg_compiler.graph.sparql_syntax.variable_scope import shown

P = "https://example.org/plant#"
HEAD = (
    f"@prefix p: <{P}> . @prefix fkg: <https://w3id.org/fedkg/ns#> . @prefix sosa:"
    " <http://www.w3.org/ns/sosa/> .\n@prefix qudt: <http://qudt.org/schema/qudt/> . @prefix unit:"
    " <http://qudt.org/vocab/unit/> .\n@prefix xsd: <http://www.w3.org/2001/XMLSchema#> . @prefix"
    " rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
)
PREFIX = f"PREFIX p: <{P}> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"

BETWEEN = "\x1f"
"""A string that occurs in no name."""

Cell = float | str | None
Table = dict[tuple[str, str], Sequence[Cell]]
"""The values of each observed property of each entity, row by row."""


def sensors(columns: Sequence[tuple[str, str]]) -> str:
    """Turtle that gives every (entity, property) a column called ``entity.property``."""
    properties = sorted({name for _, name in columns})
    said = [f"p:{name} a sosa:ObservableProperty ." for name in properties]
    said += [
        f"p:s_{entity}_{name} sosa:observes p:{name} ; sosa:isHostedBy p:{entity} ; fkg:column"
        f' "{entity}.{name}" .'
        for entity, name in columns
    ]
    return "\n".join(said)


def compiled(
    folder: Path, graph: str, query: str, rules: str = ""
) -> tuple[Pack | None, tuple[Diagnostic, ...]]:
    """The compilation of one query."""
    (folder / "g.ttl").write_text(graph, encoding="utf-8")
    (folder / "q.rq").write_text(query, encoding="utf-8")
    found = compile_rules([folder / "q.rq", folder / "g.ttl"], text=rules or None)
    return found.pack, found.diagnostics


def by_compiler(
    folder: Path,
    graph: str,
    queries: Sequence[str],
    table: Table,
    rows: int,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[list[list[set[str]] | None], tuple[Diagnostic, ...]]:
    """For each query and table row, the violations by the names of the entities in the query.

    None if the query is rejected.
    """
    monkeypatch.setattr(query_binder, "_LISTED", 10**6)
    monkeypatch.setattr(query_binder, "_BETWEEN", BETWEEN)
    (folder / "g.ttl").write_text(graph, encoding="utf-8")
    paths = [folder / f"q{i}.rq" for i in range(len(queries))]
    for path, query in zip(paths, queries, strict=True):
        path.write_text(query, encoding="utf-8")
    first = compile_rules([*paths, folder / "g.ttl"], check_only=True)
    refused = {item.span.file for item in first.diagnostics if item.severity == "error"}
    kept = [path for path in paths if str(path) not in refused]
    found: dict[str, list[set[str]]] = {path.stem: [set() for _ in range(rows)] for path in kept}
    compilation = compile_rules([*kept, folder / "g.ttl"])
    for item in compilation.diagnostics:
        if item.code == "FKG348":
            _, colon, listed = item.message.partition("`: ")
            for row in found[Path(item.span.file).stem]:
                row |= set(listed.split(BETWEEN)) if colon else {""}
    pack = compilation.pack
    if kept:
        assert pack is not None, compilation.diagnostics
        values = matrix(pack, table, rows)
        names = [rule.name for rule in pack.manifest.rules]
        for bank in pack.banks:
            violated = evaluate_bank(bank, values).violated
            for b, r in np.argwhere(violated).tolist():
                found[names[int(bank.rule[r])]][b].add(pack.manifest.entities[int(bank.entity[r])])
    return [found.get(path.stem) for path in paths], first.diagnostics


def matrix(pack: Pack, table: Table, rows: int) -> np.ndarray:
    """The table as the interpreter takes it: float64 [1, B, C]."""
    out = np.full((1, rows, len(pack.manifest.contract.columns)), np.nan)
    for i, column in enumerate(pack.manifest.contract.columns):
        entity, _, name = column.source.partition(".")
        cells = table.get((column.source, "")) or table.get((entity, name), [None] * rows)
        for b, cell in enumerate(cells):
            if column.type == "category":
                codes = {text: code for code, text in enumerate(column.vocabulary)}
                out[0, b, i] = np.nan if cell is None else codes.get(str(cell), -2)
            elif isinstance(cell, float):
                out[0, b, i] = cell
    return out


def by_store(graph: str, queries: Sequence[str], table: Table, rows: int) -> list[list[set[str]]]:
    """The same from the original queries, on the graph, its entailments, and each row of the table
    as triples.
    """
    loaded, _, _ = load_graph([], {}, [], text_graphs=[("g.ttl", graph)])
    vocabularies, _, _ = load_graph([], {}, [])
    store = ox.Store()
    store.bulk_extend(set(loaded._store) - set(vocabularies._store))
    found: list[list[set[str]]] = [[] for _ in queries]
    for b in range(rows):
        said = [
            ox.Quad(*_subject_and_property(entity, name), ox.Literal(cell))
            for (entity, name), cells in table.items()
            if (cell := cells[b]) is not None
        ]
        store.extend(said)
        for query, rows_found in zip(queries, found, strict=True):
            rows_found.append(_solutions(store.query(query), _shown(query), loaded))
        for quad in said:
            store.remove(quad)
    return found


def same_violations(ours: set[str], theirs: set[str]) -> bool:
    """Whether both found the same solutions, by the names that they show.

    If the query shows no names, whether both found any.
    """
    named = theirs - {""}
    return bool(ours) == bool(theirs) and (not named or ours - {""} == named)


def _shown(query: str) -> frozenset[str]:
    """The variables of a query's pattern that it selects."""
    body = Reader({}).read(query).body
    return shown(parse_query(tuple(word for word in tokens(query) if word.start >= body)))


def _subject_and_property(entity: str, name: str) -> tuple[ox.NamedNode, ox.NamedNode]:
    """Names in the test plant, or with an empty property the IRIs of both in one text."""
    first, second = (P + entity, P + name) if name else entity.split(" ")
    return ox.NamedNode(first), ox.NamedNode(second)


def _solutions(result: object, names: frozenset[str], graph: Graph) -> set[str]:
    if isinstance(result, ox.QueryBoolean):
        return {""} if result else set()
    assert isinstance(result, ox.QuerySolutions)
    kept = sorted(variable.value for variable in result.variables if variable.value in names)
    return {
        ", ".join(text for name in kept if (text := _label(solution[name], graph)))
        for solution in result
    }


def _label(term: object, graph: Graph) -> str:
    match term:
        case ox.NamedNode():
            return graph.label_of(term.value)
        case ox.BlankNode():
            return local_name(f"_:{term.value}")
        case ox.Literal():
            return term.value if isinstance(literal(term).value, str) else ""
    return ""


def check_equal(
    folder: Path, graph: str, queries: Sequence[str], table: Table, monkeypatch: pytest.MonkeyPatch
) -> int:
    """Assert that both find the same for every query; return how many the compiler accepts."""
    rows = len(next(iter(table.values())))
    ours, diagnostics = by_compiler(folder, graph, queries, table, rows, monkeypatch)
    assert all(item.code.startswith("FKG3") for item in diagnostics if item.severity == "error"), (
        diagnostics
    )
    theirs = by_store(graph, queries, table, rows)
    for query, mine, other in zip(queries, ours, theirs, strict=True):
        assert mine is None or all(map(same_violations, mine, other)), (query, mine, other)
    return sum(item is not None for item in ours)
