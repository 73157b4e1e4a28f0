"""Shapes over a small plant: which become rows, which the graph decides, which are rejected.

Every component has a position.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fedkg.cli.inspect_pack import placement_lines
from fedkg.evaluation import evaluate
from fedkg.pack import Pack, Placement
from fedkg.pack.formula_text import row_text
from fedkg.tables import Table
from fedkg_compiler import compile_rules
from fedkg_compiler.compilation_result import Compilation

HEAD = """
@prefix plant: <https://example.org/plant#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix unit: <http://qudt.org/vocab/unit/> .
"""
PLANT = """
plant:pressure a rdf:Property . plant:level a rdf:Property . plant:state a rdf:Property .
plant:Pump fkg:keyColumn "pump" .
plant:P1 a plant:Pump ; plant:maxPressure 8 ; plant:serial "A1" ; plant:feeds plant:P2 .
plant:P2 a plant:Pump ; plant:maxPressure [ qudt:numericValue 900 ; qudt:unit unit:KiloPA ] .
"""
RULES = """
prefix plant: <https://example.org/plant#>
signal pressure(?p) is plant:pressure in bar column "p"
signal level(?p) is plant:level column "level"
signal state(?p) is plant:state column "state"
shapes "shapes.ttl"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compiled(folder: Path, shapes: str, plant: str = PLANT, rules: str = RULES) -> Compilation:
    (folder / "shapes.ttl").write_text(HEAD + shapes, encoding="utf-8")
    (folder / "plant.ttl").write_text(HEAD + plant, encoding="utf-8")
    return compile_rules(text=rules, graphs=[folder / "plant.ttl"])


def pump(body: str) -> str:
    return f"plant:S a sh:NodeShape ; sh:targetClass plant:Pump ; {body} ."


def pack_of(compilation: Compilation) -> Pack:
    assert compilation.pack is not None, compilation.diagnostics
    return compilation.pack


def formulas(pack: Pack) -> list[str]:
    return [row_text(pack, bank, row) for bank in pack.banks for row in range(bank.rows)]


def verdicts(pack: Pack, **columns: list[str]) -> dict[str, int]:
    return {rule.rule: rule.violated for rule in evaluate(pack, Table.of("t", columns)).rules}


def placements_by_part(pack: Pack) -> dict[str, Placement]:
    return {placement.part: placement for placement in pack.manifest.placements}


def test_bounds_speak_the_units_of_the_signal_and_facts_are_converted(folder: Path) -> None:
    pack = pack_of(
        compiled(
            folder,
            pump(
                "sh:property [ sh:path plant:pressure ; sh:minInclusive 1 ; sh:lessThan "
                "plant:maxPressure ]"
            ),
        )
    )
    assert formulas(pack) == [
        "1 <= pressure  (in bar)",
        "1 <= pressure  (in bar)",
        "pressure < 8  (in bar)",
        "pressure < 9  (in bar)",
    ]
    rows = verdicts(pack, pump=["P1", "P1", "P2", "P2"], p=["8", "", "8.9", "0.5"])
    assert rows == {"S.pressure.minInclusive": 1, "S.pressure.lessThan": 1}


def test_counts_and_missing_values(folder: Path) -> None:
    shape = pump(
        "sh:property [ sh:path plant:pressure ; sh:minCount 1 ] ; sh:property [ sh:path "
        "plant:state ; sh:maxCount 0 ]"
    )
    rows = verdicts(
        pack_of(compiled(folder, shape)), pump=["P1", "P2"], p=["", "1"], state=["on", ""]
    )
    assert rows == {"S.pressure.minCount": 1, "S.state.maxCount": 1}


