"""Reading single files: every problem gives one diagnostic with its position.

The rest of the file is read.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.rdf_reader import Document, checksum, read_file, read_rdf
from fedkg_compiler.input_files import NotRdf, detect_format

XML_HEAD = '<?xml version="1.0"?>'
RDF_OPEN = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="http://x/">'
RDF = (
    f"{XML_HEAD}{RDF_OPEN}<rdf:Description"
    ' rdf:about="http://a"><x:p>5</x:p></rdf:Description></rdf:RDF>'
)


def read(
    text: str | bytes, name: str = "plant.ttl"
) -> tuple[Document | None, tuple[Diagnostic, ...]]:
    return read_rdf(text.encode() if isinstance(text, str) else text, file=name)


def one(text: str | bytes, name: str = "plant.ttl") -> Diagnostic:
    _, problems = read(text, name)
    assert len(problems) == 1, problems
    assert problems[0].span.file == name
    return problems[0]


@pytest.mark.parametrize(
    ("text", "name", "syntax"),
    [
        ("<http://a> <http://b> 5 .", "a.ttl", "turtle"),
        ("<rel> <http://b> 5 .", "a.ttl", "turtle"),
        ("@prefix a: <http://a/> .", "a.owl", "turtle"),
        ("[] <http://b> 5 .", "a.ttl", "turtle"),
        ("<http://a> <http://b> <http://c> .", "a.nt", "n-triples"),
        (RDF, "a.owl", "rdf-xml"),
        (RDF, "a.ttl", "rdf-xml"),
        (RDF.removeprefix(XML_HEAD), "a", "rdf-xml"),
        ('{"@id": "http://a"}', "a.ttl", "json-ld"),
        ('[{"@id": "http://a"}]', "a.jsonld", "json-ld"),
        ("Prefix(:=<http://x/>)\nOntology(<http://x>)", "a.owl", "owl-functional"),
        (
            (
                '<?xml version="1.0"?><!-- x --><!DOCTYPE o [<!ENTITY a "b>">]>\n<Ontology'
                ' xmlns="http://www.w3.org/2002/07/owl#"/>'
            ),
            "a",
            "owl-xml",
        ),
        ('<xs:schema xmlns:xs = "http://www.w3.org/2001/XMLSchema"/>', "a.ttl", "xml-schema"),
        (
            '<UANodeSet xmlns="http://opcfoundation.org/UA/2011/03/UANodeSet.xsd">',
            "a.xml",
            "opcua-nodeset",
        ),
    ],
)
def test_the_content_decides_the_syntax(text: str, name: str, syntax: str) -> None:
    assert detect_format(text, name) == syntax


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("<!DOCTYPE html><html></html>", "web page"),
        ("\n<!-- hello -->\n<HTML lang='en'>", "web page"),
        ("", "empty"),
        (" \n\t", "empty"),
        ("a\x00b", "binary"),
        ("Prefix: a: <http://x/>", "Manchester"),
        ("format-version: 1.2\nontology: x\n", "OBO"),
    ],
)
def test_the_kind_of_a_file_other_than_rdf_is_named(text: str, what: str) -> None:
    found = detect_format(text, "sosa.ttl")
    assert isinstance(found, NotRdf)
    assert what in found.what


@pytest.mark.parametrize(
    ("text", "name", "what"),
    [
        ("tag,low,high\nT1,3,4\n", "limits.csv", "a table"),
        ("# ours\nsignal torque in N.m\n", "rules.fkg", "a rule file"),
        ("# fedkg\n\nWrite what a domain knows once.\n", "README.md", "plain text"),
    ],
)
def test_what_no_statement_of_turtle_begins_is_named(text: str, name: str, what: str) -> None:
    found = detect_format(text, name)
    assert isinstance(found, NotRdf)
    assert found.what == what


@pytest.mark.parametrize(
    "text",
    [
        "a:b a:c a:d .",
        "# x\n<a> <b> <c> .",
        "@prefix a: <b> .",
        "PREFIX a: <b>",
        "[] a <b> .",
        "# nothing\n",
    ],
)
def test_turtle_without_an_ending_is_still_turtle(text: str) -> None:
    assert detect_format(text, "graph") == "turtle"


def test_half_a_turtle_file_is_detected() -> None:
    _, problems = read('<a> <b> "c" ;')
    assert [(p.code, p.help) for p in problems] == [
        ("FKG103", "the file may be incomplete: download or save it again")
    ]


def test_all_mistakes_of_a_turtle_file_in_one_reading() -> None:
    text = """@prefix a: <http://x/> .
