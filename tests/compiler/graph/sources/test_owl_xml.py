"""OWL/XML gives the same triples as the functional syntax.

IRIs are right, and the official files give the triples of their N-Triples versions.
"""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest
from shared import SHARED, needs_shared

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.rdf_reader import Document, read_file, read_rdf
from fedkg_compiler.graph.sources.axiom_trees import resolved

FUNCTIONAL = """Prefix(:=<http://x.org/o#>)
Prefix(xsd:=<http://www.w3.org/2001/XMLSchema#>)
Prefix(rdfs:=<http://www.w3.org/2000/01/rdf-schema#>)
Ontology(<http://x.org/o>
Import(<http://y.org/z>)
Declaration(Class(:A))
EquivalentClasses(:A ObjectMinCardinality(2 :p :B))
SubClassOf(Annotation(rdfs:comment "why"@en) :A ObjectSomeValuesFrom(ObjectInverseOf(:p) :B))
SubObjectPropertyOf(ObjectPropertyChain(:p :q) :r)
DataPropertyRange(:d DatatypeRestriction(xsd:integer xsd:minInclusive "5"^^xsd:integer))
ClassAssertion(:A _:x)
AnnotationAssertion(rdfs:label :A "a")
HasKey(:A (:p) (:d))
)
"""
HEAD = """<?xml version="1.0"?>
<Ontology xmlns="http://www.w3.org/2002/07/owl#" xml:base="http://x.org/o" \
ontologyIRI="http://x.org/o">
<Prefix name="" IRI="http://x.org/o#"/>\
<Prefix name="rdfs" IRI="http://www.w3.org/2000/01/rdf-schema#"/>
"""
XSD = "http://www.w3.org/2001/XMLSchema#"
AXIOMS = f"""<Import>http://y.org/z</Import>
<Declaration><Class IRI="#A"/></Declaration>
<EquivalentClasses><Class IRI="#A"/><ObjectMinCardinality cardinality="2">
<ObjectProperty abbreviatedIRI=":p"/><Class IRI="#B"/>
</ObjectMinCardinality></EquivalentClasses>
<SubClassOf><Annotation><AnnotationProperty abbreviatedIRI="rdfs:comment"/>
<Literal xml:lang="en">why</Literal></Annotation>
<Class IRI="#A"/><ObjectSomeValuesFrom>
<ObjectInverseOf><ObjectProperty IRI="#p"/></ObjectInverseOf><Class IRI="#B"/>
</ObjectSomeValuesFrom></SubClassOf>
<SubObjectPropertyOf>
<ObjectPropertyChain><ObjectProperty IRI="#p"/><ObjectProperty IRI="#q"/></ObjectPropertyChain>
<ObjectProperty IRI="#r"/></SubObjectPropertyOf>
<DataPropertyRange><DataProperty IRI="#d"/><DatatypeRestriction><Datatype IRI="{XSD}integer"/>
<FacetRestriction facet="{XSD}minInclusive"><Literal datatypeIRI="{XSD}integer">5</Literal>
</FacetRestriction></DatatypeRestriction></DataPropertyRange>
<ClassAssertion><Class IRI="#A"/><AnonymousIndividual nodeID="_:x"/></ClassAssertion>
<AnnotationAssertion><AnnotationProperty abbreviatedIRI="rdfs:label"/>
<IRI>#A</IRI><Literal>a</Literal></AnnotationAssertion>
<HasKey><Class IRI="#A"/><ObjectProperty IRI="#p"/><DataProperty IRI="#d"/></HasKey>
"""


def read(text: str, name: str) -> tuple[Document, tuple[Diagnostic, ...]]:
    document, problems = read_rdf(text.encode(), file=name)
    assert document is not None
    return document, problems


def test_both_syntaxes_say_the_same() -> None:
    xml, problems = read(f"{HEAD}{AXIOMS}</Ontology>", "o.owx")
    functional, others = read(FUNCTIONAL, "o.ofn")
    assert problems == others == ()
    assert set(xml.triples) == set(functional.triples)
    assert xml.imports == functional.imports == ("http://y.org/z",)