@pytest.mark.parametrize(
    ("body", "p", "state", "violated"),
    [
        (
            (
                "sh:or ( [ sh:path plant:pressure ; sh:minInclusive 5 ] [ sh:path plant:state "
                "; sh:in ( 'on' 'off' ) ] )"
            ),
            "1",
            "on",
            0,
        ),
        (
            (
                "sh:or ( [ sh:path plant:pressure ; sh:minInclusive 5 ] [ sh:path plant:state "
                "; sh:in ( 'on' 'off' ) ] )"
            ),
            "1",
            "broken",
            1,
        ),
        (
            (
                "sh:or ( [ sh:path plant:pressure ; sh:minInclusive 5 ] [ sh:path plant:state "
                "; sh:in ( 'on' 'off' ) ] )"
            ),
            "",
            "broken",
            0,
        ),
        ("sh:not [ sh:path plant:pressure ; sh:minInclusive 5 ]", "", "on", 1),
        ("sh:not [ sh:path plant:pressure ; sh:minInclusive 5 ]", "4", "on", 0),
        (
            (
                "sh:xone ( [ sh:path plant:pressure ; sh:minCount 1 ] [ sh:path plant:state ; "
                "sh:minCount 1 ] )"
            ),
            "4",
            "on",
            1,
        ),
        (
            (
                "sh:xone ( [ sh:path plant:pressure ; sh:minCount 1 ] [ sh:path plant:state ; "
                "sh:minCount 1 ] )"
            ),
            "4",
            "",
            0,
        ),
        ("sh:property [ sh:path plant:pressure ; sh:datatype xsd:integer ]", "4.5", "", 1),
        ("sh:property [ sh:path plant:pressure ; sh:in ( 4 5 ) ]", "5", "", 0),
        ("sh:property [ sh:path plant:state ; sh:hasValue 'on' ]", "5", "", 1),
        ("sh:property [ sh:path plant:pressure ; sh:equals plant:level ]", "5", "", 1),
        ("sh:property [ sh:path plant:pressure ; sh:node [ sh:minInclusive 5 ] ]", "4", "", 1),
        (
            (
                "sh:property [ sh:path plant:pressure ; sh:deactivated true ; sh:minInclusive "
                "5 ] ; sh:nodeKind sh:IRI"
            ),
            "4",
            "",
            0,
        ),
    ],
)
def test_connectives_say_what_shacl_says(
    folder: Path, body: str, p: str, state: str, violated: int
) -> None:
    pack = pack_of(compiled(folder, pump(body)))
    if pack.rows:
        assert any(verdicts(pack, pump=["P1"], p=[p], state=[state], level=["6"]).values()) == bool(
            violated
        )
    else:
        assert not violated


def test_a_static_part_decides_for_each_focus_node(folder: Path) -> None:
    body = (
        "sh:or ( [ sh:path plant:serial ; sh:minCount 1 ] [ sh:path plant:pressure ; "
        "sh:maxInclusive 3 ] )"
    )
    pack = pack_of(compiled(folder, pump(body)))
    assert [pack.manifest.entities[int(bank.entity[0])] for bank in pack.banks] == ["P2"]
    assert verdicts(pack, pump=["P1", "P2"], p=["9", "9"]) == {"S.or": 1}


def test_paths_lead_over_static_facts_to_columns(folder: Path) -> None:
    pack = pack_of(
        compiled(
            folder,
            pump("sh:property [ sh:path ( plant:feeds plant:pressure ) ; sh:maxInclusive 3 ]"),
        )
    )
    assert verdicts(pack, pump=["P1", "P2"], p=["9", "9"]) == {"S.feeds/pressure.maxInclusive": 1}


def test_qualified_shapes_count_columns(folder: Path) -> None:
    tanks = "plant:T a plant:Tank ; plant:zone plant:Z1, plant:Z2, plant:Z3 .\n" + "\n".join(
        f'plant:Z{i} plant:heat [ fkg:column "h{i}" ] .' for i in (1, 2, 3)
    )
    shape = """plant:S a sh:NodeShape ; sh:targetClass plant:Tank ;
        sh:property [ sh:path ( plant:zone plant:heat ) ;
            sh:qualifiedValueShape [ sh:minInclusive 10 ] ;
            sh:qualifiedMinCount 2 ; sh:qualifiedMaxCount 2 ] ."""
    pack = pack_of(compiled(folder, shape, tanks, 'shapes "shapes.ttl"\n'))
    rows = verdicts(
        pack, h1=["11", "11", "9", "11"], h2=["12", "9", "", "12"], h3=["1", "1", "11", "13"]
    )
    assert rows == {"S.zone/heat.qualifiedMinCount": 2, "S.zone/heat.qualifiedMaxCount": 1}


def test_with_rows_are_each_row_is_a_focus_node(folder: Path) -> None:
    rules = """
prefix plant: <https://example.org/plant#>
signal pressure is plant:pressure in bar column "p"
rows are plant:Pump
shapes "shapes.ttl"
"""
    body = (
        "sh:property [ sh:path plant:pressure ; sh:maxInclusive 10 ] ; sh:property [ "
        "sh:path plant:colour ; sh:minCount 1 ]"
    )
    compilation = compiled(
        folder, pump(body), "plant:Pump a <http://www.w3.org/2002/07/owl#Class> .", rules
    )
    pack = pack_of(compilation)
    assert verdicts(pack, p=["9", "11", ""]) == {"S.pressure.maxInclusive": 1}
    assert placements_by_part(pack)["S.colour.minCount"].where == "refused"
    (said,) = [item for item in compilation.diagnostics if item.severity == "warning"]
    assert said.code == "FKG318"
    assert "`plant:colour`" in said.message
    assert "declare a signal with it" in said.help


