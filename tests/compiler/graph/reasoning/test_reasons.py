"""The reason of a triple is sufficient and minimal."""

from __future__ import annotations

import axioms as ax
import pyoxigraph as ox
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg_compiler.graph.owl_rl_closure import follows
from fedkg_compiler.graph.rdf_reader import graphs_of, read_rdf
from fedkg_compiler.graph.reasoning.justifications import Reasons, Step
from fedkg_compiler.graph.triple_locations import Told, locate_triples

PREFIXES = """@prefix : <http://example.org/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""


def named(name: str) -> ox.NamedNode:
    return ox.NamedNode(ax.E + name)


def rules_of(step: Step) -> set[str]:
    return {step.rule, *(rule for premise in step.premises for rule in rules_of(premise))} - {""}


def why(text: str, subject: str, predicate: str, value: ox.NamedNode | ox.Literal) -> Step | None:
    quads = list(ox.parse(PREFIXES + text, format=ox.RdfFormat.TURTLE))
    node = ox.NamedNode(ax.TYPE[1:-1]) if predicate == "a" else named(predicate)
    return Reasons(quads).why(named(subject), node, value)


@tries(25)
@given(
    st.lists(st.one_of(ax.schema, ax.keys, ax.facts, ax.facts), min_size=2, max_size=8),
    st.integers(min_value=0),
)
def test_a_reason_is_enough_and_none_of_it_can_be_spared(
    axioms: list[ax.Axiom], choice: int
) -> None:
    quads = ax.quads_of(axioms)
    added = sorted(follows(quads), key=str)
    if not added:
        return
    asked = added[choice % len(added)]
    step = Reasons(quads).why(asked.subject, asked.predicate, asked.object)
    assert step is not None
    told = [ox.Quad(*triple) for triple in step.asserted()]
    assert {*told} <= {*quads}
    cells = [quad for quad in quads if quad.predicate.value.endswith(("#first", "#rest"))]
    assert asked in follows([*told, *cells])
    for quad in told:
        assert asked not in {*follows([*(one for one in told if one != quad), *cells])}


def test_a_stated_fact_needs_no_premises() -> None:
    step = why(":a a :Pump .", "a", "a", named("Pump"))
    assert step is not None
    assert (step.rule, step.premises) == ("", ())


def test_what_does_not_follow_has_no_reason() -> None:
    assert why(":a a :Pump . :b a :Mill .", "a", "a", named("Mill")) is None
    assert why(":a a :Pump .", "nobody", "a", named("Pump")) is None


def test_a_chain_over_a_transitive_part_of_is_explained_step_by_step() -> None:
    text = """:locatedIn owl:propertyChainAxiom ( :partOf :standsIn ) .
    :partOf a owl:TransitiveProperty ; owl:inverseOf :hasPart .
    :line :hasPart :cell . :cell :hasPart :mill . :line :standsIn :hall .
    :mill :partOf :elsewhere ."""
    step = why(text, "mill", "locatedIn", named("hall"))
    assert step is not None
    assert rules_of(step) == {"prp-spo2", "prp-trp", "prp-inv1"} or rules_of(step) == {
        "prp-spo2",
        "prp-trp",
        "prp-inv2",
    }
    told = {
        " ".join(str(node).rsplit("/")[-1].rstrip(">") for node in triple)
        for triple in step.asserted()
    }
    assert {"line hasPart cell", "cell hasPart mill", "line standsIn hall"} <= told
    assert "mill partOf elsewhere" not in told


def test_one_thing_under_two_names_is_told_by_its_key() -> None:
    text = """:Machine owl:hasKey ( :serial :maker ) . :a a :Machine ; :serial "7" ; :maker :acme .
    :b a :Machine ; :serial "7" ; :maker :acme ; :colour "red" .
    :c a :Machine ; :serial "7" ; :maker :other ."""
    step = why(text, "a", "colour", ox.Literal("red"))
    assert step is not None
    assert rules_of(step) == {"eq-rep-s", "prp-key"}
    assert why(text, "c", "colour", ox.Literal("red")) is None


def test_a_number_that_the_store_writes_otherwise_is_found() -> None:
    decimal = ox.NamedNode("http://www.w3.org/2001/XMLSchema#decimal")
    step = why(":a :limit 3.50 .", "a", "limit", ox.Literal("3.5", datatype=decimal))
    assert step is not None
    assert str(step.triple[2]) == str(ox.Literal("3.50", datatype=decimal))


TURTLE = (
    PREFIXES
    + """:a a :Pump ;
    :limit [ :value 3 ;
             :unit :bar ] ,
           4 .
"""
)


def test_a_triple_is_reported_in_the_line_in_which_it_ends() -> None:
    document, _ = read_rdf(TURTLE.encode(), file="plant.ttl")
    assert document is not None
    spans = locate_triples(
        [document], [(quad.subject, quad.predicate, quad.object) for quad in document.triples]
    )
    lines = {str(triple[2]): span.line for triple, span in spans.items()}
    assert len(spans) == len(document.triples)
    assert {span.file for span in spans.values()} == {"plant.ttl"}
    assert lines[f"<{ax.E}Pump>"] == 4
    assert lines[f"<{ax.E}bar>"] == 6
    told = Told(
        documents=(document,), triples=lambda: document.triples, graphs=lambda: graphs_of(document)
    )
    quad = document.triples[0]
    assert told.reasons().why(quad.subject, quad.predicate, quad.object) is not None
    assert told.prefixes()[""] == ax.E


def test_xml_is_placed_by_line_too_and_json_by_name() -> None:
    xml = """<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://example.org/">
  <Pump rdf:about="http://example.org/a">
    <limit>4</limit>
  </Pump>
</rdf:RDF>
"""
    json = (
        '{"@id": "http://example.org/x",\n "http://example.org/limit": {"@id":'
        ' "http://example.org/y"}}'
    )
    for text, name, expected in ((xml, "a.rdf", {3, 4}), (json, "a.jsonld", {1, 2})):
        document, problems = read_rdf(text.encode(), file=name)
        assert document is not None, problems
        spans = locate_triples(
            [document], [(quad.subject, quad.predicate, quad.object) for quad in document.triples]
        )
        assert {span.line for span in spans.values()} <= expected
