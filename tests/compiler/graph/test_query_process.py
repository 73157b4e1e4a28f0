"""The process that answers queries sends each node once."""

from itertools import pairwise

import pyoxigraph as ox
import pytest

from fedkg_compiler.graph.query_process import QueryProcess

PLANT = "https://example.org/plant#"
QUERIES = (
    f"SELECT ?s ?o WHERE {{ ?s <{PLANT}feeds> ?o }} ORDER BY ?s",
    f"SELECT ?o ?year WHERE {{ ?s <{PLANT}feeds> ?o OPTIONAL {{ ?o <{PLANT}year> ?year }} }}",
    f"SELECT ?s WHERE {{ ?s <{PLANT}none> ?o }}",
    "SELECT ?s ?p ?o WHERE { ?s ?p ?o }",
)


def test_answers_are_those_of_the_store_whatever_was_asked_before() -> None:
    names = [ox.NamedNode(f"{PLANT}M{i}") for i in range(6)]
    feeds, year = ox.NamedNode(PLANT + "feeds"), ox.NamedNode(PLANT + "year")
    store = ox.Store()
    store.extend(ox.Quad(a, feeds, b) for a, b in pairwise(names))
    store.add(ox.Quad(names[3], year, ox.Literal(2001)))
    process = QueryProcess(store, None)
    for restart in (False, True):
        for query in (*QUERIES, *reversed(QUERIES)):
            expected = store.query(query)
            assert isinstance(expected, ox.QuerySolutions)
            found = process.select(query)
            assert sorted(map(str, found.rows)) == sorted(str(tuple(row)) for row in expected)
            assert len(set(found.nodes)) == len(found.nodes)
            with pytest.raises(SyntaxError):
                process.select("SELECT ?s WHERE {")
        if not restart:
            process.close()
    process.close()
