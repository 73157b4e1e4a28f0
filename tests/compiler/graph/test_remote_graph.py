"""Graphs from a real SPARQL server: whole, in pages, with retries.

Failures give a clear message.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from oxigraph_server import in_front, needs_oxigraph, put, reply, serving

from fedkg_compiler.graph import load_graph
from fedkg_compiler.graph.rdf_reader import checksum, read_rdf
from fedkg_compiler.graph.stores.credentials import FILE_VARIABLE, VARIABLE
from fedkg_compiler.graph.stores.endpoint import Patience
from fedkg_compiler.graph.stores.endpoint_graph_download import read_endpoint
from fedkg_compiler.input_files import recording

SPACE = "https://example.org/plant#"
PREFIX = "@prefix : <https://example.org/plant#> . @prefix q: <http://qudt.org/schema/qudt/> .\n"
PLANT = PREFIX + "".join(
    f':M{i} a :Mill ; :label "Mühle {i}"@de ; :maxTorque [ q:numericValue {i}.50 ; q:unit :NM ] ;'
    f' :tags ("a" {i}) .\n'
    for i in range(40)
)
HTML = b"<!doctype html><html><body>Sign in</body></html>"


class Waits(list[float]):
    """Does not wait, and records the requested times."""

    def patience(self, **named: float) -> Patience:
        return Patience(**({"wait": self.append, "step_s": 5.0} | named))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("oxigraph")) as address:
        put(address, PLANT)
        put(address, PREFIX + ":M1 :power 3 .", "graph=https://example.org/other")
        yield address


def read(
    address: str, waits: Waits | None = None, page: int = 50_000, **named: float
) -> tuple[str, str]:
    """The checksum of an endpoint's graph, and its problem as ``code message``."""
    document, problems = read_endpoint(
        address, (Waits() if waits is None else waits).patience(**named), page
    )
    return "" if document is None else document.content, " ".join(
        f"{item.code} {item.message}" for item in problems
    )


def of_text(text: str) -> str:
    document, _ = read_rdf(text.encode(), file="plant.ttl")
    assert document is not None
    return checksum([document])


@needs_oxigraph
@pytest.mark.parametrize("page", [50_000, 100, 7])
def test_a_server_says_what_the_file_says_in_pages_of_any_size(server: str, page: int) -> None:
    assert read(f"{server}/query", page=page) == (of_text(PLANT), "")


@needs_oxigraph
def test_a_named_graph_is_chosen_by_its_address(server: str) -> None:
    named = f"{server}/query?default-graph-uri=https%3A%2F%2Fexample.org%2Fother"
    with recording() as inputs:
        assert read(named) == (of_text(PREFIX + ":M1 :power 3 ."), "")
    assert inputs.remote == {f"{server}/query"}
    assert [(name, count) for name, count, _ in inputs.held] == [(f"{server}/query", 1)]


@needs_oxigraph
def test_two_graphs_of_one_server_are_distinguished_by_what_they_hold(server: str) -> None:
    with recording() as inputs:
        for named in ("", "?default-graph-uri=https%3A%2F%2Fexample.org%2Fother"):
            read(f"{server}/query{named}")
    held = sorted(inputs.held, key=lambda one: one[1])
    assert [name for name, _, _ in held] == [f"{server}/query"] * 2
    assert held[0][1] == 1 < held[1][1]


