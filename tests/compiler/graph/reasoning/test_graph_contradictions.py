"""Each kind of contradiction is found and reported with its statements.

Consistent graphs give no report.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_cases import header

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import Catalog, load_graph
from fedkg_compiler.graph.contradictions import _WORDS
from fedkg_compiler.graph.reasoning import rule_table

A = "[ a owl:Restriction ; owl:onProperty plant:p ; "
CASES: dict[str, tuple[str, str, int]] = {
    "eq-diff1": (
        "plant:a owl:sameAs plant:b . plant:a owl:differentFrom plant:b .",
        "plant:a and plant:b are one thing",
        2,
    ),
    "eq-diff2": (
        "[] a owl:AllDifferent ; owl:members ( plant:a plant:b ) . plant:a owl:sameAs plant:b .",
        "are stated to be different",
        3,
    ),
    "eq-diff3": (
        (
            "[] a owl:AllDifferent ; owl:distinctMembers ( plant:a plant:b ) . plant:a "
            "owl:sameAs plant:b ."
        ),
        "are stated to be different",
        3,
    ),
    "prp-irp": (
        "plant:p a owl:IrreflexiveProperty . plant:a plant:p plant:a .",
        "plant:a has plant:p to itself",
        2,
    ),
    "prp-asyp": (
        "plant:p a owl:AsymmetricProperty . plant:a plant:p plant:b . plant:b plant:p plant:a .",
        "which cannot both be",
        3,
    ),
    "prp-pdw": (
        "plant:p owl:propertyDisjointWith plant:q . plant:a plant:p plant:b ; plant:q plant:b .",
        "both plant:p and plant:q",
        3,
    ),
    "prp-adp": (
        (
            "[] a owl:AllDisjointProperties ; owl:members ( plant:p plant:q ) . plant:a "
            "plant:p plant:b ; plant:q plant:b ."
        ),
        "to plant:b, which cannot both be",
        4,
    ),
    "prp-npa1": (
        (
            "[] owl:sourceIndividual plant:a ; owl:assertionProperty plant:p ; "
            "owl:targetIndividual plant:b . plant:a plant:p plant:b ."
        ),
        "plant:a has plant:p to plant:b, but is stated not to",
        4,
    ),
    "prp-npa2": (
        (
            "[] owl:sourceIndividual plant:a ; owl:assertionProperty plant:p ; owl:targetValue "
            "5 . plant:a plant:p 5 ."
        ),
        'plant:a has plant:p "5", but is stated not to',
        4,
    ),
    "cls-nothing2": (
        "plant:C rdfs:subClassOf owl:Nothing . plant:a a plant:C .",
        "plant:a is of a class that has no members",
        2,
    ),
    "cls-com": (
        "plant:C owl:complementOf plant:D . plant:a a plant:C , plant:D .",
        "is of plant:C and of plant:D",
        3,
    ),
    "cls-maxc1": (
        f"plant:a plant:p plant:b ; a {A} owl:maxCardinality 0 ] .",
        "plant:a has plant:p, but can have none",
        4,
    ),
    "cls-maxqc1": (
        (
            f"plant:b a plant:C . plant:a plant:p plant:b ; a {A} owl:maxQualifiedCardinality "
            "0 ; owl:onClass plant:C ] ."
        ),
        "plant:a has plant:p to a plant:C",
        6,
    ),
    "cls-maxqc2": (
        (
            f"plant:a plant:p plant:b ; a {A} owl:maxQualifiedCardinality 0 ; owl:onClass "
            "owl:Thing ] ."
        ),
        "plant:a has plant:p, but can have none",
        5,
    ),
    "cax-dw": (
        "plant:C owl:disjointWith plant:D . plant:a a plant:C , plant:D .",
        "plant:a is of plant:C and of plant:D",
        3,
    ),
    "cax-adc": (
        (
            "[] a owl:AllDisjointClasses ; owl:members ( plant:C plant:D ) . plant:a a plant:C "
            ", plant:D ."
        ),
        "is of",
        4,
    ),
    "dt-diff": (
        "plant:p a owl:FunctionalProperty . plant:a plant:p 3 , 4 .",
        '"3" and "4" have to be one value',
        3,
    ),
}


def contradictions(catalog: Catalog, text: str, client: str = "") -> list[Diagnostic]:
    graph, problems, _ = load_graph(
        [],
        {},
        [],
        catalog=catalog,
        text_graphs=[("plant.ttl", header(catalog) + text)],
        client=client,
    )
    assert len(graph)
    return [problem for problem in problems if problem.code != "FKG115"]


@pytest.mark.parametrize("rule", sorted(CASES))
def test_each_contradiction_is_reported_with_what_brings_it_about(
    rule: str, catalog: Catalog
) -> None:
    text, words, statements = CASES[rule]
    (found,) = contradictions(catalog, text)
    assert (found.code, found.severity) == ("FKG125", "warning")
    assert words in found.message
    assert f"({rule})" in found.message
    line = header(catalog).count("\n") + 1
    assert {found.span.file, *(one.span.file for one in found.related)} == {"plant.ttl"}
    assert {found.span.line, *(one.span.line for one in found.related)} == {line}
    assert 1 + len(found.related) == statements


def test_every_rule_that_contradicts_has_its_words_and_its_case() -> None:
    names = {rule.name for rule in rule_table.rules(rule_table.CLASHES)}
    assert names == {*_WORDS} == {*CASES}


@pytest.mark.parametrize(
    "text",
    [
        "plant:p a owl:FunctionalProperty . plant:a plant:p 3 , 3.0 .",
        "plant:C owl:disjointWith plant:D . plant:a a plant:C . plant:b a plant:D .",
        "plant:p a owl:AsymmetricProperty . plant:a plant:p plant:b .",
        f"plant:a a {A} owl:maxCardinality 0 ] .",
        "plant:a owl:differentFrom plant:b .",
    ],
)
def test_nothing_is_told_where_nothing_contradicts(text: str, catalog: Catalog) -> None:
    assert contradictions(catalog, text) == []


def test_members_of_one_pair_of_classes_are_reported_together(catalog: Catalog) -> None:
    members = " ".join(f"plant:m{i} a plant:C , plant:D ." for i in range(30))
    (found,) = contradictions(catalog, f"plant:C owl:disjointWith plant:D . {members}")
    assert "the same statements about terms cause 29 more" in found.help


def test_the_justification_is_the_least_and_in_the_order_of_the_files(
    catalog: Catalog, tmp_path: Path
) -> None:
    terms, plant = tmp_path / "a_terms.ttl", tmp_path / "b_plant.ttl"
    head = header(catalog)
    terms.write_text(
        head + "plant:Big rdfs:subClassOf plant:Mill .\nplant:Mill owl:disjointWith plant:Robot .\n"
    )
    plant.write_text(
        head + "plant:a rdfs:label 'A' .\nplant:a a plant:Big .\nplant:a a plant:Robot .\nplant:a"
        " plant:p plant:b .\n"
    )
    _, problems, _ = load_graph([], {}, [terms, plant], catalog=catalog)
    (found,) = (problem for problem in problems if problem.code == "FKG125")
    places = [
        (Path(span.file).name, span.line - head.count("\n"))
        for span in (found.span, *(one.span for one in found.related))
    ]
    assert places == [
        ("a_terms.ttl", 1),
        ("a_terms.ttl", 2),
        ("b_plant.ttl", 2),
        ("b_plant.ttl", 3),
    ]


def test_what_contradicts_itself_at_another_client_is_not_told(catalog: Catalog) -> None:
    text = """plant:C owl:disjointWith plant:D . plant:a a plant:C , plant:D ; fkg:client "graz" .
    plant:b a plant:C ; fkg:client "linz" ."""
    assert [one.code for one in contradictions(catalog, text)] == ["FKG125"]
    assert contradictions(catalog, text, client="linz") == []
    assert [one.code for one in contradictions(catalog, text, client="graz")] == ["FKG125"]
