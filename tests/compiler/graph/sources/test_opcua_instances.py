"""Objects and variables of OPC UA node sets as individuals, and rules about them through the
command line.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyoxigraph as ox
import pytest
from command import Command, call
from shared import SHARED, needs_shared

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import Catalog, Graph, add_entry, load_catalog, load_graph
from fedkg_compiler.graph.rdf_terms import Iri, Literal, Quantity
from fedkg_compiler.graph.sources.opcua_standard_nodes import UNIT_CODES, unit_code
from fedkg_compiler.graph.standard_vocabularies import UNIT

UA, PLANT, TYPES = (
    "http://opcfoundation.org/UA/",
    "https://example.org/bottling#",
    "https://example.org/machines#",
)
PREFIXES = f"PREFIX ua: <{UA}> PREFIX p: <{PLANT}> PREFIX t: <{TYPES}> "
ALIASES = """  <Aliases>
    <Alias Alias="Double">i=11</Alias><Alias Alias="String">i=12</Alias>
    <Alias Alias="Organizes">i=35</Alias><Alias Alias="HasModellingRule">i=37</Alias>
    <Alias Alias="HasTypeDefinition">i=40</Alias><Alias Alias="HasSubtype">i=45</Alias>
    <Alias Alias="HasProperty">i=46</Alias><Alias Alias="HasComponent">i=47</Alias>
  </Aliases>
"""
ROOT = (
    '<UANodeSet xmlns="http://opcfoundation.org/UA/2011/03/UANodeSet.xsd" '
    'xmlns:uax="http://opcfoundation.org/UA/2008/02/Types.xsd">\n'
)


def reference(kind: str, target: str, *, inverse: bool = False) -> str:
    forward = ' IsForward="false"' if inverse else ""
    return f'      <Reference ReferenceType="{kind}"{forward}>{target}</Reference>\n'


def node(
    sort: str, node_id: str, name: str, *references: str, more: str = "", body: str = ""
) -> str:
    return (
        f'  <UA{sort} NodeId="{node_id}" BrowseName="{name}"{more}>\n{body}'
        f"    <References>\n{''.join(references)}    </References>\n  </UA{sort}>\n"
    )


def value(text: str, sort: str = "Double") -> str:
    return f"    <Value><uax:{sort}>{text}</uax:{sort}></Value>\n"


def unit(
    unit_id: int, text: str, space: str = "http://www.opcfoundation.org/UA/units/un/cefact"
) -> str:
    return (
        "    "
        "<Value><uax:ExtensionObject>"
        "<uax:TypeId><uax:Identifier>i=888</uax:Identifier></uax:TypeId><uax:Body>"
        f"<uax:EUInformation><uax:NamespaceUri>{space}</uax:NamespaceUri>"
        f"<uax:UnitId>{unit_id}</uax:UnitId>"
        f"<uax:DisplayName><uax:Locale>en</uax:Locale><uax:Text>{text}</uax:Text></uax:DisplayName>"
        "<uax:Description><uax:Text>long form</uax:Text></uax:Description></uax:EUInformation>"
        "</uax:Body></uax:ExtensionObject></Value>\n"
    )


TYPE_SET = (
    ROOT
    + "  <NamespaceUris><Uri>https://example.org/machines</Uri></NamespaceUris>\n"
    + '  <Models><Model ModelUri="https://example.org/machines" Version="2.1"/></Models>\n'
    + ALIASES
    + node("ObjectType", "ns=1;i=1", "1:FillerType", reference("HasSubtype", "i=58", inverse=True))
    + node(
        "Variable",
        "ns=1;i=2",
        "1:Temperature",
        reference("HasComponent", "ns=1;i=1", inverse=True),
        reference("HasTypeDefinition", "i=17497"),
        reference("HasModellingRule", "i=78"),
        reference("HasProperty", "ns=1;i=3"),
        more=' DataType="Double"',
    )
    + node(
        "Variable",
        "ns=1;i=3",
        "EngineeringUnits",
        reference("HasTypeDefinition", "i=68"),
        reference("HasModellingRule", "i=78"),
        more=' DataType="i=887"',
    )
    + node("ObjectType", "ns=1;i=10", "1:PumpType", reference("HasSubtype", "i=58", inverse=True))
    + node(
        "Object",
        "ns=1;i=11",
        "1:Pump",
        reference("HasComponent", "ns=1;i=1", inverse=True),
        reference("HasTypeDefinition", "ns=1;i=10"),
        reference("HasModellingRule", "i=80"),
    )
    + node(
        "ReferenceType",
        "ns=1;i=20",
        "1:Feeds",
        reference("HasSubtype", "i=32", inverse=True),
        body="    <InverseName>FedBy</InverseName>\n",
    )
    + node(
        "DataType",
        "ns=1;i=30",
        "1:Mode",
        reference("HasSubtype", "i=29", inverse=True),
        body=(
            '    <Definition Name="Mode"><Field Name="Idle" Value="0"/><Field Name="Filling"'
            ' Value="1"/></Definition>\n'
        ),
    )
    + "</UANodeSet>\n"
)
HEAD = (
    ROOT + "  <NamespaceUris><Uri>https://example.org/bottling</Uri>"
    "<Uri>https://example.org/machines</Uri></NamespaceUris>\n"
    + '  <Models><Model ModelUri="https://example.org/bottling" Version="1.0">'
    + '<RequiredModel ModelUri="https://example.org/machines"/></Model></Models>\n'
    + ALIASES
)
LINE = node(
    "Object",
    "ns=1;i=100",
    "1:Line1",
    reference("Organizes", "i=85", inverse=True),
    reference("HasTypeDefinition", "i=61"),
    reference("Organizes", "ns=1;i=200"),
    body=(
        "    <DisplayName>Line 1</DisplayName>\n    <Description>The line at the "
        "window.</Description>\n"
    ),
)


def filler(number: int, first: int, temperature: str) -> str:
    """A filler with a temperature, a method and a pump.

    Parts are joined by forward and by inverse references.
    """
    here = [f"ns=1;i={first + more}" for more in range(8)]
    return (
        node(
            "Object",
            here[0],
            f"1:Filler{number}",
            reference("HasTypeDefinition", "ns=2;i=1"),
            reference("HasComponent", here[5]),
            reference("HasComponent", here[3]),
            reference("ns=2;i=20", "ns=1;s=Capper 1"),
            body=f"    <DisplayName>Filler {number}</DisplayName>\n",
        )
        + node(
            "Variable",
            here[1],
            "2:Temperature",
            reference("HasComponent", here[0], inverse=True),
            reference("HasTypeDefinition", "i=17497"),
            reference("HasProperty", here[2]),
            more=f' DataType="Double" ParentNodeId="{here[0]}"',
            body=value(temperature),
        )
        + node(
            "Variable",
            here[2],
            "EngineeringUnits",
            reference("HasTypeDefinition", "i=68"),
            more=f' DataType="i=887" ParentNodeId="{here[1]}"',
            body=unit(4408652, "°C"),
        )
        + node(
            "Method",
            here[3],
            "1:Start",
            reference("HasProperty", here[4]),
            more=f' ParentNodeId="{here[0]}"',
        )
        + node(
            "Variable",
            here[4],
            "InputArguments",
            reference("HasTypeDefinition", "i=68"),
            more=' DataType="i=296"',
        )
        + node(
            "Object",
            here[5],
            "2:Pump",
            reference("HasTypeDefinition", "ns=2;i=10"),
            reference("HasComponent", here[6]),
        )
        + node(
            "Variable",
            here[6],
            "1:MaxFlow",
            reference("HasTypeDefinition", "i=63"),
            more=' DataType="Double"',
            body=value("12"),
        )
    )


CAPPER = node(
    "Object",
    "ns=1;s=Capper 1",
    "1:Capper 1",
    reference("Organizes", "ns=1;i=100", inverse=True),
    reference("HasTypeDefinition", "i=58"),
)
PLANT_SET = HEAD + LINE + filler(1, 200, "71.5") + CAPPER + "</UANodeSet>\n"


@pytest.fixture
def fedkg(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """`fedkg(...)` in a folder that has `plant.xml` and `types.xml`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDKG_HOME", str(tmp_path / "home"))
    Path("plant.xml").write_text(PLANT_SET, encoding="utf-8")
    Path("types.xml").write_text(TYPE_SET, encoding="utf-8")
    return lambda *arguments: call(capsys, *arguments)