def test_what_the_graph_violates_is_reported_with_its_severity(folder: Path) -> None:
    error = compiled(folder, pump("sh:property [ sh:path plant:serial ; sh:minCount 1 ]"))
    [said] = [item for item in error.diagnostics if item.severity == "error"]
    assert said.code == "FKG310"
    assert "P2" in said.message
    warning = compiled(
        folder,
        pump(
            "sh:property [ sh:path plant:serial ; sh:minCount 1 ; sh:severity sh:Warning ; "
            "sh:message 'Say.' ]"
        ),
    )
    [said] = [item for item in warning.diagnostics if item.code == "FKG310"]
    assert said.severity == "warning"
    assert said.message.endswith("Say.")
    assert placements_by_part(pack_of(warning))["S.serial.minCount"].conforms is False


@pytest.mark.parametrize(
    ("value", "shape", "conforms"),
    [
        ('"on"', 'sh:in ( "on" "off" )', True),
        ('"out"', 'sh:in ( "on" "off" )', False),
        ('"on"', 'sh:hasValue "on"', True),
        ('"on"@en', 'sh:hasValue "on"', False),
        ("4e0", "sh:in ( 4e0 )", True),
        (
            '"2024-01-01T00:00:00Z"^^xsd:dateTime',
            'sh:hasValue "2024-01-01T00:00:00Z"^^xsd:dateTime',
            True,
        ),
        ("0.1e0", "sh:maxInclusive 0.1", True),
        ("0.3e0", "sh:minInclusive 0.3", True),
        ("0.3e0", "sh:minExclusive 0.3", False),
    ],
)
def test_values_in_the_graph_equal_those_of_shapes(
    folder: Path, value: str, shape: str, conforms: bool
) -> None:
    shapes = pump(f"sh:property [ sh:path plant:size ; {shape} ]")
    data = (
        f"@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n{PLANT}plant:P2 plant:size {value} ."
    )
    shapes = f"@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n{shapes}"
    found = [
        one.message for one in compiled(folder, shapes, data).diagnostics if one.code == "FKG310"
    ]
    assert any("P2" in message for message in found) is not conforms


@pytest.mark.parametrize("names", ["ABCD", "DCBA"])
def test_shapes_in_a_circle_read_the_table_if_one_of_them_does(folder: Path, names: str) -> None:
    """Whichever of them is bound first; the shape D leads to none of the others."""
    shapes = """
plant:A sh:node plant:B, plant:D ; sh:property [ sh:path plant:pressure ; sh:maxInclusive 5 ] .
plant:B sh:node plant:C . plant:C sh:node plant:A . plant:D sh:nodeKind sh:IRI .
"""
    targets = (
        f"plant:S{name} sh:targetClass plant:Pump ; sh:node plant:{name} ." for name in names
    )
    found = placements_by_part(pack_of(compiled(folder, shapes + " ".join(targets))))
    places = {name: found[f"S{name}.node"].where for name in "ABCD"}
    assert places == {**dict.fromkeys("ABC", "refused"), "D": "graph"}


@pytest.mark.parametrize(("size", "violated"), [("-INF", 0), ("infinite", 1)])
def test_a_number_that_is_not_finite_has_its_datatype_beside_a_column(
    folder: Path, size: str, violated: int
) -> None:
    double = "<http://www.w3.org/2001/XMLSchema#double>"
    either = (
        "sh:or ( [ sh:path plant:pressure ; sh:maxInclusive 0 ]"
        f" [ sh:path plant:size ; sh:datatype {double} ] )"
    )
    shapes = f"plant:S a sh:NodeShape ; sh:targetNode plant:P1 ; {either} ."
    pack = pack_of(compiled(folder, shapes, f'{PLANT}plant:P1 plant:size "{size}"^^{double} .'))
    found = verdicts(pack, pump=["P1"], p=["1"], level=["1"], state=[""])
    assert sum(found.values()) == violated


