"""Names of blank nodes do not depend on labels and order of the triples.

Different nodes have different names.
"""

from __future__ import annotations

import random

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkg_compiler.graph.rdf_reader import (
    as_kept,
    checksum,
    names_by_content,
    read_rdf,
    rename_shared_blank_nodes,
    renamed,
)

P, Q, A = (ox.NamedNode(f"https://example.org/{name}") for name in "pqa")
SUBJECTS = st.one_of(st.just(A), st.integers(0, 5).map(lambda i: ox.BlankNode(f"x{i}")))
OBJECTS = st.one_of(SUBJECTS, st.sampled_from([ox.Literal("one"), ox.Literal(2)]))
TRIPLES = st.lists(st.builds(ox.Quad, SUBJECTS, st.sampled_from([P, Q]), OBJECTS), max_size=12)


def named(triples: list[ox.Quad]) -> set[ox.Quad]:
    return set(renamed(triples, names_by_content(triples)))


def relabelled(triples: list[ox.Quad], seed: int) -> list[ox.Quad]:
    order = random.Random(seed)
    labels = [f"y{i}" for i in range(6)]
    order.shuffle(labels)
    names = {f"x{i}": label for i, label in enumerate(labels)}
    found = renamed(triples, names)
    order.shuffle(found)
    return found


def canonical(triples: set[ox.Quad]) -> ox.Dataset:
    found = ox.Dataset(triples)
    found.canonicalize(ox.CanonicalizationAlgorithm.RDFC_1_0)
    return found


@given(TRIPLES, st.integers(0, 1000))
def test_names_follow_what_is_said_alone(triples: list[ox.Quad], seed: int) -> None:
    assert named(triples) == named(relabelled(triples, seed))


@given(TRIPLES)
def test_the_graph_is_the_same_but_for_the_names(triples: list[ox.Quad]) -> None:
    assert canonical(named(triples)) == canonical(set(triples))


@given(TRIPLES)
def test_naming_what_is_named_changes_nothing(triples: list[ox.Quad]) -> None:
    once = named(triples)
    assert set(renamed(once, names_by_content(once))) == once


@pytest.mark.parametrize(
    "text",
    [
        "_:a :p _:b . _:b :p _:c . _:c :p _:a . _:d :p _:e . _:e :p _:d .",
        ":a :p [ :q 3 ], [ :q 3 ], [ :q 4 ] .",
        ":a :p [ :q [ :p 1 ] ], [ :q [ :p 1 ] ] .",
        ":a :p (1 2 (3 4)) . :a :q (1 2 (3 4)) .",
        "_:a :p _:a . _:b :p _:b .",
        "_:a :p _:c . _:b :p _:c . _:c :q 1 . :a :p _:a, _:b .",
    ],
)
def test_circles_lists_and_twins(text: str) -> None:
    triples = list(
        ox.parse(f"@prefix : <https://example.org/> . {text}".encode(), format=ox.RdfFormat.TURTLE)
    )
    twin = list(
        ox.parse(f"@prefix : <https://example.org/> . {text}".encode(), format=ox.RdfFormat.TURTLE)
    )
    assert named(triples) == named(twin[::-1])
    assert canonical(named(triples)) == canonical(set(triples))


def test_a_long_list_takes_no_longer_than_it_is() -> None:
    items = " ".join(str(i) for i in range(20_000))
    triples = list(
        ox.parse(
            f"<https://example.org/a> <https://example.org/p> ({items}) .".encode(),
            format=ox.RdfFormat.TURTLE,
        )
    )
    assert len(set(names_by_content(triples).values())) == 20_000


def test_a_large_circle_of_nodes_that_nothing_tells_apart_ends() -> None:
    nodes = [ox.BlankNode(f"x{i}") for i in range(120)]
    triples = [ox.Quad(one, P, other) for one in nodes for other in nodes]
    assert len(set(names_by_content(triples).values())) == len(nodes)


def test_twins_in_two_files_stay_two_nodes_as_in_one() -> None:
    text = b"@prefix : <https://example.org/> . :a :p [ :q [ :p 1 ] ] . :b :p 1.50 ."
    files = [read_rdf(text, file=name)[0] for name in ("one.ttl", "two.ttl")]
    whole = read_rdf(text + b":a :p [ :q [ :p 1 ] ] .", file="whole.ttl")[0]
    documents = [document for document in files if document is not None]
    assert whole is not None
    assert checksum(rename_shared_blank_nodes(documents)) == checksum([whole])
    assert (
        checksum(rename_shared_blank_nodes(documents))
        != checksum(documents[:1])
        == checksum(rename_shared_blank_nodes(documents[:1]))
    )


def test_literals_are_those_that_stores_keep() -> None:
    triples = list(
        ox.parse(
            b"<n:a> <n:b> 4.50, 04.5, 9.0e3, true, 'x'@EN,"
            b" 'abc'^^<http://www.w3.org/2001/XMLSchema#decimal> .",
            format=ox.RdfFormat.TURTLE,
        )
    )
    store = ox.Store()
    store.extend(triples)
    assert set(as_kept(triples)) == set(store)


@pytest.mark.parametrize(
    "text",
    [
        "{0}\r{1}\n\n",
        "{0}\r\n{1}\r\n",
        "{0}\n{1}",
        "# two\n{0}\n{1}\n",
        '{0}\n{1}\n<n:a> <n:p> "_:x" .\n',
    ],
)
def test_blank_nodes_of_n_triples_are_found_whatever_ends_their_lines(text: str) -> None:
    document, problems = read_rdf(
        text.format("<n:a> <n:p> <n:b> .", "<n:a> <n:p> _:x .").encode(), file="a.nt"
    )
    assert not problems
    assert document is not None
    assert not document.plain
    assert [
        str(quad.object) for quad in document.triples if isinstance(quad.object, ox.BlankNode)
    ] == ["_:b644ab8f7bab74251"]