def loaded(folder: Path, catalog: Catalog, *texts: str) -> tuple[Graph, tuple[Diagnostic, ...]]:
    """The graph of these node sets, and their problems.

    Unfollowed imports of OPC UA itself are left out.
    """
    paths = []
    for i, text in enumerate(texts):
        paths.append(folder / f"set{i}.xml")
        paths[-1].write_text(text, encoding="utf-8")
    graph, problems, _ = load_graph([], {}, paths, catalog=catalog)
    return graph, tuple(one for one in problems if f"<{UA}>" not in one.message)


def rows(graph: Graph, query: str) -> set[tuple[str, ...]]:
    """The answers of a SELECT as texts; blank nodes are left out."""
    answers = graph.answers(PREFIXES + query)
    return {
        tuple(one.value if isinstance(one, Iri) else str(getattr(one, "value", "")) for one in row)
        for row in answers
        if not any(isinstance(one, Iri) and one.value.startswith("_:") for one in row)
    }


def individuals(graph: Graph, space: str = PLANT) -> set[str]:
    found = rows(graph, "SELECT ?x WHERE { ?x a <http://www.w3.org/2002/07/owl#NamedIndividual> }")
    return {iri.removeprefix(space) for (iri,) in found if iri.startswith(space)}


def test_objects_and_variables_are_individuals_with_type_label_and_description(
    tmp_path: Path, catalog: Catalog
) -> None:
    graph, problems = loaded(tmp_path, catalog, PLANT_SET, TYPE_SET)
    assert problems == ()
    assert individuals(graph) == {
        "Line1",
        "Filler1",
        "Filler1.Temperature",
        "Filler1.Temperature.EngineeringUnits",
        "Filler1.Pump",
        "Filler1.Pump.MaxFlow",
        "Capper%201",
    }
    types = rows(graph, "SELECT ?x ?t WHERE { ?x a ?t . FILTER(STRSTARTS(STR(?x), STR(p:))) }")
    assert {
        (PLANT + "Line1", UA + "FolderType"),
        (PLANT + "Filler1", TYPES + "FillerType"),
        (PLANT + "Filler1", UA + "BaseObjectType"),
        (PLANT + "Filler1.Temperature", UA + "AnalogUnitType"),
        (PLANT + "Filler1.Pump", TYPES + "PumpType"),
        (PLANT + "Capper%201", UA + "BaseObjectType"),
    } <= types
    assert (PLANT + "Line1", TYPES + "FillerType") not in types
    assert graph.label_of(PLANT + "Filler1") == "Filler 1"
    assert graph.label_of(PLANT + "Capper%201") == "Capper 1"
    described = rows(
        graph,
        "SELECT ?x ?c ?n WHERE { ?x <http://www.w3.org/2000/01/rdf-schema#comment> ?c ; "
        "<http://www.w3.org/2004/02/skos/core#notation> ?n }",
    )
    assert (PLANT + "Line1", "The line at the window.", "i=100") in described
    assert graph.instances(TYPES + "FillerType") == [PLANT + "Filler1"]
    assert graph.instances(TYPES + "PumpType") == [PLANT + "Filler1.Pump"]


