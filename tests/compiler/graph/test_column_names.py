"""Graphs in Brick, SOSA, OPC UA and B2MML find their columns without `fkg:column`.

The expected counts are computed by hand from the tables below, or for the published buildings from
the text of the graph and the generated table, without fedkg.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pyoxigraph as ox
import pytest
import rdflib
from command import Command, call
from shared import SHARED, needs_shared

from fedkg_compiler.graph.encoder_graph import node_table
from fedkg_compiler.graph.graph import COLUMN_NAMES, derive_columns
from fedkg_compiler.graph.standard_vocabularies import FKG, SOSA

PREFIXES = """\
@prefix brick: <https://brickschema.org/schema/Brick#> .
@prefix ref: <https://brickschema.org/schema/Brick/ref#> .
@prefix dcterms: <http://purl.org/dc/terms/> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix unit: <http://qudt.org/vocab/unit/> .
@prefix : <https://example.org/plant#> .
"""
BRICK = (
    PREFIXES
    + """\
:ahu1 a brick:AHU ; brick:hasPoint :supply1 .
:ahu2 a brick:AHU .
:supply1 a brick:Supply_Air_Temperature_Sensor ; brick:hasUnit unit:DEG_F ;
    ref:hasExternalReference [ a ref:TimeseriesReference ; ref:hasTimeseriesId "SAT" ] .
:supply2 a brick:Supply_Air_Temperature_Sensor ; qudt:hasUnit unit:DEG_C ;
    brick:isPointOf :ahu2 ; brick:timeseries [ brick:hasTimeseriesId "SAT 2" ] .
"""
)
TABLE = "SAT,SAT 2\n60,15\n70,25\n65,21\n"
RULES = """\
prefix brick: <https://brickschema.org/schema/Brick#>
signal supply(?ahu) is brick:Supply_Air_Temperature_Sensor in degC
rule by_point for ?point in class brick:Supply_Air_Temperature_Sensor
  require value(?point) <= 20 degC
rule by_unit for ?ahu in class brick:AHU require supply(?ahu) <= 20 degC
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


def write(**files: str) -> None:
    for name, text in files.items():
        Path(name.replace("_", ".")).write_text(text, encoding="utf-8")


def counts(fedkg: Command, *arguments: str) -> dict[str, tuple[int, int, int]]:
    """Satisfied, violated and unknown evaluations of each rule."""
    found = fedkg("eval", *arguments, "--json").json["rules"]
    return {one["rule"]: (one["satisfied"], one["violated"], one["unknown"]) for one in found}


def columns(turtle: str) -> dict[str, tuple[str, set[str]]]:
    """The column of each node and its alternatives, by the last part of the IRI."""
    store = ox.Store()
    store.load((PREFIXES + turtle).encode(), format=ox.RdfFormat.TURTLE)
    found: dict[str, tuple[str, set[str]]] = {}
    for quad in derive_columns(store).origins:
        name = str(quad.subject).strip("<>").rpartition("#")[2]
        own = found.get(name, ("", set()))
        if quad.predicate.value == FKG + "column":
            found[name] = (str(quad.object.value), own[1])
        elif quad.predicate.value == FKG + "alternativeColumn":
            found[name] = (own[0], own[1] | {quad.object.value})
    return found


def test_brick_points_read_the_columns_of_their_time_series(fedkg: Command) -> None:
    # 20 degC are 68 degF: SAT is above it in row 2; SAT 2 in rows 2 and 3.
    write(rules_fkg=RULES, plant_ttl=BRICK, table_csv=TABLE)
    found = counts(fedkg, "rules.fkg", "plant.ttl", "table.csv")
    assert found == {"by_point": (3, 3, 0), "by_unit": (3, 3, 0)}


def test_shapes_and_queries_read_them_too(fedkg: Command) -> None:
    # 65 in the unit of each column: SAT is above 64 in rows 2 and 3; SAT 2 never.
    shapes = """\
:Limit a sh:NodeShape ; sh:targetClass brick:Supply_Air_Temperature_Sensor ;
    sh:property [ sh:path sosa:hasSimpleResult ; sh:maxInclusive 64 ] .
"""
    query = """\
PREFIX brick: <https://brickschema.org/schema/Brick#>
PREFIX sosa: <http://www.w3.org/ns/sosa/>
SELECT ?point WHERE {
  ?point a brick:Supply_Air_Temperature_Sensor ; sosa:hasSimpleResult ?value . FILTER(?value > 64)
}
"""
    head = PREFIXES + "@prefix sh: <http://www.w3.org/ns/shacl#> .\n"
    write(shapes_ttl=head + shapes, limit_rq=query, plant_ttl=BRICK, table_csv=TABLE)
    found = counts(fedkg, "shapes.ttl", "limit.rq", "plant.ttl", "table.csv")
    assert found == {"Limit.hasSimpleResult.maxInclusive": (4, 2, 0), "limit": (4, 2, 0)}


