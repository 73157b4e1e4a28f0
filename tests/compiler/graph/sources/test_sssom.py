"""SSSOM files: what a mapping entails, and the place of each mistake.

The files follow the examples of the standard; the expected triples are those of its section "The
OWL/RDF serialisation format".
"""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.graph import Catalog, load_graph
from fedkg_compiler.graph.rdf_reader import Document, read_file, read_rdf

HERE = Span(file="rules.fkg", line=1, column=1, end_line=1, end_column=2)
METADATA = """#curie_map:
#  mason: http://www.owl-ontologies.com/mason.owl#
#  plant: https://example.org/plant#
#mapping_set_id: https://example.org/mappings/plant
#mapping_set_title: Our machines
#license: https://creativecommons.org/publicdomain/zero/1.0/
#mapping_date: 2026-11-01
"""
COLUMNS = (
    "subject_id",
    "predicate_id",
    "object_id",
    "mapping_justification",
    "author_label",
    "confidence",
    "comment",
)
HEADER = "\t".join(COLUMNS) + "\n"
MANUAL = "semapv:ManualMappingCuration"
GOOD = f"plant:Mill\tskos:exactMatch\tmason:MillingMachine\t{MANUAL}\tA|B\t0.9\tThe same.\n"


def read(
    text: str, name: str = "m.sssom.tsv"
) -> tuple[Document | None, list[tuple[int, int, str]]]:
    document, problems = read_rdf(text.encode(), file=name)
    assert {problem.code for problem in problems} <= {"FKG122"}
    assert all(problem.help for problem in problems)
    return document, [
        (problem.span.line, problem.span.column, problem.message) for problem in problems
    ]


def triples(document: Document | None) -> str:
    assert document is not None
    return ox.serialize(
        (quad.triple for quad in document.triples), format=ox.RdfFormat.N_TRIPLES
    ).decode()


def test_a_row_becomes_a_triple_and_an_annotated_axiom() -> None:
    document, problems = read(METADATA + HEADER + GOOD)
    assert problems == []
    plant, mason = "https://example.org/plant#", "http://www.owl-ontologies.com/mason.owl#"
    text = triples(document)
    skos = "http://www.w3.org/2004/02/skos/core#"
    assert f"<{plant}Mill> <{skos}exactMatch> <{mason}MillingMachine> ." in text
    for predicate, value in (
        ("http://www.w3.org/2002/07/owl#annotatedSource", f"<{plant}Mill>"),
        (
            "https://w3id.org/sssom/mapping_justification",
            "<https://w3id.org/semapv/vocab/ManualMappingCuration>",
        ),
        ("https://w3id.org/sssom/confidence", '"0.9"^^<http://www.w3.org/2001/XMLSchema#decimal>'),
        (
            "https://w3id.org/sssom/mapping_date",
            '"2026-11-01"^^<http://www.w3.org/2001/XMLSchema#date>',
        ),
        ("https://w3id.org/sssom/author_label", '"A"'),
        ("https://w3id.org/sssom/author_label", '"B"'),
        ("http://www.w3.org/2000/01/rdf-schema#comment", '"The same."@en'),
    ):
        assert f"<{predicate}> {value} ." in text


def test_the_columns_show_that_it_is_sssom_under_another_name() -> None:
    assert read(METADATA + HEADER + GOOD, "mappings.txt")[1] == []


def test_negative_mappings_and_terms_without_a_match_assert_nothing() -> None:
    header = "subject_id\tpredicate_modifier\tpredicate_id\tobject_id\tmapping_justification\n"
    rows = (
        f"plant:Mill\tNot\tskos:exactMatch\tmason:Lathe\t{MANUAL}\n"
        f"plant:Mill\t\tskos:exactMatch\tsssom:NoTermFound\t{MANUAL}\n"
    )
    document, problems = read(METADATA + header + rows)
    assert problems == []
    assert "exactMatch" not in triples(document)