def test_references_of_either_direction_join_parents_and_children(
    tmp_path: Path, catalog: Catalog
) -> None:
    graph, _ = loaded(tmp_path, catalog, PLANT_SET, TYPE_SET)
    joined = rows(
        graph,
        "SELECT ?a ?r ?b WHERE { VALUES ?r { ua:HasComponent ua:HasProperty ua:Organizes "
        "t:Feeds } ?a ?r ?b }",
    )
    assert joined == {
        (UA + "Objects", UA + "Organizes", PLANT + "Line1"),
        (PLANT + "Line1", UA + "Organizes", PLANT + "Filler1"),
        (PLANT + "Line1", UA + "Organizes", PLANT + "Capper%201"),
        (PLANT + "Filler1", UA + "HasComponent", PLANT + "Filler1.Temperature"),
        (PLANT + "Filler1", UA + "HasComponent", PLANT + "Filler1.Pump"),
        (PLANT + "Filler1.Pump", UA + "HasComponent", PLANT + "Filler1.Pump.MaxFlow"),
        (
            PLANT + "Filler1.Temperature",
            UA + "HasProperty",
            PLANT + "Filler1.Temperature.EngineeringUnits",
        ),
        (PLANT + "Filler1", TYPES + "Feeds", PLANT + "Capper%201"),
    }
    assert rows(graph, "SELECT ?a ?b WHERE { ?a t:FedBy ?b }") == {
        (PLANT + "Capper%201", PLANT + "Filler1")
    }


def test_components_have_their_values_as_properties_of_the_browse_name(
    tmp_path: Path, catalog: Catalog
) -> None:
    graph, _ = loaded(tmp_path, catalog, PLANT_SET, TYPE_SET)
    assert graph.values_of(PLANT + "Filler1", TYPES + "hasTemperature") == [Quantity(71.5, "degC")]
    assert graph.values_of(PLANT + "Filler1", TYPES + "hasPump") == [Iri(PLANT + "Filler1.Pump")]
    (flow,) = graph.values_of(PLANT + "Filler1.Pump", PLANT + "hasMaxFlow")
    assert isinstance(flow, Literal)
    assert (flow.value, flow.datatype) == (12.0, "http://www.w3.org/2001/XMLSchema#double")
    units = rows(
        graph, "SELECT ?u WHERE { p:Filler1.Temperature <http://qudt.org/schema/qudt/hasUnit> ?u }"
    )
    assert units == {("http://qudt.org/vocab/unit/DEG_C",)}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (value("-3", "Int32"), -3),
        (value("true", "Boolean"), True),
        (value("0815-4711", "String"), "0815-4711"),
        (
            ("    <Value><uax:LocalizedText><uax:Locale>de</uax:Locale>"
            "<uax:Text>Abfüller</uax:Text></uax:LocalizedText></Value>\n"),
            "Abfüller",
        ),
        (
            ("    <Value><uax:NodeId>"
            "<uax:Identifier>ns=1;i=7</uax:Identifier></uax:NodeId></Value>\n"),
            "ns=1;i=7",
        ),
        (
            ("    <Value><uax:ListOfDouble>"
            "<uax:Double>1</uax:Double><uax:Double>2</uax:Double></uax:ListOfDouble></Value>\n"),
            None,
        ),
        (value("NaN"), None),
        ("    <Value><uax:String/></Value>\n", None),
        ("", None),
    ],
)  # fmt: skip
def test_single_values_are_literals(
    body: str, expected: object, tmp_path: Path, catalog: Catalog
) -> None:
    definition = reference("HasTypeDefinition", "i=63")
    graph, problems = loaded(
        tmp_path,
        catalog,
        HEAD + node("Variable", "ns=1;i=1", "1:Setting", definition, body=body) + "</UANodeSet>",
    )
    assert [one for one in problems if one.code != "FKG105"] == []
    found = graph.values_of(PLANT + "Setting", "http://www.w3.org/1999/02/22-rdf-syntax-ns#value")
    assert [one.value for one in found if isinstance(one, Literal)] == (
        [] if expected is None else [expected]
    )


def test_a_value_of_an_enumeration_is_the_name_that_it_lists(
    tmp_path: Path, catalog: Catalog
) -> None:
    mode = node(
        "Variable",
        "ns=1;i=40",
        "1:Mode",
        reference("HasTypeDefinition", "i=63"),
        more=' DataType="ns=1;i=30"',
        body=value("1", "Int32"),
    )
    graph, _ = loaded(tmp_path, catalog, TYPE_SET.replace("</UANodeSet>", mode + "</UANodeSet>"))
    found = graph.values_of(TYPES + "Mode_i40", "http://www.w3.org/1999/02/22-rdf-syntax-ns#value")
    assert found == [Iri(TYPES + "Mode.Filling")]