a:one a:p a:two .
a:one a:p <http://a b> .
a:one zz:p 5 .
a:one a:p 1, 2
a:two a:p 3 .
a:three a:p "x .
"""
    document, problems = read(text)
    assert document is not None
    assert [(p.code, p.severity, p.span.line, p.span.column) for p in problems] == [
        ("FKG104", "warning", 3, 11),
        ("FKG103", "error", 4, 7),
        ("FKG103", "error", 6, 1),
        ("FKG103", "error", 7, 13),
    ]
    assert "<http://a b> is not an IRI" in problems[0].message
    assert "the prefix `zz:` is not declared" in problems[1].message
    assert "ends before the part" in problems[3].message
    assert len(document.triples) >= 1


@pytest.mark.parametrize("name", ["a.ttl", "a.nt"])
@pytest.mark.parametrize(
    ("datatype", "severity", "kept"), [("http://a b", "warning", 1), ("http://a#b#c", "info", 2)]
)
def test_a_datatype_that_is_no_iri_is_reported_and_the_graph_has_a_checksum(
    name: str, datatype: str, severity: str, kept: int
) -> None:
    document, problems = read(
        f'<http://a> <http://p> "2" .\n<http://a> <http://p> "1"^^<{datatype}> .\n', name
    )
    assert document is not None
    assert [(p.code, p.severity, p.span.line) for p in problems] == [("FKG104", severity, 2)]
    assert len(document.triples) == kept
    assert len(checksum([document])) == 64


def test_half_an_xml_file_is_detected() -> None:
    document, problems = read(RDF.replace("</rdf:RDF>", "\n<rdf:Desc"), "mason.owl")
    assert [(p.code, p.span.line) for p in problems] == [("FKG103", 2)]
    assert "the XML is not well-formed" in problems[0].message
    assert document is not None


def test_a_broken_iri_in_xml_costs_its_statements_alone() -> None:
    text = RDF.replace(
        "</rdf:RDF>",
        '\n<rdf:Description rdf:about="http://b c"><x:p>6</x:p></rdf:Description></rdf:RDF>',
    )
    document, problems = read(text, "a.rdf")
    assert document is not None
    assert [(p.code, p.severity, p.span.line) for p in problems] == [("FKG104", "warning", 2)]
    assert len(document.triples) == 1


def test_xml_bombs_are_not_opened() -> None:
    def document(entities: str, name: str) -> str:
        node = f'<rdf:Description rdf:about="http://a"><x:p>&{name};</x:p></rdf:Description>'
        return f"{XML_HEAD}<!DOCTYPE r [{entities}]>{RDF_OPEN}{node}</rdf:RDF>"

    tenfold = "".join(f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(9))
    assert (
        "grows to more than"
        in one(document('<!ENTITY a "aaaaaaaaaa">' + tenfold, "j"), "bomb.rdf").message
    )
    outside = one(document('<!ENTITY a SYSTEM "file:///etc/passwd">', "a"), "out.rdf")
    assert outside.code == "FKG107"
    assert "points outside" in outside.message


def test_entities_for_namespaces_are_fine() -> None:
    text = RDF.replace(
        RDF_OPEN, '<!DOCTYPE rdf:RDF [<!ENTITY x "http://x/" ><!ENTITY y "&x;y" >]>' + RDF_OPEN
    ).replace('"http://a"', '"&y;"')
    document, problems = read(text, "a.owl")
    assert problems == ()
    assert document is not None
    assert str(document.triples[0].subject) == "<http://x/y>"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_are_found_out(encoding: str) -> None:
    document, problems = read("<http://a> <http://b> 'Öl' .".encode(encoding))
    assert problems == ()
    assert document is not None
    assert getattr(document.triples[0].object, "value", "") == "Öl"


def test_an_xml_file_may_name_its_encoding() -> None:
    text = RDF.replace('"1.0"', '"1.0" encoding="ISO-8859-1"').replace(">5<", ">Öl<")
    document, problems = read(text.encode("latin-1"), "a.rdf")
    assert problems == ()
    assert document is not None
    assert getattr(document.triples[0].object, "value", "") == "Öl"


def test_a_byte_that_is_no_utf8_is_shown() -> None:
    problem = one("<http://a> <http://b> 1 .\n<http://a> <http://b> 'Öl' .".encode("latin-1"))
    assert (problem.code, problem.span.line, problem.span.column) == ("FKG102", 2, 24)
    assert "0xd6" in problem.message


def test_remote_contexts_are_not_fetched() -> None:
    problem = one(
        '{"@context": "http://localhost:1/ctx", "@id": "http://a", "http://p": 1}', "a.jsonld"
    )
    assert problem.code == "FKG103"
    assert "does not fetch" in problem.message


def test_half_a_json_file_is_not_read_on() -> None:
    _, (problem,) = read('{"@id": "http://a", "http://b": 1', "a.jsonld")
    assert (problem.code, problem.help) == (
        "FKG103",
        "correct this first: fedkg does not read the text after it",
    )


def test_deep_json_is_rejected() -> None:
    assert (
        one('{"@id":"http://a","http://p":' * 5000 + "5" + "}" * 5000, "a.jsonld").code == "FKG103"
    )


def test_deep_turtle_is_read() -> None:
    document, problems = read(
        "<http://a> <http://p> " + "[ <http://p> " * 5000 + "5" + " ]" * 5000 + " ."
    )
    assert problems == ()
    assert document is not None
    assert len(document.triples) == 5001


def test_a_flood_of_mistakes_is_capped() -> None:
    _, problems = read("x y z .\n" * 5000)
    assert 1 <= len(problems) <= 20


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    for path, word in ((tmp_path / "no.ttl", "no such file"), (tmp_path, "directory")):
        document, problems = read_file(path)
        assert document is None
        assert [(p.code, p.span.file) for p in problems] == [("FKG101", str(path))]
        assert word in problems[0].message


def test_blank_nodes_are_named_by_content_alone() -> None:
    text = "<http://a> <http://p> [ <http://q> 5 ], [ <http://q> 6 ] ."
    first, second = read(text, "one.ttl")[0], read(text, "elsewhere/two.ttl")[0]
    assert first is not None
    assert second is not None
    assert first.triples == second.triples
    other, commented = (
        read(text.replace("6", "7"), "one.ttl")[0],
        read(text + " # changed", "one.ttl")[0],
    )
    assert other is not None
    assert commented is not None
    assert other.triples != first.triples == commented.triples


def test_relative_iris_do_not_depend_on_the_folder() -> None:
    first, second = (
        read("<#x> <http://p> <> .", "a/plant.ttl")[0],
        read("<#x> <http://p> <> .", "b/c/plant.ttl")[0],
    )
    assert first is not None
    assert second is not None
    assert first.triples == second.triples
    assert str(first.triples[0].subject) == "<file:///plant.ttl#x>"


@tries(100)
@given(st.data())
def test_no_file_makes_the_reader_crash(data: st.DataObject) -> None:
    seeds = [
        RDF,
        "@prefix a: <http://x/> .\na:b a:c [ a:d 5 ; a:e 'x'@en ] , (1 2) .\n",
        '{"@id": "http://a", "http://p": [{"@value": 1}]}',
    ]
    body = bytearray(data.draw(st.sampled_from(seeds)).encode())
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, max(0, len(body) - 1)))
        match data.draw(st.sampled_from(["cut", "drop", "put"])):
            case "cut":
                del body[at:]
            case "drop":
                del body[at : at + 3]
            case _:
                body[at:at] = data.draw(st.binary(max_size=4))
    document, problems = read_rdf(
        bytes(body), file=data.draw(st.sampled_from(["a.ttl", "a.owl", "a.jsonld", "a.nt"]))
    )
    lines = bytes(body).count(b"\n") + bytes(body).count(b"\r") + 1
    assert all(
        1 <= problem.span.line <= lines + 1 and problem.span.column >= 1 for problem in problems
    )
    assert document is not None or problems != ()


@pytest.mark.parametrize("name", ["a {1}.ttl", 'a"b.ttl', "a[1].ttl", "a%zz.ttl", "a<b^`c|d.ttl"])
def test_a_file_name_with_characters_that_no_iri_has(name: str) -> None:
    document, problems = read("<http://x/a> <http://x/b> <#c> .", name)
    assert (document is not None and len(document.triples), problems) == (1, ())


@pytest.mark.parametrize("encoding", ["ISO-8859-1", "us-ascii", "utf-8"])
def test_ascii_rdf_xml_is_read_with_any_declared_encoding(encoding: str) -> None:
    body = RDF.replace('"1.0"?>', f'"1.0" encoding="{encoding}"?>')
    document, problems = read(body, "plant.rdf")
    assert (document is not None and len(document.triples), problems) == (1, ())


@pytest.mark.parametrize("encoding", ["undefined", "idna", "hex", "nonsense"])
def test_xml_in_an_encoding_that_python_cannot_use(encoding: str) -> None:
    body = RDF.replace('"1.0"?>', f'"1.0" encoding="{encoding}"?>').replace("5", "ä")
    document, problems = read(body.encode("latin-1"), "plant.rdf")
    assert (document, problems[0].code) == (None, "FKG102")
    assert "is not in UTF-8: byte 0xe4" in problems[0].message