def test_a_sites_file_gives_the_identifiers_other_headers(fedkg: Command) -> None:
    sites = """\
sites:
  tower:
    url: export.csv
    tableSchema:
      columns:
        - {name: SAT, titles: left}
        - {name: SAT 2, titles: right}
"""
    write(rules_fkg=RULES, plant_ttl=BRICK, sites_yaml=sites)
    write(export_csv=TABLE.replace("SAT,SAT 2", "left,right"))
    arguments = ("rules.fkg", "plant.ttl", "--sites", "sites.yaml", "--site", "tower")
    assert counts(fedkg, *arguments)["by_point"] == (3, 3, 0)


def test_each_bound_row_has_the_place_that_names_its_column(fedkg: Command) -> None:
    write(rules_fkg=RULES, plant_ttl=BRICK)
    files = ("rules.fkg", "plant.ttl")
    shown = {
        entity: fedkg("explain", rule, *files, "--entity", entity).out
        for rule, entity in (("by_point", "supply1"), ("by_unit", "ahu2"))
    }
    line = {text: i for i, text in enumerate(BRICK.splitlines(), 1)}
    first = next(i for text, i in line.items() if '"SAT"' in text)
    second = next(i for text, i in line.items() if '"SAT 2"' in text)
    assert f'fkg:column "SAT"  (plant.ttl:{first})' in shown["supply1"]
    assert f'fkg:column "SAT 2"  (plant.ttl:{second})' in shown["ahu2"]
    assert "sosa:isHostedBy :ahu2" in shown["ahu2"]


def test_two_points_with_one_identifier_are_reported_with_both_places(fedkg: Command) -> None:
    both = BRICK.replace('"SAT 2"', '"SAT"')
    write(rules_fkg="signal SAT in degF\nrule warm require SAT <= 70 degF\n", plant_ttl=both)
    done = fedkg("check", "rules.fkg", "plant.ttl")
    places = [i for i, text in enumerate(both.splitlines(), 1) if '"SAT"' in text]
    assert "FKG129" in done.err
    message = "`supply1` and `supply2` name the same column, `SAT`, in `degF` and in `degC`"
    assert message in done.err
    assert all(f"plant.ttl:{place}" in done.err for place in places)


def test_of_several_identifiers_the_one_that_the_table_has_is_the_column(fedkg: Command) -> None:
    other = BRICK.replace("SAT 2", "SAT 3").replace('"SAT"', '"BMS-7", "SAT"')
    write(rules_fkg=RULES, plant_ttl=other, t_csv=TABLE.replace("SAT 2", "SAT 3"))
    assert counts(fedkg, "rules.fkg", "plant.ttl", "t.csv")["by_point"] == (3, 3, 0)


def test_a_sensor_and_a_quantity_with_two_units_are_reported_at_their_places(
    fedkg: Command,
) -> None:
    limit = ":ahu1 :max [ qudt:value 9 ; qudt:unit unit:DEG_C,\n    unit:K ] .\n"
    graph = BRICK.replace("qudt:hasUnit unit", "qudt:hasUnit unit:DEG_F,\n    unit") + limit
    write(rules_fkg=RULES, plant_ttl=graph)
    done = fedkg("check", "rules.fkg", "plant.ttl")
    lines = graph.splitlines()
    for message, text in (("`supply2`", "    unit:DEG_C ;"), ("this quantity", "    unit:K ] .")):
        place = next(i for i, line in enumerate(lines, 1) if line.startswith(text))
        assert f"plant.ttl:{place}:5: warning[FKG216]: {message} has several units" in done.err
    same = BRICK.replace("qudt:hasUnit unit", 'qudt:hasUnit "degC", unit')
    write(plant_ttl=same)
    assert "FKG216" not in fedkg("check", "rules.fkg", "plant.ttl").err


def test_a_stated_column_comes_before_the_identifier() -> None:
    assert (
        columns(':p fkg:column "own" ; ref:hasExternalReference [ ref:hasTimeseriesId "id" ] .')
        == {}
    )


