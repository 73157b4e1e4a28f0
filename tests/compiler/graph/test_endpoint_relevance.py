"""A large endpoint is asked only for what the rules touch, and the rules bind as on all of it."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from oxigraph_server import in_front, needs_oxigraph, put, serving

from fedkg.pack import Pack
from fedkg_compiler.frontends.sparql.triple_filter_terms import rule_terms
from fedkg_compiler.graph.stores import endpoint_graph_download
from fedkg_compiler.pipeline import compile_rules

GRAPH = """\
@prefix plant: <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
plant:Mill rdfs:subClassOf plant:Machine .
plant:Machine fkg:keyColumn "machine" .
plant:ratedLimit rdfs:subPropertyOf plant:limit .
plant:partOf owl:inverseOf plant:hasPart .
plant:torque a sosa:ObservableProperty ; fkg:column "torque" .
plant:M1 a plant:Mill ; plant:ratedLimit 70 ; rdfs:label "mill 1" .
plant:M2 a plant:Lathe ; plant:limit 50 .
plant:Lathe rdfs:subClassOf plant:Machine .
plant:Line plant:hasPart plant:M1 , plant:M2 .
plant:M1 plant:boughtFrom plant:Vendor ; plant:colour "blue" .
plant:Seen1 a plant:Event ; plant:seenAt plant:M1 ; plant:reading 5 .
plant:M2 plant:notedAs [ plant:colour "red" ] .
"""
RULES = """\
prefix plant: <https://example.org/plant#>
signal torque(?m) is plant:torque
rule cap for ?m, ?x where { ?m a plant:Machine ; plant:limit ?x ; plant:partOf plant:Line }
  require torque(?m) <= ?x
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("oxigraph")) as address:
        put(address, GRAPH)
        yield address


def compiled(rules: str, server: str) -> tuple[Pack, list[str]]:
    """The pack, and the queries that the server was asked."""
    asked: list[str] = []

    def record(_: BaseHTTPRequestHandler, body: bytes) -> bool:
        asked.append(parse_qs(body.decode())["query"][0])
        return False

    with in_front(record, server) as address:
        found = compile_rules([], text=rules, graphs=[f"{address}/query"])
    assert [item.message for item in found.diagnostics if item.severity == "error"] == []
    assert found.pack is not None
    return found.pack, asked


@needs_oxigraph
def test_what_rules_do_not_touch_is_not_fetched(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = compiled(RULES, server)
    monkeypatch.setattr(endpoint_graph_download, "SMALL", 0)
    part, asked = compiled(RULES, server)
    text = "\n".join(asked)
    # by hand: a rated limit is a limit, the lines' parts are parts of lines, mills are machines
    for name in ("ratedLimit", "limit", "hasPart", "partOf", "Mill", "Lathe"):
        if name != "partOf":  # nothing states it
            assert f"plant#{name}>" in text, name
    for name in ("boughtFrom", "colour", "reading", "seenAt", "notedAs", "Event"):
        assert f"plant#{name}>" not in text, name
    assert part.rows == whole.rows == 2
    assert part.manifest.entities == whole.manifest.entities == ("", "M2", "mill 1")
    assert [bank.params.tolist() for bank in part.banks] == [
        bank.params.tolist() for bank in whole.banks
    ]


@needs_oxigraph
def test_a_pattern_over_any_property_fetches_everything(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint_graph_download, "SMALL", 0)
    rules = RULES.replace("plant:limit ?x ;", "?any ?x FILTER(isNumeric(?x)) ?m")
    part, asked = compiled(rules, server)
    assert "plant#boughtFrom>" in "\n".join(asked)
    assert part.rows == 2


def test_terms_of_rules() -> None:
    def terms(pattern: str) -> object:
        return rule_terms([pattern], [f"SELECT * WHERE {{ {pattern} }}"])

    assert terms("?x ?p ?y") is None
    assert terms("?x !p:a ?y") is None
    for pattern, asks in (("?x a p:C", False), ("?x a ?c", True), ("?x rdf:type ?c", True)):
        found = terms(pattern)
        assert found is not None
        assert found.types is asks  # type: ignore[attr-defined]


@needs_oxigraph
def test_more_than_fits_is_said(
    server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(endpoint_graph_download, "SMALL", 0)
    monkeypatch.setattr(endpoint_graph_download, "MOST", 3)
    found = compile_rules([], text=RULES, graphs=[f"{server}/query"])
    (error,) = [item for item in found.diagnostics if item.code == "FKG140"]
    assert "triples that the rules may need; at most 3 are fetched" in error.message
    assert found.pack is None
