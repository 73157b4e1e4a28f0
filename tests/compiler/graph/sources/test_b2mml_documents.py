"""B2MML documents as individuals of ISA-95, and rules about them through the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pyoxigraph as ox
import pytest
from command import Command, call
from shared import SHARED, needs_shared

from fedkg_compiler.graph.rdf_reader import read_rdf
from fedkg_compiler.graph.sources.b2mml import KINDS

DOCUMENT = """\
<EquipmentInformation xmlns="http://www.mesa.org/xml/B2MML">
  <ID>plant</ID>
  <Equipment>
    <ID>Line 1</ID>
    <Description>filling</Description>
    <EquipmentLevel>ProductionLine</EquipmentLevel>
    <EquipmentChild>
      <ID>Oven1</ID>
      <EquipmentLevel>WorkUnit</EquipmentLevel>
      <EquipmentProperty>
        <ID>Temperature</ID>
        <Value><ValueString/><DataType>double</DataType><UnitOfMeasure>degC</UnitOfMeasure></Value>
        <EquipmentPropertyChild>
          <ID>Drift</ID>
          <Value><ValueString>0.5</ValueString><DataType>Measure</DataType></Value>
        </EquipmentPropertyChild>
      </EquipmentProperty>
      <EquipmentProperty>
        <ID>Limit</ID>
        <Value>
          <ValueString>473.15</ValueString><DataType>double</DataType>
          <UnitOfMeasure>K</UnitOfMeasure>
        </Value>
      </EquipmentProperty>
      <EquipmentClassID>Oven</EquipmentClassID>
    </EquipmentChild>
  </Equipment>
  <EquipmentClass><ID>Oven</ID></EquipmentClass>
</EquipmentInformation>
"""
EXPECTED = """\
@prefix : <urn:fedkg:b2mml:> .
@prefix i: <https://w3id.org/fedkg/isa95#> .
@prefix isa95: <http://www.w3id.org/hsu-aut/DINEN62264-2#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
:Line%201 a i:Equipment, i:ProductionLine, owl:NamedIndividual ; i:identifier "Line 1" ;
    rdfs:label "Line 1" ; rdfs:comment "filling" ; isa95:consistsOf :Oven1 .
:Oven1 a i:Equipment, i:WorkUnit, owl:NamedIndividual, :EquipmentClass.Oven ;
    i:identifier "Oven1" ; rdfs:label "Oven1" ; i:definedByEquipmentClass :EquipmentClass.Oven ;
    i:hasEquipmentProperty :Oven1.Temperature, :Oven1.Temperature.Drift, :Oven1.Limit ;
    :hasDrift 0.5e0 ; :hasLimit [ qudt:numericValue 473.15e0 ; qudt:unit "K" ] .
:EquipmentClass.Oven a i:EquipmentClass, owl:NamedIndividual ; i:identifier "Oven" ;
    rdfs:label "Oven" .
:Oven1.Temperature a i:EquipmentProperty, owl:NamedIndividual ; i:identifier "Temperature" ;
    rdfs:label "Temperature" ; fkg:qualifiedName "Oven1.Temperature" ;
    fkg:browseName "Temperature" ; sosa:isHostedBy :Oven1 ;
    sosa:observes :hasTemperature ; qudt:hasUnit "degC" .
:Oven1.Temperature.Drift a i:EquipmentProperty, owl:NamedIndividual ; i:identifier "Drift" ;
    rdfs:label "Drift" ; fkg:qualifiedName "Oven1.Temperature.Drift" ; fkg:browseName "Drift" ;
    sosa:isHostedBy :Oven1 ; fkg:storedValueOf :hasDrift ; i:value 0.5e0 .
:Oven1.Limit a i:EquipmentProperty, owl:NamedIndividual ; i:identifier "Limit" ;
    rdfs:label "Limit" ; fkg:qualifiedName "Oven1.Limit" ; fkg:browseName "Limit" ;
    sosa:isHostedBy :Oven1 ; fkg:storedValueOf :hasLimit ; i:value [] ; qudt:hasUnit "K" .
"""
RULES = """\
use isa95, line
signal temperature(?oven) is line:hasTemperature in degC
rule limit for ?oven, ?most where { ?oven a line:EquipmentClass.Oven ; line:hasLimit ?most }
  require temperature(?oven) <= ?most
