"""A library rule holds for entities whose members have columns, and names the others."""

from __future__ import annotations

from pathlib import Path

from fedkg_compiler import compile_rules

PREFIXES = """
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix fkg-isa95: <https://w3id.org/fedkg/isa95#> .
@prefix isa95: <http://www.w3id.org/hsu-aut/DINEN62264-2#> .
@prefix plant: <https://example.org/plant#> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix unit: <http://qudt.org/vocab/unit/> .
plant:flow a fkg-isa95:MassFlow ; qudt:hasUnit unit:KiloGM-PER-HR .
"""


def mixer(number: int, columns: tuple[str, str]) -> str:
    """A mixer with one feed and one drain, whose meters have these columns."""
    feed, drain = columns
    return f"""
plant:Mixer{number} a isa95:Unit .
plant:In{number} a fkg-isa95:MaterialConnection ; fkg-isa95:flowsInto plant:Mixer{number} .
plant:Out{number} a fkg-isa95:MaterialConnection ; fkg-isa95:flowsOutOf plant:Mixer{number} .
plant:F{number} a sosa:Sensor ; sosa:isHostedBy plant:In{number} ; sosa:observes plant:flow ;
  fkg:column "{feed}" .
plant:D{number} a sosa:Sensor ; sosa:isHostedBy plant:Out{number} ; sosa:observes plant:flow ;
  fkg:column "{drain}" .
"""


def test_entities_with_columns_keep_the_rule_of_the_library(tmp_path: Path) -> None:
    graph = tmp_path / "plant.ttl"
    # The second and the third mixer share columns, and nothing tells their table rows apart.
    shared = ("feed", "drain")
    graph.write_text(PREFIXES + mixer(1, ("F1", "D1")) + mixer(2, shared) + mixer(3, shared))
    found = compile_rules(text="use rules isa95.balances\n", graphs=[graph])
    assert found.pack is not None, found.diagnostics
    about = [found.pack.manifest.entities[i] for bank in found.pack.banks for i in bank.entity]
    assert len(about) == 1
    assert "Mixer1" in about[0]
    notes = [note for note in found.diagnostics if note.code == "FKG542"]
    assert any("no column for F2" in note.message for note in notes)
    assert {note.severity for note in notes} == {"info"}