def test_placeholders_of_messages_are_filled(folder: Path) -> None:
    """With what was found, with the query's variables, or in general as the title of a rule."""
    message = "sh:message '{?value} of {$this} > {$maxInclusive}, {?v}'"
    shapes = (
        f"sh:property [ sh:path plant:size ; sh:maxInclusive 5 ; {message} ] ; "
        f"sh:sparql [ {message} ; sh:select 'SELECT $this ?v WHERE {{ $this plant:size ?v }}' ]"
    )
    found = compiled(folder, pump(shapes), PLANT + "plant:P2 plant:size 7 .")
    first, second = (item.message for item in found.diagnostics if item.code == "FKG310")
    this = "https://example.org/plant#P2"
    assert first.endswith(f"P2 (7): 7 of {this} > 5, {{?v}}"), first
    assert second.endswith(f"P2: {this} of {this} > {{$maxInclusive}}, 7"), second
    rule = compiled(folder, pump(shapes.replace("size", "pressure").split(" ; sh:sparql")[0]))
    titles = [rule.title for rule in pack_of(rule).manifest.rules]
    assert titles == ["the value of the focus node > 5, {?v}"]


def test_every_component_has_exactly_one_place(folder: Path) -> None:
    body = """sh:property [ sh:path plant:pressure ; sh:minInclusive 1 ; sh:pattern "x" ;
            sh:datatype xsd:double ] ;
        sh:or ( [ sh:path plant:state ; sh:hasValue "on" ] [ sh:class plant:Other ] )"""
    off = (
        "plant:Off a sh:NodeShape ; sh:deactivated true ; sh:targetClass plant:Pump ; "
        "sh:nodeKind sh:Literal ."
    )
    alone = "plant:Alone a sh:NodeShape ; sh:nodeKind sh:Literal ."
    placements = pack_of(compiled(folder, f"{pump(body)}\n{off}\n{alone}")).manifest.placements
    assert Counter(item.part for item in placements).most_common(1)[0][1] == 1
    assert {item.part: item.where for item in placements} == {
        "S.pressure.minInclusive": "rows",
        "S.pressure.pattern": "refused",
        "S.pressure.datatype": "graph",
        "S.or": "rows",
        "S.or.state.hasValue": "rows",
        "S.or.class": "rows",
        "Off.nodeKind": "off",
        "Alone.nodeKind": "off",
    }
    assert len(placements) == 8
    lines = placement_lines(pack_of(compiled(folder, f"{pump(body)}\n{off}\n{alone}")))
    assert [
        line.partition(":")[2].strip() for line in lines if line and not line.startswith(" ")
    ] == [
        "1 part decided on the graph",
        "2 parts off",
        "1 part not checked",
        "4 parts checked on data",
    ]
    told = [line.strip() for line in lines if line.startswith(" ")]
    assert [line.partition(": ")[0] for line in told] == [
        "S.pressure.datatype",
        "Off.nodeKind",
        "Alone.nodeKind",
        "S.pressure.pattern",
        "S.pressure.minInclusive",
        "S.or",
        "S.or.class",
        "S.or.state.hasValue",
    ]
    assert "Off.nodeKind: the shape is deactivated" in told


def test_many_parts_are_listed_when_they_are_asked_for(folder: Path) -> None:
    shapes = "\n".join(
        f"plant:S{i} a sh:NodeShape ; sh:targetClass plant:Pump ; sh:property [ sh:path "
        "plant:serial ; sh:minLength 1 ] ."
        for i in range(50)
    )
    pack = pack_of(compiled(folder, shapes))
    assert placement_lines(pack) == [
        "",
        (
            "shapes.ttl: 50 parts decided on the graph, such as S0.serial.minLength (--parts "
            "lists each)"
        ),
    ]
    told = placement_lines(pack, every=True)
    assert told[1] == "shapes.ttl: 50 parts decided on the graph"
    assert sorted(told[2:]) == sorted(f"  S{i}.serial.minLength" for i in range(50))


