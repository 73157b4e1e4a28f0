"""Proposed mappings contain reviewed ones, and none counts before a person accepts it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pyoxigraph as ox
import pytest
from test_alignments import mappings

from fedkg.errors import UsageError
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.graph import Catalog, Graph, load_graph
from fedkg_compiler.graph.alignment.mapping_proposals import Proposal, among_best, propose
from fedkg_compiler.graph.alignment.mappings import STATUSES
from fedkg_compiler.graph.alignment.ontology_alignment import align, reviewed
from fedkg_compiler.graph.alignment.ontology_term_reader import Side, gather
from fedkg_compiler.graph.alignment.proposals_turtle import turtle
from fedkg_compiler.graph.alignment.similarity import Likeness, likeness
from fedkg_compiler.graph.standard_vocabularies import SKOS

HERE = Span(file="rules.fkg", line=1, column=1, end_line=1, end_column=1)
ISA95 = "http://www.w3id.org/hsu-aut/DINEN62264-2#"
FKG_ISA95 = "https://w3id.org/fedkg/isa95#"
HEAD = """@prefix : <https://example.org/shop#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""
SHOP = (
    HEAD
    + """
:Equip a owl:Class ; rdfs:label "equipment" ;
    rdfs:comment "Anything at any level that plays a part in making something." .
:EquipProp a owl:Class ;
    rdfs:comment "A named characteristic of one piece of equipment with its value." .
:RobotWorkCell a owl:Class ; rdfs:subClassOf :Equip .
:hasEquipProp a owl:ObjectProperty ; rdfs:domain :Equip ; rdfs:range :EquipProp .
:Quux a owl:Class .
"""
)


@pytest.fixture(scope="module")
def measured(catalog_once: Catalog) -> dict[str, list[int]]:
    """By predicate: how many scores are at least that of a reviewed mapping, for the better end."""
    sides: dict[str, Side] = {}
    for name in ("isa95", "mason", "nist", "schema", "sosa", "ssn", "qudt", "iof"):
        side, problems = gather(name, catalog_once)
        assert side is not None
        assert problems == ()
        sides[name] = side
    found: dict[str, list[int]] = defaultdict(list)
    counted = {"proposed": 0, "right": 0}
    rows = mappings(catalog_once)
    for alignment in catalog_once.alignments:
        first, second = (sides[name].terms for name in alignment.between)
        alike: Likeness = likeness(first, second)
        places = [{term.iri: i for i, term in enumerate(terms)} for terms in (first, second)]
        right = set()
        for source, predicate, target in rows[alignment.file]:
            one, other = (source, target) if source in places[0] else (target, source)
            if one in places[0] and other in places[1]:
                i, j = places[0][one], places[1][other]
                right.add((i, j))
                sure = alike.confidence[i, j]
                rank = min(
                    (alike.confidence[i] >= sure).sum(), (alike.confidence[:, j] >= sure).sum()
                )
                found[predicate.removeprefix(SKOS)].append(int(rank) if sure > 0 else 10_000)
        kept = np.argwhere((alike.confidence >= 0.5) & among_best(alike.confidence)).tolist()
        counted["proposed"] += len(kept)
        counted["right"] += len({(i, j) for i, j in kept} & right)
    return {**found, "counts": [counted["proposed"], counted["right"]]}


@pytest.fixture(scope="module")
def catalog_once() -> Catalog:
    from fedkg_compiler.graph import load_catalog

    return load_catalog(home=Path("nowhere"))


@pytest.mark.slow
def test_reviewed_mappings_are_among_the_first_three(measured: dict[str, list[int]]) -> None:
    """A bound below the measured shares (exact 1.00, close 0.64, all 0.60) detects a change that
    finds fewer.
    """
    share = {
        predicate: np.mean(np.array(ranks) <= 3)
        for predicate, ranks in measured.items()
        if predicate != "counts"
    }
    assert share["exactMatch"] == 1.0
    assert share["closeMatch"] >= 0.6
    ranks = [
        rank for predicate, found in measured.items() if predicate != "counts" for rank in found
    ]
    assert len(ranks) >= 290
    assert np.mean(np.array(ranks) <= 3) >= 0.57


@pytest.mark.slow
def test_two_of_five_sure_proposals_were_accepted(measured: dict[str, list[int]]) -> None:
    """Precision against the reviewed mappings (measured: 0.45).

    They contain less than everything that is true, so this is a lower bound.
    """
    proposed, right = measured["counts"]
    assert proposed >= 40
    assert right / proposed >= 0.45


def shop(tmp_path: Path) -> str:
    (tmp_path / "shop.ttl").write_text(SHOP, encoding="utf-8")
    return str(tmp_path / "shop.ttl")


