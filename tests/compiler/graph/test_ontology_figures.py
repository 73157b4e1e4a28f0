"""Sizes of the ontologies, against hand counts and the manifest of official files."""

from __future__ import annotations

from pathlib import Path

import pytest
from shared import SHARED, needs_shared

from fedkg_compiler.graph import add_entry
from fedkg_compiler.graph.ontology_statistics import Figures, report_figures

OURS = """@prefix : <https://acme.example/o#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
<https://acme.example/o> a owl:Ontology .
:Mill a owl:Class ; rdfs:label "mill" .
:Saw a owl:Class ; rdfs:subClassOf :Mill , [ a owl:Restriction ; owl:onProperty :cuts ] .
:cuts a owl:ObjectProperty , owl:TransitiveProperty ; rdfs:domain :Saw . :s1 a :Saw .
:Mill owl:disjointWith :Bench .
"""


def row(figures: Figures) -> tuple[int, ...]:
    return (
        figures.concepts,
        figures.classes,
        figures.properties,
        figures.individuals,
        figures.relations,
        figures.axioms,
        figures.constraints,
    )


def test_the_counts_of_a_small_ontology(home: Path, tmp_path: Path) -> None:
    (tmp_path / "o.ttl").write_text(OURS, encoding="utf-8")
    add_entry("acme", str(tmp_path / "o.ttl"), home=home)
    report, problems = report_figures(["acme", "acme"], home=home)
    assert problems == ()
    (acme,) = report.ontologies
    assert row(acme) == row(report.total) == (4, 2, 1, 1, 3, 5, 2)
    assert (acme.name, acme.in_use, acme.matched, acme.unmatched) == ("acme", "added", 0, 4)


def test_our_modules_are_counted_with_what_alignments_match(home: Path) -> None:
    report, problems = report_figures(["isa95", "mason"], home=home)
    assert problems == ()
    assert [figures.name for figures in report.ontologies] == ["isa95", "mason"]
    assert report.total.concepts == sum(figures.concepts for figures in report.ontologies)
    assert report.total.relations > sum(figures.relations for figures in report.ontologies)
    assert all(0 < figures.matched < figures.concepts for figures in report.ontologies)
    assert all(
        figures.matched + figures.unmatched == figures.concepts for figures in report.ontologies
    )


@pytest.mark.slow
@needs_shared
def test_official_files_pass_the_graph_of_the_paper(tmp_path: Path) -> None:
    files = {
        "isa95": "isa95-dinen62264-2/DINEN62264.owl",
        "mason": "mason/mason.owl",
        "schema": "schemaorg/schemaorg-current-https.ttl",
        "amv3": "amontology/AMOntology_v3.owl",
        "b2mml": "isa95-b2mml-0700",
        "opcua": "isa95-opcua/Opc.ISA95.NodeSet2.xml",
    }
    for name, file in files.items():
        record, problems = add_entry(name, str(SHARED / "ontologies" / file), home=tmp_path)
        assert record is not None
        assert problems == ()
    report, problems = report_figures(list(files), home=tmp_path)
    assert problems == ()
    found = {figures.name: figures for figures in report.ontologies}
    assert (found["amv3"].classes, found["amv3"].properties, found["amv3"].individuals) == (
        293,
        22,
        139,
    )
    assert found["b2mml"].individuals == 605
    assert found["b2mml"].classes > 968
    assert report.total.concepts > 5_247
    assert report.total.relations > 12_893
    assert report.total.constraints > 3_000


@needs_shared
@pytest.mark.parametrize(
    ("file", "relations"),
    [
        ("schemaorg/schemaorg-current-https.ttl", 6_552),
        ("mason/mason.owl", 294),
        ("amontology/AMOntology_v3.nt", 719),
    ],
)
def test_relations_of_official_files_are_those_that_are_known(
    tmp_path: Path, file: str, relations: int
) -> None:
    add_entry("official", str(SHARED / "ontologies" / file), home=tmp_path)
    report, _ = report_figures(["official"], home=tmp_path)
    assert abs(report.total.relations - relations) <= 10


def test_what_mappings_bring_about_is_what_holds_by_them_alone() -> None:
    found = report_figures(["mason", "isa95"])[0].entailed
    assert found is not None
    assert ("mason:MachineTool", "rdfs:subClassOf", "fkg-isa95:Equipment") in found.said
    assert ("mason:Lathe", "rdfs:subClassOf", "fkg-isa95:Equipment") in found.follows
    assert not set(found.said) & set(found.follows)
    assert all(
        line[0].startswith(("mason:", "fkg-mason:"))
        and line[2].startswith(("isa95:", "fkg-isa95:"))
        for line in found.follows
    )
    assert found.mappings["rdfs:subClassOf"] == len(found.said)
    assert report_figures(["mason"])[0].entailed is None
    assert report_figures()[0].entailed is None
    far = report_figures(["mason", "ssn"])[0].entailed
    assert far is not None
    assert (far.mappings, far.said, far.follows) == ({}, (), ())
