"""One query with variables that have values before it begins, as constraints of shapes use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from sparql_cases import HEAD, PREFIX, sensors

from fedkg.pack import RuleRecord
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.frontends.fkg.binding.scope import Names, Sources
from fedkg_compiler.frontends.sparql.prebound_variables import ROW, BoundQuery, bind_query
from fedkg_compiler.graph import load_graph
from fedkg_compiler.graph.diagnostic_spans import point
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.ir import Book

P = "https://example.org/plant#"
GRAPH = (
    HEAD
    + sensors([("m1", "t"), ("m2", "t"), ("m1", "f")])
    + "p:m1 a p:Mill ; p:max 60 ; p:feeds p:m2 . p:m2 a p:Mill ; p:max 65 ; p:feeds p:m2, p:m1 ."
    " p:m3 a p:Mill ; p:max 70 ."
    + 'p:Part a rdfs:Class . p:w a sosa:ObservableProperty ; fkg:column "w" .'
)
RECORD = RuleRecord(name="shape.sparql", file="shapes.ttl", line=1)
WHERE = point("shapes.ttl", 7, 3, width=20)


def bound(text: str, values: Mapping[str, Sequence[str]], rows: str | None = None) -> BoundQuery:
    graph, _, _ = load_graph([], {}, [], text_graphs=[("g.ttl", GRAPH)])
    sources = Sources(names=Names(rows_class=rows), graph=graph, book=Book(), problems=Problems())
    return bind_query(PREFIX + text, WHERE, sources, bound=values, record=RECORD)


def nodes(*names: str) -> dict[str, list[str]]:
    return {"this": [f"<{P}{name}>" for name in names]}


def params(found: BoundQuery) -> dict[str, float]:
    """The bound of each entity."""
    return {
        entity: float(np.asarray(row.rows.params[0])[i])
        for row in found.rows
        for i, entity in enumerate(row.entities)
    }


def test_each_value_of_the_variable_is_a_row() -> None:
    text = "SELECT $this ?value WHERE { $this p:max ?max ; p:t ?value . FILTER(?value > ?max) }"
    found = bound(text, nodes("m1", "m2"))
    assert params(found) == {"m1": 60.0, "m2": 65.0}
    assert params(bound(text, nodes("m2"))) == {"m2": 65.0}
    assert found.reads
    assert found.violations == ()
    assert {row.rule.name for row in found.rows} == {"shape.sparql"}


def test_filters_of_inner_groups_see_the_variable() -> None:
    text = (
        "SELECT $this WHERE {{ FILTER(?v > 1) {{ p:m1 p:t ?v FILTER({0}) }} UNION {{ p:m2 p:t ?v"
        " FILTER({0}) }} }}"
    )
    assert len(bound(text.format("$this = p:m1"), nodes("m1")).rows) == 2
    assert bound(text.format("$this = p:m1"), nodes("m3")).rows == ()


def test_what_the_graph_alone_violates_is_reported() -> None:
    found = bound("SELECT $this WHERE { $this p:max ?x FILTER(?x > 62) }", nodes("m1", "m2", "m3"))
    assert [term.value for term in found.violations if term is not None] == [f"{P}m2", f"{P}m3"]
    assert (found.rows, found.reads) == ((), False)


@pytest.mark.parametrize(("count", "violating"), [(0, ["m3"]), (1, ["m1"]), (2, ["m2"])])
def test_groups_of_one_value_are_apart(count: int, violating: list[str]) -> None:
    found = bound(
        f"SELECT (COUNT(?n) AS ?c) WHERE {{ $this p:feeds ?n }} HAVING (COUNT(?n) = {count})",
        nodes("m1", "m2", "m3"),
    )
    assert [
        term.value.removeprefix(P) for term in found.violations if term is not None
    ] == violating


def test_the_table_row_is_a_value() -> None:
    found = bound(
        "SELECT $this WHERE { $this p:w ?w FILTER(?w > 7) }", {"this": [ROW]}, rows=f"{P}Part"
    )
    (row,) = found.rows
    assert (row.entities, row.keys) == (("",), ((),))
    assert params(found) == {"": 7.0}


def test_other_variables_may_be_given_too() -> None:
    text = "SELECT $this WHERE { $this ?p ?v FILTER(?v > $limit) }"
    found = bound(text, {**nodes("m1"), "p": [f"<{P}t>"], "limit": ["5"]})
    assert params(found) == {"m1": 5.0}


def test_what_cannot_be_split_is_raised() -> None:
    with pytest.raises(SparqlProblem, match="REGEX"):
        bound('SELECT $this WHERE { $this p:t ?v FILTER(regex(str(?v), "6")) }', nodes("m1"))
    with pytest.raises(SparqlProblem, match="nope"):
        bound("SELECT $this WHERE { $this nope:t ?v }", nodes("m1"))
