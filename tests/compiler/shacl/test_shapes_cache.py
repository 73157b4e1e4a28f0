"""Shapes kept in the cache folder give the same reports as shapes that are read from the files."""

from __future__ import annotations

import hashlib
import os
import pickle
from pathlib import Path

import pytest

from fedkg_compiler.frontends.shacl import shapes_cache, validation
from fedkg_compiler.frontends.shacl.validation import validate_graph

HEAD = """@prefix ex: <http://example.org/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
CLASSES = 400
SPECIAL = """
ex:Special sh:targetClass ex:C1 ; a sh:NodeShape ;
  sh:property [ sh:path ex:code ; sh:in ( "04"^^xsd:integer "x"@en "y" ) ] ;
  sh:property [ sh:path ( ex:part [ sh:inversePath ex:part ] ) ; sh:maxCount 1 ] ;
  sh:sparql [ a sh:SPARQLConstraint ; sh:message "{?value} is loud" ;
    sh:select "SELECT $this ?value WHERE { $this <http://example.org/loud> ?value }" ] ;
  sh:rule [ a sh:TripleRule ; sh:subject sh:this ; sh:predicate ex:loud ; sh:object ex:Very ] .
"""
DATA = """@prefix ex: <http://example.org/> .
ex:a a ex:C399 ; ex:code 4 , "x"@en , "z" ; ex:part ex:p ; ex:size 1 , 2 .
ex:b a ex:C2 ; ex:part ex:p .
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Data and an ontology with a shape for each class, in the form of Brick."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    classes = "".join(
        f"ex:C{i} a owl:Class , sh:NodeShape ; rdfs:subClassOf ex:C{i // 2} ;\n"
        f"  sh:property [ sh:path ex:size ; sh:maxCount {1 + i % 2} ] .\n"
        for i in range(1, CLASSES)
    )
    data, shapes = tmp_path / "data.ttl", tmp_path / "ontology.ttl"
    data.write_text(DATA, encoding="utf-8")
    shapes.write_text(HEAD + classes + SPECIAL, encoding="utf-8")
    return data, shapes


def report_of(files: tuple[Path, Path]) -> str:
    """The results as text, without what differs between runs."""
    data, shapes = files
    found = validate_graph([data], [shapes])
    assert found.report is not None, found.diagnostics
    return "\n".join(map(str, found.report.results))


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "cache" / "fedkg" / "shapes").iterdir())


def test_the_second_validation_reads_no_shapes_and_gives_the_same_report(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = report_of(files)
    for component in ("MaxCount", "In", "SPARQL"):
        assert f"{component}ConstraintComponent" in first
    assert len(entries(tmp_path)) == 1
    monkeypatch.setattr(validation, "shapes_of", None)  # calling it would fail
    assert report_of(files) == first


def test_a_changed_ontology_is_read_again(files: tuple[Path, Path], tmp_path: Path) -> None:
    first = report_of(files)
    text = files[1].read_text(encoding="utf-8").replace("is loud", "is very loud")
    files[1].write_text(text, encoding="utf-8")
    second = report_of(files)
    assert second != first
    assert "is very loud" in second
    assert len(entries(tmp_path)) == 2


@pytest.mark.parametrize("damage", ["short", "changed", "empty"])
def test_a_damaged_entry_is_replaced(files: tuple[Path, Path], tmp_path: Path, damage: str) -> None:
    first = report_of(files)
    (entry,) = entries(tmp_path)
    body = entry.read_bytes()
    middle = len(body) // 2
    entry.write_bytes(
        {
            "short": body[:middle],
            "changed": body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :],
            "empty": b"",
        }[damage]
    )
    assert report_of(files) == first
    assert shapes_cache.find_shapes(entry) is not None, "the entry was not replaced"


class Intruder:
    """Runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.mark),)


def test_an_entry_cannot_run_code(tmp_path: Path) -> None:
    """Even with a correct checksum: only classes of shapes are restored."""
    body = pickle.dumps((Intruder(tmp_path / "mark"), []))
    entry = tmp_path / "entry"
    entry.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    assert shapes_cache.find_shapes(entry) is None
    assert not (tmp_path / "mark").exists()


def test_nothing_is_kept_for_malformed_shapes(files: tuple[Path, Path], tmp_path: Path) -> None:
    text = files[1].read_text(encoding="utf-8").replace("sh:maxCount 1 ]", 'sh:maxCount "1" ]')
    files[1].write_text(text, encoding="utf-8")
    found = validate_graph([files[0]], [files[1]])
    assert found.report is None
    assert not (tmp_path / "cache").exists()
