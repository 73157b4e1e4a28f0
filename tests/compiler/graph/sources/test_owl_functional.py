"""Functional syntax: every construct becomes the triples of the OWL 2 mapping.

A mistake affects only its axiom.
"""

from __future__ import annotations

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.rdf_reader import Document, read_rdf

HEAD = """Prefix(:=<http://x.org/o#>)
Prefix(owl:=<http://www.w3.org/2002/07/owl#>)
Prefix(xsd:=<http://www.w3.org/2001/XMLSchema#>)
Prefix(rdfs:=<http://www.w3.org/2000/01/rdf-schema#>)
Ontology(<http://x.org/o> <http://x.org/o/1>
"""
TURTLE = """@prefix : <http://x.org/o#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
<http://x.org/o> a owl:Ontology ; owl:versionIRI <http://x.org/o/1> .
"""


def read(axioms: str) -> tuple[Document, tuple[Diagnostic, ...]]:
    document, problems = read_rdf(f"{HEAD}{axioms}\n)".encode(), file="o.ofn")
    assert document is not None
    return document, problems


def canonical(document: Document) -> set[str]:
    """The triples, with blank nodes named by their triples."""
    triples = ox.Dataset(document.triples)
    triples.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return {str(quad) for quad in triples}


@pytest.mark.parametrize(
    ("axiom", "turtle"),
    [
        ("Declaration(Class(:A))", ":A a owl:Class ."),
        ("Declaration(DataProperty(:p))", ":p a owl:DatatypeProperty ."),
        ("Declaration(Datatype(:d))", ":d a rdfs:Datatype ."),
        ("Declaration(NamedIndividual(:i))", ":i a owl:NamedIndividual ."),
        ("SubClassOf(:A :B)", ":A rdfs:subClassOf :B ."),
        (
            (
                "SubClassOf(:A ObjectSomeValuesFrom(:p ObjectIntersectionOf(:B "
                "ObjectComplementOf(:C))))"
            ),
            (
                ":A rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :p ; owl:someValuesFrom"
                " [ a owl:Class ; owl:intersectionOf ( :B [ a owl:Class ; owl:complementOf "
                ":C ] ) ] ] ."
            ),
        ),
        (
            "EquivalentClasses(:A :B ObjectOneOf(:i :j))",
            (
                ":A owl:equivalentClass :B . :B owl:equivalentClass [ a owl:Class ; owl:oneOf "
                "( :i :j ) ] ."
            ),
        ),
        (
            "SubClassOf(:A ObjectMinCardinality(2 :p :B))",
            (
                ":A rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :p ; owl:onClass :B ;"
                ' owl:minQualifiedCardinality "2"^^xsd:nonNegativeInteger ] .'
            ),
        ),
        (
            "SubClassOf(:A DataExactCardinality(1 :q))",
            (
                ":A rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :q ; owl:cardinality"
                ' "1"^^xsd:nonNegativeInteger ] .'
            ),
        ),
        (
            (
                "SubClassOf(:A DataAllValuesFrom(:q DatatypeRestriction(xsd:integer"
                ' xsd:minInclusive "5"^^xsd:integer)))'
            ),
            (
                ":A rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :q ; owl:allValuesFrom [ a"
                " rdfs:Datatype ; owl:onDatatype xsd:integer ; owl:withRestrictions ( ["
                ' xsd:minInclusive "5"^^xsd:integer ] ) ] ] .'
            ),
        ),
        (
            "SubClassOf(:A ObjectHasSelf(:p))",
            ":A rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :p ; owl:hasSelf true ] .",
        ),
        ("DisjointClasses(:A :B)", ":A owl:disjointWith :B ."),
        ("DisjointClasses(:A :B :C)", "[ a owl:AllDisjointClasses ; owl:members ( :A :B :C ) ] ."),
        ("DifferentIndividuals(:a :b :c)", "[ a owl:AllDifferent ; owl:members ( :a :b :c ) ] ."),
        ("DisjointUnion(:A :B :C)", ":A owl:disjointUnionOf ( :B :C ) ."),
        (
            "SubObjectPropertyOf(ObjectPropertyChain(:p :q) :r)",
            ":r owl:propertyChainAxiom ( :p :q ) .",
        ),
        ("InverseObjectProperties(:p :q)", ":p owl:inverseOf :q ."),
        ("ObjectPropertyDomain(ObjectInverseOf(:p) :A)", "[ owl:inverseOf :p ] rdfs:domain :A ."),
        ("TransitiveObjectProperty(:p)", ":p a owl:TransitiveProperty ."),
        ("HasKey(:A (:p) (:q))", ":A owl:hasKey ( :p :q ) ."),
        ("ObjectPropertyAssertion(ObjectInverseOf(:p) :a :b)", ":b :p :a ."),
        ("ClassAssertion(:A _:x)", "[ a :A ] ."),
        (
            'NegativeDataPropertyAssertion(:q :a "5"^^xsd:integer)',
            (
                "[ a owl:NegativePropertyAssertion ; owl:assertionProperty :q ; "
                "owl:sourceIndividual :a ; owl:targetValue 5 ] ."
            ),
        ),
        ('AnnotationAssertion(rdfs:label :A "M\\"ühle\\""@de)', ':A rdfs:label "M\\"ühle\\""@de .'),
        (
            'SubClassOf(Annotation(rdfs:comment "why") :A :B)',
            (
                ":A rdfs:subClassOf :B . [ a owl:Axiom ; owl:annotatedSource :A ; "
                "owl:annotatedProperty rdfs:subClassOf ;"
                ' owl:annotatedTarget :B ; rdfs:comment "why" ] .'
            ),
        ),
        ('Annotation(rdfs:label "the plant")', '<http://x.org/o> rdfs:label "the plant" .'),
        ("Import(<http://y.org/z>)", "<http://x.org/o> owl:imports <http://y.org/z> ."),
        ("# a comment ( with <parentheses>\nSubClassOf(:A :B)", ":A rdfs:subClassOf :B ."),
    ],
)
def test_each_construct_is_mapped_as_the_standard_says(axiom: str, turtle: str) -> None:
    document, problems = read(axiom)
    expected, _ = read_rdf((TURTLE + turtle).encode(), file="o.ttl")
    assert problems == ()
    assert expected is not None
    assert canonical(document) == canonical(expected)


