"""Messages of a private compilation quote no line of the graph, which may be about another site."""

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
RULES = (
    "signal p in bar\nrule r scope client for ?x where { ?m plant:most ?x } require p <= "
    "?x\nprefix plant: <http://example.org/>\n"
)


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


PLANT = """@prefix plant: <https://example.org/plant#> . @prefix fkg: <https://w3id.org/fedkg/ns#> .
plant:M1 a plant:Machine ; plant:most 61 ; fkg:client "linz" ."""
OWN = """use site
prefix plant: <https://example.org/plant#>
signal cap in N.m span 0 .. 100
rule everybodys require cap <= 90 N.m
rule own scope client for ?m, ?max where { ?m plant:most ?max } require cap <= ?max
"""


def checksums(fedkg: Command, pack: str) -> dict[str, str]:
    return {
        source["name"]: source["sha256"]
        for source in fedkg("inspect", pack, "--json").json["provenance"]["sources"]
    }


def test_a_pack_holds_no_checksum_of_a_sites_own_files(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "own.fkg").write_text(OWN, encoding="utf-8")
    (tmp_path / "site.ttl").write_text(PLANT, encoding="utf-8")
    assert fedkg("compile", "own.fkg", "--client", "linz", "-o", "linz.fkgpack").code == 0
    assert fedkg("compile", "own.fkg", "-o", "public.fkgpack").code == 0
    for pack in ("linz.fkgpack", "public.fkgpack"):
        found = checksums(fedkg, pack)
        assert found["site.ttl"] == ""
        assert all(len(found[name]) == 64 for name in found if name != "site.ttl")
        assert "own.fkg" in found
        assert "site.ttl  private source, checksum withheld" in fedkg("inspect", pack).out
    first = (tmp_path / "linz.fkgpack").read_bytes()
    assert fedkg("compile", "own.fkg", "--client", "linz", "-o", "linz.fkgpack").code == 0
    assert (tmp_path / "linz.fkgpack").read_bytes() == first


def test_a_graph_that_is_everybodys_keeps_its_checksum(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "site.ttl").write_text(PLANT.replace('; fkg:client "linz"', ""), encoding="utf-8")
    (tmp_path / "own.fkg").write_text(OWN.replace(" scope client", ""), encoding="utf-8")
    assert fedkg("compile", "own.fkg", "-o", "public.fkgpack").code == 0
    assert len(checksums(fedkg, "public.fkgpack")["site.ttl"]) == 64