@needs_oxigraph
@pytest.mark.parametrize("status", ["accepted", "proposed"])
def test_mappings_that_were_accepted_hold_behind_an_endpoint_too(server: str, status: str) -> None:
    said = (
        "@prefix fkg: <https://w3id.org/fedkg/ns#> . @prefix rdfs: "
        "<http://www.w3.org/2000/01/rdf-schema#> . "
        "[] fkg:mappingSource :Drill ; fkg:mappingPredicate rdfs:subClassOf ; "
        "fkg:mappingTarget :Machine ; "
        f'fkg:mappingStatus "{status}" . :M7 a :Drill .'
    )
    put(server, PREFIX + said, "graph=https://example.org/mapped")
    address = f"{server}/query?default-graph-uri=https%3A%2F%2Fexample.org%2Fmapped"
    graph, problems, _ = load_graph([], {}, [address])
    assert [item for item in problems if item.severity == "error"] == []
    assert graph.instances(f"{SPACE}Drill") == [f"{SPACE}M7"]
    assert graph.instances(f"{SPACE}Machine") == ([f"{SPACE}M7"] if status == "accepted" else [])


@needs_oxigraph
def test_a_server_that_keeps_rows_back_is_asked_for_smaller_pages(server: str) -> None:
    sizes: list[int] = []

    def capped(handler: BaseHTTPRequestHandler, body: bytes) -> bool:
        query = parse_qs(body.decode())["query"][0]
        if "COUNT" in query or "isBlank(?s) ||" in query:
            return False
        with_cap = query.replace("LIMIT 50000", "LIMIT 9").replace(
            "LIMIT 9 OFFSET", "LIMIT 9 OFFSET"
        )
        if "LIMIT" not in with_cap:
            with_cap += " LIMIT 9"
        sizes.append(len(with_cap))
        return relay(handler, server, with_cap)

    with in_front(capped, server) as front:
        assert read(f"{front}/query") == (of_text(PLANT), "")
    assert len(sizes) > 8


def relay(handler: BaseHTTPRequestHandler, server: str, query: str) -> bool:
    from urllib.parse import urlencode
    from urllib.request import Request

    from oxigraph_server import DIRECT

    headers = {
        "Accept": handler.headers["Accept"],
        "Content-Type": "application/x-www-form-urlencoded",
    }
    with DIRECT.open(
        Request(f"{server}/query", data=urlencode({"query": query}).encode(), headers=headers)
    ) as found:
        reply(handler, 200, found.read(), found.headers["Content-Type"])
    return True


@needs_oxigraph
@pytest.mark.parametrize("kind", ["application/sparql-results+xml", "text/tab-separated-values"])
def test_other_formats_of_results_are_understood(server: str, kind: str) -> None:
    from urllib.request import Request

    from oxigraph_server import DIRECT

    def other(handler: BaseHTTPRequestHandler, body: bytes) -> bool:
        headers = {"Accept": kind, "Content-Type": handler.headers["Content-Type"]}
        with DIRECT.open(Request(f"{server}/query", data=body, headers=headers)) as found:
            reply(handler, 200, found.read(), found.headers["Content-Type"])
        return True

    with in_front(other) as front:
        assert read(f"{front}/query") == (of_text(PLANT), "")


@needs_oxigraph
def test_what_passes_is_tried_again_and_waited_for(server: str) -> None:
    failures = [429, 503, 500]

    def busy(handler: BaseHTTPRequestHandler, body: bytes) -> bool:
        if not failures:
            return False
        code = failures.pop(0)
        reply(handler, code, **({"Retry_After": "7"} if code == 503 else {}))
        return True

    waits = Waits()
    with in_front(busy, server) as front:
        assert read(f"{front}/query", waits) == (of_text(PLANT), "")
    assert waits == [0.5, 7.0, 2.0]


@needs_oxigraph
def test_a_server_that_goes_away_in_the_middle_is_named(server: str) -> None:
    asked: list[bytes] = []

    def leaving(handler: BaseHTTPRequestHandler, body: bytes) -> bool:
        asked.append(body)
        if len(asked) <= 2:
            return False
        handler.close_connection = True
        handler.connection.close()
        return True

    waits = Waits()
    with in_front(leaving, server) as front:
        got, problem = read(f"{front}/query", waits)
    assert (got, problem) == (
        "",
        f"FKG140 {front}/query went away in the middle of a query (5 tries)",
    )
    assert waits == [0.5, 1.0, 2.0, 4.0]