@pytest.mark.parametrize(
    ("turtle", "column", "alternatives"),
    [
        (':s sosa:observes :t ; dcterms:identifier "TI" .', "TI", {"s", "t"}),
        (':s sosa:observes :t ; rdfs:label "left" .', "left", {"s", "t"}),
        (":s sosa:observes :t .", "s", {"t"}),
        (":t sosa:isObservedBy :s .", "s", {"t"}),
        (':s a sosa:Sensor ; sosa:observes :t . :t rdfs:label "heat" .', "s", {"heat", "t"}),
        (":o sosa:madeBySensor :s ; sosa:observedProperty :t .", "s", {"t"}),
        (":s sosa:madeObservation :o . :o sosa:observedProperty :t .", "s", {"t"}),
    ],
)
def test_a_sensor_takes_its_first_name_and_keeps_the_others(
    turtle: str, column: str, alternatives: set[str]
) -> None:
    assert columns(turtle)["s"] == (column, alternatives)


def test_names_of_several_sensors_name_none() -> None:
    found = columns(
        ':a sosa:observes :t ; rdfs:label "heat" . :b sosa:observes :t ; rdfs:label "heat" .'
    )
    assert found == {"a": ("a", set()), "b": ("b", set())}


@pytest.mark.parametrize(
    "more",
    [':s fkg:column "own" .', ':t fkg:column "common" .', ':Machine fkg:keyColumn "machine" .'],
)
def test_names_do_not_apply_beside_stated_columns(more: str) -> None:
    assert columns(f":s sosa:observes :t . {more}") == {}


def test_observations_say_what_a_sensor_observes_and_where() -> None:
    store = ox.Store()
    turtle = """\
:o1 sosa:madeBySensor :s ; sosa:observedProperty :t ; sosa:hasFeatureOfInterest :room .
:o2 sosa:madeBySensor :s ; sosa:observedProperty :t ; sosa:hasFeatureOfInterest :room .
:o3 sosa:madeBySensor :moved ; sosa:observedProperty :t ; sosa:hasFeatureOfInterest :room .
:o4 sosa:madeBySensor :moved ; sosa:observedProperty :t ; sosa:hasFeatureOfInterest :hall .
"""
    store.load((PREFIXES + turtle).encode(), format=ox.RdfFormat.TURTLE)
    origins = derive_columns(store).origins
    space = "https://example.org/plant#"
    hosts = {
        (quad.subject.value, quad.object.value)
        for quad in origins
        if quad.predicate.value == SOSA + "isHostedBy"
    }
    assert hosts == {(space + "s", space + "room")}, "a sensor that moved has no single host"


def test_a_table_may_use_any_name_of_a_sensor(fedkg: Command) -> None:
    graph = (
        ':s sosa:observes :t ; sosa:isHostedBy :m ; dcterms:identifier "TI-1" ; rdfs:label "left" .'
    )
    rules = """\
prefix p: <https://example.org/plant#>
prefix sosa: <http://www.w3.org/ns/sosa/>
rule warm for ?s where { ?s sosa:observes p:t } require value(?s) <= 20
"""
    write(rules_fkg=rules, plant_ttl=PREFIXES + graph)
    for header in ("TI-1", "left", "s", "t"):
        write(table_csv=f"hour,{header}\n1,19\n2,21\n3,22\n")
        assert counts(fedkg, "rules.fkg", "plant.ttl", "table.csv") == {"warm": (1, 2, 0)}
    write(table_csv="hour,other\n1,19\n")
    done = fedkg("eval", "rules.fkg", "plant.ttl", "table.csv")
    assert done.code == 1
    assert "`TI-1`, or one of its other names: `left`, `s`, `t`" in done.err


UA_NODES = """\
<UANodeSet xmlns="http://opcfoundation.org/UA/2011/03/UANodeSet.xsd"
  xmlns:uax="http://opcfoundation.org/UA/2008/02/Types.xsd">
  <NamespaceUris><Uri>https://example.org/ovens</Uri></NamespaceUris>
  <UAObjectType NodeId="ns=1;i=1" BrowseName="1:OvenType"><References>
    <Reference ReferenceType="i=45" IsForward="false">i=58</Reference></References></UAObjectType>
  {objects}
</UANodeSet>
"""


