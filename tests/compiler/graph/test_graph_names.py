"""Names outside patterns, labels, keys and columns."""

from __future__ import annotations

import pytest
from graph_cases import HERE, PLANT, plant_graph

from fedkg.units.text import UnitProblem, parse_unit
from fedkg_compiler.frontends.shacl.shapes_graph_reader import behind_rdflib
from fedkg_compiler.graph import Catalog, ColumnFact, Graph, Literal, load_graph
from fedkg_compiler.graph.standard_vocabularies import FKG, QUDT

TORQUE = PLANT + "torque"


@pytest.mark.parametrize(
    ("text", "form", "iri"),
    [
        ("fkg-isa95:Equipment", "pname", "https://w3id.org/fedkg/isa95#Equipment"),
        ("fkg-isa95:StorageUnit", "pname", "https://w3id.org/fedkg/isa95#StorageUnit"),
        (
            "mason:Shearing_machine-tool",
            "pname",
            "http://www.owl-ontologies.com/mason.owl#Shearing_machine-tool",
        ),
        ("plant:torque", "pname", TORQUE),
        (TORQUE, "iri", TORQUE),
        ("CuttingTool", "name", "https://w3id.org/fedkg/mason#CuttingTool"),
        ("torque", "name", TORQUE),
        ("low", "name", PLANT + "low"),
        ("unit:N-M", "pname", "http://qudt.org/vocab/unit/N-M"),
        ("xsd:double", "pname", "http://www.w3.org/2001/XMLSchema#double"),
    ],
)
def test_names_become_iris(plant: Graph, text: str, form: str, iri: str) -> None:
    assert plant.resolve(text, form, HERE) == (iri, ())


@pytest.mark.parametrize(
    ("text", "form", "code", "advice"),
    [
        ("isa95:EquipmentClas", "pname", "FKG111", "did you mean `fkg-isa95:EquipmentClass`?"),
        ("isa59:Site", "pname", "FKG110", "did you mean `isa95:`?"),
        ("CuttingTol", "name", "FKG113", "did you mean `CuttingTool`?"),
        ("Qwertyuiop", "name", "FKG113", "`use`"),
        ("Site", "name", "FKG114", "write which one"),
        ("no scheme", "iri", "FKG108", "scheme"),
    ],
)
def test_wrong_names_have_one_error(
    plant: Graph, text: str, form: str, code: str, advice: str
) -> None:
    iri, problems = plant.resolve(text, form, HERE)
    assert iri is None
    assert [(p.code, p.severity, p.span) for p in problems] == [(code, "error", HERE)]
    assert advice in problems[0].help


def test_a_name_that_only_this_graph_lacks_is_a_warning(plant: Graph) -> None:
    iri, problems = plant.resolve("plant:Torque", "pname", HERE)
    assert iri == PLANT + "Torque"
    assert [(p.code, p.severity, p.help) for p in problems] == [
        ("FKG112", "warning", "did you mean `plant:torque`?")
    ]


def test_without_any_graph_of_that_namespace_nothing_is_reported(catalog: Catalog) -> None:
    graph, problems, _ = load_graph([], {"plant": (PLANT, HERE)}, [], catalog=catalog)
    assert problems == ()
    assert graph.resolve("plant:torque", "pname", HERE) == (TORQUE, ())
    assert graph.columns_of(TORQUE, None) == []


def test_the_prefix_of_an_ontology_that_is_not_used_says_so(catalog: Catalog) -> None:
    graph, _, _ = load_graph(
        [],
        {},
        [],
        catalog=catalog,
        text_graphs=[("p.ttl", "@prefix acme: <http://acme/> . acme:a acme:b 1 .")],
    )
    assert graph.resolve("mason:Tool", "pname", HERE)[1][0].help == "add `use mason`"
    assert (
        graph.resolve("acme:a", "pname", HERE)[1][0].help
        == "p.ttl declares this prefix: add `prefix acme: <http://acme/>`"
    )


def test_members_are_those_of_subclasses_too(plant: Graph) -> None:
    assert plant.instances("http://www.owl-ontologies.com/mason.owl#MillingMachine") == [
        PLANT + "M1",
        PLANT + "M2",
    ]
    assert plant.instances("https://w3id.org/fedkg/mason#CuttingTool") == [
        PLANT + "T1",
        PLANT + "T2",
    ]
    assert plant.instances(PLANT + "BigMill") == [PLANT + "M2"]
    assert plant.instances(PLANT + "Nothing") == []


def test_labels_are_english_first(plant: Graph) -> None:
    assert plant.label_of(PLANT + "enterprise") == "Example Ltd"
    assert plant.label_of(PLANT + "M1") == "Mill one"
    assert plant.label_of(PLANT + "M2") == "M2"
    assert plant.label_of("_:f00n1") == "f00n1"


def test_keys_come_from_the_entity_or_its_most_special_class(plant: Graph) -> None:
    assert plant.key_of(PLANT + "graz") == ("site", "graz")
    assert plant.key_of(PLANT + "M1") == ("machine", "M1")
    assert plant.key_of(PLANT + "M2") == ("big machine", "M-2")
    assert plant.key_of(PLANT + "T1") is None
    assert plant.key_of("_:b0") is None


