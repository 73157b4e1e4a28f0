"""The queries of the W3C SPARQL 1.1 suite as violation queries.

Numeric properties are in a table, everything else in the graph.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pyoxigraph as ox
import pytest
from sparql_cases import Table, by_compiler, by_store, same_violations

from fedkg_compiler.graph.rdf_reader import names_graph

MANIFEST = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
TYPE = ox.NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
QUERY = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#"
FOLDERS = (
    *(
        "aggregates",
        "bind",
        "bindings",
        "cast",
        "construct",
        "exists",
        "functions",
        "grouping",
        "negation",
        "project-expression",
    ),
    *("property-path", "subquery"),
)
NOT_COMPARED = "not compared: the suite's default graph lacks its named graphs, fedkg's has them"
PLANT = "https://example.org/plant#"
SENSOR = "https://example.org/sensor#"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one query: ``rows`` or ``graph`` if equal; else code and reason."""

    folder: str
    name: str
    where: str
    reason: str


def queries_of(folder: Path, kind: str) -> dict[Path | None, list[Path]]:
    """The tests of one kind in a folder: queries by the file of their data.

    Named graphs are not loaded.
    """
    store = ox.Store()
    store.load(path=folder / "manifest.ttl", base_iri=folder.as_uri() + "/")
    found: dict[Path | None, list[Path]] = defaultdict(list)
    query, data, action = (
        ox.NamedNode(QUERY + "query"),
        ox.NamedNode(QUERY + "data"),
        ox.NamedNode(MANIFEST + "action"),
    )
    for quad in store.quads_for_pattern(None, TYPE, ox.NamedNode(MANIFEST + kind)):
        for asked in store.quads_for_pattern(quad.subject, action, None):
            node = asked.object
            files = (
                []
                if isinstance(node, ox.Literal)
                else [item.object.value for item in store.quads_for_pattern(node, data, None)]
            )
            texts = (
                []
                if isinstance(node, ox.Literal)
                else [item.object.value for item in store.quads_for_pattern(node, query, None)]
            )
            path = Path((texts or [node.value])[0].removeprefix("file://"))
            found[Path(files[0].removeprefix("file://")) if files else None].append(path)
    return {key: sorted(paths) for key, paths in found.items()}


def split_data(data: Path | None) -> tuple[str, Table]:
    """The data as a graph and a table of one row.

    Properties with one number for each of their subjects are observed.
    """
    quads = [] if data is None else list(ox.parse(path=data, base_iri=data.as_uri()))
    triples = [(_named(quad.subject), quad.predicate, _named(quad.object)) for quad in quads]
    by_property: dict[ox.NamedNode, list[tuple[object, object]]] = defaultdict(list)
    for subject, predicate, target in triples:
        by_property[predicate].append((subject, target))
    observed = {
        predicate
        for predicate, pairs in by_property.items()
        if len({subject for subject, _ in pairs}) == len(pairs)
        and all(_number(target) is not None for _, target in pairs)
    }
    table: Table = {}
    lines = [f"<{PLANT}something> a <{PLANT}Thing> ."]
    for subject, predicate, target in triples:
        if predicate not in observed:
            lines.append(f"{subject} {predicate} {target} .")
            continue
        number = _number(target)
        header = f"{subject.value} {predicate.value}"
        table[header, ""] = [number]
        sensor = f"<{SENSOR}s{len(table)}>"
        lines.append(
            f"{sensor} <http://www.w3.org/ns/sosa/observes> {predicate} ;"
            f" <http://www.w3.org/ns/sosa/isHostedBy> {subject} ."
        )
        lines.append(f'{sensor} <https://w3id.org/fedkg/ns#column> "{header}" .')
    return "\n".join(lines), table


def _named(node: object) -> object:
    return ox.NamedNode(f"{PLANT}blank{node.value}") if isinstance(node, ox.BlankNode) else node


def _number(node: object) -> float | None:
    numeric = ("integer", "decimal", "double", "float")
    if not isinstance(node, ox.Literal) or not node.datatype.value.endswith(
        tuple(f"#{name}" for name in numeric)
    ):
        return None
    try:
        return float(node.value)
    except ValueError:
        return None


def run_suite(suite: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    """The outcome of every query.

    Raises AssertionError if the compiler and the store find different solutions.
    """
    found: list[Outcome] = []
    for name in FOLDERS:
        for data, paths in sorted(
            queries_of(suite / name, "QueryEvaluationTest").items(), key=lambda item: str(item[0])
        ):
            graph, table = split_data(data)
            texts = [path.read_text(encoding="utf-8") for path in paths]
            ours, diagnostics = by_compiler(folder, graph, texts, table, 1, monkeypatch)
            theirs = by_store(
                graph,
                [
                    text if mine is not None and not names_graph(text) else "ASK {}"
                    for text, mine in zip(texts, ours, strict=True)
                ],
                table,
                1,
            )
            for i, path in enumerate(paths):
                mine = [item for item in diagnostics if Path(item.span.file).stem == f"q{i}"]
                refusal = next((item for item in mine if item.severity == "error"), None)
                if refusal is None and names_graph(texts[i]):
                    found.append(
                        Outcome(folder=name, name=path.stem, where="refused", reason=NOT_COMPARED)
                    )
                    continue
                if refusal is not None:
                    found.append(
                        Outcome(
                            folder=name,
                            name=path.stem,
                            where="refused",
                            reason=f"{refusal.code}: {refusal.message}",
                        )
                    )
                    continue
                (mine_here,), (theirs_here,) = ours[i] or (), theirs[i]
                assert same_violations(mine_here, theirs_here), (path, mine_here, theirs_here)
                reads = not any(item.code == "FKG348" for item in mine) and "observes" in graph
                found.append(
                    Outcome(
                        folder=name, name=path.stem, where="rows" if reads else "graph", reason=""
                    )
                )
    return sorted(found, key=lambda item: (item.folder, item.name))
