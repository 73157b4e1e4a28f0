"""XML schemas as ontologies: the mapping piece by piece, references between files, and B2MML in its
full size.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest
from shared import SHARED, needs_shared

from fedkg_compiler.graph.rdf_reader import Document, read_file, read_rdf
from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, RDFS, XSD

B2MML = SHARED / "ontologies" / "isa95-b2mml-0700"
X = "http://x.org/s#"
HEAD = (
    '<xsd:schema xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns="http://x.org/s"'
    ' targetNamespace="http://x.org/s">\n'
)
ORG = "https://schema.org/"


def read(body: str) -> Document:
    document, problems = read_rdf(f"{HEAD}{body}</xsd:schema>".encode(), file="s.xsd")
    assert document is not None
    assert problems == ()
    return document


def says(document: Document, subject: str, predicate: str, value: str) -> bool:
    return any(
        (quad.subject.value, quad.predicate.value, getattr(quad.object, "value", ""))
        == (subject, predicate, value)
        for quad in document.triples
        if hasattr(quad.subject, "value")
    )


def restrictions(document: Document, owner: str) -> set[tuple[str, str, str]]:
    """Property, word and value of what a class lies below."""
    said: dict[str, dict[str, str]] = {}
    below: set[str] = set()
    for quad in document.triples:
        subject, value = getattr(quad.subject, "value", ""), getattr(quad.object, "value", "")
        said.setdefault(subject, {})[quad.predicate.value] = value
        if (subject, quad.predicate.value) == (owner, RDFS + "subClassOf"):
            below.add(value)
    nodes = [said[node] for node in below if OWL + "onProperty" in said.get(node, {})]
    return {
        (node[OWL + "onProperty"], word.removeprefix(OWL), value)
        for node in nodes
        for word, value in node.items()
        if word not in (OWL + "onProperty", RDF + "type")
    }


def test_types_become_classes_and_their_elements_properties() -> None:
    document = read(
        '<xsd:complexType name="MillType"><xsd:annotation><xsd:documentation>Turns  its\n'
        ' tool.</xsd:documentation></xsd:annotation><xsd:sequence><xsd:element name="ID"'
        ' type="xsd:string"/><xsd:element name="Tool" type="ToolType" minOccurs="0"'
        ' maxOccurs="unbounded"/><xsd:choice><xsd:element name="A"'
        ' type="ToolType"/></xsd:choice></xsd:sequence><xsd:attribute name="unit" type="xsd:token"'
        ' use="required"/></xsd:complexType><xsd:complexType name="ToolType"/>'
    )
    assert says(document, X + "MillType", RDF + "type", OWL + "Class")
    assert says(document, X + "MillType", RDFS + "comment", "Turns its tool.")
    for name, kind, range_ in (
        ("ID", "Datatype", XSD + "string"),
        ("Tool", "Object", X + "ToolType"),
        ("unit", "Datatype", XSD + "token"),
    ):
        assert says(document, f"{X}has{name}", RDF + "type", f"{OWL}{kind}Property")
        assert says(document, f"{X}has{name}", RDFS + "domain", X + "MillType")
        assert says(document, f"{X}has{name}", RDFS + "range", range_)
    assert restrictions(document, X + "MillType") == {
        (X + "hasID", "cardinality", "1"),
        (X + "hasA", "maxCardinality", "1"),
        (X + "hasunit", "cardinality", "1"),
    }


def test_a_name_with_several_uses_is_bound_to_its_classes_by_restrictions() -> None:
    document = read(
        '<xsd:complexType name="A"><xsd:sequence><xsd:element name="V"'
        ' type="xsd:int"/></xsd:sequence></xsd:complexType><xsd:complexType'
        ' name="B"><xsd:sequence><xsd:element name="V" type="A" minOccurs="2"'
        ' maxOccurs="5"/></xsd:sequence></xsd:complexType>'
    )
    assert says(document, X + "hasV", RDF + "type", RDF + "Property")
    for owner, range_ in (("A", XSD + "int"), ("B", X + "A")):
        assert says(document, X + "hasV", ORG + "domainIncludes", X + owner)
        assert says(document, X + "hasV", ORG + "rangeIncludes", range_)
    assert restrictions(document, X + "B") == {
        (X + "hasV", "allValuesFrom", X + "A"),
        (X + "hasV", "minCardinality", "2"),
        (X + "hasV", "maxCardinality", "5"),
    }


def test_extensions_become_subclasses_and_enumerations_individuals() -> None:
    document = read(
        '<xsd:complexType name="Level1Type"><xsd:simpleContent><xsd:restriction'
        ' base="CodeType"><xsd:enumeration value="Work'
        ' Unit"/></xsd:restriction></xsd:simpleContent></xsd:complexType><xsd:complexType'
        ' name="CodeType"><xsd:simpleContent><xsd:extension'
        ' base="xsd:token"/></xsd:simpleContent></xsd:complexType><xsd:simpleType'
        ' name="Mode"><xsd:restriction base="xsd:string"><xsd:enumeration'
        ' value="on"/></xsd:restriction></xsd:simpleType><xsd:simpleType'
        ' name="Length"><xsd:restriction base="xsd:decimal"/></xsd:simpleType><xsd:simpleType'
        ' name="Any"><xsd:union memberTypes="Mode xsd:string"/></xsd:simpleType>'
    )
    assert says(document, X + "Level1Type", RDFS + "subClassOf", X + "CodeType")
    assert says(document, X + "Level1Type.Work%20Unit", RDF + "type", X + "Level1Type")
    assert says(document, X + "Level1Type.Work%20Unit", RDFS + "label", "Work Unit")
    assert restrictions(document, X + "CodeType") == {
        (RDF + "value", "allValuesFrom", XSD + "token")
    }
    assert says(document, X + "Mode.on", RDF + "type", X + "Mode")
    assert says(document, X + "Mode", RDFS + "subClassOf", X + "Any")
    assert says(document, X + "Length", RDF + "type", RDFS + "Datatype")
    assert says(document, X + "Length", RDFS + "subClassOf", XSD + "decimal")


def test_types_inside_elements_are_named_after_them_and_groups_stand_where_they_are_used() -> None:
    document = read(
        '<xsd:element name="Order"><xsd:complexType><xsd:sequence><xsd:element'
        ' name="Line"><xsd:complexType/></xsd:element><xsd:group ref="More"'
        ' minOccurs="0"/></xsd:sequence></xsd:complexType></xsd:element><xsd:group'
        ' name="More"><xsd:sequence><xsd:element name="Note" type="xsd:string"/><xsd:group'
        ' ref="More"/></xsd:sequence></xsd:group>'
    )
    assert says(document, X + "hasOrder", RDFS + "range", X + "Order.type")
    assert says(document, X + "hasLine", RDFS + "range", X + "Order.type.Line")
    assert (X + "hasNote", "maxCardinality", "1") in restrictions(document, X + "Order.type")


def test_included_files_are_read_once_however_they_circle(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "a.xsd").write_text(
        f'{HEAD}<xsd:include schemaLocation="more/b.xsd"/><xsd:import namespace="http://y"'
        ' schemaLocation="http://y.org/c.xsd"/>\n<xsd:include'
        ' schemaLocation="../outside.xsd"/><xsd:include schemaLocation="gone.xsd"/></xsd:schema>',
        encoding="utf-8",
    )
    (tmp_path / "more" / "b.xsd").write_text(
        f'{HEAD}<xsd:include schemaLocation="../a.xsd"/><xsd:complexType name="B"/></xsd:schema>',
        encoding="utf-8",
    )
    document, problems = read_file(tmp_path / "a.xsd")
    assert document is not None
    assert says(document, X + "B", RDF + "type", OWL + "Class")
    assert [(p.code, p.severity, p.span.line) for p in problems] == [
        ("FKG105", "info", 2),
        ("FKG105", "info", 3),
        ("FKG105", "info", 3),
    ]
    folder, others = read_file(tmp_path)
    assert folder is not None
    assert set(folder.triples) == set(document.triples)
    assert len(others) == 3
    assert folder.sha256 == document.sha256


def test_what_is_defined_twice_is_reported_and_the_first_stands() -> None:
    body = (
        f'{HEAD}<xsd:simpleType name="A"><xsd:restriction'
        ' base="xsd:int"/></xsd:simpleType>\n<xsd:complexType name="A"/></xsd:schema>'
    )
    document, problems = read_rdf(body.encode(), file="s.xsd")
    assert document is not None
    assert [(problem.code, problem.span.line) for problem in problems] == [("FKG119", 3)]
    assert says(document, X + "A", RDF + "type", RDFS + "Datatype")


def test_names_that_nothing_defines_are_reported_once_with_the_first_place() -> None:
    body = (
        '<xsd:complexType name="ToolType"/><xsd:attribute name="a"'
        ' type="xsd:strin"/>\n<xsd:complexType name="B"><xsd:sequence><xsd:element name="x"'
        ' type="ToolTyp"/><xsd:element ref="gone"/>\n<xsd:element name="y"'
        ' type="ToolTyp"/></xsd:sequence><xsd:attribute ref="xml:lang"/></xsd:complexType>\n'
    )
    document, problems = read_rdf(f"{HEAD}{body}</xsd:schema>".encode(), file="s.xsd")
    assert document is not None
    assert [(one.code, one.severity, one.span.line, one.message) for one in problems] == [
        ("FKG121", "warning", 2, "XML Schema has no type `xsd:strin`"),
        ("FKG121", "warning", 3, "no schema defines the type `ToolTyp`, which is used 2 times"),
        ("FKG121", "warning", 3, "no schema defines the element `gone`"),
    ]
    assert [one.help.split("`")[1] if "`" in one.help else "" for one in problems] == [
        "xsd:string",
        "ToolType",
        "",
    ]
    assert says(document, X + "hasx", RDFS + "range", X + "ToolTyp")


def test_of_many_names_that_nothing_defines_the_rest_is_counted() -> None:
    body = "".join(f'<xsd:element name="e{i}" type="T{i}"/>\n' for i in range(23))
    _, problems = read_rdf(f"{HEAD}{body}</xsd:schema>".encode(), file="s.xsd")
    assert len(problems) == 21
    assert (problems[-1].code, problems[-1].message) == (
        "FKG121",
        "3 more names that nothing defines, `T20` first",
    )


def test_of_names_that_a_schema_not_there_may_define_nothing_is_reported() -> None:
    body = '<xsd:include schemaLocation="gone.xsd"/><xsd:element name="x" type="ToolType"/>'
    _, problems = read_rdf(f"{HEAD}{body}</xsd:schema>".encode(), file="s.xsd")
    assert [one.code for one in problems] == ["FKG105"]


def space(root: ET.Element) -> str:
    """The namespace that a file of B2MML defines names in.

    The core components take that of the files that include them.
    """
    return root.get("targetNamespace", "http://www.mesa.org/xml/B2MML")


@pytest.fixture(scope="module")
def b2mml() -> Document:
    document, problems = read_file(B2MML)
    assert document is not None
    assert problems == ()
    return document


@needs_shared
def test_b2mml_has_the_counts_that_are_known_of_it(b2mml: Document) -> None:
    types = Counter(
        quad.object.value
        for quad in b2mml.triples
        if quad.predicate.value == RDF + "type" and hasattr(quad.object, "value")
    )
    classes = {
        quad.subject.value
        for quad in b2mml.triples
        if quad.predicate.value == RDF + "type"
        and getattr(quad.object, "value", "") == OWL + "Class"
        and hasattr(quad.subject, "value")
    }
    trees = [ET.parse(path).getroot() for path in sorted(B2MML.glob("*.xsd"))]
    x = f"{{{XSD.removesuffix('#')}}}"
    named = {
        f"{space(root)}#{child.get('name')}"
        for root in trees
        for child in root.findall(f"{x}complexType")
    }
    assert len(trees) == 39
    assert len(named) == 968
    assert named <= classes
    assert types[OWL + "NamedIndividual"] == 605
    properties = {
        quad.subject.value.rpartition("#has")[2]
        for quad in b2mml.triples
        if "#has" in getattr(quad.subject, "value", "")
    }
    elements = {element.get("name") for root in trees for element in root.iter(f"{x}element")}
    assert len(elements) == 1325
    assert elements <= properties
    assert sum(len(root.findall(f"{x}element")) for root in trees) == 705


@needs_shared
def test_every_reference_of_b2mml_from_an_element_to_a_type_is_reported(b2mml: Document) -> None:
    said = {
        (quad.subject.value, quad.object.value)
        for quad in b2mml.triples
        if "ange" in quad.predicate.value and hasattr(quad.object, "value")
    }
    x = f"{{{XSD.removesuffix('#')}}}"
    count = 0
    for path in B2MML.glob("*.xsd"):
        prefixes = {prefix: iri for _, (prefix, iri) in ET.iterparse(path, ["start-ns"])}
        root = ET.parse(path).getroot()
        for element in root.iter(f"{x}element"):
            prefix, _, name = element.get("type", "").rpartition(":")
            if name:
                count += 1
                name_in = f"{prefixes.get(prefix, space(root))}#"
                assert (f"{space(root)}#has{element.get('name')}", name_in + name) in said
    assert count == 4523