def test_abbreviated_names_definitions_and_ends_are_seen(tmp_path: Path, catalog: Catalog) -> None:
    proposed = align(shop(tmp_path), "isa95", least=0.2, catalog=catalog)
    best = {item.source.rsplit("#", 1)[1]: item for item in reversed(proposed.proposals)}
    assert proposed.problems == ()
    assert proposed.reviewed == 0
    assert best["Equip"].target == FKG_ISA95 + "Equipment"
    assert best["Equip"].predicate == SKOS + "exactMatch"
    assert best["Equip"].reasons[0] == 'both are called "equipment"'
    assert best["EquipProp"].target == FKG_ISA95 + "EquipmentProperty"
    assert best["hasEquipProp"].target == FKG_ISA95 + "hasEquipmentProperty"
    assert any("before the one" in reason for reason in best["hasEquipProp"].reasons)
    assert best["RobotWorkCell"].predicate == SKOS + "broadMatch"
    assert "Quux" not in best
    assert all(0.2 <= item.confidence <= 1 and item.reasons for item in proposed.proposals)


def test_classes_are_not_proposed_for_properties_and_what_was_reviewed_is_left_out(
    catalog: Catalog,
) -> None:
    proposed = align("isa95", "schema", least=0.2, catalog=catalog)
    sides = [gather(name, catalog)[0] for name in ("isa95", "schema")]
    kinds = {term.iri: term.is_class for side in sides if side is not None for term in side.terms}
    assert proposed.proposals
    assert all(kinds[item.source] is kinds[item.target] for item in proposed.proposals)
    known = reviewed(catalog, "schema", "isa95")
    assert proposed.reviewed == len(known) > 30
    assert {frozenset((item.source, item.target)) for item in proposed.proposals} & known == set()


def test_nothing_to_compare_with(tmp_path: Path, catalog: Catalog) -> None:
    (tmp_path / "empty.ttl").write_text(HEAD, encoding="utf-8")
    assert align(str(tmp_path / "empty.ttl"), "isa95", catalog=catalog).proposals == ()
    assert propose(Side("a", (), {}), Side("b", (), {})) == ()


def test_unknown_names_are_reported_with_the_nearest(catalog: Catalog) -> None:
    with pytest.raises(UsageError) as told:
        align("isa95", "masson", catalog=catalog)
    assert "masson" in str(told.value)
    assert told.value.help == "did you mean `mason`?"


def loaded(catalog: Catalog, text: str) -> tuple[Graph, tuple[Diagnostic, ...]]:
    graph, problems, _ = load_graph(
        [("isa95", HERE)],
        {},
        [],
        catalog=catalog,
        text_graphs=[("shop.ttl", SHOP), ("proposals.ttl", text)],
    )
    return graph, problems


def written(status: str, predicate: str = "http://www.w3.org/2000/01/rdf-schema#subClassOf") -> str:
    one = Proposal(
        "https://example.org/shop#RobotWorkCell",
        predicate,
        ISA95 + "Work_Unit",
        0.75,
        ('both "cells"', "second"),
    )
    text = turtle([one], ("shop", "isa95"), {"shop": "https://example.org/shop#", "isa95": ISA95})
    assert text.count('"proposed"') == 2
    return (
        text.replace('Status "proposed"', f'Status "{status}"')
        + "<https://example.org/shop#m1> a <https://example.org/shop#RobotWorkCell> ."
    )


@pytest.mark.parametrize("status", STATUSES)
def test_a_mapping_comes_of_an_accepted_proposal_alone(catalog: Catalog, status: str) -> None:
    graph, problems = loaded(catalog, written(status))
    assert problems == ()
    assert ("https://example.org/shop#m1" in graph.instances(ISA95 + "Work_Unit")) is (
        status == "accepted"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (written("acepted"), "the status of a proposed mapping is 'acepted'"),
        (
            written("accepted", "http://www.w3.org/2000/01/rdf-schema#seeAlso"),
            "is not a predicate of mappings",
        ),
        (
            written("accepted").replace("fkg:mappingTarget isa95:Work_Unit ;", ""),
            "an accepted mapping is incomplete",
        ),
    ],
)
def test_what_would_be_lost_is_an_error(catalog: Catalog, text: str, message: str) -> None:
    _, problems = loaded(catalog, text)
    assert [(problem.code, problem.severity, problem.span.file) for problem in problems] == [
        ("FKG124", "error", "proposals.ttl")
    ]
    assert message in problems[0].message
    assert problems[0].span.line > 1


def test_proposals_are_turtle_whatever_the_names(catalog: Catalog) -> None:
    odd = Proposal(
        "https://example.org/a b".replace(" ", "%20"),
        SKOS + "closeMatch",
        "urn:x:é",
        0.001,
        ('a "quoted" \\ reason',),
    )
    graph = list(
        ox.parse(
            turtle([odd], ("a", "b"), {"ex": "https://example.org/"}).encode(),
            format=ox.RdfFormat.TURTLE,
        )
    )
    assert {quad.object.value for quad in graph if isinstance(quad.object, ox.NamedNode)} >= {
        odd.source,
        odd.target,
    }
