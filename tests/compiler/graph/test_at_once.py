"""Large graphs, which are loaded into a store at once, equal those of the ordinary reader.

Compares the store and the objects.
"""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.graph import load_graph, rdf_reader
from fedkg_compiler.graph.rdf_reader import Document, LaterTriples, read_rdf
from fedkg_compiler.pipeline import compile_rules

IRI = st.sampled_from(
    [
        "<https://example.org/plant#M1>",
        "<https://example.org/plant#a_:b>",
        "<https://example.org/pl\\u00E4nt>",
    ]
)
BLANK = st.sampled_from(["_:a", "_:b", "_:c"])
LITERAL = st.sampled_from(
    [
        '"mill"',
        '"two\\nlines, a \\"quote\\" and _:x"',
        '"M\\u00FChle"@DE-at',
        '"Mühle"@de',
        '"04.50"^^<http://www.w3.org/2001/XMLSchema#decimal>',
        '"x"^^<http://www.w3.org/2001/XMLSchema#string>',
        '"2024-03-01T08:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>',
    ]
)
LINE = st.one_of(
    st.builds(
        "{} <https://example.org/plant#p> {} .".format,
        st.one_of(IRI, BLANK),
        st.one_of(IRI, BLANK, LITERAL),
    ),
    st.just("# _:nobody is <https://example.org/here> ."),
    st.just(""),
    st.just(
        "<https://example.org/o> <http://www.w3.org/2002/07/owl#imports> "
        "<https://example.org/other> ."
    ),
)
FILLER = "".join(
    f'<https://example.org/plant#n{i}> <https://example.org/plant#p> "{i}" .\n' for i in range(400)
)
"""Enough triples that only few of them have blank nodes."""


def both(body: bytes, file: str) -> tuple[Document, Document]:
    """The document from the reader of large files, and from the ordinary reader."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rdf_reader, "LARGE", 0)
        large, said = read_rdf(body, file=file, at_once=True)
    small, also = read_rdf(body, file=file)
    assert said == also
    assert large is not None
    assert small is not None
    return large, small


def alike(large: Document, small: Document) -> None:
    assert isinstance(large.triples, LaterTriples)
    assert not isinstance(small.triples, LaterTriples)
    store = ox.Store()
    store.extend(small.triples)
    taken = large.triples.taken()
    assert taken is not None
    assert set(taken) == set(store)
    assert large.triples.taken() is None
    assert tuple(large.triples) == small.triples
    assert (large.prefixes, sorted(large.imports), large.plain) == (
        small.prefixes,
        sorted(small.imports),
        small.plain,
    )
    assert (large.sha256, large.text) == (small.sha256, small.text)


@given(lines=st.lists(LINE, max_size=12), end=st.sampled_from(["\n", "\r\n"]), last=st.booleans())
@settings(deadline=None, max_examples=60)
def test_lines_say_what_they_say(lines: list[str], end: str, last: bool) -> None:
    alike(*both((FILLER + end.join(lines) + (end if last else "")).encode(), "plant.nt"))


TURTLE = """\
@prefix plant: <https://example.org/plant#> .
PREFIX
  more: <more#>
# [ a comment ]
plant:M1 plant:limit [ plant:value 04.50 ; plant:unit more:K ] ; plant:parts ( plant:a plant:b ) ;
    plant:text \"\"\"[ two
lines ]\"\"\" .
<> <http://www.w3.org/2002/07/owl#imports> <other.ttl> .
plant:too <http://www.w3.org/2002/07/owl#imports> <other.ttl> .
_:x plant:p _:x .
"""


def test_turtle_with_blank_nodes_and_relative_names() -> None:
    alike(*both((TURTLE + FILLER).encode(), "a plant.ttl"))


def test_blank_nodes_that_are_many_and_prefixes_that_come_late_are_read_as_ever() -> None:
    many = "".join(f"_:n{i} <https://example.org/p> _:n{i + 1} .\n" for i in range(50))
    late = FILLER * 4 + "@prefix late: <https://example.org/late#> . late:a late:b late:c ."
    for body, file in ((many, "plant.nt"), (late, "plant.ttl")):
        large, small = both(body.encode(), file)
        assert large == small


@pytest.mark.parametrize(
    ("file", "read"), [("plant.nt", 800), ("plant.ttl", 799)]
)  # of Turtle, to the next full stop
def test_a_mistake_is_reported_with_its_place_and_the_rest_is_read(file: str, read: int) -> None:
    large, small = both((FILLER + "not a triple\n" + FILLER).encode(), file)
    assert large == small
    assert len(large.triples) == read


def test_a_compilation_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules, graph = tmp_path / "rules.fkg", tmp_path / "plant.nt"
    rules.write_text(
        "prefix plant: <https://example.org/plant#>\nsignal torque in N.m span 0 .. 80\n"
        "rule cap for ?x where { ?m a plant:Machine ; plant:maxTorque ?x } require torque <= ?x\n",
        encoding="utf-8",
    )
    space, w3 = "https://example.org/plant#", "http://www.w3.org"
    graph.write_text(
        f"<{space}Mill> <{w3}/2000/01/rdf-schema#subClassOf> <{space}Machine> .\n"
        f"<{space}M1> <{w3}/1999/02/22-rdf-syntax-ns#type> <{space}Mill> .\n"
        f'<{space}M1> <{space}maxTorque> "060"^^<{w3}/2001/XMLSchema#integer> .\n' + FILLER,
        encoding="utf-8",
    )
    expected = compile_rules([rules], graphs=[graph])
    monkeypatch.setattr(rdf_reader, "LARGE", 0)
    found = compile_rules([rules], graphs=[graph])
    assert found.pack is not None
    assert expected.pack is not None
    assert found.pack.to_bytes() == expected.pack.to_bytes()
    assert found.pack.rows == 1


def test_two_large_graphs_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdf_reader, "LARGE", 0)
    span = Span(file="rules.fkg", line=1, column=1, end_line=1, end_column=1)
    for name, text in (
        ("a.nt", FILLER),
        ("b.nt", FILLER + '<https://example.org/m> <https://example.org/p> "1" .\n'),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    graph, problems, _ = load_graph(
        [], {"e": ("https://example.org/", span)}, [tmp_path / "a.nt", tmp_path / "b.nt"]
    )
    assert problems == ()
    rows, said = graph.select(
        "?s ?p ?o FILTER(ISLITERAL(?o) && STRSTARTS(STR(?s), 'https://example.org/'))",
        ["s", "o"],
        span=span,
    )
    assert said == ()
    assert len(rows) == 401
