"""`fedkg explain --entity` for shapes and violation queries: focus nodes, paths and columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Command

PUMPS = """@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix ex: <https://example.org/plant#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:pressure a sosa:ObservableProperty ; fkg:column "P" .
ex:speed a sosa:ObservableProperty .
ex:Booster rdfs:subClassOf ex:Pump .
ex:M01 a ex:Pump ; ex:maxPressure 8 .
ex:M02 a ex:Booster ; rdfs:label "Second" ; ex:maxPressure 9 ; ex:feeds ex:T1 .
ex:T1 ex:maxPressure 5 .
ex:Pump fkg:keyColumn "machine" .
ex:M02-speed sosa:observes ex:speed ; sosa:isHostedBy ex:M02 ; fkg:column "N2" .
ex:PumpShape a sh:NodeShape ; sh:targetClass ex:Pump ;
  sh:property [ sh:path ex:pressure ;
    sh:lessThan ex:maxPressure ] ;
  sh:or ( [ sh:path ex:feeds ; sh:maxCount 0 ] [ sh:path ex:pressure ; sh:maxInclusive 4 ] ) ;
  sh:sparql [ sh:prefixes ex: ;
    sh:select "SELECT $this ?value WHERE { \
$this ex:pressure ?value ; ex:feeds/ex:maxPressure ?most . FILTER(?value > ?most) }" ] .
ex: sh:declare [ sh:prefix "ex" ; \
sh:namespace "https://example.org/plant#"^^<http://www.w3.org/2001/XMLSchema#anyURI> ] .
ex:FedShape a sh:NodeShape ; sh:targetObjectsOf ex:feeds ;
  sh:property [ sh:path ( [ sh:inversePath ex:feeds ] ex:pressure ) ; sh:maxInclusive 7 ] .
ex:FeedShape a sh:NodeShape ; sh:targetSubjectsOf ex:feeds ;
  sh:property [ sh:path [ sh:alternativePath ( ex:speed ex:pressure ) ] ; sh:minInclusive 1 ] ;
  sh:property [ sh:path ( [ sh:inversePath sosa:isHostedBy ] sosa:hasSimpleResult ) ;
      sh:maxInclusive 3000 ] .
"""
RULES = """prefix ex: <https://example.org/plant#>
signal pressure(?m) is ex:pressure in bar span 0 .. 20
signal speed(?m) is ex:speed span 0 .. 5000
shapes "pumps.ttl"
queries "*.rq"
"""
FED = """PREFIX x: <https://example.org/plant#>
SELECT ?m WHERE { ?m a x:Pump ; x:pressure ?p ; x:feeds ?t . ?t x:maxPressure ?l
  FILTER(?p > ?l && EXISTS { ?m x:speed ?s FILTER(?s > 5) }) }
"""
TOTAL = """PREFIX x: <https://example.org/plant#>
SELECT ?t WHERE { ?m x:feeds ?t ; x:pressure ?p } GROUP BY ?t HAVING (SUM(?p) > 10)
"""
OF_M02 = {
    "ex:M02 a ex:Pump, by cax-sco from",
    "ex:Booster rdfs:subClassOf ex:Pump  (pumps.ttl:8)",
    "ex:M02 a ex:Booster  (pumps.ttl:10)",
    'ex:Pump fkg:keyColumn "machine"  (pumps.ttl:12)',
}
PRESSURE = 'ex:pressure fkg:column "P"  (pumps.ttl:6)'
SPEED = 'ex:M02-speed fkg:column "N2"  (pumps.ttl:13)'
HOSTED = "ex:M02-speed sosa:isHostedBy ex:M02  (pumps.ttl:13)"
FEEDS = "ex:M02 ex:feeds ex:T1  (pumps.ttl:10)"
HELD = 'ex:T1 ex:maxPressure "5"  (pumps.ttl:11)'
TARGET = "PumpShape sh:targetClass ex:Pump  (pumps.ttl:14)"


@pytest.fixture
def pumps(tmp_path: Path) -> Path:
    (tmp_path / "pumps.ttl").write_text(PUMPS)
    (tmp_path / "s.fkg").write_text(RULES)
    (tmp_path / "fed.rq").write_text(FED)
    (tmp_path / "total.rq").write_text(TOTAL)
    return tmp_path


def _triples(text: str) -> set[str]:
    return {
        line.strip().removeprefix("from ").strip()
        for line in text.splitlines()
        if line.startswith(("  from ", "    "))
    }


@pytest.mark.slow
@pytest.mark.usefixtures("pumps")
@pytest.mark.parametrize(
    ("rule", "entity", "told"),
    [
        (
            "PumpShape.pressure.lessThan",
            "ex:M02",
            OF_M02
            | {
                TARGET,
                "PumpShape: sh:path pressure ; sh:lessThan maxPressure  (pumps.ttl:16)",
                PRESSURE,
            }
            | {'ex:M02 ex:maxPressure "9"  (pumps.ttl:10)'},
        ),
        (
            "PumpShape.or",
            "Second",
            OF_M02 | {TARGET, "PumpShape: sh:or [...]  (pumps.ttl:17)", FEEDS, PRESSURE},
        ),
        (
            "PumpShape.sparql",
            "M02",
            OF_M02 | {TARGET, "PumpShape: sh:sparql [...]  (pumps.ttl:18)", FEEDS, HELD, PRESSURE},
        ),
        ("fed", "<https://example.org/plant#M02>", OF_M02 | {FEEDS, HELD, PRESSURE, SPEED, HOSTED}),
        ("total", "T1", OF_M02 | {FEEDS, PRESSURE}),
    ],
)
def test_explain_lists_the_triples_behind_the_rows_of_an_entity(
    rule: str, entity: str, told: set[str], fedkg: Command
) -> None:
    said = fedkg("explain", rule, "s.fkg", "--entity", entity)
    assert said.code == 0, said.err
    found = _triples(said.out)
    assert told <= found
    assert found - told <= {"ex:M02-speed sosa:observes ex:speed  (pumps.ttl:13)"}


@pytest.mark.usefixtures("pumps")
def test_paths_are_told_to_the_columns_behind_them(fedkg: Command) -> None:
    fed = fedkg("explain", "ex:FedShape", "s.fkg", "--entity", "T1")
    assert {FEEDS, PRESSURE, "FedShape sh:targetObjectsOf ex:feeds  (pumps.ttl:21)"} <= _triples(
        fed.out
    )
    either, hosted = fedkg("explain", "ex:FeedShape", "s.fkg", "--entity", "M02").out.split("\n\n")
    both = (either, hosted) if "minInclusive" in either else (hosted, either)
    assert {FEEDS, PRESSURE, SPEED} <= _triples(both[0])
    assert {SPEED, HOSTED} <= _triples(both[1])
    assert PRESSURE not in _triples(both[1])


def test_query_files_and_shapes_beside_the_rules_are_reported_too(
    fedkg: Command, pumps: Path
) -> None:
    (pumps / "s.fkg").write_text(RULES.replace('shapes "pumps.ttl"\nqueries "*.rq"\n', ""))
    said = fedkg("explain", "fed", "s.fkg", "fed.rq", "pumps.ttl", "--entity", "M02", "--json").json
    assert said["entity_iri"] == "https://example.org/plant#M02"
    assert {
        "triple": 'ex:T1 ex:maxPressure "5"',
        "place": "pumps.ttl:11",
        "graph": "file:///pumps.ttl",
        "rule": "",
        "premises": [],
    } in said["from"]
    shape = fedkg(
        "explain", "PumpShape.pressure.lessThan", "s.fkg", "fed.rq", "pumps.ttl", "--entity", "M01"
    )
    assert {
        TARGET,
        "ex:M01 a ex:Pump  (pumps.ttl:9)",
        'ex:M01 ex:maxPressure "8"  (pumps.ttl:9)',
    } <= _triples(shape.out)


def test_a_rule_over_a_query_file_with_prefixes_of_its_own(fedkg: Command, pumps: Path) -> None:
    (pumps / "limits.rq").write_text(
        "PREFIX q: <https://example.org/plant#>\nSELECT ?m ?most WHERE { { SELECT ?m "
        "?most WHERE { ?m q:feeds/q:maxPressure ?most } } }\n"
    )
    (pumps / "r.fkg").write_text(
        "prefix ex: <https://example.org/plant#>\nsignal pressure(?m) is ex:pressure in "
        "bar span 0 .. 20\n"
        'rule held for ?m, ?most in query "limits.rq"\n  require pressure(?m) <= ?most\n'
    )
    said = fedkg("explain", "held", "r.fkg", "pumps.ttl", "--entity", "M02")
    assert {FEEDS, HELD, PRESSURE} <= _triples(said.out)


def test_of_several_targets_those_are_told_that_the_entity_is_one_of(
    fedkg: Command, pumps: Path
) -> None:
    more = (
        "ex:Valve rdfs:label 'valve' . ex:ManyShape a sh:NodeShape ; sh:targetNode "
        "ex:M01 , ex:M02 ; sh:targetClass ex:Valve , ex:Pump ;\n  sh:targetObjectsOf "
        "ex:feeds ; sh:property [ sh:path ex:pressure ; sh:maxInclusive 12 ] .\n"
    )
    (pumps / "pumps.ttl").write_text(PUMPS + more)
    said = _triples(fedkg("explain", "ManyShape", "s.fkg", "--entity", "M01").out)
    assert {one.partition("  (")[0] for one in said if " sh:target" in one} == {
        "ManyShape sh:targetNode ex:M01",
        "ManyShape sh:targetClass ex:Pump",
    }
