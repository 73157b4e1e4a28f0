"""Graph files kept in the cache folder are those that were read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fedkg_compiler.graph import document_cache
from fedkg_compiler.graph.document_cache import read_known_file
from fedkg_compiler.graph.ontologies import import_span
from fedkg_compiler.graph.rdf_reader import labels_of, read_file, rename_shared_blank_nodes

ONTOLOGY = r"""@prefix ex: <http://example.org/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
ex:onto a owl:Ontology ; owl:imports <http://example.org/other> .
ex:a ex:code "04"^^xsd:integer , 4.50 , "x\n\"y\\"@en-GB , "z" ; ex:part [ ex:size 1 ] .
_:b0 ex:part ( ex:a [ ex:size 2 ] ) .
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(document_cache, "WORTH", 0)
    path = tmp_path / "onto.ttl"
    path.write_text(ONTOLOGY, encoding="utf-8")
    return path


def entries(file: Path) -> list[Path]:
    folder = file.parent / "cache" / "fedkg" / "documents"
    return list(folder.iterdir()) if folder.exists() else []


def test_a_kept_file_is_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = read_known_file(file)
    monkeypatch.setattr(document_cache, "read_file", None)  # calling it would fail
    second, problems = read_known_file(file)
    assert first is not None
    assert second is not None
    assert problems == ()
    assert replace(second, labels=None) == first
    assert import_span(second, second.imports[0]) == import_span(first, first.imports[0])
    assert labels_of(second) == labels_of(first)


def test_equal_blank_nodes_of_two_files_stay_two_nodes(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "data.ttl"
    other.write_text(ONTOLOGY, encoding="utf-8")
    data, _ = read_file(other)
    read, _ = read_known_file(file)
    kept, _ = read_known_file(file)
    assert data is not None
    assert read is not None
    assert kept is not None
    expected = [list(one.triples) for one in rename_shared_blank_nodes([data, read])]
    assert [list(one.triples) for one in rename_shared_blank_nodes([data, kept])] == expected


@pytest.mark.parametrize("damage", [lambda body: body[:-9], lambda body: b"", lambda body: b"x\n"])
def test_a_damaged_entry_is_replaced(file: Path, damage: object) -> None:
    first, _ = read_known_file(file)
    (entry,) = entries(file)
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))  # type: ignore[operator]
    second, _ = read_known_file(file)
    assert second is not None
    assert replace(second, labels=None) == first
    assert entry.read_bytes() == whole


def test_a_changed_file_is_read_again(file: Path) -> None:
    read_known_file(file)
    file.write_text(ONTOLOGY.replace("ex:size 1", "ex:size 7"), encoding="utf-8")
    second, _ = read_known_file(file)
    assert second is not None
    assert second.triples == read_file(file)[0].triples  # type: ignore[union-attr]
    assert len(entries(file)) == 2


def test_a_file_with_a_mistake_is_not_kept(file: Path) -> None:
    file.write_text(ONTOLOGY + "ex:c ex:d .\n", encoding="utf-8")
    for _ in range(2):
        _, problems = read_known_file(file)
        assert [problem.code for problem in problems] == ["FKG103"]
    assert entries(file) == []
