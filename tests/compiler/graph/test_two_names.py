"""Schema.org under `http:` and `https:`: one term by either name."""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_cases import HERE

from fedkg_compiler import compile_rules
from fedkg_compiler.graph import Catalog, load_graph
from fedkg_compiler.graph.rdf_terms import Iri
from fedkg_compiler.input_files import data_folder

SHOP = """@prefix shop: <https://example.org/shop#> .
@prefix schema: <http://schema.org/> .
shop:bolt a schema:Product ; schema:weight 0.02 ; schema:availability schema:InStock .
"""
NEWER = "https://schema.org/"


def test_what_a_graph_says_with_the_older_name_is_found_with_the_newer(catalog: Catalog) -> None:
    graph, problems, _ = load_graph(
        [("schema", HERE)], {}, [], catalog=catalog, text_graphs=[("shop.ttl", SHOP)]
    )
    assert (
        graph.instances(f"{NEWER}Product")
        == graph.instances("http://schema.org/Product")
        == ["https://example.org/shop#bolt"]
    )
    [note] = problems
    assert (note.code, note.severity, note.span.file, note.span.line) == (
        "FKG117",
        "info",
        "shop.ttl",
        2,
    )
    for space in (NEWER, "http://schema.org/"):
        found, problems = graph.select(
            f"?x <{space}weight> ?w ; <{space}availability> ?state", ["state"], span=HERE
        )
        assert problems == ()
        assert (Iri(f"{space}InStock"),) in found


def test_what_a_graph_says_with_the_newer_name_is_found_with_the_older(catalog: Catalog) -> None:
    shapes = (
        "@prefix sh: <http://www.w3.org/ns/shacl#> . [] sh:targetClass "
        "<http://schema.org/Product> ."
    )
    both = [("shop.ttl", SHOP.replace("http://schema", "https://schema")), ("shapes.ttl", shapes)]
    graph, problems, _ = load_graph([], {}, [], catalog=catalog, text_graphs=both)
    assert graph.instances("http://schema.org/Product") == ["https://example.org/shop#bolt"]
    assert [item.code for item in problems] == ["FKG117"]


def test_names_outside_schema_org_are_unchanged(catalog: Catalog) -> None:
    more = "<http://schema.org/validation#S#T> a <http://schema.org/> ."
    graph, _, _ = load_graph(
        [("schema", HERE)], {}, [], catalog=catalog, text_graphs=[("shop.ttl", SHOP + more)]
    )
    assert len(graph.instances("http://schema.org/")) == 1
    assert graph.instances(NEWER) == []


def test_nothing_is_said_where_only_one_name_is_used(catalog: Catalog) -> None:
    for text in (SHOP, SHOP.replace("http://schema", "https://schema")):
        _, problems, _ = load_graph([], {}, [], catalog=catalog, text_graphs=[("shop.ttl", text)])
        assert problems == ()


@pytest.mark.parametrize("name", ["dates", "facts", "quantities", "ranges"])
def test_the_library_fits_graphs_of_either_name(name: str, tmp_path: Path) -> None:
    text = (
        (data_folder("rules") / "schemaorg" / f"{name}.ttl")
        .read_text(encoding="utf-8")
        .replace("price 12.5", "price -12.5")
    )
    found = []
    for space in (NEWER, "http://schema.org/"):
        (tmp_path / "shop.ttl").write_text(text.replace(NEWER, space), encoding="utf-8")
        compilation = compile_rules(
            text=f"use rules schemaorg.{name}\n", graphs=[tmp_path / "shop.ttl"]
        )
        assert compilation.pack is not None
        said = [item.message for item in compilation.diagnostics if item.code != "FKG117"]
        rules = [rule.name for rule in compilation.pack.manifest.rules]
        found.append((said, rules, [bank.rows for bank in compilation.pack.banks]))
    assert found[0] == found[1]
