"""Commands accept the address of a SPARQL endpoint for a graph, with the results of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Command
from oxigraph_server import needs_oxigraph, put, serving

RULES = """\
prefix plant: <https://example.org/plant#>
signal torque(?m) is plant:torque in N.m span 0 .. 80
signal speed in rpm
rule cap for ?m, ?x where { ?m a plant:Mill ; plant:maxTorque ?x } require torque(?m) <= ?x
rule fast require speed <= 3000
"""
PLANT = """\
@prefix plant: <https://example.org/plant#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
plant:torque a sosa:ObservableProperty .
plant:M a plant:Mill ; plant:maxTorque 60 .
plant:S sosa:observes plant:torque ; sosa:isHostedBy plant:M ;
    <https://w3id.org/fedkg/ns#column> "T" .
"""
COMMANDS = {
    "eval": (["eval", "rules.fkg", "GRAPH", "table.csv"], 0),
    "explain": (["explain", "cap", "rules.fkg", "GRAPH", "--entity", "M"], 0),
    "inspect": (["inspect", "rules.fkg", "GRAPH"], 0),
    "diff": (["diff", "old.fkg", "rules.fkg", "--graph", "GRAPH"], 1),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("oxigraph")) as address:
        put(address, PLANT)
        yield address


@needs_oxigraph
@pytest.mark.parametrize("name", COMMANDS)
def test_an_endpoint_stands_for_the_file(
    name: str, fedkg: Command, tmp_path: Path, server: str
) -> None:
    (tmp_path / "graph.ttl").write_text(PLANT, encoding="utf-8")
    (tmp_path / "rules.fkg").write_text(RULES, encoding="utf-8")
    (tmp_path / "old.fkg").write_text(RULES.replace("3000", "2000"), encoding="utf-8")
    (tmp_path / "table.csv").write_text("T,speed\n50,100\n70,100\n", encoding="utf-8")
    command, code = COMMANDS[name]
    said = []
    for graph in ("graph.ttl", f"{server}/query"):
        done = fedkg(*(graph if word == "GRAPH" else word for word in command), "--json")
        assert (done.code, done.err) == (code, "")
        out = re.sub(r'"place": "graph.ttl:[0-9]+"', f'"place": "{server}/query"', done.out)
        said.append(out.replace('"file:///graph.ttl"', f'"{server}/query"'))
    assert said[0] == said[1]
    assert "cap" in said[0] or name == "diff"


def test_a_command_without_endpoint_support_is_an_error(fedkg: Command) -> None:
    done = fedkg("fmt", "https://graphs.example.org/query")
    assert done.code == 2
    assert "fedkg graph load" in done.err
