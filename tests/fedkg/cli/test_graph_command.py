"""`fedkg graph`, and stores in place of graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Command, call

RULES = """\
prefix plant: <https://example.org/plant#>
signal torque in N.m
rule cap for ?x where { ?m plant:maxTorque ?x } require torque <= ?x
"""
PLANT = (
    "@prefix plant: <https://example.org/plant#> .\nplant:M1 a plant:Mill ; plant:maxTorque 60 .\n"
)


@pytest.fixture
def fedkg(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("rules.fkg").write_text(RULES, encoding="utf-8")
    Path("plant.ttl").write_text(PLANT, encoding="utf-8")
    return lambda *arguments: call(capsys, *arguments)


def test_a_store_is_made_shown_and_compiled_with(fedkg: Command) -> None:
    done = fedkg("graph", "load", "plant.store", "plant.ttl")
    assert (done.code, done.err) == (0, "")
    assert "plant.ttl: added" in done.out
    assert fedkg("graph", "show", "plant.store", "--json").json["triples"] == 2
    assert "plant.ttl: 2 triples" in fedkg("graph", "show", "plant.store").out
    assert "already in the store" in fedkg("graph", "load", "plant.store", "plant.ttl").out
    assert (
        fedkg("check", "rules.fkg", "plant.store").out
        == "rules.fkg, plant.store: clean, 1 rule, 1 bound row\n"
    )
    for graph in ("plant.ttl", "plant.store"):
        assert fedkg("compile", "rules.fkg", graph, "-o", f"{graph}.fkgpack").code == 0
    assert Path("plant.ttl.fkgpack").read_bytes() == Path("plant.store.fkgpack").read_bytes()
    Path("table.csv").write_text("torque\n70\n", encoding="utf-8")
    assert (
        fedkg("eval", "rules.fkg", "plant.store", "table.csv", "--json").json["rules"][0][
            "violated"
        ]
        == 1
    )


def test_wrong_arguments_give_an_error(fedkg: Command) -> None:
    Path("bad.ttl").write_text("<a> <b>", encoding="utf-8")
    assert fedkg("graph", "load", "plant.store", "missing.ttl").code == 2
    done = fedkg("graph", "load", "plant.store", "bad.ttl", "--json")
    assert (done.code, done.json["loaded"]) == (1, None)
    assert not Path("plant.store").exists()
    done = fedkg("graph", "show", "plant.store")
    assert (done.code, "is not a store of graphs" in done.err) == (2, True)
    Path("folder").mkdir()
    assert "fedkg graph load folder FILES..." in fedkg("check", "rules.fkg", "folder").err
    Path("plant.store").mkdir()
    Path("plant.store/fedkg-store.json").write_text("{", encoding="utf-8")
    assert fedkg("graph", "show", "plant.store").code == 1
    assert "FKG143" in fedkg("check", "rules.fkg", "plant.store").err


def test_a_password_on_the_command_line_is_rejected_and_not_said_again(fedkg: Command) -> None:
    done = fedkg("check", "rules.fkg", "https://me:secret@127.0.0.1:1/query")
    assert done.code == 1
    assert "FKG142" in done.err
    assert "secret" not in done.out + done.err