def whole(handler: BaseHTTPRequestHandler, rows: list[dict[str, object]], **named: int) -> bool:
    body = json.dumps({"head": {"vars": ["p", "n"]}, "results": {"bindings": rows}}).encode()
    reply(handler, 200, body, "application/sparql-results+json", **named)
    return True


@pytest.mark.parametrize(
    ("body", "kind", "length", "problem"),
    [
        (HTML, "text/html", None, "FKG141 {} answers with a web page instead of SPARQL results"),
        (
            HTML,
            "application/sparql-results+json",
            None,
            "FKG141 {} answers with a web page instead of SPARQL results",
        ),
        (b"{}", "image/png", None, "FKG141 {} answers with image/png instead of SPARQL results"),
        (
            b'{"head": {"vars": ["p"]}, "results": {"bin',
            "application/sparql-results+json",
            None,
            "FKG141 {} gives an incomplete or unreadable answer (2 tries)",
        ),
        (
            b'{"head": {}, "boolean": true}',
            "application/sparql-results+json",
            None,
            "FKG141 {} answers yes or no to a question for rows",
        ),
        (
            b'{"head": {"vars": []}}',
            "application/sparql-results+json",
            900,
            "FKG140 {} broke off after 22 of 900 bytes (2 tries)",
        ),
    ],
)
def test_nonsense_and_half_an_answer_are_distinguished(
    body: bytes, kind: str, length: int | None, problem: str
) -> None:
    def nonsense(handler: BaseHTTPRequestHandler, _: bytes) -> bool:
        handler.close_connection = True
        reply(handler, 200, body, kind, length)
        return True

    with in_front(nonsense) as front:
        assert read(f"{front}/query", tries=2) == ("", problem.format(f"{front}/query"))


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (400, "FKG140 {} answers 400 Bad Request"),
        (401, "FKG142 {} answers 401: it requires credentials"),
        (404, "FKG140 {} answers 404 Not Found"),
        (504, "FKG140 {} answers 504 Gateway Timeout (2 tries)"),
    ],
)
def test_refusals_are_reported_with_their_number(code: int, problem: str) -> None:
    with in_front(lambda handler, _: reply(handler, code) is None) as front:
        assert read(f"{front}/query", tries=2) == ("", problem.format(f"{front}/query"))


def test_a_server_that_says_nothing_is_given_up() -> None:
    import threading

    released = threading.Event()

    def silent(handler: BaseHTTPRequestHandler, _: bytes) -> bool:
        released.wait(20)
        handler.close_connection = True
        return True

    with in_front(silent) as front:
        got = read(f"{front}/query", tries=1, step_s=0.05)
        released.set()
    assert got == ("", f"FKG140 {front}/query gives no answer within 0.05 s")


def test_an_address_where_nobody_listens_is_named() -> None:
    with in_front(lambda handler, _: reply(handler, 200) is None) as front:
        gone = front
    assert read(f"{gone}/query", tries=1) == (
        "",
        f"FKG140 {gone}/query cannot be reached: no server listens there",
    )


@pytest.mark.parametrize("path", ["pfad ü", "ümlaut", "a b"])
def test_an_address_with_characters_that_no_address_has(path: str) -> None:
    text, problem = read(f"http://127.0.0.1:1/{path}", tries=1)
    assert (text, "is not a valid address" in problem) == ("", True)


@needs_oxigraph
def test_rows_that_do_not_add_up_are_never_taken_for_the_graph(server: str) -> None:
    def forgetful(handler: BaseHTTPRequestHandler, body: bytes) -> bool:
        query = parse_qs(body.decode())["query"][0]
        return (
            False
            if "COUNT" in query
            else relay(handler, server, query.partition(" LIMIT")[0] + " LIMIT 0")
        )

    with in_front(forgetful, server) as front:
        got, problem = read(f"{front}/query")
    assert got == ""
    assert problem == f"FKG141 {front}/query gives other triples than it counts, 3 times over"


