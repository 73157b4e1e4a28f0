"""OPC UA node sets as ontologies: the mapping piece by piece, and the ISA-95 companion
specifications.
"""

from __future__ import annotations

from collections import Counter

import pytest
from shared import SHARED, needs_shared

from fedkg_compiler.graph.rdf_reader import Document, read_file, read_rdf
from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, RDFS, SKOS, XSD

UA, X = "http://opcfoundation.org/UA/", "http://x.org/ua#"
HEAD = """<UANodeSet xmlns="http://opcfoundation.org/UA/2011/03/UANodeSet.xsd">
<NamespaceUris><Uri>http://x.org/ua</Uri></NamespaceUris>
<Models><Model ModelUri="http://x.org/ua" Version="1.2">
<RequiredModel ModelUri="http://opcfoundation.org/UA/"/></Model></Models>
<Aliases><Alias Alias="HasSubtype">i=45</Alias><Alias Alias="HasComponent">i=47</Alias>
<Alias Alias="Double">i=11</Alias></Aliases>
"""
MILL = """<UAObjectType NodeId="ns=1;i=1" BrowseName="1:MillType"><DisplayName>Mill</DisplayName>
<Description>Turns its tool.</Description>
<References><Reference ReferenceType="HasSubtype" IsForward="false">i=58</Reference></References>
</UAObjectType>
"""


def node(sort: str, number: int, name: str, references: str, more: str = "", body: str = "") -> str:
    return (
        f'<UA{sort} NodeId="ns=1;i={number}" BrowseName="1:{name}"'
        f" {more}><References>{references}</References>{body}</UA{sort}>"
    )


def reference(kind: str, target: str, *, forward: bool = True) -> str:
    return (
        "<Reference"
        f' ReferenceType="{kind}"{"" if forward else """ IsForward="false" """}'
        f">{target}</Reference>"
    )


def read(nodes: str) -> Document:
    document, problems = read_rdf(f"{HEAD}{nodes}</UANodeSet>".encode(), file="m.xml")
    assert document is not None
    assert problems == ()
    return document


def facts(document: Document) -> set[tuple[str, str, str]]:
    return {
        (
            getattr(quad.subject, "value", ""),
            quad.predicate.value.rpartition("#")[2],
            getattr(quad.object, "value", ""),
        )
        for quad in document.triples
    }


def test_types_become_classes_below_their_supertypes() -> None:
    said = facts(read(MILL))
    assert {
        (X + "MillType", "type", OWL + "Class"),
        (X + "MillType", "label", "Mill"),
        (X + "MillType", "comment", "Turns its tool."),
        (X + "MillType", "notation", "i=1"),
        (X + "MillType", "subClassOf", UA + "BaseObjectType"),
        (X + "MillType", "equivalentClass", X + "node_i1"),
        ("http://x.org/ua", "versionInfo", "1.2"),
        ("http://x.org/ua", "imports", UA),
    } <= said


def test_components_become_properties_with_domain_range_and_count() -> None:
    up = reference("HasComponent", "ns=1;i=1", forward=False)
    document = read(
        MILL
        + node("Variable", 2, "Speed", up + reference("i=37", "i=78"), 'DataType="Double"')
        + node(
            "Object", 3, "Spindle", up + reference("i=37", "i=80") + reference("i=40", "ns=1;i=1")
        )
        + node("Method", 4, "Start", up)
    )
    said = facts(document)
    assert {
        (X + "hasSpeed", "type", OWL + "DatatypeProperty"),
        (X + "hasSpeed", "domain", X + "MillType"),
        (X + "hasSpeed", "range", XSD + "double"),
        (X + "hasSpindle", "type", OWL + "ObjectProperty"),
        (X + "hasSpindle", "range", X + "MillType"),
        (X + "hasStart", "domain", X + "MillType"),
    } <= said
    counts = {
        quad.predicate.value.removeprefix(OWL)
        for quad in document.triples
        if "ardinality" in quad.predicate.value
    }
    assert counts == {"cardinality", "maxCardinality"}


def test_reference_types_become_object_properties_with_inverses() -> None:
    body = "<DisplayName>Feeds</DisplayName><InverseName>FedBy</InverseName>"
    said = facts(
        read(
            node(
                "ReferenceType",
                5,
                "Feeds",
                reference("HasSubtype", "i=32", forward=False),
                "",
                body,
            )
        )
    )
    assert {
        (X + "Feeds", "type", OWL + "ObjectProperty"),
        (X + "Feeds", "subPropertyOf", UA + "NonHierarchicalReferences"),
        (X + "Feeds", "inverseOf", X + "FedBy"),
    } <= said