"""


@pytest.fixture
def fedkg(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """`fedkg(...)` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDKG_HOME", str(tmp_path / "home"))
    return lambda *arguments: call(capsys, *arguments)


def without_blank_nodes(quads: list[ox.Quad]) -> set[tuple[str, ...]]:
    """The triples with one name for all blank nodes."""
    return {
        tuple(
            "[]" if isinstance(node, ox.BlankNode) else _text(node)
            for node in (quad.subject, quad.predicate, quad.object)
        )
        for quad in quads
    }


def _text(node: object) -> str:
    if isinstance(node, ox.Literal) and node.datatype.value.endswith("double"):
        return str(float(node.value))
    return str(node)


def test_a_document_is_mapped_as_the_reference_says() -> None:
    document, problems = read_rdf(DOCUMENT.encode(), file="line.xml")
    assert document is not None
    assert problems == ()
    wanted = [*ox.parse(EXPECTED.encode(), format=ox.RdfFormat.TURTLE)]
    assert without_blank_nodes([*document.triples]) == without_blank_nodes(wanted)


def test_a_unit_is_a_code_unless_rules_read_its_text_otherwise() -> None:
    text = DOCUMENT.replace("degC<", "CEL<").replace(">K<", ">PS<")
    document, problems = read_rdf(text.encode(), file="line.xml")
    assert document is not None
    assert problems == ()
    units = {str(quad.object) for quad in document.triples if "nit" in quad.predicate.value[-7:]}
    assert units == {"<http://qudt.org/vocab/unit/DEG_C>", '"PS"'}


@pytest.mark.slow
@pytest.mark.parametrize("header", ["Oven1.Temperature", "Temperature"])
@pytest.mark.parametrize("namespace", ["B2MML", "B2MML-V0600"])
def test_rules_read_properties_by_their_ids(header: str, namespace: str, fedkg: Command) -> None:
    # The limit of 473.15 K is 200 degC: the second of three values is above it.
    Path("line.xml").write_text(DOCUMENT.replace("xml/B2MML", f"xml/{namespace}"), encoding="utf-8")
    Path("rules.fkg").write_text(RULES, encoding="utf-8")
    Path("table.csv").write_text(f"hour,{header}\n1,190\n2,201\n3,180\n", encoding="utf-8")
    checked = fedkg("check", "rules.fkg")
    assert (checked.code, checked.err) == (0, ""), "every term is one of the ISA-95 modules"
    (rule,) = fedkg("eval", "rules.fkg", "table.csv", "--json").json["rules"]
    assert (rule["satisfied"], rule["violated"], rule["unknown"]) == (2, 1, 0)
    explained = fedkg("explain", "limit", "rules.fkg", "--entity", "Oven1").out
    line = next(
        i for i, text in enumerate(DOCUMENT.splitlines(), 1) if "EquipmentProperty>" in text
    )
    assert f'fkg:column "Oven1.Temperature"  (line.xml:{line})' in explained
    line = DOCUMENT[: DOCUMENT.index("<ID>Limit</ID>")].count("\n")
    assert f'qudt:unit "K"  (line.xml:{line})' in explained


