"""Groups: which become numbers over members, which the graph counts, which are rejected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sparql_cases import HEAD, PREFIX, Table, check_equal, compiled, matrix, sensors

from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.pack import Pack

COLUMNS = [("m1", "t"), ("m2", "t"), ("m3", "t"), ("m1", "g"), ("m2", "g"), ("m3", "g")]
GRAPH = (
    HEAD
    + sensors(COLUMNS)
    + "p:m1 a p:Mill ; p:in p:a ; p:of p:x ; p:max 2 . p:m2 a p:Mill ; p:in p:a ; p:of p:x ;"
    " p:max 2 ." + "p:m3 a p:Mill ; p:in p:b ; p:of p:y ; p:max 9 ."
)
TABLE: Table = {
    ("m1", "t"): [1.0, 5.0, None],
    ("m2", "t"): [4.0, 5.0, None],
    ("m3", "t"): [9.0, None, 1.0],
    ("m1", "g"): ["A", "B", "A"],
    ("m2", "g"): ["A", "B", None],
    ("m3", "g"): ["B", "B", "A"],
}


def violated(pack: Pack, table: Table, rows: int) -> list[set[str]]:
    """The entities of violated rows, for each table row."""
    found: list[set[str]] = [set() for _ in range(rows)]
    for bank in pack.banks:
        for b, r in np.argwhere(evaluate_bank(bank, matrix(pack, table, rows)).violated).tolist():
            found[b].add(pack.manifest.entities[int(bank.entity[r])])
    return found


REST = "?m p:t ?v ; p:in ?a FILTER(?v > 3 && STRLEN(?all) > 40) }"
EQUAL = [
    "SELECT ?a WHERE { ?m p:in ?a ; p:of ?o ; p:t ?v } GROUP BY ?a HAVING (COUNT(DISTINCT ?o) < 2)",
    (
        "SELECT ?a WHERE { ?m p:in ?a ; p:max ?o ; p:t ?v FILTER(?v > 2) } "
        "GROUP BY ?a HAVING (SUM(DISTINCT ?o) < 3)"
    ),
    "SELECT ?a WHERE { ?m p:in ?a ; p:t ?v } GROUP BY ?a HAVING (MAX(DISTINCT ?v) > 4)",
    (
        "SELECT ?a WHERE { { ?m p:in ?a ; p:t ?v } UNION { ?m p:in ?a ; p:max ?v } } "
        "GROUP BY ?a HAVING (MIN(?v) < 2)"
    ),
    (
        "SELECT ?a WHERE { { ?m p:in ?a ; p:t ?v } UNION { ?m p:in ?a ; p:max ?v } } "
        "GROUP BY ?a HAVING (AVG(?v) > 3)"
    ),
    "SELECT ?g WHERE { ?m p:g ?g FILTER(?g IN ('A', 'B')) } GROUP BY ?g HAVING (COUNT(?m) > 1)",
    "SELECT ?g WHERE { VALUES ?g { 'A' 'B' } ?m p:g ?g ; p:t ?v } GROUP BY ?g HAVING (SUM(?v) > 5)",
    (
        "SELECT ?a (SAMPLE(?v) AS ?s) (GROUP_CONCAT(?m) AS ?all) WHERE { ?m p:in ?a ; p:t ?v } "
        "GROUP BY ?a HAVING (SUM(?v) > 5)"
    ),
    "SELECT ?m WHERE { { SELECT ?a (GROUP_CONCAT(?o) AS ?all) WHERE { "
    "?n p:in ?a ; p:of ?o OPTIONAL { ?n p:t ?w } } GROUP BY ?a } " + REST,
    (
        "SELECT ?a WHERE { ?m p:in ?a OPTIONAL { ?m p:t ?v } } "
        "GROUP BY ?a HAVING (COUNT(?v) < COUNT(?m))"
    ),
]


@pytest.mark.parametrize("body", EQUAL)
def test_it_equals_the_query_on_the_data(
    tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_equal(tmp_path, GRAPH, [PREFIX + body], TABLE, monkeypatch) == 1


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("{ ?m p:in ?a ; p:t ?v } GROUP BY ?a HAVING (SUM(?v) > 5)", [True, True, False]),
        ("{ ?m p:t ?v } HAVING (COUNT(?v) > 2)", [True, False, False]),
        ("{ ?m p:t ?v FILTER(?v > 4) } GROUP BY ?m", [True, True, False]),
    ],
)
def test_an_ask_query_is_violated_if_a_group_exists(
    tmp_path: Path, body: str, rows: list[bool]
) -> None:
    pack, _ = compiled(tmp_path, GRAPH, f"{PREFIX}ASK {body}")
    assert pack is not None
    assert [bool(found) for found in violated(pack, TABLE, 3)] == rows


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("ASK { ?m p:in ?a } GROUP BY ?a HAVING (COUNT(?m) > 1)", ["one violation of `q`"]),
        ("ASK { ?m p:in ?a } GROUP BY ?a HAVING (COUNT(?m) > 2)", []),
        ("SELECT ?m { ?m p:max ?x } HAVING (?x > 3)", ["one violation of `q`: m3"]),
    ],
)
def test_the_graph_answers_having(tmp_path: Path, query: str, found: list[str]) -> None:
    """HAVING filters the groups, and the solutions if there are none."""
    _, diagnostics = compiled(tmp_path, GRAPH, PREFIX + query)
    assert [one.message.removeprefix("the graph has ") for one in diagnostics] == found


REFUSED = [
    (
        "SELECT ?a WHERE { ?m p:in ?a ; p:t ?v } GROUP BY ?a HAVING (SAMPLE(?v) > 1)",
        "SAMPLE has no number",
    ),
    (
        "SELECT ?a WHERE { ?m p:in ?a ; p:t ?v } GROUP BY ?a HAVING (GROUP_CONCAT(?m) = 'x')",
        "depends on which of the solutions are there",
    ),
    (
        "SELECT ?a WHERE { ?m p:in ?a ; p:t ?v } GROUP BY ?a HAVING (COUNT(DISTINCT *) > 1)",
        "which observed values are equal",
    ),
    (
        "SELECT ?g WHERE { ?m p:g ?g } GROUP BY ?g HAVING (COUNT(?m) > 1)",
        "grouped by an observed value",
    ),
]


@pytest.mark.parametrize(("body", "reason"), REFUSED)
def test_what_has_no_formula_is_rejected_with_its_reason(
    tmp_path: Path, body: str, reason: str
) -> None:
    pack, found = compiled(tmp_path, GRAPH, PREFIX + body)
    assert pack is None
    (error,) = [item for item in found if item.severity == "error"]
    assert (error.code, reason in error.message) == ("FKG351", True), error


def test_units_of_members_are_converted(tmp_path: Path) -> None:
    graph = GRAPH.replace('fkg:column "m1.t"', 'fkg:column "m1.t" ; qudt:unit unit:DEG_C').replace(
        'fkg:column "m2.t"', 'fkg:column "m2.t" ; qudt:unit unit:DEG_F'
    )
    pack, _ = compiled(
        tmp_path,
        graph,
        PREFIX + "SELECT ?a WHERE { ?m p:in ?a ; p:t ?v } GROUP BY ?a HAVING (MAX(?v) > 100)",
    )
    assert pack is not None
    table: Table = {("m1", "t"): [99.0, 101.0, 0.0, None], ("m2", "t"): [211.0, 0.0, 213.0, 213.0]}
    assert violated(pack, table, 4) == [set(), {"a"}, {"a"}, {"a"}]
    wrong = graph.replace("unit:DEG_F", "unit:BAR")
    _, found = compiled(
        tmp_path,
        wrong,
        PREFIX + "SELECT ?a WHERE { ?m p:in ?a ; p:t ?v } GROUP BY ?a HAVING (MAX(?v) > 100)",
    )
    assert "FKG347" in {item.code for item in found}


KEYED = (
    HEAD
    + 'p:K fkg:keyColumn "k" . p:k1 a p:K ; p:in p:a ; p:max 5 . p:k2 a p:K ; p:in p:b ; p:max 6 .'
    ' p:k3 a p:K ; p:in p:b ; p:max 7 .p:u a sosa:ObservableProperty ; fkg:column "u" .'
)


@pytest.mark.parametrize(
    "body",
    [
        "SELECT ?m WHERE { ?m p:u ?v ; p:max ?x } GROUP BY ?m ?x HAVING (MAX(?v) > ?x)",
        "SELECT ?m WHERE { ?m p:max ?x FILTER NOT EXISTS { ?m p:u ?v FILTER(?v <= ?x) } }",
    ],
)
def test_members_in_one_row_give_it_their_key(tmp_path: Path, body: str) -> None:
    pack, found = compiled(tmp_path, KEYED, PREFIX + body)
    assert pack is not None, found
    keys = [
        [
            vocabulary[code]
            for vocabulary, code in zip(
                [pack.manifest.contract.columns[k].vocabulary for k in keys], codes, strict=True
            )
        ]
        for bank in pack.banks
        for keys, codes in zip(bank.keys.tolist(), bank.codes.tolist(), strict=True)
    ]
    assert sorted(keys) == [["k1"], ["k2"], ["k3"]]
