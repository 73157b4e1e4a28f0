"""Untrusted shapes and queries: no unrequested connection, bounded time, no dropped rules."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import call

from fedkg_compiler.frontends.shacl.linear_time_regex import matches, what_is_wrong

HEAD = """@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix ex: <https://example.org/plant#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
"""


class Listener:
    """A local server that counts connections and closes them."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.count = 0
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}/query"

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.count += 1
            connection.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.socket.close()


QUERY = "SELECT {name} WHERE {{ {service} <{address}> {{ {name} ex:limit ?l }} {name} a ex:Pump }}"
PLACES = {
    "a violation query": ("q.rq", "PREFIX ex: <https://example.org/plant#>\n{query}"),
    "an ASK query": (
        "q.rq",
        (
            "PREFIX ex: <https://example.org/plant#>\n"
            "ASK {{ SERVICE <{address}> {{ ?m ex:limit ?l }} }}"
        ),
    ),
    "a constraint": (
        "s.ttl",
        HEAD + "ex:S a sh:NodeShape ; sh:targetClass ex:Pump ; "
        'sh:sparql [ sh:prefixes ex:p ; sh:select "{query}" ] .\n'
        'ex:p sh:declare [ sh:prefix "ex" ; sh:namespace "https://example.org/plant#" ] .',
    ),
    "a target": (
        "s.ttl",
        HEAD + "ex:S a sh:NodeShape ; "
        'sh:target [ a sh:SPARQLTarget ; sh:prefixes ex:p ; sh:select "{query}" ] ; '
        "sh:property [ sh:path ex:limit ; sh:maxCount 0 ] .\n"
        'ex:p sh:declare [ sh:prefix "ex" ; sh:namespace "https://example.org/plant#" ] .',
    ),
    "a rule": (
        "r.fkg",
        (
            "prefix ex: <https://example.org/plant#>\n"
            'signal torque(?m) is ex:torque column "t"\n'
            "rule a for ?m where {{ SERVICE <{address}> {{ ?m ex:limit ?l }} ?m a ex:Pump . }}\n"
            "  require torque(?m) <= 1\n"
        ),
    ),
}


@pytest.mark.parametrize("service", ["SERVICE", "service SILENT"])
@pytest.mark.parametrize("place", PLACES)
def test_service_opens_no_connection(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    listener: Listener,
    place: str,
    service: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    name, text = PLACES[place]
    query = QUERY.format(
        name="?this" if "target" in place else "$this" if "constraint" in place else "?m",
        service=service,
        address=listener.address,
    )
    (tmp_path / name).write_text(text.format(query=query, address=listener.address))
    (tmp_path / "g.ttl").write_text(HEAD + "ex:p1 a ex:Pump ; ex:limit 3 .")
    done = call(capsys, "check", name, "g.ttl")
    assert done.code == 1
    assert "SERVICE" in done.err
    assert listener.count == 0


BACKTRACKING = ("(a+)+$", "^(a|a)*$", "(.*a){20}b", "^(a?){60}a{60}b", "^(a?a?)*$", 40 * "a?" + "b")
"""Patterns that take Python's `re` years, on a text of 60 times a and one `!`."""


@pytest.mark.parametrize("pattern", BACKTRACKING)
@pytest.mark.parametrize("graph", ["", "ex:code fkg:column 'code' ; fkg:category '{text}' ."])
def test_a_pattern_that_backtracks_is_matched_in_bounded_time(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    graph: str,
    pattern: str,
) -> None:
    """On the graph by pySHACL, and on the categories of a column."""
    monkeypatch.chdir(tmp_path)
    text = "a" * 60 + "!"
    (tmp_path / "s.ttl").write_text(
        HEAD + "ex:S a sh:NodeShape ; sh:targetClass ex:Pump ; sh:property [ sh:path ex:code ;"
        f' sh:pattern "{pattern}" ] .'
    )
    (tmp_path / "g.ttl").write_text(
        f"{HEAD}ex:p1 a ex:Pump . ex:Pump a rdfs:Class ; fkg:keyColumn 'pump' . "
        + (graph.format(text=text) or f'ex:p1 ex:code "{text}" .')
    )
    done = call(capsys, "check", "s.ttl", "g.ttl")
    assert ("FKG310" in done.err) == (not graph), done.err


def test_patterns_mean_what_they_mean_to_re() -> None:
    for pattern, flags, text, expected in (
        ("^(a+)+$", "", "aaa", True),
        ("^(a+)+$", "i", "AAb", False),
        ("^(a|b)*c+$", "", "abcc", True),
        ("^a.*b.*$", "s", "a\nb", True),
        (r"^\w+@\w+\.[a-z]+$", "", "x@y.org", True),
        ("^(?!no).+$", "", "none", False),
        ("^[^)]*(x)+$", "", "(x", True),
        ("^(?:SN|TN)-[0-9]{3,4}(-[A-Z])?$", "", "TN-0123-B", True),
        ("^(?:SN|TN)-[0-9]{3,4}(-[A-Z])?$", "", "XN-0123-B", False),
        ("^a{2}b{3}$", "", "aabbb", True),
    ):
        assert matches(pattern, flags, text) is expected, pattern
    assert "regular expression" in what_is_wrong("(a")
    assert "unlimited time" in what_is_wrong("(?!b)(a+)+$")
    assert [what_is_wrong(text) for text in ("(a+)+$", "^(?!no).+$", r"(\d{2}-)*x", "[(+]+")] == [
        ""
    ] * 4


@pytest.mark.parametrize(("off", "code"), [("", 1), ("; sh:deactivated true", 0)])
def test_a_rule_in_shapes_is_rejected_at_its_place(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    off: str,
    code: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.ttl").write_text(
        f"""{HEAD}ex:Pump a rdfs:Class . \
ex:needsCheck a <http://www.w3.org/1999/02/22-rdf-syntax-ns#Property> .
ex:S a sh:NodeShape ; sh:targetClass ex:Pump ;
  sh:rule [ a sh:TripleRule ; sh:subject sh:this ; sh:predicate ex:needsCheck ;
      sh:object true {off} ] ;
  sh:property [ sh:path ex:needsCheck ; sh:maxCount 0 ] .
"""
    )
    (tmp_path / "d.ttl").write_text(
        "<https://example.org/plant#p1> a <https://example.org/plant#Pump> ."
    )
    done = call(capsys, "eval", "s.ttl", "d.ttl")
    assert done.code == code, done.err
    assert ("s.ttl:7:3: error[FKG312]" in done.err) == (code == 1), done.err
