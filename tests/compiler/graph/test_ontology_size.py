"""The closure of a graph has a size limit.

A graph beyond it is reported with the responsible property.
"""

from __future__ import annotations

import numpy as np
import pytest
from graph_cases import header

from fedkg_compiler.graph import Catalog, load_graph
from fedkg_compiler.graph.reasoning import facts

N = 600
CHAIN = " ".join(f"plant:P{i} plant:before plant:P{i + 1} ." for i in range(100))


def loaded(catalog: Catalog, text: str):
    _, problems, _ = load_graph(
        [], {}, [], catalog=catalog, text_graphs=[("plant.ttl", header(catalog) + text)]
    )
    return problems


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("plant:before a owl:TransitiveProperty .\n" + CHAIN, "plant:before"),
        (CHAIN.replace("plant:before", "rdfs:subClassOf"), "rdfs:subClassOf"),
    ],
)
def test_a_closure_beyond_the_limit_is_one_error_at_its_property(
    catalog: Catalog, monkeypatch, text: str, name: str
) -> None:
    assert not loaded(catalog, text)
    monkeypatch.setattr(facts, "MOST_PAIRS", 4_000)  # the 100 steps have 5,050 pairs
    [problem] = loaded(catalog, text)
    assert (problem.code, problem.severity, problem.span.file) == ("FKG118", "error", "plant.ttl")
    assert "4,000 triples follow" in problem.message
    assert name.split(":")[1] + ">" in problem.message
    lines = (header(catalog) + text).splitlines()
    assert lines[problem.span.line - 1][problem.span.column - 1 :].startswith(name)


def test_a_relation_is_given_up_before_it_is_written_down(monkeypatch) -> None:
    chain = facts.make_pairs(np.arange(N), np.arange(1, N + 1))
    assert facts.transitive_closure(chain).size == N * (N + 1) // 2
    hub, rim = np.zeros(N, dtype=np.int64), np.arange(1, N + 1)
    monkeypatch.setattr(facts, "MOST_PAIRS", 40_000)
    with pytest.raises(facts.TooManyPairs):
        facts.transitive_closure(chain)
    with pytest.raises(facts.TooManyPairs):
        facts.composed(facts.make_pairs(rim, hub), facts.make_pairs(hub, rim))
