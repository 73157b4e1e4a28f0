"""Unknown terms in shapes are reported with the nearest known one.

So are unreachable shapes and bare numbers in several units.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg_compiler import compile_rules
from fedkg_compiler.diagnostics.record import Diagnostic

HEAD = """@prefix plant: <https://example.org/plant#> .
@prefix other: <https://example.org/elsewhere#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix unit: <http://qudt.org/vocab/unit/> .
"""
PLANT = """
plant:M1 a plant:Mill ; plant:serial "A1" . plant:M2 a plant:Mill . plant:colour a rdf:Property .
plant:Lathe a rdfs:Class .
plant:s1 sosa:observes plant:torque ; sosa:isHostedBy plant:M1 ; fkg:column "M1.torque" ;
    qudt:unit unit:N-M .
plant:s2 sosa:observes plant:torque ; sosa:isHostedBy plant:M2 ; fkg:column "M2.torque" ;
    qudt:unit unit:KiloN-M .
"""


def diagnostics_of(folder: Path, shapes: str, rules: str = "") -> list[Diagnostic]:
    """All diagnostics of some shapes over the plant, except conflicts."""
    (folder / "shapes.ttl").write_text(HEAD + shapes, encoding="utf-8")
    (folder / "plant.ttl").write_text(HEAD + PLANT, encoding="utf-8")
    return list(
        compile_rules([folder / "shapes.ttl", folder / "plant.ttl"], text=rules or None).diagnostics
    )


def mill(body: str, target: str = "sh:targetClass plant:Mill") -> str:
    return f"plant:S a sh:NodeShape ; {target} ;\n  {body} .\n"


def text_at(item: Diagnostic, shapes: str) -> str:
    """The text at the span of a diagnostic."""
    return (HEAD + shapes).split("\n")[item.span.line - 1][
        item.span.column - 1 : item.span.end_column - 1
    ]


@pytest.mark.parametrize(
    ("body", "wrong", "meant"),
    [
        ("sh:property [ sh:path plant:torqe ; sh:maxInclusive 60 ]", "plant:torqe", "plant:torque"),
        ("sh:property [ sh:path plant:seriall ; sh:minCount 1 ]", "plant:seriall", "plant:serial"),
        (
            "sh:property [ sh:path <https://example.org/plant#torqe> ; sh:maxInclusive 60 ]",
            "<https://example.org/plant#torqe>",
            "<https://example.org/plant#torque>",
        ),
        (
            "sh:property [ sh:path [ sh:inversePath plant:colur ] ; sh:minCount 1 ]",
            "plant:colur",
            "plant:colour",
        ),
        (
            "sh:property [ sh:path plant:torque ; sh:lessThan plant:seriall ]",
            "plant:seriall",
            "plant:serial",
        ),
        (
            "sh:property [ sh:path plant:seriall ; sh:minCount 0 ; sh:maxCount 1 ]",
            "plant:seriall",
            "plant:serial",
        ),
        ("sh:closed true ; sh:property [ sh:path plant:seriall ]", "plant:seriall", "plant:serial"),
        ("sh:not [ sh:path plant:colur ; sh:hasValue 'red' ]", "plant:colur", "plant:colour"),
    ],
)
def test_a_property_that_nothing_speaks_of_is_reported_with_the_nearest(
    tmp_path: Path, body: str, wrong: str, meant: str
) -> None:
    (said,) = [item for item in diagnostics_of(tmp_path, mill(body)) if item.code == "FKG318"]
    assert (said.severity, text_at(said, mill(body)), said.help) == (
        "warning",
        wrong,
        f"did you mean `{meant}`?",
    )
    assert f"`{wrong}`" in said.message


@pytest.mark.parametrize(
    "body",
    [
        "sh:property [ sh:path plant:torque ; sh:maxInclusive 60000 ]",
        "sh:property [ sh:path plant:colour ; sh:minCount 0 ; sh:maxCount 3 ]",
        "sh:property [ sh:path plant:obsolete ; sh:maxCount 0 ]",
        "sh:property [ sh:path plant:optional ; sh:minCount 0 ]",
        (
            "sh:property [ sh:path plant:note ; sh:minCount 0 ; sh:maxCount 1 ; sh:nodeKind "
            "sh:Literal ]"
        ),
        "sh:not [ sh:property [ sh:path plant:obsolete ; sh:minCount 1 ] ]",
        (
            "sh:closed true ; sh:ignoredProperties ( rdf:type ) ; sh:property [ sh:path "
            "plant:note ; sh:maxCount 1 ]"
        ),
        "sh:property [ sh:path [ sh:zeroOrMorePath plant:feeds ] ; sh:nodeKind sh:IRI ]",
        (
            "sh:property [ sh:path rdf:type ; sh:minCount 1 ] ; sh:property [ sh:path "
            "sh:targetClass ; sh:maxCount 1 ]"
        ),
        "sh:property [ sh:path plant:colur ; sh:deactivated true ; sh:maxCount 1 ]",
    ],
)
def test_what_is_known_forbidden_or_off_is_not_told(tmp_path: Path, body: str) -> None:
    assert [
        item for item in diagnostics_of(tmp_path, mill(body)) if item.code in ("FKG318", "FKG319")
    ] == []


def test_a_property_is_underlined_where_it_stands_and_not_where_another_ends_alike(
    tmp_path: Path,
) -> None:
    body = (
        "sh:property [ sh:path [ sh:alternativePath ( rdfs:label plant:label "
        "plant:serial ) ] ; sh:maxCount 1 ]"
    )
    (said,) = [item for item in diagnostics_of(tmp_path, mill(body)) if item.code == "FKG318"]
    assert text_at(said, mill(body)) == "plant:label"
    assert "`plant:label`" in said.message


def test_a_property_of_a_signal_is_known_without_the_graph(tmp_path: Path) -> None:
    rules = (
        'prefix plant: <https://example.org/plant#>\nsignal level is plant:level column "level"\n'
    )
    found = diagnostics_of(
        tmp_path, mill("sh:property [ sh:path plant:levl ; sh:maxInclusive 6 ]"), rules
    )
    assert [item.help for item in found if item.code == "FKG318"] == ["did you mean `plant:level`?"]


def test_a_namespace_that_nothing_speaks_of_is_reported_once(tmp_path: Path) -> None:
    body = " ; ".join(
        f"sh:property [ sh:path other:{name} ; sh:maxCount 1 ]"
        for name in ("serial", "torque", "colour")
    )
    (said,) = [item for item in diagnostics_of(tmp_path, mill(body)) if item.code == "FKG318"]
    assert "uses no term of <https://example.org/elsewhere#>: 3 properties" in said.message
    assert "namespace" in said.help


def test_a_shape_that_nothing_leads_to_is_reported(tmp_path: Path) -> None:
    inner = "plant:In a sh:NodeShape ; sh:property [ sh:path plant:serial ; sh:maxCount 1 ] ."
    alone = "plant:Alone a sh:NodeShape ; sh:property [ sh:path plant:serial ; sh:maxCount 1 ] ."
    off = "plant:Off a sh:NodeShape ; sh:deactivated true ; sh:nodeKind sh:IRI ."
    (said,) = diagnostics_of(tmp_path, mill("sh:node plant:In") + f"{inner}\n{alone}\n{off}\n")
    assert (said.code, said.severity) == ("FKG319", "warning")
    assert said.message.startswith("Alone has no target")


@pytest.mark.parametrize("path", ["plant:torque", "plant:serial"])
def test_a_target_class_that_nothing_speaks_of_is_reported_with_the_nearest(
    tmp_path: Path, path: str
) -> None:
    shapes = mill(f"sh:property [ sh:path {path} ; sh:maxCount 1 ]", "sh:targetClass plant:Millx")
    (said,) = diagnostics_of(tmp_path, shapes)
    assert (said.code, text_at(said, shapes), said.help) == (
        "FKG313",
        "plant:Millx",
        "did you mean `plant:Mill`?",
    )
    assert said.fix is not None


def test_a_class_without_members_is_told_where_the_table_is_asked_alone(tmp_path: Path) -> None:
    shapes = mill("sh:property [ sh:path plant:{} ; sh:maxCount 1 ]", "sh:targetClass plant:Lathe")
    assert diagnostics_of(tmp_path, shapes.format("serial")) == []
    (said,) = diagnostics_of(tmp_path, shapes.format("torque"))
    assert (said.code, said.help) == (
        "FKG313",
        "say what the table's rows are: `rows are <https://example.org/plant#Lathe>`",
    )


def test_parts_have_the_name_of_the_shape_around_them(tmp_path: Path) -> None:
    (said,) = diagnostics_of(tmp_path, mill("sh:property [ sh:path plant:serial ; sh:maxCout 1 ]"))
    assert said.code == "FKG312"
    assert said.message.startswith("S.serial.maxCout is not checked")
    label = (
        '[] a sh:NodeShape ; rdfs:label "Mill shape" ; sh:targetClass plant:Mill ; sh:nodeKnd'
        " sh:IRI ."
    )
    (said,) = diagnostics_of(tmp_path, label)
    assert said.message.startswith("Mill_shape.nodeKnd is not checked")


def test_a_bare_number_beside_several_units_is_reported(tmp_path: Path) -> None:
    body = "sh:property [ sh:path plant:torque ; sh:maxInclusive 60 ; sh:minInclusive 0 ]"
    (said,) = [item for item in diagnostics_of(tmp_path, mill(body)) if item.code == "FKG324"]
    assert text_at(said, mill(body)) == "sh:maxInclusive"
    assert (
        "`60` has no unit, and means 60 N.m of `torque[M1]` and 60 kN.m of `torque[M2]`"
        in said.message
    )
    rules = "prefix plant: <https://example.org/plant#>\nsignal torque(?m) is plant:torque in N.m\n"
    assert not [
        item for item in diagnostics_of(tmp_path, mill(body), rules) if item.code == "FKG324"
    ]
