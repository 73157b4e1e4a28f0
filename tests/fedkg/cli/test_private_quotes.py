"""What is said of a graph in a private compile shows no line of it: the line may be about another site."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Command

import fedkg as library
from fedkg.authoring import RuleWarning

GRAPH = """\
@prefix plant: <http://example.org/> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix unit: <http://qudt.org/vocab/unit/> .
plant:M1 a plant:Machine ; plant:most 61 ; fkg:client "linz" .
plant:M2 a plant:Machine ; plant:secret 4711 ; fkg:client "wien" ; qudt:unit unit:KilloPA .
"""
RULES = "signal p in bar\nrule r scope client for ?x where { ?m plant:most ?x } require p <= ?x\nprefix plant: <http://example.org/>\n"


def test_a_private_compile_quotes_no_graph(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "private.fkg").write_text(RULES)
    (tmp_path / "g.ttl").write_text(GRAPH)
    public = fedkg("check", "private.fkg", "g.ttl")
    assert "FKG115" in public.err
    assert "4711" in public.err
    private = fedkg("compile", "private.fkg", "g.ttl", "--client", "linz", "-o", "linz.fkgpack")
    assert private.code == 0, private.err
    assert "g.ttl:6:" in private.err
    assert "FKG115" in private.err
    assert "4711" not in private.err
    assert "plant:M2" not in private.err
    with pytest.warns(RuleWarning) as said:
        library.compile(["private.fkg", "g.ttl"], client="linz")
    assert not [one for one in said if "4711" in str(one.message)]


def test_a_private_compile_quotes_the_rules(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "private.fkg").write_text(RULES + "rule wrong scope client require p <= 3 barr\n")
    (tmp_path / "g.ttl").write_text(GRAPH)
    done = fedkg("compile", "private.fkg", "g.ttl", "--client", "linz", "-o", "linz.fkgpack")
    assert done.code == 1
    assert "rule wrong scope client require p <= 3 barr" in done.err
    assert "4711" not in done.err