def oven(number: int, temperature: str, value: str = "") -> str:
    """An oven with a limit of 200 degC, and a temperature with attributes and a value."""
    unit = """<Value><uax:ExtensionObject><uax:Body><uax:EUInformation>
      <uax:NamespaceUri>http://www.opcfoundation.org/UA/units/un/cefact</uax:NamespaceUri>
      <uax:UnitId>4408652</uax:UnitId></uax:EUInformation></uax:Body></uax:ExtensionObject></Value>"""
    part = f'<Reference ReferenceType="i=47" IsForward="false">ns=1;i={number}0</Reference>'
    variable = '<Reference ReferenceType="i=40">i=63</Reference>'
    return f"""\
  <UAObject NodeId="ns=1;i={number}0" BrowseName="1:Oven{number}"><References>
    <Reference ReferenceType="i=40">ns=1;i=1</Reference></References></UAObject>
  <UAVariable NodeId="ns=1;i={number}1" BrowseName="1:Limit" DataType="i=11"><References>
    {variable}{part}</References><Value><uax:Double>200</uax:Double></Value></UAVariable>
  <UAVariable {temperature} BrowseName="1:Temperature" DataType="i=11"><References>
    {variable}{part}<Reference ReferenceType="i=46">ns=1;i={number}3</Reference></References>
    {value}</UAVariable>
  <UAVariable NodeId="ns=1;i={number}3" BrowseName="0:EngineeringUnits" DataType="i=887">
    <References><Reference ReferenceType="i=40">i=68</Reference></References>{unit}</UAVariable>
"""


OVEN_RULES = """\
use ovens
signal temperature(?oven) is ovens:hasTemperature in K
rule limit for ?oven in class ovens:OvenType require temperature(?oven) <= 473.15 K
"""


@pytest.mark.parametrize(
    "headers",
    [
        ("Oven1.Temperature", "Oven2.Temperature"),
        ("ns=1;i=12", "ns=1;s=Left"),
        ("nsu=https://example.org/ovens;i=12", "Left"),
    ],
)
def test_variables_are_called_by_browse_path_or_node_id(
    headers: tuple[str, str], fedkg: Command
) -> None:
    # 473.15 K are 200 degC, the unit of both columns by their EUInformation (UN/ECE code CEL)
    nodes = oven(1, 'NodeId="ns=1;i=12"') + oven(2, 'NodeId="ns=1;s=Left"')
    write(ovens_xml=UA_NODES.format(objects=nodes), rules_fkg=OVEN_RULES)
    write(table_csv=f"{','.join(headers)}\n190,201\n201,202\n180,203\n")
    assert counts(fedkg, "rules.fkg", "table.csv") == {"limit": (2, 4, 0)}


def test_a_browse_name_counts_if_it_is_unique(fedkg: Command) -> None:
    write(ovens_xml=UA_NODES.format(objects=oven(1, 'NodeId="ns=1;i=12"')), rules_fkg=OVEN_RULES)
    write(table_csv="hour,Temperature\n1,190\n2,201\n")
    assert counts(fedkg, "rules.fkg", "table.csv") == {"limit": (1, 1, 0)}


@pytest.mark.parametrize(
    ("attributes", "value", "observed"),
    [
        ('NodeId="ns=1;i=12"', "", True),
        ('NodeId="ns=1;i=12"', "<Value><uax:Double>20</uax:Double></Value>", False),
        (
            'NodeId="ns=1;i=12" Historizing="true"',
            "<Value><uax:Double>20</uax:Double></Value>",
            True,
        ),
    ],
)
def test_values_of_a_node_set_are_facts_for_shapes(
    attributes: str, value: str, observed: bool, fedkg: Command
) -> None:
    shapes = """\
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix o: <https://example.org/ovens#> .
o:Limit a sh:NodeShape ; sh:targetClass o:OvenType ;
    sh:property [ sh:path o:hasTemperature ; sh:maxInclusive 50 ] .
"""
    write(ovens_xml=UA_NODES.format(objects=oven(1, attributes, value)), shapes_ttl=shapes)
    write(table_csv="hour,Oven1.Temperature\n1,40\n2,60\n")
    if observed:
        found = counts(fedkg, "shapes.ttl", "ovens.xml", "table.csv")
        assert found == {"Limit.hasTemperature.maxInclusive": (1, 1, 0)}
    else:  # the fact is a quantity, 20 degC, which is not a number of at most 50
        assert "FKG310" in fedkg("check", "shapes.ttl", "ovens.xml").err


