"""`sh:severity` of a shape appears in evaluation, inspection and baseline comparison."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Command, Done

SHAPES = """
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix ex: <http://example.org/> .
ex:S a sh:NodeShape ; sh:targetClass ex:Pump ;
  sh:property [ sh:path ex:p ; sh:maxInclusive 5.0 ; sh:severity sh:Warning ] ;
  sh:property [ sh:path ex:p ; sh:maxExclusive 6.0 ; sh:severity sh:Info ] ;
  sh:property [ sh:path ex:p ; sh:minInclusive 1.0 ] .
"""
RULES = 'prefix ex: <http://example.org/>\nsignal p is ex:p column "p"\nrows are ex:Pump\n'
SEVERITIES = {
    "S.p.maxInclusive": "warning",
    "S.p.maxExclusive": "info",
    "S.p.minInclusive": "violation",
}


@pytest.fixture
def plant(fedkg: Command, tmp_path: Path) -> Command:
    """`fedkg` in a folder with shapes of three severities, rules, a table and RDF data."""
    (tmp_path / "s.ttl").write_text(SHAPES)
    (tmp_path / "columns.fkg").write_text(RULES)
    (tmp_path / "good.csv").write_text("p\n2\n3\n")
    (tmp_path / "high.csv").write_text("p\n2\n7\n")
    (tmp_path / "low.csv").write_text("p\n2\n0\n")
    (tmp_path / "d.ttl").write_text(
        "@prefix ex: <http://example.org/> . ex:a a ex:Pump ; ex:p 7.0 ."
    )
    return fedkg


def severities(done: Done) -> dict[str, str]:
    return {rule["rule"]: rule["severity"] for rule in done.json["rules"]}


def test_eval_shows_severities(plant: Command) -> None:
    done = plant("eval", "columns.fkg", "s.ttl", "high.csv")
    assert done.code == 0
    assert "S.p.maxInclusive (warning)" in done.out
    assert "S.p.maxExclusive (info)" in done.out
    assert "S.p.minInclusive (" not in done.out
    assert (
        "2 of 3 rules are violated somewhere (1 warning, 1 info); violation rate 33.33%."
        in done.out
    )
    assert severities(plant("eval", "columns.fkg", "s.ttl", "high.csv", "--json")) == SEVERITIES


def test_inspect_shows_severities(plant: Command) -> None:
    shown = {
        line.split()[0]: line
        for line in plant("inspect", "columns.fkg", "s.ttl").out.splitlines()
        if line.startswith("S.p.")
    }
    assert {rule: line.split("  ")[1].strip() for rule, line in shown.items()} == {
        "S.p.maxInclusive": "other, warning",
        "S.p.maxExclusive": "other, info",
        "S.p.minInclusive": "other",
    }
    assert severities(plant("inspect", "columns.fkg", "s.ttl", "--json")) == SEVERITIES


def test_each_violation_of_rdf_data_has_its_severity(plant: Command) -> None:
    (part,) = plant("eval", "s.ttl", "d.ttl", "--json").json["evaluations"]
    assert {one["rule"]: one["severity"] for one in part["results"]} == {
        "S.p.maxInclusive": "warning",
        "S.p.maxExclusive": "info",
    }


def test_only_violations_that_got_worse_fail(plant: Command, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(
        plant("eval", "columns.fkg", "s.ttl", "good.csv", "--json").out
    )
    milder = plant("eval", "columns.fkg", "s.ttl", "high.csv", "--baseline", "old.json")
    assert milder.code == 0
    assert "S.p.maxInclusive (warning): violation rate rose from 0.00% to 50.00%" in milder.out
    assert plant("eval", "columns.fkg", "s.ttl", "low.csv", "--baseline", "old.json").code == 1
