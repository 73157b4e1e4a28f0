"""The combined result of `use`, `prefix` and graph files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from graph_cases import HERE, PLANT, header

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import Catalog, load_graph
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.ontologies import follow_imports
from fedkg_compiler.graph.rdf_reader import read_file

ISA95 = "http://www.w3id.org/hsu-aut/DINEN62264-2#"


def codes(problems: tuple[Diagnostic, ...]) -> list[tuple[str, str]]:
    return [(problem.code, problem.severity) for problem in problems]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_use_brings_the_ontology_and_its_prefix(catalog: Catalog) -> None:
    graph, problems, sources = load_graph(
        [("isa95", HERE), ("isa95", HERE)], {}, [], catalog=catalog
    )
    assert problems == ()
    assert graph.vocabulary.prefixes["isa95"] == ISA95
    entry = catalog.entries["isa95"]
    mapped = {Path(alignment.file).name for alignment in catalog.alignments}
    assert {source.name for source in sources if source.name.startswith("isa95")} - mapped == {
        entry.module,
        *entry.additions,
    }
    assert {source.kind for source in sources} == {"ontology"}


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("isa59", "did you mean `isa95`?"),
        ("zzzzzzz", "known are fkg, iof, isa95, mason, nist, qudt, schema, sosa, ssn"),
    ],
)
def test_unknown_ontologies_are_named(catalog: Catalog, word: str, advice: str) -> None:
    _, problems, _ = load_graph([(word, HERE)], {}, [], catalog=catalog)
    assert codes(problems) == [("FKG100", "error")]
    assert advice in problems[0].help
    assert problems[0].span == HERE


def test_use_finds_files_beside_the_rule_file(catalog: Catalog, tmp_path: Path) -> None:
    path = write(tmp_path, "shop.ttl", f"@prefix : <{PLANT}> . :M9 a :Mill .")
    graph, problems, sources = load_graph(
        [("shop", HERE)], {}, [path, path], beside={HERE.file: tmp_path}, catalog=catalog
    )
    assert problems == ()
    assert graph.vocabulary.prefixes["shop"] == PLANT
    assert graph.instances(PLANT + "Mill") == [PLANT + "M9"]
    assert [source.name for source in sources if source.kind == "graph"] == ["shop.ttl"]
    _, problems, _ = load_graph(
        [("shpo", HERE)], {}, [], beside={HERE.file: tmp_path}, catalog=catalog
    )
    assert problems[0].help == "did you mean `shop`?"


def test_a_broken_file_spoils_nothing_else(catalog: Catalog, tmp_path: Path) -> None:
    files = [
        write(tmp_path, "page.ttl", "<!DOCTYPE html><html/>"),
        write(tmp_path, "half.ttl", header(catalog) + "plant:a a plant:Mill .\nplant:b a plant:"),
        tmp_path / "missing.ttl",
        write(tmp_path, "whole.ttl", header(catalog) + "plant:c a plant:Mill ."),
    ]
    graph, problems, _ = load_graph([], {}, files, catalog=catalog)
    assert codes(problems) == [("FKG102", "error"), ("FKG103", "error"), ("FKG101", "error")]
    assert [problem.span.file for problem in problems] == [str(path) for path in files[:3]]
    assert graph.instances(PLANT + "Mill") == [PLANT + "a", PLANT + "c"]


def test_imports_are_followed_into_the_catalogue_only(catalog: Catalog, tmp_path: Path) -> None:
    text = """<http://acme/o> a owl:Ontology ; owl:imports
  <http://www.owl-ontologies.com/mason.owl> , <http://acme/other> , <http://acme/o> .