@pytest.mark.parametrize(
    ("body", "unit_text"),
    [
        (unit(4338743, "kN"), "kN"),
        (unit(5067857, "Kubikmeter"), "m^3"),
        (unit(-1, "bar"), "bar"),
        (unit(4338743, "bar", "https://example.org/our-units"), "bar"),
        (unit(12, "mbar"), "mbar"),
    ],
)
def test_units_come_from_the_code_else_from_the_text(
    body: str, unit_text: str, tmp_path: Path, catalog: Catalog
) -> None:
    graph, problems = loaded(
        tmp_path, catalog, PLANT_SET.replace(unit(4408652, "°C"), body), TYPE_SET
    )
    assert problems == ()
    assert graph.values_of(PLANT + "Filler1", TYPES + "hasTemperature") == [
        Quantity(71.5, unit_text)
    ]


def test_every_unit_of_a_code_is_known(catalog: Catalog) -> None:
    graph, _, _ = load_graph([], {}, [], catalog=catalog)
    units = {iri: graph.unit_text(iri) for iri in (UNIT + name for name in UNIT_CODES.values())}
    assert {iri for iri, text in units.items() if text == iri} == set()


@needs_shared
def test_unit_codes_are_those_that_qudt_states() -> None:
    store = ox.Store()
    store.load(
        path=SHARED / "ontologies" / "qudt" / "VOCAB_QUDT-UNITS-ALL-v2.1.ttl",
        format=ox.RdfFormat.TURTLE,
    )
    stated = {
        (
            getattr(quad.object, "value", ""),
            str(getattr(quad.subject, "value", "")).rpartition("/")[2],
        )
        for quad in store.quads_for_pattern(
            None, ox.NamedNode("http://qudt.org/schema/qudt/uneceCommonCode"), None
        )
    }
    not_listed = {"C62", "RPM", "MAW", "Q30"}  # in UN/ECE Recommendation 20, but not in this QUDT
    assert {pair for pair in UNIT_CODES.items() if pair[0] not in not_listed} <= stated
    assert [unit_code(number) for number in (4408652, 13384, 17476)] == ["CEL", "4H", "DD"]


def test_instance_declarations_are_no_individuals(tmp_path: Path, catalog: Catalog) -> None:
    graph, problems = loaded(tmp_path, catalog, TYPE_SET)
    assert problems == ()
    assert individuals(graph, TYPES) == {"Mode.Idle", "Mode.Filling"}
    extension = node(
        "Variable",
        "ns=1;i=900",
        "1:Extra",
        reference("HasComponent", "ns=2;i=1", inverse=True),
        reference("HasTypeDefinition", "i=63"),
        reference("HasModellingRule", "i=80"),
    )
    graph, _ = loaded(tmp_path, catalog, HEAD + extension + "</UANodeSet>", TYPE_SET)
    assert individuals(graph) == set()
    nested = node(
        "Variable",
        "ns=1;i=12",
        "1:Speed",
        reference("HasComponent", "ns=1;i=11", inverse=True),
        reference("HasTypeDefinition", "i=63"),
    )
    graph, _ = loaded(tmp_path, catalog, TYPE_SET.replace("</UANodeSet>", nested + "</UANodeSet>"))
    assert individuals(graph, TYPES) == {"Mode.Idle", "Mode.Filling"}


def test_parts_of_plant_objects_with_modelling_rules_are_individuals(
    tmp_path: Path, catalog: Catalog
) -> None:
    rule = reference("HasModellingRule", "i=78")
    text = PLANT_SET.replace(
        reference("HasTypeDefinition", "i=17497"), reference("HasTypeDefinition", "i=17497") + rule
    )
    graph, _ = loaded(tmp_path, catalog, text, TYPE_SET)
    assert "Filler1.Temperature" in individuals(graph)


def test_same_names_get_their_groups_then_their_numbers(tmp_path: Path, catalog: Catalog) -> None:
    definition = reference("HasTypeDefinition", "i=58")

    def machine(number: int, line: int) -> str:
        above = reference("Organizes", f"ns=1;i={line}", inverse=True)
        speed = reference("HasComponent", f"ns=1;i={number}", inverse=True)
        return node("Object", f"ns=1;i={number}", "1:Motor", above, definition) + node(
            "Variable",
            f"ns=1;i={number + 1}",
            "1:Speed",
            speed,
            reference("HasTypeDefinition", "i=63"),
        )

    lines = "".join(node("Object", f"ns=1;i={i}", f"1:Line{i}", definition) for i in (1, 2))
    two = HEAD + lines + machine(10, 1) + machine(20, 2) + "</UANodeSet>"
    graph, _ = loaded(tmp_path, catalog, two)
    names = {"Line1.Motor", "Line1.Motor.Speed", "Line2.Motor", "Line2.Motor.Speed"}
    assert individuals(graph) == {"Line1", "Line2"} | names
    three = HEAD + lines + machine(10, 1) + machine(20, 2) + machine(30, 2) + "</UANodeSet>"
    graph, _ = loaded(tmp_path, catalog, three)
    assert individuals(graph) == {
        "Line1", "Line2", "Line1.Motor", "Line1.Motor.Speed", "Line2.Motor_i20",
        "Line2.Motor_i20.Speed", "Line2.Motor_i30", "Line2.Motor_i30.Speed",
    }  # fmt: skip


