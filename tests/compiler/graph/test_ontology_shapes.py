"""`ontologies/shapes/modules.shacl.ttl` over our modules.

Our engine and pySHACL must agree.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyoxigraph as ox
import pyshacl
import pytest
from rdflib import RDF, Graph, Namespace, URIRef

from fedkg_compiler import compile_rules
from fedkg_compiler.frontends.shacl.shapes_graph_reader import quiet
from fedkg_compiler.graph import Catalog
from fedkg_compiler.graph.rdf_reader import read_file

SH = Namespace("http://www.w3.org/ns/shacl#")
BAD = """
@prefix ex: <https://example.org/bad#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix semapv: <https://w3id.org/semapv/vocab/> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix sssom: <https://w3id.org/sssom/> .
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
"""
METADATA = """sssom:mapping_justification semapv:ManualMappingCuration ; sssom:confidence 0.9 ;
    sssom:mapping_date "2026-11-29"^^xsd:date ; sssom:author_label "Somebody" ."""
MAPPINGS = {
    "Right": ("skos:closeMatch", "ex:NoLabel", "A mapping as it should be.", METADATA),
    "ReasonLess": ("skos:closeMatch", "ex:NoLabel", "", METADATA),
    "Wayward": ("rdfs:seeAlso", "ex:NoLabel", "By a predicate of another kind.", METADATA),
    "Half": ("skos:closeMatch", "ex:Gone", "A mapping to what nobody defines.", METADATA),
    "Unjustified": (
        *("skos:closeMatch", "ex:NoLabel", "A mapping without a method."),
        METADATA.replace("semapv:ManualMappingCuration", "ex:byFeeling"),
    ),
    "TooSure": (
        *("skos:closeMatch", "ex:NoLabel", "A mapping that is too sure."),
        METADATA.replace("0.9", "1.9"),
    ),
}
BAD += "".join(
    f"ex:{name} a owl:Axiom ; owl:annotatedSource ex:Good ; owl:annotatedProperty {predicate} ; "
    f"owl:annotatedTarget {target} ; "
    + (f'rdfs:comment "{comment}"@en ; ' if comment else "")
    + f"{metadata}\n"
    for name, (predicate, target, comment, metadata) in MAPPINGS.items()
)
WRONG = {
    *("NoLabel", "NoStop", "German", "NoSource", "Foreign", "Dangling"),
    *("noDomain", "twoRanges", "number"),
    *(set(MAPPINGS) - {"Right"}),
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
    for path in sorted(catalog.folder.rglob("*.t[ts][lv]")):
        if path.parent.name != "shapes":
            document, _ = read_file(path)
            assert document is not None
            body = ox.serialize(
                (quad.triple for quad in document.triples), format=ox.RdfFormat.N_TRIPLES
            )
            data.parse(data=body, format="nt")
    assert len(set(data[: RDF.type : URIRef("http://www.w3.org/2002/07/owl#Class")])) > 900
    assert focus_nodes(data, catalog) == set()