def test_numbers_that_are_none_are_odd() -> None:
    row = {
        "p": {"type": "uri", "value": "https://example.org/p"},
        "n": {"type": "literal", "value": "many"},
    }
    with in_front(lambda handler, _: whole(handler, [row])) as front:
        assert read(f"{front}/query") == ("", f"FKG141 {front}/query gives an unexpected answer")


class TestCredentials:
    SECRET = "Bearer 3f2c-very-secret"

    @pytest.fixture
    def guarded(self, server: str) -> Iterator[str]:
        def asks(handler: BaseHTTPRequestHandler, body: bytes) -> bool:
            if (
                handler.headers.get("Authorization") == self.SECRET
                or handler.headers.get("X-API-Key") == self.SECRET
            ):
                return False
            reply(handler, 401)
            return True

        with in_front(asks, server) as front:
            yield f"{front}/query"

    @needs_oxigraph
    def test_the_header_comes_from_the_environment(
        self, guarded: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(VARIABLE, self.SECRET)
        assert read(guarded) == (of_text(PLANT), "")
        monkeypatch.setenv(VARIABLE, "Bearer another")
        assert read(guarded) == ("", f"FKG142 {guarded} answers 401: it requires credentials")

    @needs_oxigraph
    @pytest.mark.parametrize(
        "entry", ['"{}" = "{}"', '"{}" = {{ header = "X-API-Key", value = "{}" }}']
    )
    def test_or_from_a_file_for_this_address(
        self, guarded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
    ) -> None:
        path = tmp_path / "credentials.toml"
        path.write_text(
            f'"https://elsewhere.org/" = "no"\n{entry.format(guarded, self.SECRET)}\n',
            encoding="utf-8",
        )
        monkeypatch.setenv(FILE_VARIABLE, str(path))
        assert read(guarded) == (of_text(PLANT), "")

    def test_nothing_is_sent_to_another_host(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[str | None] = []

        def elsewhere(handler: BaseHTTPRequestHandler, _: bytes) -> bool:
            seen.append(handler.headers.get("Authorization"))
            reply(handler, 404)
            return True

        monkeypatch.setenv(VARIABLE, self.SECRET)
        with (
            in_front(elsewhere) as other,
            in_front(
                lambda handler, _: reply(handler, 307, Location=f"{other}/query") is None
            ) as front,
        ):
            got, problem = read(f"{front}/query")
        assert (got, seen, problem) == ("", [], f"FKG140 {front}/query answers 307: it has moved")

    @pytest.mark.parametrize(
        ("address", "variable", "said"),
        [
            ("http://graphs.example.org/query", SECRET, "would be sent over http://"),
            (
                "https://me:3f2c-very-secret@graphs.example.org/query",
                "",
                "has a name or password in it",
            ),
            ("https://graphs.example.org/query", "3f2c-very-secret\nX: y", "is not an HTTP header"),
            ("https://graphs.example.org:port/query", "", "is not an address"),
            ("https:///query?key=3f2c-very-secret", "", "names no host"),
        ],
    )
    def test_an_address_that_would_leak_a_password_is_rejected_without_printing_it(
        self, address: str, variable: str, said: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(VARIABLE, variable)
        document, problems = read_endpoint(address, Waits().patience())
        assert document is None
        assert said in problems[0].message
        assert "3f2c" not in str(problems)

    def test_a_file_that_is_no_list_of_headers_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "credentials.toml"
        monkeypatch.setenv(FILE_VARIABLE, str(path))
        assert "no such file" in read("https://graphs.example.org/query")[1]
        path.write_text("secret 3f2c", encoding="utf-8")
        assert "it is not TOML" in read("https://graphs.example.org/query")[1]
        path.write_text('"https://graphs.example.org" = 3', encoding="utf-8")
        assert "neither a text nor a header" in read("https://graphs.example.org/query")[1]