def test_objects_below_each_other_in_a_circle_are_named_by_number(
    tmp_path: Path, catalog: Catalog
) -> None:
    text = HEAD + "".join(
        node(
            "Object",
            f"ns=1;i={one}",
            "1:Ring",
            reference("HasTypeDefinition", "i=58"),
            reference("HasComponent", f"ns=1;i={other}"),
        )
        for one, other in ((1, 2), (2, 1))
    )
    graph, _ = loaded(tmp_path, catalog, text + "</UANodeSet>")
    assert individuals(graph) == {"node_i1", "node_i2"}


def test_namespaces_are_those_that_the_index_selects(tmp_path: Path, catalog: Catalog) -> None:
    definition = reference("HasTypeDefinition", "i=58")
    uris = "".join(f"<Uri>https://example.org/{name}</Uri>" for name in ("a", "b", "c"))
    text = f"{ROOT}<NamespaceUris>{uris}</NamespaceUris>{ALIASES}" + "".join(
        node("Object", f"{space}i={number}", name, definition)
        for space, number, name in (
            ("ns=3;", 1, "1:Third"),
            ("ns=1;", 1, "3:First"),
            ("ns=2;", 1, "Second"),
            ("", 90001, "Zeroth"),
        )
    )
    graph, _ = loaded(tmp_path, catalog, text + "</UANodeSet>")
    for iri in (
        "https://example.org/c#Third",
        "https://example.org/a#First",
        "https://example.org/b#Second",
        UA + "Zeroth",
    ):
        assert graph.has(iri)
    empty = text.replace("<Uri>https://example.org/a</Uri>", "<Uri/>")
    graph, problems = loaded(tmp_path, catalog, empty + "</UANodeSet>")
    assert [one.code for one in problems] == ["FKG104"]
    assert graph.has("https://example.org/c#Third")
    only_models = re.sub(
        r"<NamespaceUris>.*?</NamespaceUris>",
        '<Models><Model ModelUri="https://example.org/a"/><Model ModelUri="https://example.org/b"/>'
        '<Model ModelUri="https://example.org/c"/></Models>',
        text,
    )
    graph, problems = loaded(tmp_path, catalog, only_models + "</UANodeSet>")
    assert problems == ()
    assert graph.has("https://example.org/c#Third")


def test_no_term_is_defined_in_a_namespace_of_another_file(
    tmp_path: Path, catalog: Catalog
) -> None:
    graph, _ = loaded(tmp_path, catalog, PLANT_SET)
    defined = {term.iri for term in graph.terms() if term.ontology == "set0.xml"}
    described = rows(
        graph, "SELECT ?x WHERE { ?x <http://www.w3.org/2000/01/rdf-schema#label> ?l }"
    )
    assert {iri for (iri,) in described if iri.startswith((TYPES, UA))} == set()
    assert {iri for iri in defined if iri.startswith(PLANT)} == {PLANT + "hasMaxFlow"}
    unindexed = PLANT_SET.replace('BrowseName="1:MaxFlow"', 'BrowseName="MaxFlow"')
    graph, _ = loaded(tmp_path, catalog, unindexed)
    assert graph.values_of(PLANT + "Filler1.Pump", PLANT + "hasMaxFlow") != []


def test_node_sets_that_refer_to_each_other_are_joined(tmp_path: Path, catalog: Catalog) -> None:
    text = PLANT_SET.replace("https://example.org/bottling", "https://example.org/packing")
    packing = text.replace(
        "<Uri>https://example.org/machines</Uri>",
        "<Uri>https://example.org/machines</Uri><Uri>https://example.org/bottling</Uri>",
    ).replace(
        reference("Organizes", "i=85", inverse=True),
        reference("Organizes", "ns=3;i=100", inverse=True),
    )
    graph, problems = loaded(tmp_path, catalog, packing, PLANT_SET, TYPE_SET)
    assert problems == ()
    below = rows(graph, "SELECT ?x WHERE { p:Line1 ua:Organizes ?x }")
    assert ("https://example.org/packing#Line1",) in below
    things = rows(
        graph, "SELECT ?t WHERE { ?x a <http://www.w3.org/2002/07/owl#NamedIndividual>, ?t }"
    )
    assert (TYPES + "FillerType",) in things
    assert not rows(
        graph, 'SELECT ?x ?p ?o WHERE { ?x ?p ?o FILTER(CONTAINS(STR(?x), "packing#node_")) }'
    )


