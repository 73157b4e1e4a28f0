"""B2MML mapped to ISA-95 by rule: single names against a hand-made list, and all names of the
published schemas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from shared import SHARED, needs_shared

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.graph import Catalog, add_entry, load_catalog, load_graph
from fedkg_compiler.graph.alignment.b2mml_mapping_rules import (
    Rule,
    b2mml_alignments,
    b2mml_mappings,
    b2mml_sssom,
)
from fedkg_compiler.graph.ontologies import documents_of
from fedkg_compiler.graph.rdf_reader import Document, read_file, read_rdf

SCHEMAS = SHARED / "ontologies" / "isa95-b2mml-0700"
SPACE = "http://www.mesa.org/xml/B2MML#"
HERE = Span(file="rules.fkg", line=1, column=1, end_line=1, end_column=2)
SCHEMA = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="http://www.mesa.org/xml/B2MML"
  targetNamespace="http://www.mesa.org/xml/B2MML">
<xs:complexType name="EquipmentType"><xs:sequence>
  <xs:element name="ID" type="xs:string"/><xs:element name="EquipmentLevel" type="xs:string"/>
  <xs:element name="Colour" type="xs:string"/>
</xs:sequence></xs:complexType>
<xs:complexType name="GetEquipmentType"><xs:sequence>
  <xs:element name="DataArea"><xs:complexType/></xs:element></xs:sequence></xs:complexType>
</xs:schema>"""


@pytest.fixture(scope="module")
def isa95() -> list[Document]:
    opened, _ = documents_of(load_catalog(home=Path("none")), "isa95")
    return [document for document, _ in opened if document is not None]


def short(mappings: Mapping[str, tuple[Rule, str] | None]) -> dict[str, tuple[str, str] | None]:
    """By local name: predicate and target, without their namespaces."""
    return {
        iri.partition("#")[2]: match and (match[0].predicate, match[1].partition("#")[2])
        for iri, match in mappings.items()
    }


def test_the_rules_of_a_small_schema(isa95: list[Document]) -> None:
    document, problems = read_rdf(SCHEMA.encode(), file="b2mml.xsd")
    assert problems == ()
    assert document is not None
    mappings = b2mml_mappings(document, isa95)
    assert short(mappings) == {
        "EquipmentType": ("skos:exactMatch", "Equipment"),
        "GetEquipmentType": ("skos:relatedMatch", "Equipment"),
        "GetEquipmentType.DataArea": ("skos:relatedMatch", "Equipment"),
        "hasID": ("skos:closeMatch", "identifier"),
        "hasEquipmentLevel": ("skos:closeMatch", "equipmentLevel"),
        "hasColour": None,
        "hasDataArea": None,
    }
    written, problems = read_rdf(b2mml_sssom(mappings).encode(), file="b2mml-isa95.sssom.tsv")
    assert problems == ()
    assert written is not None
    (mapped,) = b2mml_alignments([document], isa95)
    assert set(mapped.triples) <= set(written.triples)
    assert b2mml_alignments([*isa95], isa95) == []


def test_equipment_of_a_schema_is_equipment_of_isa95(tmp_path: Path, catalog: Catalog) -> None:
    (tmp_path / "b2mml.xsd").write_text(SCHEMA, encoding="utf-8")
    text = f"<urn:mill> a <{SPACE}EquipmentType> ."
    for uses, members in ((["b2mml", "isa95"], ["urn:mill"]), (["isa95"], [])):
        graph, problems, _ = load_graph(
            [(name, HERE) for name in uses],
            {},
            [],
            beside={HERE.file: tmp_path},
            catalog=catalog,
            text_graphs=[("plant.ttl", text)],
        )
        assert problems == ()
        assert graph.instances("https://w3id.org/fedkg/isa95#Equipment") == members


EXPECTED = {
    "PersonType": ("skos:exactMatch", "Person"),
    "MaterialSubLotType": ("skos:exactMatch", "MaterialSublot"),
    "OperationsRequestType": ("skos:exactMatch", "OperationsRequest"),
    "OpMaterialActualType": ("skos:broadMatch", "MaterialActual"),
    "SampleTestResultType": ("skos:broadMatch", "TestResult"),
    "SyncJobListType": ("skos:relatedMatch", "JobList"),
    "ShowMaterialLotType.DataArea": ("skos:relatedMatch", "MaterialLot"),
    "EquipmentInformationType": ("skos:relatedMatch", "Equipment"),
    "WorkSchedulesType": ("skos:relatedMatch", "WorkSchedule"),
    "EquipmentLevel1Type.Site": ("skos:relatedMatch", "Site"),
    "CapabilityType1Type.Committed": ("skos:closeMatch", "Committed"),
    "MaterialUse1Type.Retained%20Sample": ("skos:relatedMatch", "MaterialUse"),
    "hasID": ("skos:closeMatch", "identifier"),
    "hasMaterialLotID": ("skos:relatedMatch", "identifier"),
    "hasActualStartTime": ("skos:closeMatch", "actualStartTime"),
    "hasEquipmentProperty": ("skos:closeMatch", "hasEquipmentProperty"),
    "hasRequestedEndTime": ("skos:broadMatch", "endTime"),
    "hasProcessSegment": ("skos:relatedMatch", "ProcessSegment"),
    "TransUserAreaType": None,
    "UnitOfMeasureType": None,
    "GRecipeType1Type.Site": None,
    "DataType1Type.decimal": None,
    "haslanguageID": None,
}
"""Read off the schemas and the object models by hand. `UserArea` and `UnitOfMeasure` are neither an
area nor a unit of the hierarchy, and a site recipe of ISA-88 is no site."""


@needs_shared
def test_every_name_of_b2mml_is_mapped_or_has_no_term(isa95: list[Document]) -> None:
    document, _ = read_file(SCHEMAS)
    assert document is not None
    mappings = b2mml_mappings(document, isa95)
    assert len(mappings) == 3507
    found = short(mappings)
    assert {name: found[name] for name in EXPECTED} == EXPECTED
    targets = Counter(
        match[1]
        for match in mappings.values()
        if match is not None and match[0].predicate == "skos:exactMatch"
    )
    assert set(targets.values()) == {1}
    declared = {
        node.get("name")
        for path in SCHEMAS.glob("*.xsd")
        for node in ET.parse(path).getroot()
        if node.tag.endswith("complexType") or node.tag.endswith("simpleType")
    }
    same = {f"{iri.partition('#')[2]}Type".replace("Sublot", "SubLot") for iri in targets}
    assert same <= declared
    mapped = sum(match is not None for match in mappings.values())
    assert (len(targets), mapped) == (84, 2171)


@pytest.mark.slow
@needs_shared
def test_the_published_schemas_are_mapped_where_isa95_is_loaded(tmp_path: Path) -> None:
    record, _ = add_entry("b2mml", str(SCHEMAS), home=tmp_path)
    assert record is not None
    catalog = load_catalog(home=tmp_path)
    text = f"<urn:mill> a <{SPACE}PersonType> ."
    graph, problems, sources = load_graph(
        [("b2mml", HERE), ("isa95", HERE)],
        {},
        [],
        catalog=catalog,
        text_graphs=[("plant.ttl", text)],
    )
    assert problems == ()
    assert graph.instances("https://w3id.org/fedkg/isa95#Person") == ["urn:mill"]
    assert "b2mml-isa95.sssom.tsv" in {source.name for source in sources}
