"""`fedkg explain RULE --entity` shows source triples; `fedkg ontology reason` shows inferences."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Command

RULES = """use mason
prefix plant: <https://example.org/plant#>
prefix sosa: <http://www.w3.org/ns/sosa/>
signal torque(?m) is plant:torque in N.m span 0 .. 100
rule weak for ?m, ?limit
  where { ?m a plant:Mill ; plant:limitOf/plant:most ?limit .
    FILTER NOT EXISTS { ?m plant:retired ?r } }
  require torque(?m) <= ?limit
rule every for ?m in class plant:Machine
  require torque(?m) >= 1 N.m
rule plain require power <= 5 kW
signal power in kW
"""
PLANT = """@prefix plant: <https://example.org/plant#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix unit: <http://qudt.org/vocab/unit/> .
plant:Mill rdfs:subClassOf plant:Machine .
plant:limits owl:inverseOf plant:limitOf .
plant:torque a sosa:ObservableProperty ; qudt:hasUnit unit:N-M .
plant:M07 a plant:Mill ; rdfs:label "Mill seven" .
plant:L1 plant:limits plant:M07 ;
    plant:most [ a qudt:QuantityValue ; qudt:numericValue 60.50 ; qudt:unit unit:N-M ] .
plant:M07-torque sosa:observes plant:torque ; sosa:isHostedBy plant:M07 ; fkg:column "T7" .
"""


@pytest.fixture
def plant(tmp_path: Path) -> Path:
    (tmp_path / "rules.fkg").write_text(RULES)
    (tmp_path / "plant.ttl").write_text(PLANT)
    return tmp_path


@pytest.mark.parametrize(
    "name", ["https://example.org/plant#M07", "plant:M07", "M07", "Mill seven"]
)
def test_the_triples_behind_a_row_are_reported_with_file_and_line(
    name: str, fedkg: Command, plant: Path
) -> None:
    said = fedkg("explain", "weak", "rules.fkg", "plant.ttl", "--entity", name)
    lines = [line.strip().removeprefix("from ").strip() for line in said.out.splitlines()]
    assert "plant:M07 a plant:Mill  (plant.ttl:11)" in lines
    assert (
        "plant:M07 plant:limitOf plant:L1, by prp-inv1 from" in lines
        or "plant:M07 plant:limitOf plant:L1, by prp-inv2 from" in lines
    )
    assert "plant:limits owl:inverseOf plant:limitOf  (plant.ttl:9)" in lines
    assert "plant:L1 plant:limits plant:M07  (plant.ttl:12)" in lines
    assert '[...] qudt:numericValue "60.50"  (plant.ttl:13)' in lines
    assert 'plant:M07-torque fkg:column "T7"  (plant.ttl:14)' in lines
    assert not any("retired" in line for line in lines)


def test_a_member_of_a_class_is_told_by_its_subclass(fedkg: Command, plant: Path) -> None:
    said = fedkg("explain", "every", "rules.fkg", "plant.ttl", "--entity", "M07").out
    assert "plant:M07 a plant:Machine, by cax-sco from" in said
    assert "plant:Mill rdfs:subClassOf plant:Machine  (plant.ttl:8)" in said


def test_as_json_it_is_a_tree(fedkg: Command, plant: Path) -> None:
    said = fedkg(
        "explain", "every", "rules.fkg", "plant.ttl", "--entity", "plant:M07", "--json"
    ).json
    assert said["entity_iri"] == "https://example.org/plant#M07"
    (fact,) = (one for one in said["from"] if one["triple"] == "plant:M07 a plant:Machine")
    assert (fact["rule"], fact["place"]) == ("cax-sco", "")
    assert {premise["place"] for premise in fact["premises"]} == {"plant.ttl:8", "plant.ttl:11"}
    assert "from" not in fedkg("explain", "every", "rules.fkg", "plant.ttl", "--json").json


def test_an_entity_that_the_rule_is_not_about_is_an_error(fedkg: Command, plant: Path) -> None:
    said = fedkg("explain", "every", "rules.fkg", "plant.ttl", "--entity", "plant:Nobody")
    assert said.code == 2
    assert "`every` is not about `plant:Nobody`" in said.err


def test_reason_says_what_follows(fedkg: Command, plant: Path) -> None:
    said = fedkg("ontology", "reason", "plant.ttl")
    assert said.code == 0
    assert "    plant:M07 a plant:Machine" in said.out.splitlines()
    facts = fedkg("ontology", "reason", "plant.ttl", "--json").json
    assert facts["types"] == [["plant:M07", "a", "plant:Machine"]]
    assert facts["reasoner"] == "OWL 2 RL"


def test_reason_says_what_cannot_be(fedkg: Command, plant: Path) -> None:
    (plant / "wrong.ttl").write_text(
        PLANT
        + "plant:Mill owl:disjointWith plant:Machine .\nplant:Saw rdfs:subClassOf plant:Mill .\n"
    )
    said = fedkg("ontology", "reason", "wrong.ttl")
    assert said.code == 1
    assert "unsatisfiable: plant:Mill, plant:Saw" in said.out
    assert "wrong.ttl:15:1" in said.err or "wrong.ttl:8:1" in said.err
    assert "FKG125" in said.err
    assert fedkg("ontology", "reason", "nowhere.ttl").code == 1