"""
    path = write(tmp_path, "acme.ttl", header(catalog) + text + "plant:l a mason:Lathe .")
    graph, problems, _ = load_graph([], {}, [path], catalog=catalog)
    assert codes(problems) == [("FKG105", "info")]
    assert "<http://acme/other>" in problems[0].message
    line = (header(catalog) + text).split("\n")[problems[0].span.line - 1]
    assert line[problems[0].span.column - 1 :].startswith("http://acme/other>")
    assert graph.instances("http://www.owl-ontologies.com/mason.owl#MachineTool") == [PLANT + "l"]


def test_files_that_import_each_other_end(catalog: Catalog, tmp_path: Path) -> None:
    head = "@prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
    one = write(
        tmp_path, "one.ttl", head + "<http://one> a owl:Ontology ; owl:imports <http://two> ."
    )
    two = write(
        tmp_path, "two.ttl", head + "<http://two> a owl:Ontology ; owl:imports <http://one> ."
    )
    (problem,) = load_graph([], {}, [one, two], catalog=catalog)[1]
    assert (problem.code, problem.severity) == ("FKG105", "info")
    assert (problem.span.file, problem.span.line) == (str(two), 2)
    assert "closes a circle of imports" in problem.message


def test_imported_files_are_loaded_from_the_folder_of_the_file(
    catalog: Catalog, tmp_path: Path
) -> None:
    (tmp_path / "parts").mkdir()
    write(tmp_path / "parts", "mills.ttl", header(catalog) + "plant:a a plant:Mill .")
    text = "<http://acme/o> a owl:Ontology ;\n owl:imports <parts/mills.ttl> , <parts/none.ttl> ."
    path = write(tmp_path, "all.ttl", header(catalog) + text)
    graph, problems, _ = load_graph([], {}, [path], catalog=catalog)
    assert graph.instances(PLANT + "Mill") == [PLANT + "a"]
    assert codes(problems) == [("FKG105", "warning")]
    line = (header(catalog) + text).split("\n")[problems[0].span.line - 1]
    assert line[problems[0].span.column - 1 :].startswith("parts/none.ttl>")


def test_a_file_is_read_once_for_all_its_imports_and_behind_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"<p{i}.ttl>" for i in range(9)]
    for i in range(9):
        write(tmp_path, f"p{i}.ttl", "<urn:x> a <urn:C> .")
    imports = f"<urn:o> <http://www.w3.org/2002/07/owl#imports> {','.join(names)} ."
    path = write(tmp_path, "all.ttl", f"<a b> a <urn:C> .\n{imports}")
    document, _ = read_file(path)
    assert document is not None
    parse = Mock(wraps=ox.parse)
    monkeypatch.setattr(ox, "parse", parse)
    found: list[Path] = []
    follow_imports(
        [document], [], name_of_iri=lambda _: None, load_named=lambda _: [], load_file=found.append
    )
    assert {file.name for file in found} == {f"p{i}.ttl" for i in range(9)}
    parse.assert_called_once()


def test_an_import_cannot_read_outside_its_folder(catalog: Catalog, tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    secret = write(tmp_path, "secret.ttl", header(catalog) + "plant:s a plant:Mill .")
    text = f"<http://acme/o> a owl:Ontology ; owl:imports <{secret.as_uri()}> , <../secret.ttl> ."
    path = write(folder, "all.ttl", header(catalog) + text)
    graph, problems, _ = load_graph([], {}, [path], catalog=catalog)
    assert graph.instances(PLANT + "Mill") == []
    assert {problem.code for problem in problems} == {"FKG105"}


def test_an_import_from_above_does_not_read_a_file_of_that_name_beside(
    catalog: Catalog, tmp_path: Path
) -> None:
    write(tmp_path, "other.ttl", header(catalog) + "plant:s a plant:Mill .")
    names = ["../other.ttl", f"{(tmp_path / 'gone.ttl').as_uri()}"]
    text = f"<http://a/o> a owl:Ontology ; owl:imports <{names[0]}> , <{names[1]}>, 'other.ttl' ."
    path = write(tmp_path, "all.ttl", header(catalog) + text)
    graph, problems, _ = load_graph([], {}, [path], catalog=catalog)
    assert graph.instances(PLANT + "Mill") == []
    assert codes(problems) == [("FKG105", "warning")] * 3
    written = {text[problem.span.column - 1 : problem.span.end_column - 1] for problem in problems}
    assert written == {*names, "other.ttl"}
    path.write_text(path.read_text().replace("../other.ttl", "./x/../other.ttl"))
    graph, _, _ = load_graph([], {}, [path], catalog=catalog)
    assert graph.instances(PLANT + "Mill") == [PLANT + "s"]


def test_alignments_apply_where_both_sides_are_loaded(catalog: Catalog) -> None:
    text = [("p.ttl", header(catalog) + "plant:l a mason:Lathe .")]
    equipment = "https://w3id.org/fedkg/isa95#Equipment"
    alone, _, _ = load_graph([("mason", HERE)], {}, [], catalog=catalog, text_graphs=text)
    both, _, _ = load_graph(
        [("mason", HERE), ("isa95", HERE)], {}, [], catalog=catalog, text_graphs=text
    )
    assert alone.instances(equipment) == []
    assert both.instances(equipment) == [PLANT + "l"]


def test_prefixes_are_looked_at(catalog: Catalog) -> None:
    prefixes = {
        "plant": ("plant#", HERE),
        "sosa": ("http://www.w3.org/ns/sosa", HERE),
        "isa95": ("https://example.org/isa95#", HERE),
        "good": ("https://example.org/good#", HERE),
    }
    graph, problems, _ = load_graph([("isa95", HERE)], prefixes, [], catalog=catalog)
    assert codes(problems) == [("FKG108", "error"), ("FKG109", "warning"), ("FKG109", "warning")]
    assert "<http://www.w3.org/ns/sosa/>" in problems[1].help
    assert graph.vocabulary.prefixes["good"] == "https://example.org/good#"
    assert graph.select("?x a plant:Mill", ["x"], span=HERE) == ([], ())


def test_wrong_names_in_a_graph_are_shown_there(catalog: Catalog) -> None:
    text = """plant:a a isa95:WorkUnt ;
  isa95:feed plant:b ; rdfs:lable 'a' ;
  qudt:unit unit:FURLONG .
isa95:Mine a isa95:Site . plant:b isa95:Mine 1 .
"""
    graphs = [("p.ttl", header(catalog) + text)]
    _, problems, _ = load_graph([("isa95", HERE)], {}, [], catalog=catalog, text_graphs=graphs)
    first = header(catalog).count("\n") + 1
    assert [(p.code, p.severity, p.span.line, p.span.column, p.help) for p in problems] == [
        ("FKG115", "warning", first, 11, "did you mean `fkg-isa95:WorkUnit`?"),
        ("FKG115", "warning", first + 1, 3, "did you mean `fkg-isa95:feeds`?"),
        ("FKG115", "warning", first + 1, 24, "did you mean `rdfs:label`?"),
    ]


def test_nothing_heavy_is_imported_for_nothing() -> None:
    """rdflib and its store are imported for shapes alone."""
    code = """
import sys, fedkg_compiler.graph
fedkg_compiler.graph.load_graph([], {}, [])
print([name for name in ("rdflib", "oxrdflib", "torch") if name in sys.modules])
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_an_import_of_a_module_of_ours_loads_its_ontology(catalog: Catalog) -> None:
    for iri, name in (
        ("https://w3id.org/fedkg/isa95", "isa95"),
        ("https://w3id.org/fedkg/isa95/material", "isa95"),
        ("http://www.w3id.org/hsu-aut/DINEN62264-2#", "isa95"),
        ("https://w3id.org/fedkg/isa95x", None),
    ):
        assert catalog.name_of_iri(iri) == name
