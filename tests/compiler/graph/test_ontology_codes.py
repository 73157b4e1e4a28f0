"""Each code of this area has a failing case with its message and explanation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from graph_cases import HERE, header, plant_graph

from fedkg_compiler.diagnostics import CODES
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import Catalog, add_entry, load_graph
from fedkg_compiler.graph.rdf_reader import read_rdf
from fedkg_compiler.graph.reasoning import facts

Problems = tuple[Diagnostic, ...]
Case = Callable[[Catalog, Path], Problems]


def loaded(
    catalog: Catalog, uses: tuple[str, ...] = (), prefix: str = "", text: str = ""
) -> Problems:
    prefixes = {"p": (prefix, HERE)} if prefix else {}
    graphs = [("p.ttl", header(catalog) + text)] if text else []
    return load_graph(
        [(name, HERE) for name in uses], prefixes, [], catalog=catalog, text_graphs=graphs
    )[1]


def asked(catalog: Catalog, where: str) -> Problems:
    return plant_graph(catalog).select(where, ["x"], span=HERE)[1]


def named(catalog: Catalog, text: str) -> Problems:
    return plant_graph(catalog).resolve(text, "pname" if ":" in text else "name", HERE)[1]


def added(folder: Path, name: str, text: str, sha256: str | None = None) -> Problems:
    path = folder / "x.ttl"
    path.write_text(text, encoding="utf-8")
    return add_entry(name, str(path), sha256, home=folder)[1]


def without_room(catalog: Catalog) -> Problems:
    with patch.object(facts, "MOST_PAIRS", 0):
        return loaded(catalog)


def twice(catalog: Catalog) -> Problems:
    texts = [
        (f"{name}.ttl", header(catalog) + f'<http://x#M> a owl:Class ; rdfs:label "{label}" .')
        for name, label in (("p", "mill"), ("q", "machine"))
    ]
    return load_graph([], {}, [], catalog=catalog, text_graphs=texts)[1]


BOMB = '<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a SYSTEM "b">]><r>&a;</r>'
SCHEMA = (
    '<schema xmlns="http://www.w3.org/2001/XMLSchema" xmlns:x="http://x"'
    ' targetNamespace="http://x"><complexType name="A"><sequence><element name="t"'
    ' type="x:ToolTyp"/></sequence></complexType></schema>'
)
TRIPLE = "<http://a> <http://b> 1 ."
TRIPLE_SHA = hashlib.sha256(TRIPLE.encode()).hexdigest()

CASES: dict[str, tuple[str, Case]] = {
    "FKG100": ("no ontology is named `isa59`", lambda c, _: loaded(c, ("isa59",))),
    "FKG101": (
        "no.ttl cannot be read: there is no such file",
        lambda c, _: load_graph([], {}, [Path("no.ttl")], catalog=c)[1],
    ),
    "FKG102": (
        "a.ttl is not RDF but a web page (HTML)",
        lambda _c, _: read_rdf(b"<!DOCTYPE html>", file="a.ttl")[1],
    ),
    "FKG103": (
        "the prefix `x:` is not declared in this file",
        lambda _c, _: read_rdf(b"x:a <http://b> 1 .", file="a.ttl")[1],
    ),
    "FKG104": (
        "<a b> is not an IRI; statements about it are left out",
        lambda _c, _: read_rdf(b"<a b> <http://b> 1 .", file="a.ttl")[1],
    ),
    "FKG105": (
        "the import of <http://x> is not followed",
        lambda c, _: loaded(c, text="<http://y> owl:imports <http://x> ."),
    ),
    "FKG106": (
        "x.ttl is not the file that was meant: its SHA-256 is",
        lambda _c, folder: added(folder, "mason", TRIPLE),
    ),
    "FKG107": (
        "the entity &a; points outside the file",
        lambda _c, _: read_rdf(BOMB.encode(), file="a.rdf")[1],
    ),
    "FKG108": ("<plant#> is not an IRI", lambda c, _: loaded(c, prefix="plant#")),
    "FKG109": (
        "no graph has terms in <http://www.w3.org/ns/sosa>, but in <http://www.w3.org/ns/sosa/>",
        lambda c, _: loaded(c, prefix="http://www.w3.org/ns/sosa"),
    ),
    "FKG110": ("the prefix `masn:` is not known", lambda c, _: named(c, "masn:Tool")),
    "FKG111": ("mason has no term `Tol`", lambda c, _: named(c, "mason:Tol")),
    "FKG112": ("the graph does not use `plant:Torque`", lambda c, _: named(c, "plant:Torque")),
    "FKG113": (
        "no loaded ontology or graph has a term `CuttingTol`",
        lambda c, _: named(c, "CuttingTol"),
    ),
    "FKG114": ("`Site` may be mason:Site or isa95:Site", lambda c, _: named(c, "Site")),
    "FKG115": (
        "isa95 has no term `isa95:WorkUnt`",
        lambda c, _: loaded(c, ("isa95",), text="plant:a a isa95:WorkUnt ."),
    ),
    "FKG116": (
        "says nothing about mason",
        lambda _c, folder: added(folder, "mason", TRIPLE, TRIPLE_SHA),
    ),
    "FKG117": (
        "terms of <http://schema.org/> are taken as those of <https://schema.org/>",
        lambda c, _: loaded(c, ("schema",), text="<http://x> a <http://schema.org/Offer> ."),
    ),
    "FKG119": ('<http://x#M> is "machine" here, and "mill" in p.ttl', lambda c, _: twice(c)),
    "FKG120": (
        "<http://x#p> is declared to be an object property and a data property",
        lambda c, _: loaded(c, text="<http://x#p> a owl:ObjectProperty, owl:DatatypeProperty ."),
    ),
    "FKG121": (
        "no schema defines the type `x:ToolTyp`",
        lambda _c, _: read_rdf(SCHEMA.encode(), file="a.xsd")[1],
    ),
    "FKG124": (
        "the status of a proposed mapping is 'maybe'",
        lambda c, _: loaded(
            c,
            text=(
                "@prefix fkg: <https://w3id.org/fedkg/ns#> . [] a fkg:ProposedMapping ; "
                "fkg:mappingStatus 'maybe' ."
            ),
        ),
    ),
    "FKG122": (
        "the file has no metadata",
        lambda _c, _: read_rdf(b"subject_id\tpredicate_id\n", file="m.sssom.tsv")[1],
    ),
    "FKG118": ("more than 0 triples follow from the graphs", lambda c, _: without_room(c)),
    "FKG150": (
        "the pattern is not SPARQL at `Site`: an object is expected",
        lambda c, _: asked(c, "?x a Site"),
    ),
    "FKG151": (
        "the variable ?x does not occur in the pattern",
        lambda c, _: asked(c, "?y a isa95:Site"),
    ),
    "FKG152": (
        "a pattern reads only the loaded graph; fedkg does not ask other servers (SERVICE)",
        lambda c, _: asked(c, "SERVICE <http://x/> { ?x ?y ?z }"),
    ),
    "FKG153": (
        "NOW() gives another value each time",
        lambda c, _: asked(c, "?x ?y ?z FILTER(?z < NOW())"),
    ),
    "FKG154": (
        "the pattern is nested 100 deep; at most 64 are read",
        lambda c, _: asked(c, "{" * 100 + "?x a ?y" + "}" * 100),
    ),
}


@pytest.mark.parametrize("code", sorted(CASES))
def test_each_code_is_said_as_it_is_meant(code: str, catalog: Catalog, tmp_path: Path) -> None:
    words, case = CASES[code]
    problems = case(catalog, tmp_path)
    assert [problem.code for problem in problems] == [code]
    assert words in problems[0].message


def test_every_code_has_a_case_and_a_page() -> None:
    mine = {
        code: page
        for code, page in CODES.items()
        if "FKG100" <= code < "FKG125" or "FKG150" <= code < "FKG170"
    }
    assert set(CASES) == set(mine)
    assert all(code.title and len(code.page.split("\n\n")) >= 2 for code in mine.values())
