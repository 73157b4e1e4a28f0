"""Malformed sources: web pages, truncated files, entity bombs, encodings, cycles, sizes.

Each is one diagnostic with file and position.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.graph import Catalog, add_entry, load_catalog, load_graph, remove_entry
from fedkg_compiler.graph.rdf_reader import read_file, read_rdf
from fedkg_compiler.graph.sources import READERS
from fedkg_compiler.graph.sources.b2mml import BASE
from fedkg_compiler.input_files import EXTENSIONS, SourceSyntax, detect_format

HERE = Span(file="rules.fkg", line=1, column=1, end_line=1, end_column=2)
OWX = '<Ontology xmlns="http://www.w3.org/2002/07/owl#" ontologyIRI="http://x.org/o">'
XSD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="http://x.org/o">'
SET = '<UANodeSet xmlns="http://opcfoundation.org/UA/2011/03/UANodeSet.xsd">'
WHOLE: dict[SourceSyntax, tuple[str, str]] = {
    "owl-xml": (
        "o.owx",
        f'{OWX}<Declaration><Class IRI="http://x.org/o#Öl"/></Declaration></Ontology>',
    ),
    "xml-schema": ("o.xsd", f'{XSD}<xs:complexType name="Öl"/></xs:schema>'),
    "opcua-nodeset": (
        "o.xml",
        (
            f"{SET}<NamespaceUris><Uri>http://x.org/o</Uri></NamespaceUris><UAObjectType"
            ' NodeId="ns=1;i=1" BrowseName="1:Öl"/></UANodeSet>'
        ),
    ),
    "b2mml": ("o.xml", '<Equipment xmlns="http://www.mesa.org/xml/B2MML"><ID>Öl</ID></Equipment>'),
    "owl-functional": (
        "o.ofn",
        "Prefix(:=<http://x.org/o#>)\nOntology(<http://x.org/o>\nDeclaration(Class(:Öl)))",
    ),
}
XML_SOURCES = [syntax for syntax in WHOLE if syntax != "owl-functional"]


def test_every_reader_is_tried_here() -> None:
    assert set(WHOLE) == set(READERS) - {"sssom"}, "test_sssom.py: mappings define no terms"
    assert all(detect_format(text, name) == syntax for syntax, (name, text) in WHOLE.items())


@pytest.mark.parametrize("suffix", [*EXTENSIONS, ".ofn", ".owx", ".xsd"])
def test_a_web_page_is_known_under_any_name(suffix: str) -> None:
    document, problems = read_rdf(
        b"<!DOCTYPE html>\n<html><body>404</body></html>", file=f"o{suffix}"
    )
    assert document is None
    assert [(p.code, p.span.file, p.span.line) for p in problems] == [("FKG102", f"o{suffix}", 1)]


@pytest.mark.parametrize("syntax", XML_SOURCES)
@pytest.mark.parametrize(
    ("entities", "words"),
    [
        (
            '<!ENTITY a "aaaaaaaaaa">'
            + "".join(f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(9)),
            "grows to more",
        ),
        ('<!ENTITY a SYSTEM "file:///etc/passwd">', "points outside"),
        ('<!ENTITY % a SYSTEM "http://127.0.0.1:9/x.dtd"> %a;', "points outside"),
    ],
)
def test_bombs_and_entities_from_outside_are_not_opened(
    syntax: SourceSyntax, entities: str, words: str
) -> None:
    name, text = WHOLE[syntax]
    document, problems = read_rdf(f"<!DOCTYPE x [{entities}]>\n{text}".encode(), file=name)
    assert document is None
    assert [(p.code, p.span.file, p.span.line) for p in problems] == [("FKG107", name, 1)]
    assert words in problems[0].message


@pytest.mark.parametrize("syntax", WHOLE)
def test_half_a_file_is_one_diagnostic(syntax: SourceSyntax) -> None:
    name, text = WHOLE[syntax]
    _, problems = read_rdf(text[: text.rindex("Öl")].encode(), file=name)
    assert [(problem.code, problem.span.file) for problem in problems] == [("FKG103", name)]
    assert any(text in problems[0].message for text in ("not well-formed", "ends before the part"))


@pytest.mark.parametrize("syntax", WHOLE)
@pytest.mark.parametrize(
    ("declared", "codec"), [("utf-8", "utf-8-sig"), ("UTF-16", "utf-16"), ("ISO-8859-1", "latin-1")]
)
def test_encodings_are_found_out(syntax: SourceSyntax, declared: str, codec: str) -> None:
    name, text = WHOLE[syntax]
    if syntax != "owl-functional":
        text = f'<?xml version="1.0" encoding="{declared}"?>\n{text}'
    document, problems = read_rdf(text.encode(codec), file=name)
    if syntax == "owl-functional" and codec == "latin-1":
        assert [(p.code, p.span.line) for p in problems] == [("FKG102", 3)]
        return
    assert problems == ()
    assert document is not None
    assert any(
        "%C3%96l" in str(quad.subject) or "Öl" in str(quad.subject) for quad in document.triples
    )


def test_rdf_xml_in_utf_16_is_read_with_and_without_a_mark() -> None:
    rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    node = '<r:Description r:about="http://a"><r:value>Öl</r:value></r:Description>'
    text = f'<?xml version="1.0" encoding="UTF-16"?><r:RDF xmlns:r="{rdf}">{node}</r:RDF>'
    for codec in ("utf-16", "utf-16-le", "utf-16-be"):
        document, problems = read_rdf(text.encode(codec), file="a.rdf")
        assert problems == ()
        assert document is not None
        assert [getattr(quad.object, "value", "") for quad in document.triples] == ["Öl"]


@pytest.mark.parametrize("syntax", XML_SOURCES)
def test_deep_xml_is_rejected(syntax: SourceSyntax) -> None:
    name, text = WHOLE[syntax]
    root = text[: text.index(">") + 1]
    _, problems = read_rdf((root + "<a>" * 5000).encode(), file=name)
    assert [problem.code for problem in problems] == ["FKG103"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("o.xsd", XSD.replace("http://x.org/o", "no iri at all") + "</xs:schema>"),
        ("o.xml", WHOLE["opcua-nodeset"][1].replace("http://x.org/o", "no iri at all")),
        ("o.ofn", "Ontology(<no iri>\nDeclaration(Class(<http://x.org/o#A>)))"),
        ("o.owx", OWX.replace("http://x.org/o", "no iri") + "</Ontology>"),
    ],
)
def test_broken_iris_are_reported(name: str, text: str) -> None:
    _, problems = read_rdf(text.encode(), file=name)
    assert {(problem.code, problem.severity) for problem in problems} == {("FKG104", "warning")}


@pytest.mark.parametrize("syntax", WHOLE)
def test_every_source_can_be_added_used_and_removed(syntax: SourceSyntax, tmp_path: Path) -> None:
    name, text = WHOLE[syntax]
    space = BASE if syntax == "b2mml" else "http://x.org/o#"  # B2MML has no namespace of its own
    (tmp_path / name).write_text(text.replace("Öl", "Oil"), encoding="utf-8")
    record, problems = add_entry("ours", str(tmp_path / name), home=tmp_path / "home")
    assert problems == ()
    assert record is not None
    assert record.namespace == space
    catalog = load_catalog(home=tmp_path / "home")
    graph, problems, _ = load_graph([("ours", HERE)], {}, [], catalog=catalog)
    assert problems == ()
    assert graph.resolve("ours:Oil", "pname", HERE) == (f"{space}Oil", ())
    graph, problems, _ = load_graph([], {}, [tmp_path / name], catalog=catalog)
    assert problems == ()
    assert graph.has(f"{space}Oil")
    remove_entry("ours", home=tmp_path / "home")
    assert not any((tmp_path / "home" / "ontologies").glob("ours*"))


def test_a_schema_is_kept_with_the_files_it_includes(tmp_path: Path) -> None:
    folder = tmp_path / "schema"
    (folder / "more").mkdir(parents=True)
    (folder / "a.xsd").write_text(
        f'{XSD}<xs:include schemaLocation="more/b.xsd"/></xs:schema>', encoding="utf-8"
    )
    (folder / "more" / "b.xsd").write_text(
        f'{XSD}<xs:complexType name="B"/></xs:schema>', encoding="utf-8"
    )
    (folder / "readme.txt").write_text("not kept", encoding="utf-8")
    home = tmp_path / "home"
    one, _ = add_entry("ours", str(folder / "a.xsd"), home=home)
    assert one is not None
    kept = home / "ontologies" / "ours"
    assert sorted(path.name for path in kept.rglob("*") if path.is_file()) == ["a.xsd", "b.xsd"]
    whole, problems = add_entry("ours", str(folder), one.sha256, home=home)
    assert problems == ()
    assert whole is not None
    graph, problems, _ = load_graph([("ours", HERE)], {}, [], catalog=load_catalog(home=home))
    assert problems == ()
    assert graph.resolve("ours:B", "pname", HERE)[1] == ()
    (kept / "more" / "b.xsd").write_text(
        f'{XSD}<xs:complexType name="C"/></xs:schema>', encoding="utf-8"
    )
    _, problems, _ = load_graph([("ours", HERE)], {}, [], catalog=load_catalog(home=home))
    assert [problem.code for problem in problems] == ["FKG106"]
    refused, problems = add_entry("ours", str(folder), "0" * 64, home=home)
    assert refused is None
    assert [problem.code for problem in problems] == ["FKG106"]
    remove_entry("ours", home=home)
    assert not kept.exists()


def test_a_folder_without_schemas_is_named(tmp_path: Path) -> None:
    record, problems = add_entry("ours", str(tmp_path), home=tmp_path / "home")
    assert record is None
    assert [(problem.code, problem.span.file) for problem in problems] == [
        ("FKG101", str(tmp_path))
    ]


def test_imports_in_a_circle_end_and_nothing_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*arguments: object) -> NoReturn:
        raise AssertionError(f"a connection to {arguments}")

    monkeypatch.setattr(socket.socket, "connect", connect)
    for name, other in (("a", "b"), ("b", "a")):
        head = (
            f"Prefix(:=<http://x.org/{name}#>)\nOntology(<http://x.org/{name}>\n"
            f"Import(<http://x.org/{other}>)\n"
        )
        text = f"{head}Import(<http://gone.org/{name}>)\nDeclaration(Class(:C)))"
        (tmp_path / f"{name}.ofn").write_text(text, encoding="utf-8")
        assert (
            add_entry(f"o{name}", str(tmp_path / f"{name}.ofn"), home=tmp_path / "home")[0]
            is not None
        )
    catalog = load_catalog(home=tmp_path / "home")
    graph, problems, _ = load_graph([("oa", HERE)], {}, [], catalog=catalog)
    assert problems == ()
    assert graph.has("http://x.org/b#C")
    _, problems, _ = load_graph([], {}, [tmp_path / "a.ofn"], catalog=catalog)
    assert [(p.code, p.severity, p.span.file, p.span.line) for p in problems] == [
        ("FKG105", "info", str(tmp_path / "a.ofn"), 4)
    ]


def test_one_name_for_two_kinds_of_thing_is_one_warning(catalog: Catalog) -> None:
    said = (
        ":A a owl:Class, owl:NamedIndividual .",
        ":B a owl:Class .",
        ":B a owl:ObjectProperty .",
        ":p a owl:AnnotationProperty .",
    )
    text = "\n".join(
        ["@prefix : <http://x.org/o#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .", *said]
    )
    graph, problems, _ = load_graph([], {}, [], catalog=catalog, text_graphs=[("o.ttl", text)])
    assert [(p.code, p.severity, p.span.file, p.span.line) for p in problems] == [
        ("FKG120", "warning", "o.ttl", 3)
    ]
    assert graph.has("http://x.org/o#A")


def test_a_graph_in_rdf_loads_no_reader_of_other_sources() -> None:
    code = (
        "import sys; from fedkg_compiler.graph import load_graph; "
        "load_graph([], {}, [], text_graphs=[('a.ttl', '<http://a> <http://b> 1 .')]); "
        "print([name for name in sys.modules if 'owlready2' in name or "
        "name.endswith(('xml_events', 'axioms', 'xml_schema', 'nodeset'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".ttl", ".ofn", ".owx"])
def test_forty_five_megabytes_are_read(suffix: str, tmp_path: Path) -> None:
    note, count = "x" * 2000, 22_500
    lines = {
        ".ttl": (
            "",
            '<http://x.org/o#A{0}> <http://www.w3.org/2000/01/rdf-schema#comment> "{1}" .\n',
            "",
        ),
        ".ofn": (
            "Ontology(<http://x.org/o>\n",
            'AnnotationAssertion(rdfs:comment <http://x.org/o#A{0}> "{1}")\n',
            ")",
        ),
        ".owx": (
            OWX,
            (
                "<AnnotationAssertion><AnnotationProperty"
                ' abbreviatedIRI="rdfs:comment"/><IRI>http://x.org/o#A{0}</IRI>'
                "<Literal>{1}</Literal></AnnotationAssertion>\n"
            ),
            "</Ontology>",
        ),
    }
    head, line, end = lines[suffix]
    path = tmp_path / f"big{suffix}"
    path.write_text(
        head + "".join(line.format(i, note) for i in range(count)) + end, encoding="utf-8"
    )
    assert path.stat().st_size > 45_000_000
    document, problems = read_file(path)
    assert problems == ()
    assert document is not None
    assert len(document.triples) == count + (suffix != ".ttl")
