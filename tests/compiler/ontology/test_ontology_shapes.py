"""`ontologies/shapes/modules.shacl.ttl` over our modules.

Our engine and pySHACL must agree.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyshacl
import pytest
from rdflib import RDF, Graph, Namespace, URIRef

from fedkg_compiler import compile_rules
from fedkg_compiler.ontology import Catalog
from fedkg_compiler.shacl import quiet

SH = Namespace("http://www.w3.org/ns/shacl#")
BAD = """
@prefix ex: <https://example.org/bad#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .

ex:Good a owl:Class ; rdfs:label "good"@en ; rdfs:comment "A class as it should be."@en ;
    fkg:source "Example, 1" .
ex:NoLabel a owl:Class ; rdfs:comment "A class without a label."@en ; fkg:source "Example, 1" .
ex:NoStop a owl:Class ; rdfs:label "no stop"@en ;
    rdfs:comment "A class whose comment does not end"@en ; fkg:source "Example, 1" .
ex:German a owl:Class ; rdfs:label "deutsch"@de ; rdfs:comment "A class in the wrong language."@en ;
    fkg:source "Example, 1" .
ex:NoSource a owl:Class ; rdfs:label "no source"@en ; rdfs:comment "A class without a source."@en .
ex:Foreign a owl:Class ; rdfs:label "foreign"@en ;
    rdfs:comment "A class that claims another home."@en ; fkg:source "Example, 1" ;
    rdfs:isDefinedBy <https://example.org/elsewhere> .
ex:Dangling a owl:Class ; rdfs:label "dangling"@en ; rdfs:comment "A class below none."@en ;
    fkg:source "Example, 1" ;
    rdfs:subClassOf ex:Nowhere .
ex:noDomain a owl:ObjectProperty ; rdfs:label "no domain"@en ;
    rdfs:comment "Leads from what is nowhere."@en ; fkg:source "Example, 1" ;
    rdfs:domain ex:Nowhere .
ex:twoRanges a owl:ObjectProperty ; rdfs:label "two ranges"@en ;
    rdfs:comment "Leads to two at once."@en ; fkg:source "Example, 1" ;
    rdfs:range ex:Good, ex:NoLabel .
ex:number a owl:DatatypeProperty ; rdfs:label "number"@en ;
    rdfs:comment "Gives a number that is a thing."@en ; fkg:source "Example, 1" ;
    rdfs:range ex:Good .
ex:ReasonLess a owl:Axiom ; owl:annotatedSource ex:Good ; owl:annotatedProperty skos:closeMatch ;
    owl:annotatedTarget ex:NoLabel ;
    fkg:source "Example, 1" .
ex:Wayward a owl:Axiom ; owl:annotatedSource ex:Good ; owl:annotatedProperty rdfs:seeAlso ;
    owl:annotatedTarget ex:NoLabel ;
    fkg:justification "A mapping by a predicate that is none of mappings."@en ;
    fkg:source "Example, 1" .
ex:Half a owl:Axiom ; owl:annotatedSource ex:Good ; owl:annotatedProperty skos:closeMatch ;
    owl:annotatedTarget ex:Gone ;
    fkg:justification "A mapping to what nobody defines."@en ; fkg:source "Example, 1" .
"""
WRONG = {
    *("NoLabel", "NoStop", "German", "NoSource", "Foreign", "Dangling"),
    *("noDomain", "twoRanges", "number", "ReasonLess", "Wayward", "Half"),
}


def shapes(catalog: Catalog) -> Path:
    return (catalog.folder / "shapes" / "modules.shacl.ttl").resolve()


def focus_nodes(data: Graph, catalog: Catalog) -> set[str]:
    """The focus nodes that pySHACL reports."""
    with quiet():
        conforms, report, _ = pyshacl.validate(data, shacl_graph=str(shapes(catalog)), inplace=True)
    assert isinstance(report, Graph)
    found = {str(report.value(result, SH.focusNode)) for result in report.objects(None, SH.result)}
    assert conforms == (found == set())
    return found


def own(tmp_path: Path, catalog: Catalog, uses: str, graph: str) -> list[str]:
    """The messages of our own engine on the shapes, with these ontologies and this graph."""
    (tmp_path / "rules.fkg").write_text(f'{uses}\nshapes "{shapes(catalog)}"\n', encoding="utf-8")
    (tmp_path / "plant.ttl").write_text(graph, encoding="utf-8")
    compilation = compile_rules(
        [tmp_path / "rules.fkg"], graphs=[tmp_path / "plant.ttl"], check_only=True, reason=False
    )
    return [problem.message for problem in compilation.diagnostics if problem.severity != "info"]


def test_both_engines_find_the_same_faults(tmp_path: Path, catalog: Catalog) -> None:
    theirs = focus_nodes(Graph().parse(data=BAD, format="turtle"), catalog)
    assert theirs == {f"https://example.org/bad#{name}" for name in WRONG}
    ours = [
        re.search(r"is violated by (\w+)", message) for message in own(tmp_path, catalog, "", BAD)
    ]
    assert {found[1] for found in ours if found is not None} == WRONG


@pytest.mark.slow
def test_all_modules_and_alignments_conform_by_our_own_engine(
    tmp_path: Path, catalog: Catalog
) -> None:
    assert (
        own(tmp_path, catalog, f"use {', '.join(catalog.names())}", BAD.split("ex:Good")[0]) == []
    )


@pytest.mark.slow
def test_all_modules_and_alignments_conform_by_pyshacl(catalog: Catalog) -> None:
    data = Graph()
    for path in sorted(catalog.folder.rglob("*.ttl")):
        if path.parent.name != "shapes":
            data.parse(path)
    assert len(set(data[: RDF.type : URIRef("http://www.w3.org/2002/07/owl#Class")])) > 900
    assert focus_nodes(data, catalog) == set()
