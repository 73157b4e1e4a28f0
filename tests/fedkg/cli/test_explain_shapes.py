"""`fedkg explain` finds rules by the names of shapes, queries and libraries."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Command

SHAPES = """@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix ex: <https://example.org/plant#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
ex:pressure a sosa:ObservableProperty ; fkg:column "P" .
ex:speed a sosa:ObservableProperty ; fkg:column "N" .
ex:M01 a ex:Pump ; ex:maxPressure 8 . ex:M02 a ex:Pump ; ex:maxPressure 9 .
ex:Pump fkg:keyColumn "machine" .
ex:PumpShape a sh:NodeShape ; sh:targetClass ex:Pump ;
  sh:property [ sh:path ex:pressure ; sh:maxInclusive 8.0 ; sh:minInclusive 1.0 ] ;
  sh:property [ sh:path ex:speed ; sh:maxExclusive 3000 ; sh:name "speed limit" ] ;
  sh:property [ sh:path ex:maxPressure ; sh:minCount 1 ] .
"""
RULES = """prefix ex: <https://example.org/plant#>
signal pressure(?m) is ex:pressure in bar span 0 .. 20
signal speed(?m) is ex:speed in rpm span 0 .. 5000
shapes "pump.ttl"
queries "*.rq"
"""
QUERY = (
    "PREFIX ex: <https://example.org/plant#>\nSELECT ?m WHERE { ?m a ex:Pump ; ex:pressure "
    "?p . FILTER(?p > 7) }\n"
)
PRESSURE = ["PumpShape.pressure.minInclusive", "PumpShape.pressure.maxInclusive"]
SPEED = "PumpShape.speed.maxExclusive"
STATIC = "PumpShape.maxPressure.minCount"


@pytest.fixture
def pumps(tmp_path: Path) -> None:
    (tmp_path / "pump.ttl").write_text(SHAPES, encoding="utf-8")
    (tmp_path / "s.fkg").write_text(RULES, encoding="utf-8")
    (tmp_path / "too_hot.rq").write_text(QUERY, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("pumps")
@pytest.mark.parametrize(
    ("name", "rules", "parts"),
    [
        ("PumpShape", [SPEED, *PRESSURE], [STATIC]),
        ("ex:PumpShape", [SPEED, *PRESSURE], [STATIC]),
        ("<https://example.org/plant#PumpShape>", [SPEED, *PRESSURE], [STATIC]),
        ("PumpShape.pressure", PRESSURE, []),
        ("pressure.maxInclusive", PRESSURE[1:], []),
        ("Speed limit", [SPEED], []),
        ("too_hot.rq", ["too_hot"], []),
        ("pump.ttl", [SPEED, *PRESSURE], [STATIC]),
        (STATIC, [], [STATIC]),
    ],
)
def test_a_name_stands_for_all_that_came_of_it(
    fedkg: Command, name: str, rules: list[str], parts: list[str]
) -> None:
    done = fedkg("explain", name, "s.fkg")
    assert done.code == 0, done.err
    blocks = done.out.strip().split("\n\n")
    assert sorted(
        block.split("\n")[0].removesuffix(": speed limit") for block in blocks[: len(rules)]
    ) == sorted(rules)
    assert blocks[len(rules) :] == [
        f"{part}: decided on the graph, which satisfies it  (pump.ttl)" for part in parts
    ]
    found = fedkg("explain", name, "s.fkg", "--json").json
    shown = [found] if "rule" in found else found["rules"]
    assert sorted(one["rule"] for one in shown) == sorted(rules)
    assert [part["part"] for part in found.get("parts", [])] == parts


@pytest.mark.usefixtures("pumps")
def test_where_the_numbers_of_shapes_and_queries_stand(fedkg: Command) -> None:
    assert (
        "numbers   its numbers are written in too_hot.rq or come from the graph"
        in fedkg("explain", "too_hot", "s.fkg").out
    )
    assert (
        "numbers   its numbers are written in pump.ttl or come from the graph"
        in fedkg("explain", SPEED, "s.fkg").out
    )


@pytest.mark.usefixtures("pumps")
def test_an_unknown_name_is_an_error_with_a_suggestion(fedkg: Command) -> None:
    done = fedkg("explain", "PmpShape", "s.fkg")
    assert done.code == 2
    assert "unknown rule `PmpShape`" in done.err
    assert "did you mean `PumpShape`?" in done.err
    assert (
        "`PumpShape.pressure.minInclusive` is not about `M9`"
        in fedkg("explain", PRESSURE[0], "s.fkg", "--entity", "M9").err
    )
    only = fedkg("explain", "ex:PumpShape", "s.fkg", "--entity", "M02").out
    assert only.count("(here M02)") == 3


@pytest.mark.usefixtures("pumps")
def test_entities_with_one_label_have_prefixed_names(fedkg: Command, tmp_path: Path) -> None:
    labels = (
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        'ex:M01 rdfs:label "Pump" . ex:M02 rdfs:label "Pump" .\n'
        "ex:Slow a sh:NodeShape ; sh:targetClass ex:Pump ; sh:sparql [ sh:select "
        '"SELECT $this WHERE { $this <https://example.org/plant#speed> ?n . FILTER(?n > 9) }" ] .\n'
    )
    (tmp_path / "pump.ttl").write_text(SHAPES + labels, encoding="utf-8")
    for rule in ("too_hot", SPEED, "Slow"):
        found = fedkg("explain", rule, "s.fkg", "pump.ttl", "--json").json
        assert found["entities"] == ["ex:M01", "ex:M02"], rule