def test_a_type_whose_node_set_is_not_loaded_is_named_with_what_to_load(fedkg: Command) -> None:
    Path("rules.fkg").write_text(
        "signal pressure in bar\nrule calm require pressure <= 6 bar\n", encoding="utf-8"
    )
    done = fedkg("check", "rules.fkg", "plant.xml")
    assert done.code == 0
    column = PLANT_SET.split("\n")[1].index("https://example.org/machines") + 1
    assert (
        f"plant.xml:2:{column}: info[FKG105]: the import of <https://example.org/machines> is not "
        "followed, and this file uses its node ns=2;i=1 and 2 more" in done.err
    )
    assert "give its file as a graph" in done.err
    unlisted = PLANT_SET.replace('<RequiredModel ModelUri="https://example.org/machines"/>', "")
    Path("plant.xml").write_text(unlisted, encoding="utf-8")
    done = fedkg("check", "rules.fkg", "plant.xml")
    assert (done.code, done.err.count("FKG105")) == (0, 1)
    assert "the import of <https://example.org/machines> is not followed" in done.err
    done = fedkg("check", "rules.fkg", "plant.xml", "types.xml")
    assert (done.code, done.err) == (0, "")
    Path("types.xml").write_text(TYPE_SET.replace('"ns=1;i=10"', '"ns=1;i=12"'), encoding="utf-8")
    done = fedkg("check", "rules.fkg", "plant.xml", "types.xml")
    assert done.code == 1
    assert re.search(
        r"plant\.xml:\d+:7: warning\[FKG121\]: no loaded node set has the node ns=2;i=10 of "
        r"<https://example\.org/machines>",
        done.err,
    )


RULES = """\
prefix p: <https://example.org/bottling#>
prefix t: <https://example.org/machines#>
prefix fkg: <https://w3id.org/fedkg/ns#>
signal heat(?m) is t:heat in K span 273 .. 400
rule below_limit "No filler is hotter than its node set allows."
  for ?m, ?limit where { ?m a t:FillerType ; t:hasTemperature ?limit }
  require heat(?m) <= ?limit
rule above_zero
  for ?m in class t:FillerType
  require heat(?m) >= 280 K
"""
COLUMNS = """\
@prefix t: <https://example.org/machines#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
t:FillerType fkg:keyColumn "machine" .
t:heat a sosa:ObservableProperty ; fkg:column "heat" .
"""
TABLE = "machine,heat\nFiller1,344\nFiller1,345\nFiller1,279\nFiller2,400\nFiller2,360\n"


def test_rules_range_over_the_machines_of_a_node_set(fedkg: Command) -> None:
    both = PLANT_SET.replace("</UANodeSet>", filler(2, 900, "90") + "</UANodeSet>")
    Path("plant.xml").write_text(both, encoding="utf-8")
    for name, text in (("rules.fkg", RULES), ("columns.ttl", COLUMNS), ("table.csv", TABLE)):
        Path(name).write_text(text, encoding="utf-8")
    graphs = ("plant.xml", "types.xml", "columns.ttl")
    done = fedkg("check", "rules.fkg", *graphs)
    assert (done.code, done.err) == (0, "")
    assert "clean, 2 rules, 4 bound rows" in done.out
    assert fedkg("compile", "rules.fkg", *graphs, "-o", "plant.fkgpack").code == 0
    for rules in (("plant.fkgpack",), ("rules.fkg", *graphs)):
        result = fedkg("eval", *rules, "table.csv", "--json").json["rules"]
        # 71.5 degC = 344.65 K and 90 degC = 363.15 K: row 2 of Filler1 and row 1 of Filler2 are
        # hotter
        assert [(one["rule"], one["satisfied"], one["violated"]) for one in result] == [
            ("below_limit", 3, 2),
            ("above_zero", 4, 1),
        ]
        assert (result[0]["worst"]["entity"], result[0]["worst"]["row"]) == ("Filler 2", 4)
        assert result[0]["worst"]["robustness"] == pytest.approx(363.15 - 400)
    assert fedkg("graph", "load", "plant.store", *graphs).code == 0
    assert fedkg("compile", "rules.fkg", "plant.store", "-o", "store.fkgpack").code == 0
    assert Path("store.fkgpack").read_bytes() == Path("plant.fkgpack").read_bytes()


def test_a_node_set_beside_the_rules_brings_the_prefix_of_its_name(fedkg: Command) -> None:
    Path("rules.fkg").write_text(
        "use types, plant\nsignal heat in degC\n"
        "rule calm for ?f where { plant:Line1 <http://opcfoundation.org/UA/Organizes> ?f . "
        "?f a types:FillerType } "
        "require heat <= 80 degC\n",
        encoding="utf-8",
    )
    done = fedkg("check", "rules.fkg")
    assert (done.code, done.out) == (0, "rules.fkg: clean, 1 rule, 1 bound row\n")


def replaced(old: str, new: str) -> str:
    assert old in PLANT_SET
    return PLANT_SET.replace(old, new, 1)


def line_of(text: str, part: str) -> int:
    return text.count("\n", 0, text.index(part)) + 1


