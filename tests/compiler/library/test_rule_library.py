"""The rule library: every file binds to its graph and is violated where it should be.

It reports nothing that its user could not fix.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedkg.authoring import run_examples
from fedkg.evaluation import evaluate
from fedkg.tables import read_table
from fedkg_compiler import compile_rules
from fedkg_compiler.frontends.fkg.binding.library import library_names
from fedkg_compiler.frontends.fkg.syntax import parse
from fedkg_compiler.frontends.fkg.syntax.printing import canonical
from fedkg_compiler.frontends.fkg.syntax.tree import Example, Rule
from fedkg_compiler.input_files import data_folder

RULES = data_folder("rules")
AREAS = ("isa95", "mason", "nist", "schemaorg")
FILES = [name for name in library_names() if name.partition(".")[0] in AREAS]
TABLES: dict[str, tuple[str, dict[str, tuple[int, int]]]] = {
    "isa95.balances": (
        "FI1,FI2,FI3,EI1,EI2\n400,0.1,500,40,38\n400,0.1,509,40,42\n400,0.1,511,40,37\n",
        {"mass_balance": (1, 1), "energy_balance": (1, 1)},
    ),
    "isa95.capacity": (
        "E1.kg_h,E2.kg_h,store.m\n400,500,12\n401,400,11\n12,501,12.5\n",
        {"within_capacity": (3, 3)},
    ),
    "isa95.hierarchy": (
        (
            "line.kWh,cell1.MJ,cell2.kWh,robot.kWh,cell2.scrap,robot.scrap,gripper.scrap\n"
            "300,360,200,190,5,3,2\n310,360,200,190,5,3,2\n300,360,200,190,5,3,3\n"
        ),
        {"parts_add_up": (2, 2)},
    ),
    "isa95.limits": (
        "PI7,TI7,TI9\n100,20,20\n99,96,20\n800,95,46\n801,95,4\n",
        {"equipment_limits": (1, 2), "class_limits": (1, 1), "material_limits": (1, 2)},
    ),
    "isa95.segments": (
        "mix.on,bake.on\n0,0\n1,0\n1,0\n0,1\n0,0\n1,1\n",
        {"in_order": (1, 0), "no_overlap": (1, 1)},
    ),
    "isa95.storage": (
        "silo.t,in.kg_h,out.t_h\n10,0,0\n11,6000,0\n11,6000,6\n10.9,0,3\n",
        {"storage_balance": (1, 1)},
    ),
    "mason.compatibility": (
        (
            "tool,material,operation\n"
            "T17,Aluminium,slotting\nT17,Steel,slotting\nT18,Steel,slotting\nT18,Brass,reaming\n"
            "T99,Oak,sawing\n"
        ),
        {"right_material": (2, 2), "right_operation": (2, 1)},
    ),
    "mason.cutting": (
        (
            "tool,material,vc,ap\n"
            "T17,Steel,150,2\nT17,Steel,151,2.5\nT17,Brass,400,4\nT18,Steel,400,4\n"
        ),
        {"within_cutting_window": (2, 2)},
    ),
    "mason.tool_wear": (
        "tool_id,tool_wear\nT17,100\nT18,80\nT17,110\nT18,95\nT17,105\nT17,241\n",
        {"wear_never_falls": (2, 1), "within_tool_life": (2, 2)},
    ),
    "nist.atmosphere": (
        (
            "machine,O2,p,T.platform,T.chamber\n"
            "M290,900,1010,200,40\nM290,1001,990,170,61\nother,5000,800,20,90\n"
        ),
        {
            "oxygen": (1, 1),
            "chamber_pressure": (1, 1),
            "platform_temperature": (1, 1),
            "chamber_temperature": (1, 1),
        },
    ),
    "nist.energy": (
        (
            "machine,laser,speed,hatch,layer\n"
            "M290,280,1200,0.12,40\nM290,370,800,0.12,30\nM290,100,1200,0.12,40\nother,999,1,1,1\n"
        ),
        {"energy_density": (1, 2)},
    ),
    "nist.parameters": (
        (
            "machine,laser,speed,hatch,layer\n"
            "M290,370,1200,0.1,30\nM290,371,1300,0.13,41\nother,999,1,1,1\n"
        ),
        {
            "laser_power": (1, 1),
            "scan_speed": (1, 1),
            "hatch_distance": (1, 1),
            "layer_thickness": (1, 1),
        },
    ),
    "nist.powder": (
        "powder,humidity,builds,d50\nTitanium,0.1,12,45\nTitanium,0.2,13,29\nSteel,5,99,90\n",
        {"powder_humidity": (1, 1), "powder_reuse": (1, 1), "grain_size": (1, 1)},
    ),
    "schemaorg.dates": ("made,released\n100,100\n100,99\n", {"dates_in_order": (1, 1)}),
    "schemaorg.facts": ("x\n1\n", {}),
    "schemaorg.quantities": (
        "sku,length,weight\nM8-40,39.5,20\nM8-40,39.4,20\nM8-N,8,6.1\nM8-N,8,5\n",
        {"within_bounds": (2, 2)},
    ),
    "schemaorg.ranges": (
        "price,net weight\n0,0.1\n-1,0\n",
        {"not_negative": (1, 1), "above_zero": (1, 1)},
    ),
}
"""For each file a table, and for each rule its number of bound rows and of violated evaluations."""

FACTS = {
    "price": ("schema:price 0", "schema:price -1"),
    "stock": ("schema:inventoryLevel 0", "schema:inventoryLevel -1"),
    "weight": ("schema:weight 0.1", "schema:weight 0.0"),
    "width": ("schema:width 0.1", "schema:width 0"),
    "height": ("schema:height 3 , [ a schema:QuantitativeValue ]", "schema:height 3 , -3"),
    "depth": ("schema:depth 1", "schema:depth 0"),
    "validFrom_validThrough": (
        "schema:validFrom DAY1 ; schema:validThrough DAY2",
        "schema:validFrom DAY2 ; schema:validThrough DAY1",
    ),
    "productionDate_releaseDate": (
        "schema:productionDate DAY1 ; schema:releaseDate DAY1",
        "schema:productionDate DAY2 ; schema:releaseDate DAY1",
    ),
    "productionDate_purchaseDate": (
        "schema:productionDate DAY1 ; schema:purchaseDate DAY2",
        "schema:productionDate DAY2 ; schema:purchaseDate DAY1",
    ),
    "productionDate_expires": (
        "schema:productionDate DAY1 ; schema:expires DAY2",
        "schema:productionDate DAY2 ; schema:expires DAY1",
    ),
}
"""For each shape about facts, valid and invalid statements about a thing."""


def library_file(name: str, suffix: str = ".fkg") -> Path:
    """A file of the library."""
    area, _, stem = name.partition(".")
    return RULES / area / f"{stem}{suffix}"


def rules_of(name: str) -> Iterator[Rule]:
    tree, problems = parse(library_file(name).read_text(encoding="utf-8"), name)
    assert problems == ()
    return (statement for statement in tree.statements if isinstance(statement, Rule))


def test_every_file_has_its_table() -> None:
    assert sorted(TABLES) == FILES
    for name, (_, rules) in TABLES.items():
        assert {rule.name.text for rule in rules_of(name)} == rules.keys()


@pytest.mark.parametrize("name", FILES)
def test_a_file_binds_to_the_graph_beside_it_and_breaks_where_it_should(
    name: str, tmp_path: Path
) -> None:
    table, expected = TABLES[name]
    compilation = compile_rules(
        text=f"use rules {name}\ntimeline step 10 min\n", graphs=[library_file(name, ".ttl")]
    )
    assert [
        f"{item.code} {item.message}" for item in compilation.diagnostics if item.code != "FKG242"
    ] == []
    assert compilation.pack is not None
    (tmp_path / "table.csv").write_text(table, encoding="utf-8")
    if not expected:
        return
    result = evaluate(compilation.pack, read_table(tmp_path / "table.csv"))
    got = {rule.rule: (rule.bound_rows, rule.violated) for rule in result.rules}
    assert got == {f"{name}.{rule}": figures for rule, figures in expected.items()}
    assert {
        (source.name, source.kind) for source in compilation.pack.manifest.provenance.sources
    } >= {(f"rules/{name.replace('.', '/')}.fkg", "rules")}


@pytest.mark.parametrize(
    "name", [name for name in FILES if name != "schemaorg.facts"]
)  # rules about facts have no examples of readings
def test_the_examples_come_out_as_they_say(name: str) -> None:
    results, diagnostics = run_examples([library_file(name), library_file(name, ".ttl")])
    assert [item.message for item in diagnostics if item.severity != "info"] == []
    assert [(one.rule, one.got) for one in results] == [(one.rule, one.expected) for one in results]
    tree, _ = parse(library_file(name).read_text(encoding="utf-8"), name)
    told = {(one.rule.text, one.holds) for one in tree.statements if isinstance(one, Example)}
    assert told == {(rule.name.text, holds) for rule in rules_of(name) for holds in (True, False)}
    assert len(results) == len(told)


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_described_and_in_its_canonical_form(name: str) -> None:
    text = library_file(name).read_text(encoding="utf-8")
    head = text[: text.index("\nuse ")]
    assert all(line.startswith("#") for line in head.split("\n"))
    assert "\n#   plant:" in head or "\n#   schema:" in head, (
        "a snippet of Turtle shows what the graph must hold"
    )
    assert all(rule.title is not None and rule.kind is not None for rule in rules_of(name))
    assert max(map(len, text.split("\n"))) <= 140
    assert canonical(text, name) == (text, ())


def test_the_snippets_of_the_descriptions_are_turtle() -> None:
    import pyoxigraph as ox

    prefixes = library_file("isa95.limits", ".ttl").read_text(encoding="utf-8").split("\n\n")[0]
    prefixes += (
        "\n@prefix mason: <http://www.owl-ontologies.com/mason.owl#> .\n@prefix nist:"
        " <http://siam.nist.gov/AM-Ontology_v2#> .\n"
    )
    prefixes += (
        "@prefix schema: <https://schema.org/> .\n@prefix xsd:"
        " <http://www.w3.org/2001/XMLSchema#> .\n"
    )
    prefixes += "".join(
        f"@prefix fkg-{name}: <https://w3id.org/fedkg/{name}#> .\n" for name in ("mason", "nist")
    )
    for name in FILES:
        lines = library_file(name).read_text(encoding="utf-8").split("\nuse ")[0].split("\n")
        snippet = "\n".join(
            line[4:].partition("                    ")[0]
            for line in lines
            if line.startswith("#   ")
        )
        assert len(list(ox.parse(prefixes + snippet, format=ox.RdfFormat.TURTLE))) >= 2, name


def test_static_facts_are_looked_at_when_rules_are_compiled(tmp_path: Path) -> None:
    graph = library_file("schemaorg.facts", ".ttl").read_text(encoding="utf-8")
    slips = {
        "schema:price 12.5": "schema:price -12.5",
        '"2026-12-31"': '"2025-12-31"',
        "schema:weight 0.02": "schema:weight 0.0",
    }
    wrong = graph
    for right, slip in slips.items():
        wrong = wrong.replace(right, slip)
    (tmp_path / "wrong.ttl").write_text(wrong, encoding="utf-8")
    compilation = compile_rules(text="use rules schemaorg.facts\n", graphs=[tmp_path / "wrong.ttl"])
    said = " ".join(item.message for item in compilation.diagnostics)
    assert len([item for item in compilation.diagnostics if item.severity == "warning"]) == 3, said


@pytest.mark.parametrize("shape", FACTS)
def test_each_shape_about_facts_lets_the_right_graph_pass_and_not_the_wrong_one(
    shape: str, tmp_path: Path
) -> None:
    head = (
        "@prefix schema: <https://schema.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#>"
        " .\n<https://example.org/it> "
    )
    told = []
    for fact in FACTS[shape]:
        days = fact.replace("DAY1", '"2026-04-30"^^xsd:date').replace(
            "DAY2", '"2026-05-01"^^xsd:date'
        )
        (tmp_path / "facts.ttl").write_text(f"{head}{days} .\n", encoding="utf-8")
        compilation = compile_rules(
            text="use rules schemaorg.facts\n", graphs=[tmp_path / "facts.ttl"]
        )
        assert compilation.pack is not None
        placements = compilation.pack.manifest.placements
        told.append(
            {
                placement.part.partition(".")[0]
                for placement in placements
                if placement.conforms is False and "shape_" not in placement.part
            }
        )
    assert told == [set(), {shape}]


def test_every_shape_about_facts_is_tried() -> None:
    text = library_file("schemaorg.facts", ".shapes.ttl").read_text(encoding="utf-8")
    assert [
        line.partition(" ")[0].removeprefix("lib:")
        for line in text.split("\n")
        if line.startswith("lib:")
    ] == list(FACTS)


def test_the_page_lists_every_rule_and_template() -> None:
    page = RULES.parent / "docs" / "reference" / "library.md"
    lines = page.read_text(encoding="utf-8").split("\n")
    for name in FILES:
        rules = list(rules_of(name))
        assert rules or any(line.startswith(f"| `{name}` |") for line in lines)
        for rule in rules:
            assert rule.title is not None
            assert any(
                line.startswith(f"| `{name}.{rule.name.text}` | {rule.title.text} |")
                for line in lines
            )
    for name in library_names():
        template = name.removeprefix("templates.")
        listed = f"| `{name}` |", f"| `{template}("
        assert name in FILES or any(
            line.startswith(listed) or f"file `{template}`" in line for line in lines
        )