@pytest.mark.parametrize("names", ["ABC", "CBA"])
def test_a_part_inside_another_is_told_of_its_own_shape(folder: Path, names: str) -> None:
    first, second, third = tuple(names)
    shapes = "\n".join(
        f"plant:{name} a sh:NodeShape ; sh:targetClass plant:Pump ; sh:or ( [ sh:{kind} "
        f"{value} ] [ sh:node plant:{other} ] ) ."
        for name, other, kind, value in (
            (first, second, "nodeKind", "sh:IRI"),
            (second, third, "class", "plant:Pump"),
            (third, first, "pattern", '"P"'),
        )
    )
    placements = pack_of(compiled(folder, shapes)).manifest.placements
    reasons = {
        item.part: item.reason
        for item in placements
        if item.part.rpartition(".")[2] in ("nodeKind", "class", "pattern")
    }
    parts = {
        f"{first}.or.nodeKind": first,
        f"{second}.or.class": second,
        f"{third}.or.pattern": third,
    }
    assert reasons == {part: f"part of {name}.or" for part, name in parts.items()}


def test_targets_by_query_and_by_property(folder: Path) -> None:
    query = """plant:S a sh:NodeShape ; sh:target [ a sh:SPARQLTarget ; sh:select
        "SELECT ?this WHERE { ?this <https://example.org/plant#serial> ?s }" ] ;
        sh:property [ sh:path plant:pressure ; sh:maxInclusive 3 ] ."""
    pack = pack_of(compiled(folder, query))
    assert [
        pack.manifest.entities[int(entity)] for bank in pack.banks for entity in bank.entity
    ] == ["P1"]
    having = (
        "plant:S a sh:NodeShape ; sh:targetSubjectsOf plant:state ; sh:property [ "
        "sh:path plant:pressure ; sh:minCount 1 ] ."
    )
    assert verdicts(
        pack_of(compiled(folder, having)), pump=["P1", "P1"], p=["", ""], state=["on", ""]
    ) == {"S.pressure.minCount": 1}


def test_a_value_in_any_column_of_a_property_makes_a_row_a_focus_node(folder: Path) -> None:
    shapes = (
        "plant:S a sh:NodeShape ; sh:targetSubjectsOf plant:temp ; sh:property [ "
        "sh:path plant:pressure ; sh:minCount 1 ] ."
    )
    plant = 'plant:Pump a rdf:Property . plant:temp fkg:column "T1", "T2" .'
    rules = RULES.replace("(?p)", "") + "rows are plant:Pump\n"
    pack = pack_of(compiled(folder, shapes, plant, rules))
    columns = {"T1": ["", "", "1", "1"], "T2": ["1", "", "", "1"], "p": ["", "", "", ""]}
    assert verdicts(pack, **columns) == {"S.pressure.minCount": 3}


@pytest.mark.parametrize(("above", "codes"), [("plant:Metal", []), ("plant:Wood", ["FKG310"])])
def test_the_class_of_the_rows_is_compared_with_that_of_a_shape(
    folder: Path, above: str, codes: list[str]
) -> None:
    plant = f"plant:Pump <http://www.w3.org/2000/01/rdf-schema#subClassOf> {above} ."
    rules = RULES.replace("(?p)", "") + "rows are plant:Pump\n"
    found = compiled(folder, pump("sh:class plant:Metal"), plant, rules)
    violated = [item for item in found.diagnostics if item.code == "FKG310"]
    assert [item.code for item in violated] == codes
    assert all("every table row" in item.message for item in violated)


def test_a_closed_shape_of_a_point_allows_the_triples_that_fedkg_adds(folder: Path) -> None:
    plant = """
@prefix brick: <https://brickschema.org/schema/Brick#> .
plant:t a brick:Sensor ; brick:isPointOf plant:P1 ; brick:hasUnit unit:DEG_C ;
  brick:timeseries [ brick:hasTimeseriesId "SAT" ] .
"""
    ignored = "rdf:type brick:isPointOf brick:timeseries"
    shape = (
        "@prefix brick: <https://brickschema.org/schema/Brick#> . plant:S a sh:NodeShape ;"
        " sh:targetClass brick:Sensor ; sh:closed true ; sh:ignoredProperties ( {} ) ;"
        " sh:property [ sh:path sosa:hasSimpleResult ; sh:maxInclusive 60 ] ."
    )
    for allowed, codes in ((f"{ignored} brick:hasUnit", []), (ignored, ["FKG310"])):
        found = compiled(folder, shape.format(allowed), plant, 'shapes "shapes.ttl"')
        assert [item.code for item in found.diagnostics if item.severity == "error"] == codes