def test_test_results_have_times_and_measured_values(fedkg: Command) -> None:
    results = """\
  <TestResult>
    <ID>T1</ID><EvaluationDate>2026-01-31T12:00:00Z</EvaluationDate>
    <TestableObjectID>Oven1</TestableObjectID>
    <PropertyMeasurement>
      <ID>M1</ID><TestableObjectPropertyID>Limit</TestableObjectPropertyID>
      <MeasurementDate>2026-01-30T12:00:00Z</MeasurementDate>
      <Value><ValueString>470</ValueString><UnitOfMeasure>K</UnitOfMeasure></Value>
    </PropertyMeasurement>
  </TestResult>
</EquipmentInformation>
"""
    rules = """\
use isa95, line
signal temperature(?oven) is line:hasTemperature in degC
rule tested for ?oven, ?value where {
    ?result fkg-isa95:resultOfEquipment ?oven ; fkg-isa95:evaluationDate ?day ;
      fkg-isa95:hasMeasurement [ fkg-isa95:value ?value ; fkg-isa95:measurementDate ?before ] .
    FILTER(?before < ?day)
  } require temperature(?oven) <= ?value
"""
    text = DOCUMENT.replace("</EquipmentInformation>\n", results)
    Path("line.xml").write_text(text, encoding="utf-8")
    Path("rules.fkg").write_text(rules, encoding="utf-8")
    Path("table.csv").write_text("hour,Temperature\n1,196\n2,197\n", encoding="utf-8")
    (rule,) = fedkg("eval", "rules.fkg", "table.csv", "--json").json["rules"]
    assert (rule["satisfied"], rule["violated"]) == (1, 1), "470 K are 196.85 degC"


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ("473.15", "hot", "FKG103", "`hot` is not a value of type double"),
        (
            "473.15</ValueString><DataType>double",
            "2024-02-30</ValueString><DataType>date",
            "FKG103",
            "`2024-02-30` is not a value of type date",
        ),
        ("<ID>Limit</ID>", "", "FKG103", "<EquipmentProperty> has no <ID>"),
        ("<ID>Oven</ID>", "<ID/>", "FKG103", "<EquipmentClass> has no <ID>"),
        ("</EquipmentInformation>", "", "FKG103", "the XML is not well-formed here"),
        (
            "<EquipmentClass><ID>Oven</ID></EquipmentClass>",
            "<Equipment><ID>Line 2</ID><EquipmentChild><ID>Oven1</ID></EquipmentChild></Equipment>",
            "FKG103",
            "the parent of `Oven1` is `Line 2` here and `Line 1` in line 7",
        ),
    ],
)
def test_mistakes_are_reported_and_the_rest_is_read(
    old: str, new: str, code: str, words: str
) -> None:
    document, problems = read_rdf(DOCUMENT.replace(old, new, 1).encode(), file="line.xml")
    assert [problem.code for problem in problems] == [code]
    assert words in problems[0].message
    assert document is not None
    assert len(document.triples) > 30


LIMIT = """<Equipment><ID>Oven1</ID><EquipmentProperty><ID>Limit</ID><Value>
<ValueString>{}</ValueString><DataType>double</DataType><UnitOfMeasure>{}</UnitOfMeasure>
</Value></EquipmentProperty></Equipment>
</EquipmentInformation>"""


@pytest.mark.parametrize(
    ("number", "unit", "messages"),
    [
        ("473.150", "K", []),
        ("200", "degC", []),
        ("200", "CEL", []),  # a code, for which the reader has no conversion
        ("473.15", "mK", ["`473.15 mK` here and `473.15 K` in line 18"]),
        ("473.15", "bar", ["`473.15 bar` here and `473.15 K` in line 18"]),
        ("hot", "K", ["`hot` is not a value of type double"]),
    ],
)
def test_values_under_one_id_are_compared_as_quantities(
    number: str, unit: str, messages: list[str]
) -> None:
    text = DOCUMENT.replace("</EquipmentInformation>", LIMIT.format(number, unit))
    _, problems = read_rdf(text.encode(), file="line.xml")
    assert len(problems) == len(messages)
    assert all(words in one.message for words, one in zip(messages, problems, strict=True))


def test_a_document_without_objects_is_a_warning() -> None:
    text = (
        '<OperationsSchedule xmlns="http://www.mesa.org/xml/B2MML"><ID>1</ID></OperationsSchedule>'
    )
    _, problems = read_rdf(text.encode(), file="schedule.xml")
    assert [problem.severity for problem in problems] == ["warning"]
    assert "no equipment" in problems[0].message


@needs_shared
def test_documents_follow_the_official_schema() -> None:
    """The element names of the reader are those of B2MML 7.0, read from its schemas."""
    folder = SHARED / "ontologies" / "isa95-b2mml-0700"
    text = "".join(
        path.read_text(encoding="utf-8", errors="replace") for path in folder.glob("*.xsd")
    )
    names = set(re.findall(r'element\s+name\s*=\s*"([^"]+)"', text))
    assert KINDS | {f"{kind}Property" for kind in KINDS} <= names
    read = ("EquipmentChild", "EquipmentClassID", "PhysicalAssetClassID", "TestResult")
    assert {*read, "PropertyMeasurement", "TestableObjectID", "ValueString"} <= names