def test_a_declared_signal_reads_the_table_beside_a_value(fedkg: Command) -> None:
    nodes = oven(1, 'NodeId="ns=1;i=12"', "<Value><uax:Double>20</uax:Double></Value>")
    write(ovens_xml=UA_NODES.format(objects=nodes), rules_fkg=OVEN_RULES)
    write(table_csv="hour,Oven1.Temperature\n1,190\n2,201\n")
    assert counts(fedkg, "rules.fkg", "table.csv") == {"limit": (1, 1, 0)}


def test_every_source_of_names_is_documented() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "plant-graphs.md"
    rows = page.read_text(encoding="utf-8").split("| path from the sensor", 1)[1]
    for name in COLUMN_NAMES:
        for step in name.path:
            assert re.split("[#/]", step)[-1] in rows
        assert f"| {name.vocabulary} | {name.version} | {name.reference} |" in rows


@needs_shared
def test_plants_of_official_types_bind_to_their_columns(fedkg: Command) -> None:
    """Equipment of OPC UA's companion specification for ISA-95, whose node set has the types."""
    nodes = """\
<UANodeSet xmlns="http://opcfoundation.org/UA/2011/03/UANodeSet.xsd">
  <NamespaceUris>
    <Uri>https://example.org/mill</Uri><Uri>http://www.OPCFoundation.org/UA/2013/01/ISA95</Uri>
  </NamespaceUris>
  <UAObject NodeId="ns=1;i=1" BrowseName="1:Mill1"><References>
    <Reference ReferenceType="i=40">ns=2;i=5040</Reference></References></UAObject>
  <UAVariable NodeId="ns=1;i=2" BrowseName="1:Torque" DataType="i=11"><References>
    <Reference ReferenceType="i=40">i=63</Reference>
    <Reference ReferenceType="i=47" IsForward="false">ns=1;i=1</Reference></References></UAVariable>
</UANodeSet>
"""
    rules = """\
use mill
prefix isa: <http://www.OPCFoundation.org/UA/2013/01/ISA95#>
signal torque(?mill) is mill:hasTorque in N.m
rule strong for ?mill in class isa:EquipmentType require torque(?mill) <= 60 N.m
"""
    types = SHARED / "ontologies" / "isa95-opcua" / "Opc.ISA95.NodeSet2.xml"
    write(mill_xml=nodes, rules_fkg=rules, table_csv="hour,ns=1;i=2\n1,59\n2,60\n3,61\n")
    assert counts(fedkg, "rules.fkg", str(types), "table.csv") == {"strong": (2, 1, 0)}


def test_graph_encoders_find_the_nodes_of_columns() -> None:
    table = node_table([*ox.parse(BRICK.encode(), format=ox.RdfFormat.TURTLE)])
    named = {column: table.nodes[place] for column, place in table.columns.items()}
    space = "https://example.org/plant#"
    assert named == {"SAT": f"<{space}supply1>", "SAT 2": f"<{space}supply2>"}


BUILDINGS = ("bldg4", "bldg13", "bldg18", "bldg34")


@needs_shared
@pytest.mark.parametrize("building", BUILDINGS)
def test_published_buildings_bind_unedited(building: str, fedkg: Command) -> None:
    """Each point of a class with an identifier has the column of this name, as rdflib finds it."""
    path, kind = SHARED / "external" / "brick" / f"{building}.ttl", "Zone_Air_Temperature_Sensor"
    graph = rdflib.Graph().parse(path)
    identifiers = "ref:hasExternalReference/ref:hasTimeseriesId ?id"
    found = graph.query(f"SELECT ?id {{ ?x a brick:{kind} ; {identifiers} }}")
    wanted = [str(row[0]) for row in found]
    found = graph.query(f"SELECT DISTINCT ?id {{ ?x {identifiers} }}")
    headers = sorted(str(row[0]) for row in found)
    assert wanted, "the test needs points of this class"
    with Path("table.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(headers)
        writer.writerows([(i * 7 + row) % 40 for i in range(len(headers))] for row in range(3))
    high = sum((headers.index(name) * 7 + row) % 40 > 25 for name in wanted for row in range(3))
    write(
        rules_fkg="prefix brick: <https://brickschema.org/schema/Brick#>\n"
        f"rule warm for ?point in class brick:{kind} require value(?point) <= 25\n"
    )
    verdicts = counts(fedkg, "rules.fkg", str(path), "table.csv")
    assert verdicts == {"warm": (3 * len(wanted) - high, high, 0)}
