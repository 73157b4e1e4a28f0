"""SPARQL constraints and targets over observed values: their results, and rejections."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg.evaluation import evaluate
from fedkg.pack import Pack
from fedkg.pack.formula_text import row_text
from fedkg.tables import Table
from fedkg_compiler import compile_rules
from fedkg_compiler.compilation_result import Compilation

HEAD = """
@prefix plant: <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
plant:Words sh:declare [ sh:prefix "p" ; sh:namespace "https://example.org/plant#"^^xsd:anyURI ] .
plant:All owl:imports plant:Words .
"""
PLANT = """
plant:pressure fkg:column "p" . plant:level fkg:column "level" .
plant:Pump fkg:keyColumn "pump" .
plant:P1 a plant:Pump ; plant:maxPressure 8 ; plant:serial "A1" .
plant:P2 a plant:Pump ; plant:maxPressure 4 .
"""
ROWS = """
prefix plant: <https://example.org/plant#>
signal pressure is plant:pressure in bar column "p"
signal level is plant:level column "level"
rows are plant:Pump
"""


def compiled(folder: Path, shapes: str, *, rules: str = "", plant: str = PLANT) -> Compilation:
    (folder / "shapes.ttl").write_text(HEAD + shapes, encoding="utf-8")
    (folder / "plant.ttl").write_text(HEAD + plant, encoding="utf-8")
    return compile_rules(text=rules, graphs=[folder / "plant.ttl", folder / "shapes.ttl"])


def query(select: str, more: str = "") -> str:
    return f'sh:sparql [ sh:prefixes plant:All ; {more} sh:select "{select}" ]'


def pump(body: str) -> str:
    return f"plant:S a sh:NodeShape ; sh:targetClass plant:Pump ; {body} ."


def of_rows(folder: Path, shapes: str) -> Compilation:
    return compiled(folder, shapes, rules=ROWS, plant="plant:Pump a owl:Class .")


def pack_of(found: Compilation) -> Pack:
    assert found.pack is not None, found.diagnostics
    return found.pack


def formulas(pack: Pack) -> list[str]:
    return sorted(row_text(pack, bank, row) for bank in pack.banks for row in range(bank.rows))


def violated(pack: Pack, **columns: list[str]) -> dict[str, int]:
    return {rule.rule: rule.violated for rule in evaluate(pack, Table.of("t", columns)).rules}


def test_the_alternatives_of_an_ask_validator_see_the_value(tmp_path: Path) -> None:
    component = (
        "plant:Far a sh:ConstraintComponent ; sh:parameter [ sh:path plant:far ] ;"
        ' sh:validator [ a sh:SPARQLAskValidator ; sh:ask "ASK {'
        ' { FILTER($value <= 2) } UNION { FILTER($value >= 6) } }" ]'
    )
    body = "sh:property [ sh:path plant:pressure ; plant:far 1 ]"
    pack = pack_of(of_rows(tmp_path, f"{pump(body)} {component} ."))
    assert sum(violated(pack, p=["1", "4", "7"], level=["", "", ""]).values()) == 1


def test_a_solution_for_each_focus_node_becomes_a_row_with_the_words_of_the_constraint(
    tmp_path: Path,
) -> None:
    body = query(
        "SELECT $this ?v WHERE { $this p:pressure ?v ; p:maxPressure ?m . FILTER(?v > ?m) }",
        "sh:message 'too high' ;",
    )
    pack = pack_of(compiled(tmp_path, pump(f"sh:severity sh:Warning ; {body}")))
    assert formulas(pack) == ["pressure <= 4", "pressure <= 8"]
    [rule] = pack.manifest.rules
    assert (rule.name, rule.title, rule.severity, rule.file) == (
        "S.sparql",
        "too high",
        "warning",
        "shapes.ttl",
    )
    assert violated(pack, pump=["P1", "P2", "P2"], p=["7", "7", ""]) == {"S.sparql": 1}
    [place] = pack.manifest.placements
    assert (place.part, place.where, place.rule) == ("S.sparql", "rows", "S.sparql")


def test_a_path_stands_for_itself(tmp_path: Path) -> None:
    path = "sh:path [ sh:alternativePath ( plant:pressure plant:level ) ]"
    shape = pump(
        f"sh:property [ {path} ; "
        f"{query('SELECT $this WHERE { $this $PATH ?v . FILTER(?v > 3) }')} ]"
    )
    assert violated(pack_of(of_rows(tmp_path, shape)), p=["4", "2", "2"], level=["4", "4", ""]) == {
        "S.pressure|level.sparql": 2
    }


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("$PATH/p:size", "S.part.sparql is violated by P1 (3)"),
        ("$PATH/", "the query is not SPARQL at"),
        ("p:a p:b $PATH", "the query is not SPARQL at `$PATH`"),
    ],
)
def test_a_path_is_a_step_of_a_path(tmp_path: Path, steps: str, message: str) -> None:
    body = query(f"SELECT $this ?value WHERE {{ $this {steps} ?value }}")
    found = compiled(
        tmp_path,
        pump(f"sh:property [ sh:path plant:part ; {body} ]"),
        plant=f"{PLANT} plant:P1 plant:part [ plant:size 3 ] .",
    )
    assert any(message in item.message for item in found.diagnostics)


def test_a_table_row_has_what_is_observed_and_nothing_else(tmp_path: Path) -> None:
    pack = pack_of(
        of_rows(
            tmp_path,
            pump(
                query(
                    "SELECT $this WHERE { $this p:pressure ?v ; p:level ?l . FILTER(?v > 2 * ?l) }"
                )
            ),
        )
    )
    assert violated(pack, p=["5", "3"], level=["2", "2"]) == {"S.sparql": 1}
    found = of_rows(
        tmp_path,
        pump(query("SELECT $this WHERE { $this p:pressure ?v ; p:serial ?s . FILTER(?v > 2) }")),
    )
    [said] = [item for item in found.diagnostics if item.code == "FKG312"]
    assert "no `serial`" in said.message
    assert [item.where for item in pack_of(found).manifest.placements] == ["refused"]


def test_a_target_may_depend_on_the_table(tmp_path: Path) -> None:
    select = "SELECT ?this WHERE { ?this p:pressure ?v FILTER(?v > 3) }"
    target = f'sh:target [ a sh:SPARQLTarget ; sh:prefixes plant:All ; sh:select "{select}" ]'
    shape = (
        f"plant:S a sh:NodeShape ; {target} ; sh:property [ sh:path plant:level ; "
        "sh:maxInclusive 5 ; sh:minCount 1 ] ."
    )
    columns = {"p": ["4", "2", "", "4"], "level": ["9", "9", "9", ""]}
    assert violated(pack_of(of_rows(tmp_path, shape)), **columns) == {
        "S.level.maxInclusive": 1,
        "S.level.minCount": 1,
    }
    keyed = violated(pack_of(compiled(tmp_path, shape)), pump=["P1", "P1", "P2", "P2"], **columns)
    assert keyed == {"S.level.maxInclusive": 1, "S.level.minCount": 1}


def test_what_the_graph_alone_violates_is_reported(tmp_path: Path) -> None:
    body = query(
        "SELECT $this WHERE { { $this p:serial ?s } UNION { $this p:pressure ?v . "
        "FILTER(?v > 9) } }",
        "sh:message 'no' ;",
    )
    found = compiled(tmp_path, pump(f"sh:severity sh:Info ; {body}"))
    [said] = [item for item in found.diagnostics if item.code == "FKG310"]
    assert (said.severity, said.message) == ("info", "S.sparql is violated by P1: no")
    assert pack_of(found).manifest.placements[0].conforms is False


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        ("SELECT $this WHERE { $this p:pressure ?v . MINUS { $this p:level 1 } }", "no MINUS"),
        ("SELECT $this WHERE { VALUES ?v { 1 } $this p:pressure ?v }", "no VALUES"),
        (
            "SELECT $this WHERE { $this p:pressure ?v . { SELECT ?o WHERE { ?o p:serial ?s } } }",
            "must select $this",
        ),
        ("SELECT $this WHERE { BIND(1 AS ?this) ?x p:pressure ?v }", "binds it again"),
        ("SELECT $this WHERE { $this p:pressure ?v . FILTER(REGEX(STR(?v), '1')) }", "REGEX"),
    ],
)
def test_what_cannot_be_split_is_rejected_with_the_reason(
    tmp_path: Path, select: str, reason: str
) -> None:
    found = compiled(tmp_path, pump(query(select)))
    [place] = pack_of(found).manifest.placements
    assert place.where == "refused"
    assert reason in place.reason
    assert any(
        item.code == "FKG312" and reason in item.message and item.span.file.endswith("shapes.ttl")
        for item in found.diagnostics
    )


@pytest.mark.parametrize(
    "select",
    [
        "SELECT $this WHERE { $this p:pressure v }",
        "SELECT $this WHERE { $this nix:a ?v ; p:pressure ?v }",
    ],
)
def test_invalid_sparql_is_an_error(tmp_path: Path, select: str) -> None:
    assert [
        item.code
        for item in compiled(tmp_path, pump(query(select))).diagnostics
        if item.severity == "error"
    ] == ["FKG316"]


def test_a_constraint_may_be_off(tmp_path: Path) -> None:
    pack = pack_of(
        compiled(
            tmp_path,
            pump(query("SELECT $this WHERE { $this p:pressure ?v }", "sh:deactivated true ;")),
        )
    )
    assert [(item.where, item.reason) for item in pack.manifest.placements] == [
        ("off", "it is deactivated")
    ]


def test_a_query_inside_another_component_is_rejected(tmp_path: Path) -> None:
    inner = query("SELECT $this WHERE { $this p:pressure ?v . FILTER(?v > 3) }")
    found = compiled(tmp_path, pump(f"sh:not [ {inner} ]"))
    assert {item.part: item.where for item in pack_of(found).manifest.placements}[
        "S.not"
    ] == "refused"


def test_a_query_inside_another_component_may_ask_the_graph(tmp_path: Path) -> None:
    """P1 has a serial number, so its pressure counts.

    Of P2 the query finds nothing, and it conforms whatever the table says.
    """
    inner = query("SELECT $this WHERE { $this p:serial ?s }")
    off = query("SELECT $this WHERE { $this p:pressure ?v }", "sh:deactivated true ;")
    pack = pack_of(
        compiled(
            tmp_path,
            pump(f"sh:or ( [ {inner} ; {off} ] [ sh:path plant:pressure ; sh:maxInclusive 3 ] )"),
        )
    )
    assert violated(pack, pump=["P1", "P1", "P2"], p=["2", "4", "4"], level=["", "", ""]) == {
        "S.or": 1
    }


def test_constraints_in_javascript_are_not_run(tmp_path: Path) -> None:
    found = compiled(tmp_path, pump('sh:js [ sh:jsFunctionName "f" ]'))
    assert [(item.part, item.where) for item in pack_of(found).manifest.placements] == [
        ("S.js", "refused")
    ]