def test_quoted_cells_may_hold_tabs_quotes_and_line_breaks() -> None:
    comment = '"one\ttab, ""quotes""\nand a second line"'
    document, problems = read(
        METADATA + HEADER + GOOD.replace("The same.", comment) + GOOD.replace("plant", "plnt")
    )
    assert r'"one\ttab, \"quotes\"\nand a second line"@en' in triples(document)
    assert problems == [(11, 1, "the prefix `plnt:` is not declared in `curie_map`")]


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("plant:Mill", "plnt:Mill", (9, 1, "the prefix `plnt:` is not declared in `curie_map`")),
        ("plant:Mill", "Mill", (9, 1, "`Mill` is not a CURIE")),
        ("plant:Mill", "", (9, 1, "this row has no `subject_id`")),
        (
            "mason:MillingMachine",
            "http://a.org/b",
            (9, 28, "`http://a.org/b` is an IRI, not a CURIE"),
        ),
        (MANUAL, "semapv:Feeling", (9, 49, "`semapv:Feeling` is not a justification of mappings")),
        ("0.9", "90 %", (9, 82, "the confidence `90 %` is not a number from 0 to 1")),
        ("0.9", "nan", (9, 82, "the confidence `nan` is not a number from 0 to 1")),
        ("\t0.9", "", (9, 1, "this row has 6 cells, and the header has 7")),
        ("The same.", '"The same.', (9, 86, "the quotation marks of this cell do not match")),
        ("\tcomment", "\tconfidence", (8, 81, "the column `confidence` occurs twice")),
        (
            "mapping_justification",
            "match",
            (8, 1, "required column is missing: `mapping_justification`"),
        ),
        ("2026-11-01", "1 November", (7, 16, "`1 November` is not a date")),
        ("#license: https", "#licence: https", (1, 1, "`license` is missing")),
        ("https://example.org/mappings/plant", "here", (4, 18, "`mapping_set_id` is not an IRI")),
        ("https://example.org/plant#", "here", (3, 11, "`here` is not an IRI")),
        (
            "#curie_map:",
            "#curie_map: &a",
            (1, 13, "SSSOM does not allow YAML directives, tags, anchors and aliases"),
        ),
        (
            "#  plant:",
            "#  skos: http://a.org/\n#  plant:",
            (3, 10, "SSSOM declares the prefix `skos:`"),
        ),
        (
            "#  plant",
            "#  'plant",
            (7, 26, "the metadata is not YAML: found unexpected end of stream"),
        ),
        ("Our machines", "[" * 4000, (5, 40, "the metadata is nested more than 20 deep")),
        (METADATA, "", (1, 1, "the file has no metadata")),
    ],
)
def test_each_mistake_has_its_place(old: str, new: str, place: tuple[int, int, str]) -> None:
    assert old in METADATA + HEADER + GOOD
    _, problems = read((METADATA + HEADER + GOOD).replace(old, new, 1))
    assert problems[0] == place


def test_metadata_can_be_in_a_second_file(tmp_path: Path) -> None:
    (tmp_path / "m.sssom.tsv").write_text(HEADER + GOOD, encoding="utf-8")
    second = tmp_path / "m.sssom.yml"
    second.write_text(METADATA.replace("#", "", 1).replace("\n#", "\n"), encoding="utf-8")
    document, problems = read_file(tmp_path / "m.sssom.tsv")
    assert problems == ()
    first = document and document.sha256
    second.write_text(second.read_text().replace("2026-11-01", "soon"), encoding="utf-8")
    document, problems = read_file(tmp_path / "m.sssom.tsv")
    assert document is not None
    assert document.sha256 != first


PLANT = """@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix plant: <https://example.org/plant#> .
plant:Mill a owl:Class . plant:M1 a plant:Mill .
plant:T1 a <http://www.owl-ontologies.com/mason.owl#MillingMachine> .
"""


@pytest.mark.parametrize(
    ("predicate", "mills", "machines"),
    [
        ("skos:exactMatch", ["M1", "T1"], ["M1", "T1"]),
        ("owl:equivalentClass", ["M1", "T1"], ["M1", "T1"]),
        ("rdfs:subClassOf", ["M1"], ["M1", "T1"]),
        ("skos:closeMatch", ["M1"], ["T1"]),
        ("skos:broadMatch", ["M1"], ["T1"]),
        ("skos:narrowMatch", ["M1"], ["T1"]),
        ("skos:relatedMatch", ["M1"], ["T1"]),
    ],
)
def test_the_predicate_decides_what_follows(
    catalog: Catalog, tmp_path: Path, predicate: str, mills: list[str], machines: list[str]
) -> None:
    """`use mapping` finds `mapping.sssom.tsv` beside the rules."""
    path = tmp_path / "mapping.sssom.tsv"
    path.write_text(
        METADATA + HEADER + GOOD.replace("skos:exactMatch", predicate), encoding="utf-8"
    )
    graph, problems, sources = load_graph(
        [("mason", HERE), ("mapping", HERE)],
        {},
        [],
        beside={HERE.file: tmp_path},
        catalog=catalog,
        text_graphs=[("plant.ttl", PLANT)],
    )
    assert problems == ()
    assert "mapping.sssom.tsv" in {source.name for source in sources}
    plant = "https://example.org/plant#"
    assert graph.instances(plant + "Mill") == [plant + name for name in mills]
    mason = "http://www.owl-ontologies.com/mason.owl#MillingMachine"
    assert graph.instances(mason) == [plant + name for name in machines]
    if predicate == "skos:exactMatch":
        ends = ox.NamedNode(plant + "Mill"), ox.NamedNode(mason)
        follows = (ends[0], ox.NamedNode("http://www.w3.org/2002/07/owl#equivalentClass"), ends[1])
        assert graph.told is not None
        assert graph.told.locate([follows])[follows].file == str(path)
