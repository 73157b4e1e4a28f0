"""Mistakes in shapes that would make them find nothing, or the wrong thing.

Each is reported with its position, and the rest is checked.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg_compiler import compile_rules
from fedkg_compiler.compilation_result import Compilation
from fedkg_compiler.diagnostics.record import Diagnostic

HEAD = """@prefix plant: <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
"""
PLANT = """
plant:pressure fkg:column "p" . plant:state fkg:column "state" ; fkg:category "on", "off", "stuck" .
plant:Pump fkg:keyColumn "pump" .
plant:P1 a plant:Pump ; plant:serial "A1" ; plant:note "n" .
"""
PRESSURE = "SELECT $this WHERE {{ $this plant:{} ?v . FILTER({} > 3) }}"
RULES = "prefix plant: <https://example.org/plant#>\n"
HIGH = "sh:property [ sh:path plant:pressure ; sh:maxInclusive 8 ]"


def compiled(folder: Path, body: str) -> tuple[Compilation, str]:
    text = f"{HEAD}plant:S a sh:NodeShape ; sh:targetClass plant:Pump ;\n  {body} .\n"
    (folder / "shapes.ttl").write_text(text, encoding="utf-8")
    (folder / "plant.ttl").write_text(HEAD + PLANT, encoding="utf-8")
    return compile_rules(text=RULES, graphs=[folder / "plant.ttl", folder / "shapes.ttl"]), text


def with_code(found: Compilation, code: str) -> list[Diagnostic]:
    return [item for item in found.diagnostics if item.code == code]


def text_at(item: Diagnostic, text: str) -> str:
    return text.split("\n")[item.span.line - 1][item.span.column - 1 : item.span.end_column - 1]


def select(text: str) -> str:
    return f'sh:sparql [ sh:select "{text}" ]'


def test_a_misspelt_property_of_a_query_is_told_where_it_stands(tmp_path: Path) -> None:
    found, text = compiled(tmp_path, f"{select(PRESSURE.format('presure', '?v'))} ; {HIGH}")
    [item] = with_code(found, "FKG318")
    assert (text_at(item, text), item.help) == ("plant:presure", "did you mean `plant:pressure`?")
    assert found.pack is not None
    assert [rule.name for rule in found.pack.manifest.rules] == ["S.pressure.maxInclusive"]


@pytest.mark.parametrize(
    "inside", ["OPTIONAL { $this plant:later ?l }", "FILTER NOT EXISTS { $this plant:later ?l }"]
)
def test_a_property_that_the_query_lets_be_absent_is_not_told(tmp_path: Path, inside: str) -> None:
    found, _ = compiled(
        tmp_path,
        select(f"SELECT $this WHERE {{ $this plant:serial ?s . {inside} FILTER(?s = 'B') }}"),
    )
    assert not with_code(found, "FKG318")


def test_a_variable_that_nothing_binds_is_told_where_it_stands(tmp_path: Path) -> None:
    found, text = compiled(tmp_path, select(PRESSURE.format("pressure", "?vv")))
    [item] = with_code(found, "FKG325")
    assert (text_at(item, text), item.help) == ("?vv", "bound are `?v`")


@pytest.mark.parametrize(
    "query",
    [
        (
            "SELECT $this (?v AS ?value) WHERE { $this plant:pressure ?v . BIND(?v * 2 AS ?w) "
            "FILTER(?w > 3) }"
        ),
        (
            "SELECT $this WHERE { { SELECT $this (MAX(?v) AS ?m) WHERE { $this plant:pressure "
            "?v } GROUP BY $this } FILTER(?m > 3) }"
        ),
    ],
)
def test_variables_that_are_bound_in_any_way_are_not_told(tmp_path: Path, query: str) -> None:
    assert not with_code(compiled(tmp_path, select(query))[0], "FKG325")


@pytest.mark.parametrize("name", ["pressure", "serial"])
def test_a_prefix_that_nothing_declares_names_its_query_and_leaves_the_rest_alone(
    tmp_path: Path, name: str
) -> None:
    query = f"SELECT $this WHERE {{ $this pl:{name} ?v . FILTER(?v > 3) }}"
    found, text = compiled(
        tmp_path,
        f"{select(query)} ; sh:property [ sh:path plant:missing2 ; sh:maxCount 0 ] ; {HIGH}",
    )
    [item] = with_code(found, "FKG316")
    assert (text_at(item, text), item.help) == (
        f"pl:{name}",
        "add `PREFIX pl: <...>` to the query, or `sh:prefixes`",
    )
    assert "fedkg cannot run the query of S.sparql: the prefix `pl:` is not known" in item.message
    assert not [other for other in found.diagnostics if other.severity == "error" and other != item]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (select("SELECT $this WHERE { $this plant:serial ?v . FILTER(?v > ) }"), "FKG316"),
        (select("SELECT $this WHERE { $this plant:pressure ?v . FILTER(?v > ) }"), "FKG316"),
        (
            'sh:target [ sh:select "SELECT ?this WHERE { FILTER(1 > ) }" ] ; sh:nodeKind sh:IRI',
            "FKG314",
        ),
    ],
)
def test_a_mistake_in_a_query_is_reported_where_it_stands(
    tmp_path: Path, body: str, code: str
) -> None:
    found, text = compiled(tmp_path, body)
    [item] = [one for one in found.diagnostics if one.severity == "error"]
    assert (item.code, text_at(item, text)) == (code, ")")
    assert item.span.column > text.split("\n")[item.span.line - 1].index("> )")
    assert "the query is not SPARQL at `)`: a value is expected" in item.message


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            'sh:sparql [ sh:ask "ASK { $this plant:pressure ?v . FILTER(?v > 3) }" ]',
            "sh:sparql has no `sh:ask`",
        ),
        (
            select("SELECT ?p WHERE { ?p plant:pressure ?v . FILTER(?v > 3) }"),
            "does not select `$this`",
        ),
        (
            select("SELECT (COUNT($this) AS ?n) WHERE { $this plant:serial ?v }"),
            "does not select `$this`",
        ),
        ('sh:sparql [ sh:message "nothing else" ]', "no `sh:select`"),
        ("sh:property plant:nosuch", "this file has no shape `plant:nosuch`"),
        ("sh:not plant:nosuch", "this file has no shape `plant:nosuch`"),
    ],
)
def test_what_shacl_does_not_have_is_rejected_and_the_rest_checked(
    tmp_path: Path, body: str, reason: str
) -> None:
    found, _ = compiled(
        tmp_path, f"{body} ; sh:property [ sh:path plant:serial ; sh:minCount 2 ] ; {HIGH}"
    )
    [item] = with_code(found, "FKG312")
    assert reason in item.message
    [violated] = [one for one in found.diagnostics if one.severity == "error"]
    assert "S.serial.minCount is violated by P1" in violated.message


def test_a_severity_that_shacl_lacks_is_reported(tmp_path: Path) -> None:
    found, text = compiled(tmp_path, f"sh:severity sh:Warnig ; {HIGH}")
    [item] = with_code(found, "FKG312")
    assert (text_at(item, text), item.help) == ("sh:Warnig", "did you mean `sh:Warning`?")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ('sh:hasValue "On"', "On is not a declared"),
        ('sh:in ( "on" "onn" )', "onn is not a declared"),
        ("sh:maxInclusive 3", "compares 3 with texts"),
    ],
)
def test_an_undeclared_category_is_reported(tmp_path: Path, body: str, shown: str) -> None:
    found, _ = compiled(tmp_path, f"sh:property [ sh:path plant:state ; {body} ] ; {HIGH}")
    [item] = with_code(found, "FKG326")
    assert shown in item.message


def test_declared_categories_are_not_told(tmp_path: Path) -> None:
    found, _ = compiled(
        tmp_path, 'sh:property [ sh:path plant:state ; sh:in ( "on" "off" ) ; sh:maxLength 3 ]'
    )
    assert not with_code(found, "FKG326")


def test_a_property_shape_without_a_path_is_reported_at_its_shape_and_once(tmp_path: Path) -> None:
    found, text = compiled(
        tmp_path,
        "sh:property [ sh:minCount 1 ] ; sh:property [ sh:path plant:serial ; sh:minCount 1 ]",
    )
    [item] = [one for one in found.diagnostics if one.severity == "error"]
    assert (item.code, item.span.line) == ("FKG311", text[: text.index("plant:S")].count("\n") + 1)
    assert "has no sh:path" in item.message


@pytest.mark.parametrize(
    ("wrong", "parameter"),
    [
        ("sh:minCount 'one'", "sh:minCount"),
        ("sh:maxCount '1'", "sh:maxCount"),
        ("sh:lessThan 3", "sh:lessThan"),
    ],
)
def test_a_wrong_value_is_reported_at_its_parameter(
    tmp_path: Path, wrong: str, parameter: str
) -> None:
    found, text = compiled(tmp_path, f"{HIGH} ; sh:property [ sh:path plant:serial ;\n  {wrong} ]")
    [item] = with_code(found, "FKG311")
    assert text_at(item, text) == parameter
    assert f"its {parameter} is" in item.message
