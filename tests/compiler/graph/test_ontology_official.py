"""Official files in place of our modules change nothing for rules that use terms of both."""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_cases import HERE, PLANT, plant_graph
from shared import SHARED, needs_shared

from fedkg_compiler.graph import Graph, add_entry, load_catalog, load_graph, remove_entry

pytestmark = needs_shared

OFFICIAL = {
    "isa95": "isa95-dinen62264-2/DINEN62264.owl",
    "mason": "mason/mason.owl",
    "qudt": "qudt/VOCAB_QUDT-UNITS-ALL-v2.1.ttl",
}
PATTERNS = {
    "equipment of a site": (
        "?m a fkg-isa95:Equipment ; isa95:isPartOf ?s . ?s a isa95:Site",
        ["m", "s"],
    ),
    "machine tools": ("?m a mason:MachineTool ; plant:low ?low", ["m", "low"]),
    "roll-up by consistsOf": (
        "?s a isa95:Site ; isa95:consistsOf ?u . ?u a isa95:Work_Unit",
        ["s", "u"],
    ),
    "aliases": ("?u a fkg-isa95:WorkUnit ; fkg-isa95:feeds ?v", ["u", "v"]),
    "cutting tools": ("?m mason:usesTool ?t . ?t a fkg-mason:CuttingTool", ["m", "t"]),
    "inverse": ("?t mason:isUsedBy ?m", ["t", "m"]),
    "quantities": ("?m plant:limit ?l", ["m", "l"]),
}


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    home = tmp_path_factory.mktemp("official")
    for name, file in OFFICIAL.items():
        record, problems = add_entry(name, str(SHARED / "ontologies" / file), home=home)
        assert record is not None
        assert problems == ()
    return plant_graph(load_catalog(home=home))


@pytest.mark.parametrize("case", sorted(PATTERNS))
def test_the_same_quantifier_gives_the_same_rows(plant: Graph, official: Graph, case: str) -> None:
    where, variables = PATTERNS[case]
    ours, theirs = (graph.select(where, variables, span=HERE) for graph in (plant, official))
    assert ours == theirs
    assert ours[0] != []


@pytest.mark.parametrize(
    "name",
    [
        "fkg-isa95:Equipment",
        "isa95:Work_Unit",
        "isa95:Area",
        "mason:Tool",
        "mason:MillingMachine",
        "mason:Resource",
    ],
)
def test_in_class_gives_the_same_entities(plant: Graph, official: Graph, name: str) -> None:
    iri, problems = plant.resolve(name, "pname", HERE)
    assert (iri, problems) == official.resolve(name, "pname", HERE)
    assert iri is not None
    own = [entity for entity in official.instances(iri) if entity.startswith(PLANT)]
    assert own == plant.instances(iri)
    assert own != []


def test_columns_and_keys_are_the_same(plant: Graph, official: Graph) -> None:
    for entity in ("M1", "M2", "graz"):
        assert plant.key_of(PLANT + entity) == official.key_of(PLANT + entity)
        assert plant.columns_of(PLANT + "torque", PLANT + entity) == official.columns_of(
            PLANT + "torque", PLANT + entity
        )


def test_the_official_file_knows_names_that_our_part_lacks(plant: Graph, official: Graph) -> None:
    assert plant.resolve("unit:AC", "pname", HERE)[0] is None
    assert official.resolve("unit:AC", "pname", HERE) == ("http://qudt.org/vocab/unit/AC", ())
    assert (
        official.unit_text("http://qudt.org/vocab/unit/N-M")
        == plant.unit_text("http://qudt.org/vocab/unit/N-M")
        == "N.m"
    )
    assert official.unit_text("http://qudt.org/vocab/unit/KiloGM-PER-M") == "kg/m"


def test_the_official_mason_replaces_the_bundled_module(tmp_path: Path) -> None:
    add_entry("mason", str(SHARED / "ontologies" / OFFICIAL["mason"]), home=tmp_path)
    catalog = load_catalog(home=tmp_path)
    graph, problems, sources = load_graph([("mason", HERE)], {}, [], catalog=catalog)
    assert problems == ()
    assert "mason.owl" in {source.name for source in sources}
    assert "mason.ttl" not in {source.name for source in sources}
    assert len(graph) > 1329


def test_removing_the_official_file_brings_our_module_back(tmp_path: Path, plant: Graph) -> None:
    add_entry("mason", str(SHARED / "ontologies" / OFFICIAL["mason"]), home=tmp_path)
    remove_entry("mason", home=tmp_path)
    assert plant_graph(load_catalog(home=tmp_path)).terms() == plant.terms()


@pytest.mark.parametrize(
    "file",
    [
        "iof/Core.rdf",
        "schemaorg/schemaorg-current-https.ttl",
        "amontology/AMOntology_v3.nt",
        "amontology/ModelOntology.ttl",
        "ammo/ammo-0.6.0-merged.ttl",
    ],
)
def test_other_real_files_load_as_graphs_without_errors(file: str) -> None:
    graph, problems, _ = load_graph([], {}, [SHARED / "ontologies" / file])
    assert [problem.message for problem in problems if problem.severity == "error"] == []
    assert len(graph) > 700