@pytest.mark.parametrize(
    ("axiom", "line", "words"),
    [
        ("SubClassOf(:A zz:B)", 6, "the prefix `zz:` is not declared"),
        ("SubClassOf(:A)", 6, "`SubClassOf` has 2 parts, and here 1"),
        ("SubClassOf(:A ObjectSomeValuesFrom(:p))", 6, "`ObjectSomeValuesFrom` has 2 parts"),
        ("Frobnicate(:A :B)", 6, "`Frobnicate` is not an axiom of OWL 2"),
        ("SubClassOf(:A Frobnicate(:B))", 6, "`Frobnicate` is not an expression of OWL 2"),
        ("SubClassOf(:A <http://x y>)", 6, "<http://x y> is not an IRI"),
        ("DLSafeRule(Body(:A) Head())", 6, "a part of `DLSafeRule` is not an atom"),
        ('ClassAssertion(:A "text")', 6, "statements about the text are not possible"),
        (
            "SubClassOf(:A " + "ObjectComplementOf(" * 500 + ":B" + ")" * 500 + ")",
            6,
            "nested more than",
        ),
    ],
)
def test_a_mistake_costs_its_axiom_and_names_its_place(axiom: str, line: int, words: str) -> None:
    document, problems = read(f"{axiom}\nSubClassOf(:C :D)")
    assert [(problem.span.file, problem.span.line) for problem in problems] == [("o.ofn", line)]
    assert words in problems[0].message
    assert len(document.triples) == 3


def test_a_missing_parenthesis_costs_its_axiom_alone() -> None:
    document, problems = read(
        "SubClassOf(:A ObjectSomeValuesFrom(:p :B)\nDeclaration(Class(:C))\nSubClassOf(:C :D)"
    )
    assert [(p.span.line, p.message) for p in problems] == [
        (6, "`SubClassOf` is not closed where the next axiom begins")
    ]
    assert len(document.triples) == 4  # of the ontology itself two


def test_half_a_file_gives_what_came_before() -> None:
    document, problems = read_rdf(
        f"{HEAD}SubClassOf(:A :B)\nSubClassOf(:C Object".encode(), file="o.ofn"
    )
    assert document is not None
    assert [(p.code, p.span.line, p.span.column) for p in problems] == [("FKG103", 7, 1)]
    assert "ends before the part" in problems[0].message
    assert len(document.triples) == 3


def test_prefixes_and_imports_are_those_of_the_file() -> None:
    document, _ = read("Import(<http://y.org/z>)")
    assert document.prefixes[""] == "http://x.org/o#"
    assert document.imports == ("http://y.org/z",)


@tries(60)
@given(st.data())
def test_no_file_makes_the_reader_crash(data: st.DataObject) -> None:
    text = (
        f'{HEAD}SubClassOf(Annotation(rdfs:comment "a"@en) :A ObjectMaxCardinality(1'
        " :p))\nHasKey(:A (:p) ())\n)"
    )
    body = bytearray(text.encode())
    for _ in range(data.draw(st.integers(0, 5))):
        at = data.draw(st.integers(0, max(0, len(body) - 1)))
        if data.draw(st.booleans()):
            del body[at : at + data.draw(st.integers(1, 30))]
        else:
            body[at:at] = data.draw(
                st.sampled_from(
                    [b"(", b")", b'"', b"<", b"^^", b"@de", b"=", b"7", b"_:x", b"Prefix("]
                )
            )
    document, problems = read_rdf(bytes(body), file="o.ofn")
    assert document is not None or problems != ()
