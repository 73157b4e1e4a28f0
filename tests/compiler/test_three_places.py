"""The same rules compile to the same bytes from any source of the graph.

The sources are a file, a store on disk, and an endpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oxigraph_server import needs_oxigraph, put, serving

from fedkg_compiler import cache
from fedkg_compiler.cache import compile_cached
from fedkg_compiler.cache_entries import cache_folder
from fedkg_compiler.graph.stores.store_writing import load_files
from fedkg_compiler.pipeline import compile_rules

LIBRARY = Path(__file__).parents[2] / "rules"
EXAMPLES = sorted(path for path in LIBRARY.glob("*/*.fkg") if path.with_suffix(".ttl").exists())
RULES = """\
prefix plant: <https://example.org/plant#>
signal torque(?m) is plant:torque in N.m span 0 .. 80
signal speed in rpm
rule cap for ?m, ?x where { ?m a plant:Machine ; plant:maxTorque ?x } require torque(?m) <= ?x
rule all for ?m where { ?m a plant:Machine } require torque(?m) >= 0 N.m
rule tagged for ?m, ?tag where { ?m plant:tag/plant:text ?tag FILTER(STRLEN(?tag) > 1) }
  require torque(?m) > 1 N.m
rule fast require speed <= 3000
"""
HEAD = """\
@prefix plant: <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix unit: <http://qudt.org/vocab/unit/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
plant:Machine a rdfs:Class .
plant:Mill a rdfs:Class ; rdfs:subClassOf plant:Machine .
plant:torque a sosa:ObservableProperty .
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("oxigraph")) as address:
        yield address


def packed(rules: list[Path], graph: Path | str) -> bytes:
    found = compile_rules(rules, graphs=[graph])
    assert [item.message for item in found.diagnostics if item.severity == "error"] == []
    assert found.pack is not None
    return found.pack.to_bytes()


def in_all_places(rules: list[Path], text: str, folder: Path, server: str) -> None:
    path = folder / "graph.ttl"
    path.write_text(text, encoding="utf-8")
    store = folder / "graph.store"
    loaded, problems = load_files(store, [path])
    assert loaded is not None, problems
    put(server, text)
    expected = packed(rules, path)
    assert packed(rules, store) == expected  # closed now
    assert packed(rules, store) == expected  # as it was closed
    assert packed(rules, f"{server}/query") == expected


NUMBERS = st.sampled_from(
    ["60", "60.0", "6.0e1", "072.50", '"70"^^<http://www.w3.org/2001/XMLSchema#float>']
)
LIMITS = st.one_of(
    NUMBERS,
    st.builds(
        "[ qudt:numericValue {} ; qudt:unit unit:{} ]".format,
        NUMBERS,
        st.sampled_from(["N-M", "KiloN-M"]),
    ),
)
TAGS = st.builds(
    "[ plant:text {} ]".format, st.sampled_from(['"mill"', '"Mühle"@de', '"x"', '"a\\nb"'])
)


@st.composite
def plants(draw: st.DrawFn) -> str:
    said: list[str] = []
    for i in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["Mill", "Machine"]))
        said.append(f"plant:M{i} a plant:{kind} ; plant:maxTorque {draw(LIMITS)} .")
        said += [f"plant:M{i} plant:tag {tag} ." for tag in draw(st.lists(TAGS, max_size=3))]
        said.append(
            f"plant:S{i} a sosa:Sensor ; sosa:observes plant:torque ; sosa:isHostedBy plant:M{i} ;"
            f' fkg:column "T{i}" .'
        )
    return HEAD + "\n".join(draw(st.permutations(said))) + "\n"


@pytest.mark.slow
@needs_oxigraph
@given(text=plants())
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_generated_plants(text: str, tmp_path_factory: pytest.TempPathFactory, server: str) -> None:
    folder = tmp_path_factory.mktemp("plant")
    (folder / "rules.fkg").write_text(RULES, encoding="utf-8")
    in_all_places([folder / "rules.fkg"], text, folder, server)


@needs_oxigraph
@pytest.mark.slow
@pytest.mark.parametrize("rules", EXAMPLES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_the_library(rules: Path, tmp_path: Path, server: str) -> None:
    in_all_places([rules], rules.with_suffix(".ttl").read_text(encoding="utf-8"), tmp_path, server)


@pytest.mark.slow
@needs_oxigraph
def test_one_of_the_library_in_every_run(tmp_path: Path, server: str) -> None:
    rules = LIBRARY / "isa95" / "limits.fkg"
    in_all_places([rules], rules.with_suffix(".ttl").read_text(encoding="utf-8"), tmp_path, server)


@pytest.mark.slow
@needs_oxigraph
def test_what_an_endpoint_said_is_not_kept_and_what_a_store_said_until_it_changes(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "WORTH", -1.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rules, graph = tmp_path / "rules.fkg", tmp_path / "graph.ttl"
    rules.write_text(RULES, encoding="utf-8")
    text = (
        HEAD + "plant:M a plant:Mill ; plant:maxTorque {} . plant:S sosa:observes plant:torque ;"
        ' sosa:isHostedBy plant:M ; fkg:column "T" .'
    )
    got = []
    for limit in ("60", "70"):
        graph.write_text(text.format(limit), encoding="utf-8")
        put(server, text.format(limit))
        load_files(tmp_path / "graph.store", [graph])
        for place in (tmp_path / "graph.store", f"{server}/query"):
            made = compile_cached([rules], [place]).packed
            assert made is not None
            got.append(made.body)
    assert got[0] == got[1] != got[2] == got[3]
    assert len(list(cache_folder().glob("*.json"))) == 1
