"""Rules over a plant with a hierarchy stated from both sides and in parts.

It uses ISA-95's part-of, its inverses, and a chain over it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg_compiler.pipeline import compile_rules

PLANT = """@prefix plant: <https://example.org/plant#> .
@prefix isa95: <http://www.w3id.org/hsu-aut/DINEN62264-2#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix unit: <http://qudt.org/vocab/unit/> .

plant:graz isa95:SiteConsistsOfArea plant:hall .
plant:line isa95:CenterIsPartOfArea plant:hall .
plant:line isa95:CenterConsistsOfUnit plant:M1 .
plant:M2 isa95:UnitIsPartOfCenter plant:line .
plant:M3 isa95:UnitIsPartOfCenter plant:otherLine .
plant:graz plant:gridLimit [ a qudt:QuantityValue ; qudt:numericValue 40 ; qudt:unit unit:KiloW ] .
plant:allows owl:propertyChainAxiom ( isa95:isPartOf plant:gridLimit ) .

plant:power a sosa:ObservableProperty ; qudt:hasUnit unit:KiloW .
plant:M1-power a sosa:Sensor ; sosa:observes plant:power ; sosa:isHostedBy plant:M1 ;
    fkg:column "P1" .
plant:M2-power a sosa:Sensor ; sosa:observes plant:power ; sosa:isHostedBy plant:M2 ;
    fkg:column "P2" .
plant:M3-power a sosa:Sensor ; sosa:observes plant:power ; sosa:isHostedBy plant:M3 ;
    fkg:column "P3" .
"""
HEAD = """use isa95
prefix plant: <https://example.org/plant#>
prefix sosa: <http://www.w3.org/ns/sosa/>
signal power(?m) is plant:power in kW span 0 .. 100
"""


def columns(folder: Path, rule: str) -> set[str]:
    """The columns that the rows of a rule read, with the limits beside them."""
    (folder / "rules.fkg").write_text(HEAD + rule)
    (folder / "plant.ttl").write_text(PLANT)
    result = compile_rules([folder / "rules.fkg", folder / "plant.ttl"])
    assert [problem for problem in result.diagnostics if problem.severity != "info"] == []
    assert result.pack is not None
    return {column.name for column in result.pack.manifest.contract.columns}


@pytest.mark.parametrize(
    "pattern",
    [
        "?m isa95:isPartOf plant:graz . ?s sosa:isHostedBy ?m",
        "plant:graz isa95:consistsOf ?m . ?m sosa:hosts ?s",
    ],
)
def test_what_stands_below_a_site_is_found_from_both_sides(pattern: str, tmp_path: Path) -> None:
    rule = f"rule modest for ?m where {{ {pattern} }}\n  require power(?m) <= 30 kW\n"
    assert columns(tmp_path, rule) == {"power[M1]", "power[M2]"}


def test_a_limit_of_the_site_reaches_its_machines_by_a_chain(tmp_path: Path) -> None:
    rule = (
        "rule modest for ?m, ?limit where { ?m plant:allows ?limit . ?s sosa:isHostedBy "
        "?m }\n  require power(?m) <= ?limit\n"
    )
    assert columns(tmp_path, rule) == {"power[M1]", "power[M2]"}
