"""Adding, listing, showing and removing ontologies."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from graph_cases import HERE

from fedkg.errors import FedkgError, UsageError
from fedkg_compiler.graph import (
    add_entry,
    list_entries,
    load_catalog,
    load_graph,
    remove_entry,
    show_entry,
)
from fedkg_compiler.graph.fetch import fetch

ACME = """@prefix : <https://acme.example/o#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
<https://acme.example/o> a owl:Ontology . :Mill a owl:Class ; rdfs:label "mill" .
:Saw a owl:Class ; rdfs:subClassOf :Mill .
"""


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    path = tmp_path / "acme.ttl"
    path.write_text(ACME, encoding="utf-8")
    return path


def test_a_new_name_can_be_used_shown_and_removed(home: Path, acme: Path) -> None:
    record, problems = add_entry("acme", str(acme), home=home)
    assert problems == ()
    assert record is not None
    assert (record.prefix, record.namespace, record.iri) == (
        "acme",
        "https://acme.example/o#",
        "https://acme.example/o",
    )
    graph, problems, sources = load_graph([("acme", HERE)], {}, [], catalog=load_catalog(home=home))
    assert problems == ()
    assert graph.resolve("acme:Sow", "pname", HERE)[1][0].help == "did you mean `acme:Saw`?"
    assert "acme.ttl" in {source.name for source in sources}
    info, _ = show_entry("acme", home=home)
    assert [(term.name, term.kind, term.label) for term in info.terms] == [
        ("acme:Mill", "class", "mill"),
        ("acme:Saw", "class", ""),
    ]
    assert [entry.in_use for entry in list_entries(home=home) if entry.name == "acme"] == ["added"]
    assert remove_entry("acme", home=home).source == str(acme)
    assert "acme" not in load_catalog(home=home).names()
    with pytest.raises(UsageError, match="no ontology was added"):
        remove_entry("acme", home=home)


def test_a_misspelt_name_is_not_removed(home: Path, acme: Path) -> None:
    with pytest.raises(UsageError, match="nor any other"):
        remove_entry("acme", home=home)
    add_entry("acme", str(acme), home=home)
    with pytest.raises(UsageError, match="did you mean `acme`"):
        remove_entry("acm", home=home)


def test_a_file_of_the_catalogue_under_the_wrong_name_is_told_whose_it_is(
    home: Path, acme: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = load_catalog(home=home)
    mason = catalog.entries["mason"]
    assert mason.official is not None
    digest = hashlib.sha256(acme.read_bytes()).hexdigest()
    official = replace(mason.official, sha256=digest)
    ours = catalog.entries | {"mason": replace(mason, official=official)}
    monkeypatch.setattr(
        "fedkg_compiler.graph.user_ontology_catalog.load_catalog",
        lambda home: replace(catalog, entries=ours),
    )
    _, (problem,) = add_entry("isa95", str(acme), home=home)
    assert (problem.code, problem.help) == (
        "FKG106",
        f"this is the file of `mason`: fedkg ontology add mason {acme}",
    )


def test_the_list_names_every_ontology_with_its_origin(home: Path) -> None:
    entries = {entry.name: entry for entry in list_entries(home=home)}
    assert sorted(entries) == [
        "fkg",
        "iof",
        "isa95",
        "mason",
        "nist",
        "qudt",
        "schema",
        "sosa",
        "ssn",
    ]
    assert entries["isa95"].licence == "MIT"
    assert all(Path(entry.file).is_file() for entry in entries.values())
    assert {entry.in_use for entry in entries.values()} == {"module"}


def test_show_of_our_modules_lists_their_terms(home: Path) -> None:
    info, problems = show_entry("isa95", home=home)
    assert problems == ()
    assert {
        "fkg-isa95:Equipment",
        "fkg-isa95:feeds",
        "fkg-isa95:MaterialSublot",
        "fkg-isa95:QualificationTestResult",
    } <= {term.name for term in info.terms}
    assert all(term.comment for term in info.terms)
    with pytest.raises(UsageError, match="did you mean `isa95`"):
        show_entry("isa59", home=home)


def test_checksums_are_verified_when_adding(home: Path, acme: Path) -> None:
    digest = hashlib.sha256(acme.read_bytes()).hexdigest()
    assert add_entry("acme", str(acme), digest.upper(), home=home)[0] is not None
    record, problems = add_entry("acme", str(acme), "0" * 64, home=home)
    assert record is None
    assert [p.code for p in problems] == ["FKG106"]
    assert digest in problems[0].message
    record, problems = add_entry("mason", str(acme), home=home)
    assert record is None
    assert [p.code for p in problems] == ["FKG106"]
    assert f"--sha256 {digest}" in problems[0].help
    record, problems = add_entry("mason", str(acme), digest, home=home)
    assert record is None
    assert [p.code for p in problems] == ["FKG116"]
    with pytest.raises(UsageError, match="not a SHA-256"):
        add_entry("acme", str(acme), "abc", home=home)


def test_a_file_that_changed_on_the_shelf_is_not_used(home: Path, tmp_path: Path) -> None:
    mason = tmp_path / "m.ttl"
    mason.write_text(
        "<http://www.owl-ontologies.com/mason.owl#Tool> a <http://www.w3.org/2002/07/owl#Class> .",
        encoding="utf-8",
    )
    digest = hashlib.sha256(mason.read_bytes()).hexdigest()
    record, _ = add_entry("mason", str(mason), digest, home=home)
    assert record is not None
    catalog = load_catalog(home=home)
    (catalog.shelf / record.file).write_text("<http://a> <http://b> 1 .", encoding="utf-8")
    graph, problems, _ = load_graph([("mason", HERE)], {}, [], catalog=catalog)
    assert [problem.code for problem in problems] == ["FKG106"]
    assert graph.resolve("mason:Lathe", "pname", HERE)[1] == ()
    (catalog.shelf / record.file).unlink()
    _, problems, _ = load_graph([("mason", HERE)], {}, [], catalog=catalog)
    assert [problem.code for problem in problems] == ["FKG101"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("<!DOCTYPE html><html/>", "FKG102"),
        ("<http://a> <http://b> ", "FKG103"),
        ("", "FKG102"),
        ("# nothing\n", "FKG102"),
    ],
)
def test_what_cannot_be_read_is_not_added(home: Path, tmp_path: Path, text: str, code: str) -> None:
    path = tmp_path / "x.ttl"
    path.write_text(text, encoding="utf-8")
    record, problems = add_entry("x", str(path), home=home)
    assert record is None
    assert [problem.code for problem in problems] == [code]
    assert not (home / "ontologies").exists()


def test_a_file_that_names_nothing_is_reported(home: Path, tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_text(
        '<?xml version="1.0"?><catalog xmlns="urn:oasis"/>', encoding="utf-8"
    )
    _, (problem,) = add_entry("x", str(tmp_path / "x.xml"), home=home)
    assert (problem.code, problem.message) == (
        "FKG116",
        f"{tmp_path / 'x.xml'} describes nothing that has an IRI",
    )


@pytest.mark.parametrize("name", ["", "a b", "../x", "rules", "1a", "a.b"])
def test_names_must_fit_behind_use(home: Path, acme: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name"):
        add_entry(name, str(acme), home=home)


def test_a_damaged_list_is_an_error_of_its_own(home: Path) -> None:
    (home / "ontologies").mkdir(parents=True)
    (home / "ontologies" / "added.json").write_text("[{]", encoding="utf-8")
    with pytest.raises(FedkgError, match="cannot be read"):
        load_catalog(home=home)


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        match self.path:
            case "/acme.ttl":
                self.answer(200, ACME.encode())
            case "/slow.ttl":
                time.sleep(1.5)
                with contextlib.suppress(OSError):
                    self.answer(200, b"")
            case "/moved.ttl":
                self.send_response(302)
                self.send_header("Location", "/acme.ttl")
                self.end_headers()
            case "/cut.ttl":
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b"half")
            case _:
                self.answer(404, b"no")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.fixture
def site() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Pages)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_addresses_are_fetched_when_they_are_given(home: Path, site: str) -> None:
    for page in ("acme.ttl", "moved.ttl"):
        record, problems = add_entry("acme", f"{site}/{page}", home=home)
        assert problems == ()
        assert record is not None
        assert record.file == "acme.ttl"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{site}/none.ttl", "404"),
        ("{site}/slow.ttl", "did not answer"),
        ("{site}/cut.ttl", "connection broke"),
        ("ftp://x/y", "are not fetched"),
    ],
)
def test_a_failed_download_is_an_error(site: str, source: str, words: str) -> None:
    body, problems = fetch(source.format(site=site), timeout_s=0.5)
    assert body is None
    assert [problem.code for problem in problems] == ["FKG101"]
    assert words in problems[0].message


def test_nobody_there(home: Path) -> None:
    body, problems = fetch("http://127.0.0.1:9/x.ttl", timeout_s=2)
    assert body is None
    assert problems[0].code == "FKG101"


def test_paths_and_file_addresses_are_read(acme: Path) -> None:
    assert fetch(str(acme)) == fetch(acme.as_uri()) == (ACME.encode(), ())
    assert fetch(str(acme.parent / "no.ttl"))[1][0].code == "FKG101"


@pytest.mark.parametrize(
    "address", ["http://[half", "file://[half/x", "http://host:port/x", "http://127.0.0.1:1/ü"]
)
def test_an_address_that_is_malformed(tmp_path: Path, address: str) -> None:
    added, problems = add_entry("mine", address, home=tmp_path)
    assert (added, problems[0].code) == (None, "FKG101")
    assert f"{address} cannot be read: this is not a valid address" in problems[0].message


@pytest.mark.parametrize("text", ['{"a": 1}', "[1]", '"list"', '[{"name": "x"}]', "[" * 100_000])
def test_a_list_of_added_ontologies_of_another_form(tmp_path: Path, text: str) -> None:
    shelf = tmp_path / "ontologies"
    shelf.mkdir()
    (shelf / "added.json").write_text(text, encoding="utf-8")
    with pytest.raises(FedkgError, match=r"the list of added ontologies .* cannot be read"):
        load_catalog(home=tmp_path)