@pytest.mark.parametrize(
    ("shapes", "code"),
    [
        (pump("sh:property [ sh:path [ sh:inverse plant:feeds ] ; sh:minCount 1 ]"), "FKG311"),
        (pump("sh:property [ sh:path plant:serial ; sh:minCount 'one' ]"), "FKG311"),
        (pump("sh:property [ sh:path plant:pressure ; sh:minCount 'one' ]"), "FKG311"),
        (pump("sh:property [ sh:path plant:pressure ; sh:pattern '[' ]"), "FKG311"),
        (pump("sh:property [ sh:path plant:pressure ; sh:lessThan 3 ]"), "FKG311"),
        (pump("sh:or _:l . _:l rdf:first plant:T ; rdf:rest _:l"), "FKG311"),
        (pump("sh:or 3"), "FKG311"),
        (pump("sh:property [ sh:path ( ) ; sh:minCount 1 ]"), "FKG311"),
        (pump("sh:property [ sh:path ( plant:serial ) ; sh:minCount 1 ]"), "FKG311"),
        (
            pump("sh:property [ sh:path [ sh:alternativePath ( plant:serial ) ] ; sh:minCount 1 ]"),
            "FKG311",
        ),
        (
            pump(
                "sh:property [ sh:minCount 1 ;"
                " sh:path [ sh:inversePath plant:a ; sh:zeroOrMorePath plant:b ] ]"
            ),
            "FKG311",
        ),
        (pump("sh:minCount 1"), "FKG311"),
        (
            pump("sh:property [ sh:path plant:serial ; sh:node [ sh:lessThan plant:state ] ]"),
            "FKG311",
        ),
        (
            pump(
                "plant:top 3 . plant:Top a sh:ConstraintComponent ;"
                " sh:parameter [ sh:path plant:top ; sh:optional 'no' ]"
            ),
            "FKG311",
        ),
        (
            pump(
                "sh:rule [ a sh:TripleRule ; sh:subject sh:this ; sh:predicate plant:ok ;"
                " sh:object 1 ; sh:deactivated 'no' ]"
            ),
            "FKG311",
        ),
        (pump("sh:closed 'true'"), "FKG311"),
        (pump("sh:deactivated 'true' ; sh:nodeKind sh:IRI"), "FKG311"),
        (pump("sh:sparql [ sh:select 'SELECT $this { }' ; sh:deactivated 0 ]"), "FKG311"),
        (pump("sh:property [ sh:path plant:serial ; sh:uniqueLang 'true' ]"), "FKG311"),
        (
            pump("sh:property [ sh:path plant:serial ; sh:qualifiedValueShapesDisjoint 'no' ]"),
            "FKG311",
        ),
        (pump("sh:property [ sh:path plant:serial, plant:state ; sh:minCount 1 ]"), "FKG311"),
        (
            pump(
                "sh:node "
                + "[ sh:not " * 400
                + "[ sh:property [ sh:path plant:pressure ; sh:minCount 1 ] ]"
                + " ]" * 400
            ),
            "FKG311",
        ),
        (pump("sh:sparql [ sh:select 'SELEC' ]"), "FKG316"),
        (pump("sh:property [ sh:path plant:pressure ; sh:maxInclsive 3 ]"), "FKG312"),
        (pump("sh:property [ sh:path plant:serial ; sh:qualifiedMinCount 1 ]"), "FKG312"),
        (
            (
                "plant:T1 a plant:Other . plant:S a sh:NodeShape ; sh:targetClass plant:Other ; "
                "sh:property [ sh:path plant:pressure ; sh:maxInclusive 1 ] ."
            ),
            "FKG313",
        ),
        ("plant:S a sh:NodeShape ; sh:target [ a plant:Odd ] ; sh:nodeKind sh:IRI .", "FKG314"),
        (
            (
                "plant:S a sh:NodeShape ; sh:targetClass plant:Tank ; sh:property [ sh:path "
                "plant:pressure ; sh:maxCount 1 ] ."
            ),
            "FKG313",
        ),
    ],
)
def test_wrong_shapes_are_reported_at_their_place(folder: Path, shapes: str, code: str) -> None:
    found = [item for item in compiled(folder, shapes).diagnostics if item.code == code]
    assert found
    assert found[0].span.file.endswith("shapes.ttl")


def test_files_that_are_not_there_or_hold_no_shapes(folder: Path) -> None:
    (folder / "plain.ttl").write_text(
        HEAD.replace("shacl", "other") + "plant:A a plant:B .", encoding="utf-8"
    )
    codes = [
        item.code
        for item in compile_rules(
            text='shapes "none.ttl"\nshapes "x/*.ttl"\nshapes "plain.ttl"\n'
        ).diagnostics
    ]
    assert codes.count("FKG317") == 2
    assert "FKG315" in codes