@pytest.mark.parametrize(
    ("iri", "base", "whole"),
    [
        ("#A", "http://x.org/o", "http://x.org/o#A"),
        ("A", "http://x.org/o#", "http://x.org/o#A"),
        ("#A", "http://x.org/o#", "http://x.org/o#A"),
        ("A", "http://x.org/o/", "http://x.org/o/A"),
        ("A", "http://x.org/o", "http://x.org/A"),
        ("urn:a:b", "http://x.org/o", "urn:a:b"),
        ("", "http://x.org/o#", "http://x.org/o"),
    ],
)
def test_relative_names_keep_their_namespace(iri: str, base: str, whole: str) -> None:
    assert resolved(iri, base) == whole


@pytest.mark.parametrize(
    ("axiom", "words"),
    [
        ('<SubClassOf><Class IRI="#A"/></SubClassOf>', "`SubClassOf` has 2 parts"),
        ('<SubClassOf><Class IRI="#A"/><Class IRI="http://x y"/></SubClassOf>', "is not an IRI"),
        (
            '<SubClassOf><Class IRI="#A"/><Class abbreviatedIRI="zz:B"/></SubClassOf>',
            "the prefix `zz:` is not declared",
        ),
        (
            '<SubClassOf><Class IRI="#A"/><ObjectMinCardinality cardinality="-1"/></SubClassOf>',
            "`-1` is not a cardinality",
        ),
        ("<Frobnicate/>", "`Frobnicate` is not an axiom of OWL 2"),
        ("<DLSafeRule><Head/><Body/></DLSafeRule>", "`DLSafeRule` has a `Body` and a `Head`"),
    ],
)
def test_a_mistake_costs_its_axiom_alone(axiom: str, words: str) -> None:
    document, problems = read(
        f'{HEAD}{axiom}<Declaration><Class IRI="#C"/></Declaration></Ontology>', "o.owx"
    )
    assert [(problem.span.file, problem.span.line) for problem in problems] == [("o.owx", 4)]
    assert words in problems[0].message
    assert len(document.triples) == 2


def test_half_a_file_gives_what_came_before() -> None:
    document, problems = read(
        f'{HEAD}<Declaration><Class IRI="#C"/></Declaration>\n<Declaration><Cla', "o.owx"
    )
    assert [(problem.code, problem.span.line) for problem in problems] == [("FKG103", 5)]
    assert len(document.triples) == 2


def test_owlready2_reads_the_same_of_axioms_without_annotations(tmp_path: Path) -> None:
    owlready2 = pytest.importorskip("owlready2")
    axioms = (
        AXIOMS[AXIOMS.index("<Declaration>") : AXIOMS.index("<SubClassOf>")]
        + AXIOMS[AXIOMS.index("<SubObjectPropertyOf>") :]
    )
    text = (
        HEAD
        + axioms[: axioms.index("<ClassAssertion>")].replace('"#', '"http://x.org/o#')
        + "</Ontology>"
    )
    path = tmp_path / "o.owx"
    path.write_text(text, encoding="utf-8")
    world = owlready2.World()
    world.get_ontology(path.as_uri()).load()
    theirs, _ = read_rdf(world.as_rdflib_graph().serialize(format="nt").encode(), file="o.nt")
    ours, _ = read(text, "o.owx")
    assert theirs is not None
    added = "http://anonymous"
    assert {line for line in shape(theirs) if added not in line} == shape(ours)


@needs_shared
@pytest.mark.parametrize("name", ["AMOntology_v3", "Laser-Thermal-Mircostructure"])
def test_official_files_give_the_triples_that_are_known_of_them(name: str) -> None:
    folder = SHARED / "ontologies" / "amontology"
    document, problems = read_file(folder / f"{name}.owl")
    expected, _ = read_file(folder / f"{name}.nt")
    assert document is not None
    assert expected is not None
    assert problems == ()
    assert shape(document) == shape(expected)


def shape(document: Document) -> set[str]:
    """The triples, with plain texts without their datatype, and blank nodes named by their
    triples.
    """
    found = ox.Dataset(
        ox.Quad(quad.subject, quad.predicate, plain(quad.object)) for quad in document.triples
    )
    found.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return {str(quad) for quad in found}


def plain(
    node: ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple,
) -> ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple:
    if isinstance(node, ox.Literal) and node.datatype.value.endswith("#PlainLiteral"):
        return ox.Literal(node.value)
    return node