BAD = {
    "unknown alias": (
        replaced(reference("Organizes", "ns=1;i=200"), reference("Organises", "ns=1;i=200")),
        'ReferenceType="Organises"',
        7,
        "error[FKG103]",
        (
            "`Organises`, the ReferenceType of a <Reference> of <UAObject> ns=1;i=100,"
            " is neither a NodeId nor an alias"
        ),
        "did you mean `Organizes`?",
    ),
    "text with blanks": (
        replaced(
            reference("HasTypeDefinition", "i=61"), reference("HasTypeDefinition", "a folder")
        ),
        ">a folder<",
        7,
        "error[FKG103]",
        (
            "`a folder`, the target of a <Reference> of <UAObject> ns=1;i=100,"
            " is neither a NodeId nor an alias"
        ),
        "write a NodeId such as `ns=1;i=1001`",
    ),
    "standard name without alias": (
        replaced('<Alias Alias="Organizes">i=35</Alias>', ""),
        'ReferenceType="Organizes"',
        7,
        "warning[FKG103]",
        (
            "`Organizes`, the ReferenceType of a <Reference> of <UAObject> ns=1;i=100,"
            " is not listed in <Aliases>; i=35 is taken"
        ),
        'add <Alias Alias="Organizes">i=35</Alias> there',
    ),
    "index of a target": (
        replaced(reference("Organizes", "ns=1;i=200"), reference("Organizes", "ns=7;i=200")),
        ">ns=7;i=200<",
        7,
        "error[FKG103]",
        (
            "the namespace ns=7 of the target of a <Reference> of <UAObject> ns=1;i=100"
            " is none of <NamespaceUris>"
        ),
        "it lists 1 to 2: name its address there, or correct the number",
    ),
    "index of a node": (
        replaced('NodeId="ns=1;i=100"', 'NodeId="ns=3;i=100"').replace(
            reference("Organizes", "ns=1;i=100", inverse=True), ""
        ),
        'NodeId="ns=3;i=100"',
        3,
        "error[FKG103]",
        "the namespace ns=3 of this <UAObject> is none of <NamespaceUris>",
        "it lists 1 to 2",
    ),
    "index of a browse name": (
        replaced('"1:Line1"', '"9:Line1"'),
        '"9:Line1"',
        3,
        "error[FKG103]",
        (
            "the namespace 9 of the BrowseName `9:Line1` of <UAObject> ns=1;i=100"
            " is none of <NamespaceUris>"
        ),
        "it lists 1 to 2",
    ),
    "no browse name": (
        replaced(' BrowseName="1:Line1"', ""),
        'NodeId="ns=1;i=100"',
        3,
        "error[FKG103]",
        "<UAObject> ns=1;i=100 has no BrowseName",
        "1:Motor",
    ),
    "no node id": (
        replaced('NodeId="ns=1;i=206" ', "").replace(reference("HasComponent", "ns=1;i=206"), ""),
        'BrowseName="1:MaxFlow"',
        3,
        "error[FKG103]",
        "this <UAVariable> has no NodeId",
        "add one, such as NodeId=",
    ),
    "a node id that is none": (
        replaced('NodeId="ns=1;i=206"', 'NodeId="ns=1;301"').replace(
            reference("HasComponent", "ns=1;i=206"), ""
        ),
        'NodeId="ns=1;301"',
        3,
        "error[FKG103]",
        "`ns=1;301` is not a NodeId; this <UAVariable> is left out",
        "ns=1;i=1001",
    ),
    "an enormous number": (
        replaced('ParentNodeId="ns=1;i=201"', f'ParentNodeId="ns=1;i={"9" * 5000}"'),
        'NodeId="ns=1;i=202"',
        3,
        "error[FKG103]",
        "the ParentNodeId of <UAVariable> ns=1;i=202, is neither",
        "write a NodeId",
    ),
    "data type": (
        replaced('DataType="i=887"', 'DataType="EngineeringUnit"'),
        'NodeId="ns=1;i=202"',
        3,
        "error[FKG103]",
        "the DataType of <UAVariable> ns=1;i=202, is neither a NodeId nor an alias",
        "write a NodeId",
    ),
    "no type definition": (
        replaced(reference("HasTypeDefinition", "i=61"), ""),
        'NodeId="ns=1;i=100"',
        3,
        "warning[FKG103]",
        "this <UAObject>, `Line1`, has no HasTypeDefinition; fedkg uses BaseObjectType",
        'add a <Reference ReferenceType="HasTypeDefinition">',
    ),
    "dangling reference": (
        replaced(reference("Organizes", "ns=1;i=200"), reference("Organizes", "ns=1;i=299")),
        ">ns=1;i=299<",
        7,
        "warning[FKG121]",
        "no loaded node set has the node ns=1;i=299 of <https://example.org/bottling>",
        "correct the NodeId, or give the node set that defines it as a graph file too",
    ),
    "value": (
        replaced(value("71.5"), value("71,5")),
        'NodeId="ns=1;i=201"',
        3,
        "warning[FKG103]",
        (
            "`71,5` is not a value of the type Double:"
            " the value of the <UAVariable> `Temperature` is left out"
        ),
        "correct the text in <Value>",
    ),
    "twice": (
        replaced('NodeId="ns=1;i=202"', 'NodeId="ns=1;i=201"'),
        'BrowseName="EngineeringUnits"',
        3,
        "warning[FKG119]",
        "the node ns=1;i=201 is defined twice; fedkg uses the first one",
        "the other one is in line",
    ),
    "broken off": (
        PLANT_SET[: PLANT_SET.index("</UANodeSet>")],
        "",
        1,
        "error[FKG103]",
        "the XML is not well-formed here: no element found",
        "correct the XML at this place; if the file is incomplete, download or save it again",
    ),
    "not well formed": (
        replaced("<DisplayName>Filler 1</DisplayName>", "<DisplayName>Filler & 1</DisplayName>"),
        "Filler & 1",
        26,
        "error[FKG103]",
        "the XML is not well-formed here: not well-formed",
        "correct the XML at this place; if the file is incomplete, download or save it again",
    ),
    "no namespace of node sets": (
        replaced(
            'xmlns="http://opcfoundation.org/UA/2011/03/UANodeSet.xsd"',
            'xmlns="http://example.org/NodeSet"',
        ),
        "<UANodeSet",
        1,
        "error[FKG",
        "",
        "",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_reported_at_their_place_in_the_user_s_file(case: str, fedkg: Command) -> None:
    text, part, column, label, message, advice = BAD[case]
    Path("plant.xml").write_text(text, encoding="utf-8")
    Path("rules.fkg").write_text(
        "signal pressure in bar\nrule calm require pressure <= 6 bar\n", encoding="utf-8"
    )
    done = fedkg("check", "rules.fkg", "plant.xml", "types.xml")
    assert done.code == 1
    assert "Traceback" not in done.err
    assert "fault" not in done.err
    line = line_of(text, part) if part else text.count("\n") + 1
    places = re.findall(r"^(\S+?):(\d+):(\d+): (\w+\[FKG\d+\]): (.*)", done.err, re.MULTILINE)
    assert {file for file, *_ in places} == {"plant.xml"}
    found = [one for one in places if one[1:3] == (str(line), str(column))]
    assert len(found) == 1
    assert found[0][3].startswith(label)
    assert message in found[0][4]
    assert advice in done.err
    compiled = fedkg("compile", "rules.fkg", "plant.xml", "types.xml", "-o", "plant.fkgpack")
    is_error = label.startswith("error")
    assert (compiled.code, Path("plant.fkgpack").exists()) == (int(is_error), not is_error)


def test_the_rest_of_a_node_set_with_mistakes_is_read(tmp_path: Path, catalog: Catalog) -> None:
    graph, problems = loaded(
        tmp_path,
        catalog,
        replaced(reference("Organizes", "ns=1;i=200"), reference("Organises", "ns=1;i=200")),
        TYPE_SET,
    )
    assert [one.code for one in problems] == ["FKG103"]
    assert len(individuals(graph)) == 7


def test_many_mistakes_are_counted(fedkg: Command) -> None:
    bad = "".join(
        node("Object", f"ns=1;i={i}", f"1:Tank{i}", reference("HasTypeDefinition", "nothing"))
        for i in range(1000, 1030)
    )
    Path("plant.xml").write_text(HEAD + bad + "</UANodeSet>", encoding="utf-8")
    Path("rules.fkg").write_text(
        "signal pressure in bar\nrule calm require pressure <= 6 bar\n", encoding="utf-8"
    )
    done = fedkg("check", "rules.fkg", "plant.xml", "types.xml")
    assert done.code == 1
    assert done.err.count("is neither a NodeId nor an alias") == 20
    assert "10 more errors of this node set are not shown; the last one is here" in done.err
    assert "10 more warnings of this node set are not shown; the last one is here" in done.err


def test_two_kinds_of_property_are_reported_in_the_node_set(fedkg: Command) -> None:
    part = node(
        "Variable",
        "ns=1;i=900",
        "2:Unit",
        reference("HasComponent", "ns=1;i=901", inverse=True),
        reference("HasTypeDefinition", "i=63"),
        reference("HasModellingRule", "i=78"),
        more=' DataType="Double"',
    )
    owner = node(
        "ObjectType", "ns=1;i=901", "1:CapperType", reference("HasSubtype", "i=58", inverse=True)
    )
    other = part.replace("UAVariable", "UAObject").replace(' DataType="Double"', "")
    kept = TYPE_SET.replace(
        "</UANodeSet>", (owner + other).replace("2:Unit", "1:Unit") + "</UANodeSet>"
    )
    Path("plant.xml").write_text(HEAD + owner + part + "</UANodeSet>", encoding="utf-8")
    Path("types.xml").write_text(kept, encoding="utf-8")
    Path("rules.fkg").write_text(
        "signal pressure in bar\nrule calm require pressure <= 6 bar\n", encoding="utf-8"
    )
    done = fedkg("check", "rules.fkg", "plant.xml", "types.xml")
    line = line_of(Path("plant.xml").read_text(encoding="utf-8"), 'NodeId="ns=1;i=900"')
    assert (
        f"plant.xml:{line}:3: warning[FKG120]: <https://example.org/machines#hasUnit> is "
        "declared to be "
        "an object property and a data property" in done.err
    )


def test_an_added_node_set_has_its_own_namespace_and_its_problems_at_the_user_s_file(
    fedkg: Command, tmp_path: Path
) -> None:
    Path("plant.xml").write_text(
        replaced(reference("HasTypeDefinition", "i=61"), ""), encoding="utf-8"
    )
    record, _ = add_entry("bottling", "plant.xml", home=tmp_path / "home")
    assert record is not None
    assert record.namespace == PLANT
    Path("rules.fkg").write_text(
        "use bottling\nsignal pressure in bar\nrule calm require pressure <= 6 bar\n",
        encoding="utf-8",
    )
    done = fedkg("check", "rules.fkg")
    line = line_of(Path("plant.xml").read_text(encoding="utf-8"), 'NodeId="ns=1;i=100"')
    assert f"plant.xml:{line}:3: warning[FKG103]: this <UAObject>" in done.err
    assert str(tmp_path / "home") not in done.err
    Path("plant.xml").write_text(PLANT_SET, encoding="utf-8")
    assert str(tmp_path / "home") in fedkg("check", "rules.fkg").err
    assert load_catalog(home=tmp_path / "home").prefixes_of("bottling") == {"bottling": PLANT}