def test_enumerations_become_individuals_and_structures_have_properties() -> None:
    enumeration = (
        '<Definition Name="Mode"><Field Name="Off" Value="0"/><Field Name="On now"'
        ' Value="1"/></Definition>'
    )
    structure = (
        '<Definition Name="Job"><Field Name="Mode" DataType="ns=1;i=6"/><Field Name="Length"'
        ' DataType="Double"/></Definition>'
    )
    said = facts(
        read(
            node(
                "DataType",
                6,
                "Mode",
                reference("HasSubtype", "i=29", forward=False),
                "",
                enumeration,
            )
            + node(
                "DataType", 7, "Job", reference("HasSubtype", "i=22", forward=False), "", structure
            )
        )
    )
    assert {
        (X + "Mode", "subClassOf", UA + "Enumeration"),
        (X + "Mode.On%20now", "type", X + "Mode"),
        (X + "Mode.On%20now", "notation", "1"),
        (X + "hasMode", "domain", X + "Job"),
        (X + "hasMode", "range", X + "Mode"),
        (X + "hasLength", "range", XSD + "double"),
    } <= said


def test_states_of_a_type_are_individuals_that_refer_to_each_other() -> None:
    part = reference("HasComponent", "ns=1;i=1", forward=False)
    number = (
        '<Value><UInt32 xmlns="http://opcfoundation.org/UA/2008/02/Types.xsd">7</UInt32></Value>'
    )
    said = facts(
        read(
            MILL
            + node("Object", 8, "Idle", part + reference("i=40", "i=2307"))
            + node(
                "Object",
                9,
                "ToIdle",
                part + reference("i=40", "i=2310") + reference("i=52", "ns=1;i=8"),
            )
            + node(
                "Variable",
                10,
                "StateNumber",
                reference("i=46", "ns=1;i=8", forward=False),
                'DataType="i=7"',
                number,
            )
        )
    )
    assert {
        (X + "MillType.Idle", "type", UA + "StateType"),
        (X + "MillType.ToIdle", UA + "ToState", X + "MillType.Idle"),
        (X + "MillType.Idle", "hasStateNumber", "7"),
    } <= said


@pytest.mark.parametrize(
    ("nodes", "code", "words"),
    [
        (MILL + MILL, "FKG119", "the node ns=1;i=1 is defined twice"),
        ('<UAObjectType BrowseName="1:X"/>', "FKG103", "has no NodeId"),
        (
            '<UAObjectType NodeId="ns=7;i=2" BrowseName="1:X"/>',
            "FKG103",
            "the namespace ns=7 of this <UAObjectType> is none of",
        ),
        (MILL + "<UAObject", "FKG103", "the XML is not well-formed"),
    ],
)
def test_mistakes_are_reported_and_the_rest_is_read(nodes: str, code: str, words: str) -> None:
    document, problems = read_rdf(
        f"{HEAD}{nodes}{'' if 'breaks' in words else '</UANodeSet>'}".encode(), file="m.xml"
    )
    assert document is not None
    assert [(problem.code, problem.span.file) for problem in problems] == [(code, "m.xml")]
    assert words in problems[0].message
    assert document.triples != ()


@needs_shared
@pytest.mark.parametrize(
    ("file", "types", "reference_types", "space"),
    [
        (
            "Opc.ISA95.NodeSet2.xml",
            17 + 21 + 31,
            26,
            "http://www.OPCFoundation.org/UA/2013/01/ISA95#",
        ),
        (
            "opc.ua.isa95-jobcontrol.nodeset2.xml",
            8 + 11,
            0,
            "http://opcfoundation.org/UA/ISA95-JOBCONTROL_V2/",
        ),
    ],
)
def test_official_node_sets_have_the_counts_that_are_known_of_them(
    file: str, types: int, reference_types: int, space: str
) -> None:
    document, problems = read_file(SHARED / "ontologies" / "isa95-opcua" / file)
    assert document is not None
    assert problems == ()
    kinds = Counter(
        getattr(quad.object, "value", "")
        for quad in document.triples
        if quad.predicate.value == RDF + "type"
    )
    assert kinds[OWL + "Class"] == types
    numbered = [
        quad.subject.value
        for quad in document.triples
        if quad.predicate.value == SKOS + "notation" and hasattr(quad.subject, "value")
    ]
    properties = {
        getattr(quad.subject, "value", "")
        for quad in document.triples
        if quad.predicate.value == RDF + "type"
        and getattr(quad.object, "value", "") == OWL + "ObjectProperty"
    }
    assert len(properties & set(numbered)) == reference_types
    assert all(iri.startswith(space) for iri in numbered)
    ranges = [
        quad
        for quad in document.triples
        if quad.predicate.value == RDFS + "subClassOf" and hasattr(quad.object, "value")
    ]
    assert len(ranges) >= types
