"""Commands that compile accept the same kinds of files: rules, queries, graphs and shapes."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Command

QUERY = (
    "PREFIX ex: <http://example.org/>\nSELECT ?m WHERE {{ ?m a ex:Mill ; ex:torque ?t . "
    "FILTER(?t > {limit}) }}\n"
)
GRAPH = """
@prefix ex: <http://example.org/> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:torque fkg:column "torque" ; rdfs:label "torque" .
ex:m1 a ex:Mill .
"""
SHAPES = """
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix ex: <http://example.org/> .
ex:S a sh:NodeShape ; sh:targetClass ex:Mill ;
    sh:property [ sh:path ex:torque ; sh:maxInclusive 5.0 ] .
"""


@pytest.fixture
def mill(fedkg: Command, tmp_path: Path) -> Command:
    (tmp_path / "x.rq").write_text(QUERY.format(limit=5))
    (tmp_path / "y.rq").write_text(QUERY.format(limit=4))
    (tmp_path / "g.ttl").write_text(GRAPH)
    (tmp_path / "s.shacl").write_text(SHAPES)
    (tmp_path / "rows.fkg").write_text("rows are <http://example.org/Mill>\n")
    (tmp_path / "t.csv").write_text("torque\n3\n7\n")
    (tmp_path / "d.ttl").write_text(
        "@prefix ex: <http://example.org/> . ex:a a ex:Mill ; ex:torque 7.0 ."
    )
    return fedkg


def test_a_query_stands_wherever_rules_stand(mill: Command) -> None:
    done = mill("eval", "x.rq", "g.ttl", "rows.fkg", "t.csv", "--json")
    assert done.code == 0, done.err
    (rule,) = done.json["rules"]
    assert (rule["rule"], rule["satisfied"], rule["violated"]) == ("x", 1, 1)
    assert [
        one["rule"] for one in mill("inspect", "x.rq", "g.ttl", "rows.fkg", "--json").json["rules"]
    ] == ["x"]
    assert (
        mill("explain", "x", "x.rq", "g.ttl", "rows.fkg", "--json").json["formula"] == "torque <= 5"
    )
    assert mill("test", "x.rq", "g.ttl", "rows.fkg").code == 0
    done = mill("diff", "x.rq", "y.rq", "--graph", "g.ttl", "--graph", "rows.fkg", "--json")
    assert {one["name"]: one["change"] for one in done.json["rules"]} == {
        "x": "removed",
        "y": "added",
    }


def test_a_query_is_no_table(mill: Command) -> None:
    done = mill("eval", "t.csv", "x.rq", "g.ttl")
    assert done.code == 2
    assert "fedkg eval x.rq g.ttl t.csv" in done.err


@pytest.mark.parametrize("command", ["check", "compile", "inspect", "test"])
def test_shapes_may_end_with_shacl(mill: Command, tmp_path: Path, command: str) -> None:
    extra = ("-o", str(tmp_path / "p.fkgpack")) if command == "compile" else ()
    done = mill(command, "s.shacl", "g.ttl", "rows.fkg", *extra)
    assert done.code == 0, done.err
    assert "FKG001" not in done.err


def test_shapes_that_end_with_shacl_are_evaluated(mill: Command, tmp_path: Path) -> None:
    (rule,) = mill("eval", "s.shacl", "g.ttl", "rows.fkg", "t.csv", "--json").json["rules"]
    assert (rule["rule"], rule["violated"]) == ("S.torque.maxInclusive", 1)
    (part,) = mill("eval", "s.shacl", "d.ttl", "--json").json["evaluations"]
    assert part["violations"] == 1
    (tmp_path / "d.shacl").write_bytes((tmp_path / "d.ttl").read_bytes())
    assert mill("eval", "s.shacl", "d.shacl", "--json").json["evaluations"][0]["violations"] == 1
    (tmp_path / "named.fkg").write_text('rows are <http://example.org/Mill>\nshapes "s.shacl"\n')
    assert mill("eval", "named.fkg", "g.ttl", "t.csv", "--json").json["rules"] == [rule]
