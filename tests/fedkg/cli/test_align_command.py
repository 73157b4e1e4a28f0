"""`fedkg ontology align`: the table, the file for review, and errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Command, call

SHOP = """\
@prefix : <https://example.org/shop#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:Equip a owl:Class ; rdfs:label "equipment" ;
    rdfs:comment "Anything that plays a part in making something." .
"""
RULES = """\
use isa95
prefix shop: <https://example.org/shop#>
signal torque in N.m
rule cap for ?m in class fkg-isa95:Equipment require torque <= 60 N.m
"""
PLANT = "@prefix shop: <https://example.org/shop#> .\nshop:M1 a shop:Equip .\n"


@pytest.fixture
def fedkg(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDKG_HOME", str(tmp_path / "home"))
    for name, text in (("shop.ttl", SHOP), ("plant.ttl", PLANT), ("rules.fkg", RULES)):
        Path(name).write_text(text, encoding="utf-8")
    return lambda *arguments: call(capsys, *arguments)


def test_what_is_proposed_is_shown_written_and_counts_when_accepted(fedkg: Command) -> None:
    done = fedkg("ontology", "align", "shop.ttl", "isa95", "-o", "proposals.ttl")
    assert (done.code, done.err) == (0, "")
    assert "fkg-isa95:Equipment" in done.out
    assert "1 proposal" in done.out
    text = Path("proposals.ttl").read_text(encoding="utf-8")
    graphs = ("shop.ttl", "plant.ttl", "proposals.ttl")
    assert "FKG173" in fedkg("check", "rules.fkg", *graphs).err
    for old, new in (('"proposed" ;', '"accepted" ;'), ("skos:exactMatch", "rdfs:subClassOf")):
        text = text.replace(old, new)
    Path("proposals.ttl").write_text(
        f"@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n{text}", encoding="utf-8"
    )
    assert "1 bound row" in fedkg("check", "rules.fkg", *graphs).out


def test_json_has_the_reasons(fedkg: Command) -> None:
    (one,) = fedkg("ontology", "align", "shop.ttl", "isa95", "--json").json["proposals"]
    assert (one["source"], one["target"].rsplit("#", 1)[1]) == (
        "https://example.org/shop#Equip",
        "Equipment",
    )
    assert 'both are called "equipment"' in one["reasons"]


def test_wrong_arguments_give_an_error_and_write_nothing(fedkg: Command) -> None:
    done = fedkg("ontology", "align", "isa59", "mason")
    assert (done.code, "did you mean `isa95`?" in done.err) == (2, True)
    Path("half.ttl").write_text("<a> <b>", encoding="utf-8")
    done = fedkg("ontology", "align", "half.ttl", "mason", "-o", "proposals.ttl")
    assert (done.code, "FKG103" in done.err) == (1, True)
    assert not Path("proposals.ttl").exists()
    assert fedkg("ontology", "align", "shop.ttl", "mason", "-o", "shop.ttl").code == 2
    assert Path("shop.ttl").read_text(encoding="utf-8") == SHOP


def test_an_ontology_is_not_compared_with_itself(fedkg: Command) -> None:
    done = fedkg("ontology", "align", "isa95", "isa95")
    assert (done.code, "compared with itself" in done.err) == (2, True)
