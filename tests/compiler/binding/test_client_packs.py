"""Scope: what a public pack holds, and what the private pack of a client."""

from __future__ import annotations

from pathlib import Path

from plant_of_pipes import GRAPH, INTO, compile_rule

OWNED = GRAPH.replace("plant:V1 a", 'plant:V1 fkg:client "linz" ; a').replace(
    "plant:V2 a", "plant:V2 fkg:client plant:Wien ; a"
)
OWNED += (
    'plant:P1 fkg:client "linz" . plant:Wien fkg:client "wien" . plant:P2 fkg:client "graz" .\n'
)
RULES = """rule shared require cap <= 9 kg/h
rule private scope client for ?v, ?max where { ?v a plant:Vessel ; plant:max ?max }
  require cap <= ?max
rule servers scope server require cap <= 8 kg/h
"""


def test_a_public_pack_leaves_out_what_is_a_client_s(tmp_path: Path) -> None:
    pack, problems = compile_rule(RULES, tmp_path, graph=OWNED)
    assert pack is not None
    assert [(rule.name, rule.scope) for rule in pack.manifest.rules] == [
        ("shared", "public"),
        ("servers", "server"),
    ]
    assert pack.manifest.client == ""
    (told,) = [problem for problem in problems if problem.code == "FKG287"]
    assert "one statement" in told.message
    assert "--client" in told.help


def test_a_private_pack_speaks_of_its_client_alone(tmp_path: Path) -> None:
    for client, names in {
        "linz": ["V1"],
        "wien": ["V2"],
        "https://example.org/plant#Wien": ["V2"],
    }.items():
        pack, problems = compile_rule(RULES, tmp_path, graph=OWNED, client=client)
        assert pack is not None, problems
        assert pack.manifest.client == client
        assert [rule.name for rule in pack.manifest.rules] == ["private"]
        assert [
            pack.manifest.entities[i] for bank in pack.banks for i in bank.entity.tolist()
        ] == names
        assert not any(other in pack.manifest.entities for other in {"V1", "V2", "V3"} - set(names))


def test_members_of_other_clients_are_no_members(tmp_path: Path) -> None:
    """P2, which belongs to graz, also flows into V1, which belongs to linz."""
    text = (
        f"rule r scope client for ?v in class plant:Vessel require sum of flow(?p) {INTO} <= 9 kg/h"
    )
    pack, problems = compile_rule(text, tmp_path, graph=OWNED, client="linz")
    assert pack is not None, problems
    assert [column.name for column in pack.manifest.contract.columns] == ["flow[P1]"]


def test_what_leaves_nothing(tmp_path: Path) -> None:
    def codes(text: str, client: str) -> list[str]:
        return [
            problem.code
            for problem in compile_rule(text, tmp_path, graph=OWNED, client=client)[1]
            if problem.severity == "error"
        ]

    private, public = "rule r scope client require cap <= 3 kg/h", "rule r require cap <= 3 kg/h"
    assert codes(private, "") == ["FKG286"]
    assert codes(public, "linz") == ["FKG286"]
    assert codes(private, "lnz") == ["FKG288"]
    assert codes(private, "linz") == []


def test_examples_of_rules_that_are_left_out_are_left_out_too(tmp_path: Path) -> None:
    text = (
        f"{RULES}example of private holds for cap = 3 kg/h\nexample of shared holds for cap = 3"
        " kg/h"
    )
    for client in ("", "linz"):
        assert [
            p.code
            for p in compile_rule(text, tmp_path, graph=OWNED, client=client)[1]
            if p.severity == "error"
        ] == []