def test_columns_come_from_the_property_or_the_sensor(plant: Graph) -> None:
    shared = ColumnFact(column="Torque [Nm]", unit="N.m", entity=None, sensor=None)
    first = ColumnFact(
        column="Torque [Nm]", unit="N.m", entity=PLANT + "M1", sensor=PLANT + "M1_torque"
    )
    second = ColumnFact(
        column="TIC-2", unit="kN.m", entity=PLANT + "M2", sensor=PLANT + "M2_torque"
    )
    assert plant.columns_of(TORQUE, None) == [shared, first, second]
    assert plant.columns_of(TORQUE, PLANT + "M1") == [first]
    assert plant.columns_of(TORQUE, PLANT + "M2") == [second]
    assert plant.columns_of(TORQUE, PLANT + "T1") == [shared]
    assert plant.columns_of(PLANT + "high", PLANT + "M1") == []


def test_a_property_may_lead_to_its_column_itself(catalog: Catalog) -> None:
    graph = plant_graph(
        catalog, 'plant:z1 plant:temperature [ fkg:column "T 1" ; qudt:hasUnit unit:DEG_C ] .'
    )
    [fact] = graph.columns_of(PLANT + "temperature", PLANT + "z1")
    assert (fact.column, fact.unit, fact.entity) == ("T 1", "degC", PLANT + "z1")


def test_a_class_of_observed_properties_has_the_columns_of_its_members(catalog: Catalog) -> None:
    text = (
        "plant:T rdfs:subClassOf sosa:ObservableProperty . plant:t1 a plant:T ; "
        "fkg:column 'T1' . plant:t2 a plant:T ."
    )
    graph = plant_graph(
        catalog,
        text
        + "plant:s a sosa:Sensor ; sosa:observes plant:t2 ; sosa:isHostedBy plant:z ; fkg:column"
        " 'T2' ; qudt:unit 'degC' .",
    )
    facts = graph.columns_of(PLANT + "T", None)
    assert [(fact.column, fact.unit, fact.entity) for fact in facts] == [
        ("T1", None, None),
        ("T2", "degC", PLANT + "z"),
    ]


def test_values_of_a_subject_are_plain_and_sorted(plant: Graph) -> None:
    assert [
        str(getattr(value, "unit", "")) for value in plant.values_of(PLANT + "M2", PLANT + "limit")
    ] == ["N.m", "bar"]


def test_terms_are_known_with_label_and_kind(plant: Graph) -> None:
    terms = {term.short: term for term in plant.terms()}
    equipment = terms["fkg-isa95:Equipment"]
    assert (equipment.kind, equipment.label, equipment.ontology) == ("class", "equipment", "isa95")
    assert terms["fkg-isa95:feeds"].kind == "property"
    assert terms["unit:N-M"].kind == "individual"
    assert terms["plant:low"].ontology == "plant.ttl"
    assert [term.iri for term in plant.terms()] == sorted(term.iri for term in plant.terms())


def test_the_store_stands_behind_rdflib(plant: Graph) -> None:
    import rdflib

    graph = behind_rdflib(plant.store, everywhere=True)
    assert (
        rdflib.URIRef(PLANT + "M1"),
        rdflib.RDF.type,
        rdflib.URIRef("https://w3id.org/fedkg/isa95#Equipment"),
    ) in graph
    assert len(graph) <= len(plant)  # a triple in two graphs counts twice in the store


def test_every_unit_text_is_one_that_rule_files_can_write(catalog: Catalog) -> None:
    graph, _, _ = load_graph([], {}, [], catalog=catalog)
    rows = graph.answers(f"SELECT ?t WHERE {{ ?u <{FKG}unitText> ?t }}", everywhere=True)
    texts = [term.value for (term,) in rows if isinstance(term, Literal)]
    assert len(texts) > 120
    assert [text for text in texts if isinstance(parse_unit(str(text)), UnitProblem)] == []


def test_units_in_the_graph_mean_what_they_mean_in_rule_files(catalog: Catalog) -> None:
    """QUDT's factor to SI against the factor of the text.

    Units of angle have another base there.
    """
    graph, _, _ = load_graph([], {}, [], catalog=catalog)
    rows = graph.answers(
        f"SELECT ?t ?m WHERE {{ ?u <{FKG}unitText> ?t ; <{QUDT}conversionMultiplier> ?m }}",
        everywhere=True,
    )
    checked = 0
    for text, multiplier in rows:
        assert isinstance(text, Literal)
        assert isinstance(multiplier, Literal)
        unit = parse_unit(str(text.value))
        assert not isinstance(unit, UnitProblem)
        if unit.turns == 0 and unit.exponent("angle") == 0:
            assert float(unit.factor) == pytest.approx(float(multiplier.value), rel=1e-6), (
                text.value
            )
            checked += 1
    assert checked > 100
