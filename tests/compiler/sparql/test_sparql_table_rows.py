"""Groups, EXISTS and joins across the rows of a table with a key column.

The oracle writes every table row as one named graph and asks pyoxigraph. In a query, `<< ... >>`
encloses what one table row must answer: nothing for fedkg, `GRAPH ?row { ... }` for the store.
`<<!` marks the row for which a verdict is reported. So each entity of a solution reads one table
row, and a group or EXISTS ranges over the solutions of all of them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyoxigraph as ox
import pytest
import torch
from command import call
from sparql_cases import HEAD, PREFIX, Cell, P, compiled, matrix

import fedkg
from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.errors import PackError
from fedkg.pack import Pack, TableRows, load, pack_bytes, read_pack, save
from fedkg_compiler.analysis.pack_difference import differences
from fedkg_compiler.graph import load_graph
from fedkg_compiler.graph.rdf_terms import local_name

MACHINES = ("k1", "k2", "k3", "k4", "k5")
GRAPH = (
    HEAD + 'p:K fkg:keyColumn "k" . p:u a sosa:ObservableProperty ; fkg:column "u" ; fkg:datatype'
    ' xsd:double . p:w a sosa:ObservableProperty ; fkg:column "w" ; fkg:datatype xsd:double .'
    " p:a a p:Area . p:b a p:Area . p:c a p:Area ."
    " p:k1 a p:K ; p:in p:a ; p:max 2 . p:k2 a p:K ; p:in p:b ; p:max 1 ; p:feeds p:k1 ."
    " p:k3 a p:K ; p:in p:b ; p:max 3 ; p:feeds p:k1, p:k2 . p:k4 a p:K ; p:in p:b, p:c ;"
    " p:max 0 ; p:feeds p:k4 . p:k5 a p:K ; p:in p:c ; p:max 3 ."
)
Row = tuple[str, Cell, Cell]
"""The key of a table row, and its values of `u` and `w`."""

ROWS: list[Row] = [
    ("k1", 1.0, 2.0),
    ("k2", 3.0, None),
    ("k2", 4.0, 1.0),
    ("k3", 0.5, 5.0),
    ("k4", None, 1.0),
    ("k4", 2.0, 2.0),
    ("other", 9.0, 9.0),
]


def violations(pack: Pack, rows: Sequence[Row]) -> list[set[str]]:
    """The entities that violate the only query at each table row."""
    found: list[set[str]] = [set() for _ in rows]
    values = values_of(pack, rows)
    for bank in pack.banks:
        for b, r in np.argwhere(evaluate_bank(bank, values).violated).tolist():
            found[b].add(pack.manifest.entities[int(bank.entity[r])])
    return found


def values_of(pack: Pack, rows: Sequence[Row]) -> np.ndarray:
    """The rows as the interpreter takes them."""
    columns = zip(("k", "u", "w"), zip(*rows, strict=True), strict=True)
    return matrix(pack, {(name, ""): cells for name, cells in columns}, len(rows))


def bind(folder: Path, body: str, graph: str = GRAPH) -> Pack:
    """The pack of one query."""
    pack, found = compiled(folder, graph, PREFIX + re.sub("<<!?|>>", "", body))
    assert pack is not None, found
    return pack


def by_store(body: str, rows: Sequence[Row], graph: str = GRAPH) -> list[set[str]]:
    """What the store finds for each table row; what is about no row counts for all of them."""
    loaded, _, _ = load_graph([], {}, [], text_graphs=[("g.ttl", graph)])
    vocabularies, _, _ = load_graph([], {}, [])
    store = ox.Store()
    store.bulk_extend(set(loaded._store) - set(vocabularies._store))
    for i, (key, *cells) in enumerate(rows):
        for name, cell in zip("uw", cells, strict=True):
            if isinstance(cell, float) and key in MACHINES:
                row = ox.NamedNode(f"urn:row:{i}")
                subject, property_ = ox.NamedNode(P + key), ox.NamedNode(P + name)
                store.add(ox.Quad(subject, property_, ox.Literal(cell), row))
    names = (f"?row{i}" for i in range(9))
    asked = body.replace("<<!", "GRAPH ?row {").replace(">>", "}")
    asked = PREFIX + re.sub("<<", lambda _: f"GRAPH {next(names)} {{", asked)
    if "<<!" in body:
        shown = re.sub(r"SELECT (\?\w+)", r"SELECT \1 ?row", asked, count=1)
        found: list[set[str]] = [set() for _ in rows]
        for solution in store.query(shown):
            row = int(solution["row"].value.rsplit(":", 1)[1])
            found[row].add(local_name(solution[0].value))
        return found
    about = {local_name(solution[0].value) for solution in store.query(asked)}
    if body.endswith(OF_ENTITIES):  # reported in the rows of the entity
        return [{key} & about for key, *_ in rows]
    return [about for _ in rows]


OF_ENTITIES = "GROUP BY ?m HAVING (COUNT(?v) > 1)"
GROUPS = [
    f"SELECT ?a WHERE {{ ?m p:in ?a . << ?m p:u ?v >> }} GROUP BY ?a HAVING ({having})"
    for having in (
        "SUM(?v) > 5",
        "AVG(?v) <= 2",
        "MIN(?v) < 1",
        "MAX(?v) >= 4",
        "COUNT(?v) > 2",
        "COUNT(*) = 1",
        "COUNT(DISTINCT ?m) > 1",
        "MAX(?v) - MIN(?v) > 2",
    )
] + [
    (
        "SELECT ?a WHERE { ?m p:in ?a . << ?m p:u ?v ; p:w ?z >> FILTER(?v > ?z) } GROUP BY ?a"
        " HAVING (COUNT(?v) > 0)"
    ),
    "SELECT ?m WHERE { << ?m p:u ?v >> } " + OF_ENTITIES,
    (
        "SELECT ?a WHERE { ?m p:in ?a ; p:max ?x . << ?m p:u ?v >> } GROUP BY ?a"
        " HAVING (SUM(?v * ?x) > 8)"
    ),
    (
        "SELECT ?a WHERE { { ?m p:in ?a . << ?m p:u ?v >> } UNION { ?m p:in ?a . << ?m p:w ?v >> }"
        " }"
        " GROUP BY ?a HAVING (SUM(?v) > 9)"
    ),
    (
        "SELECT ?a WHERE { ?m p:in ?a FILTER EXISTS { << ?m p:u ?v >> FILTER(?v > 1) } }"
        " GROUP BY ?a HAVING (COUNT(?m) > 1)"
    ),
    (
        "SELECT ?a WHERE { ?m p:in ?a . << ?m p:u ?v >> FILTER NOT EXISTS { ?n p:feeds ?m ."
        " << ?n p:u ?q >> FILTER(?q > ?v) } } GROUP BY ?a HAVING (COUNT(?v) > 0)"
    ),
    (
        "SELECT ?a WHERE { ?m p:in ?a OPTIONAL { << ?m p:u ?v >> } } GROUP BY ?a"
        " HAVING (COUNT(?v) < 2)"
    ),
]
EXISTS = [
    (
        "SELECT ?m WHERE { <<! ?m p:u ?v >> FILTER NOT EXISTS { ?n p:feeds ?m . << ?n p:u ?w >>"
        " FILTER(?w > ?v) } }"
    ),
    (
        "SELECT ?m WHERE { <<! ?m p:u ?v >> FILTER EXISTS { ?n p:feeds ?m . << ?n p:w ?w >>"
        " FILTER(?w > 1) } }"
    ),
    "SELECT ?m WHERE { <<! ?m p:u ?v >> MINUS { ?n p:feeds ?m . << ?n p:w ?w >> FILTER(?w > 2) } }",
    (
        "SELECT ?m WHERE { <<! ?m p:u ?v >> FILTER(?v > 1 || EXISTS { ?n p:feeds ?m ."
        " << ?n p:u ?w >> FILTER(?w < ?v) }) }"
    ),
    "SELECT ?m WHERE { <<! ?m p:u ?v FILTER NOT EXISTS { ?m p:w ?z FILTER(?z > ?v) } >> }",
    "SELECT ?a WHERE { ?a a p:Area FILTER NOT EXISTS { ?m p:in ?a . << ?m p:u ?v >> } }",
    (
        "SELECT ?a WHERE { ?a a p:Area FILTER EXISTS { ?m p:in ?a . << ?m p:u ?v >>"
        " FILTER NOT EXISTS { ?n p:feeds ?m . << ?n p:u ?w >> FILTER(?w >= ?v) } } }"
    ),
    (
        "SELECT ?m WHERE { { SELECT ?a (AVG(?x) AS ?mean) WHERE { ?n p:in ?a . << ?n p:u ?x >> }"
        " GROUP BY ?a } ?m p:in ?a . <<! ?m p:u ?v >> FILTER(?v > ?mean) }"
    ),
]
JOINS = [
    f"SELECT ?m WHERE {{ ?n p:feeds ?m FILTER(?n != ?m) {body} }}"
    for body in (
        "<<! ?m p:u ?v >> . << ?n p:u ?w >> FILTER(?w > ?v)",
        "<< ?n p:u ?w >> . <<! ?m p:u ?v >> . ?n p:max ?x FILTER(?v + ?w > ?x)",
        "<<! ?m p:u ?v ; p:w ?z >> . << ?n p:u ?w ; p:w ?y >> FILTER(?w > ?v || ?y < ?z)",
        "<<! ?m p:u ?v >> . << ?n p:u ?w >> BIND(?v - ?w AS ?d) FILTER(?d > 0.5)",
        "<<! ?m p:u ?v >> . << ?n p:u ?w FILTER NOT EXISTS { ?n p:w ?z } >> FILTER(?w >= ?v)",
        (
            "?o p:feeds ?n FILTER(?o != ?n && ?o != ?m)"
            " <<! ?m p:u ?v >> . << ?n p:u ?w >> . << ?o p:w ?y >> FILTER(?v < ?w + ?y)"
        ),
        (
            "{ <<! ?m p:u ?v >> . << ?n p:w ?w >> FILTER(?v > ?w) } UNION"
            " { <<! ?m p:w ?v >> . << ?n p:u ?w >> FILTER(?v > ?w) }"
        ),
    )
]
"""Solutions whose entities are in different rows."""


def test_joins_as_computed_by_hand(tmp_path: Path) -> None:
    """k2 (3, 4) feeds k1 (1): more. k3 (0.5) feeds k1 and k2: less.

    k4 feeds itself: both names mean one entity, and so one row, in which 2 equals 2.
    """
    body = "SELECT ?m WHERE { ?n p:feeds ?m . ?m p:u ?v . ?n p:u ?w FILTER(?w >= ?v) }"
    pack = bind(tmp_path, body)
    assert violations(pack, ROWS) == [{"k1"}, set(), set(), set(), set(), {"k4"}, set()]


def test_sums_of_areas_as_computed_by_hand(tmp_path: Path) -> None:
    """a: k1 has 1. b: k2 has 3 and 4, k3 0.5, k4 2 and one unknown: 9.5. c: k4 has 2, k5 nothing.

    Rows of a key that no entity has (9) count nowhere.
    """
    body = "SELECT ?a WHERE { ?m p:in ?a ; p:u ?v } GROUP BY ?a HAVING (SUM(?v) > LIMIT)"
    for limit, areas in (("9.6", set()), ("9.4", {"b"}), ("1.9", {"b", "c"}), ("0", set("abc"))):
        pack = bind(tmp_path, body.replace("LIMIT", limit))
        assert violations(pack, ROWS) == [areas] * len(ROWS), limit


@pytest.mark.parametrize(
    ("body", "areas"),
    [
        ("GROUP BY ?a HAVING (COUNT(?v) < 1)", {"b", "c"}),
        ("FILTER(!BOUND(?v)) } GROUP BY ?a HAVING (COUNT(DISTINCT ?m) > 1)", {"b", "c"}),
        ("GROUP BY ?a HAVING (SUM(?v) > 0)", {"a"}),
        ("GROUP BY ?a HAVING (SUM(?v) <= 0)", set()),
    ],
)
def test_members_without_a_row_count_where_all_values_are_optional(
    tmp_path: Path, body: str, areas: set[str]
) -> None:
    where = "SELECT ?a WHERE { ?m p:in ?a OPTIONAL { ?m p:u ?v } "
    pack = bind(tmp_path, where + ("" if "}" in body else "} ") + body)
    assert violations(pack, ROWS[:1]) == [areas]


def test_the_graph_alone_counts_solutions_with_optional_values(tmp_path: Path) -> None:
    body = "SELECT ?a WHERE { ?m p:in ?a OPTIONAL { ?m p:u ?v } } GROUP BY ?a HAVING (COUNT(*) > 1)"
    _, found = compiled(tmp_path, GRAPH, PREFIX + body)
    assert ["FKG348" for one in found if "FKG348" in str(one) and ": b; c" in str(one)], found


def test_largest_values_as_computed_by_hand(tmp_path: Path) -> None:
    """k2 (3, 4) and k3 (0.5) feed k1 (1): 4 > 1. k3 feeds k2: 0.5 exceeds neither 3 nor 4. Nothing
    feeds k3. k4 feeds itself with 2, which does not exceed 2.
    """
    pack = bind(tmp_path, EXISTS[0])
    found = violations(pack, ROWS)
    assert found == [set(), {"k2"}, {"k2"}, {"k3"}, set(), {"k4"}, set()]


@pytest.mark.slow
@pytest.mark.parametrize("body", [*GROUPS, *EXISTS, *JOINS])
def test_it_equals_the_query_on_rows_as_named_graphs(tmp_path: Path, body: str) -> None:
    dice = random.Random(body)
    pack = bind(tmp_path, body)
    cells = (None, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
    for size in (1, 2, 5, 9, 14):
        rows: list[Row] = [
            (dice.choice((*MACHINES, "other")), dice.choice(cells), dice.choice(cells))
            for _ in range(size)
        ]
        assert violations(pack, rows) == by_store(body, rows), rows


@pytest.mark.parametrize(
    "body", [GROUPS[1], GROUPS[6], GROUPS[9], GROUPS[13], GROUPS[14], *EXISTS, JOINS[5]]
)
def test_constraints_agree_with_the_interpreter(tmp_path: Path, body: str) -> None:
    pack = bind(tmp_path, body)
    values = values_of(pack, ROWS)
    columns = [column for column in pack.manifest.contract.columns if column.type != "category"]
    rules = pack.constraints(x=fedkg.columns([column.name for column in columns]))
    numbers = {
        column.name: values[0, :, i] for i, column in enumerate(pack.manifest.contract.columns)
    }
    x = torch.from_numpy(np.stack([numbers[column.name] for column in columns], axis=1))
    for _ in range(2):  # a later call of one shape is evaluated like the first
        report = rules(x, keys={"k": [key for key, *_ in ROWS]})
        each = [evaluate_bank(bank, values) for bank in pack.banks]
        expected = np.concatenate([one.robustness for one in each], axis=1)
        assert np.array_equal(report.robustness.numpy(), expected, equal_nan=True)
        violated = np.concatenate([one.violated for one in each], axis=1)
        assert np.array_equal(report.violated.numpy(), violated)


def test_a_pack_keeps_the_rows_that_its_members_are_read_from(tmp_path: Path) -> None:
    pack = bind(tmp_path, EXISTS[6])
    again = load(save(pack, tmp_path / "p.fkgpack"))
    assert again.manifest.sections["table_rows"].required
    assert pack_bytes(again) == pack_bytes(pack)
    assert violations(again, ROWS) == violations(pack, ROWS)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda at: replace(at, keys=at.keys + 9), "keys does not fit the members"),
        (lambda at: replace(at, keys=at.keys[1:]), "keys does not fit the members"),
        (lambda at: replace(at, codes=at.codes + 9), "code without a text in its key column"),
        (lambda at: replace(at, depths=at.depths + 9), "depths does not fit the slots"),
        (lambda at: replace(at, own=False), "keys does not fit the members"),
    ],
)
def test_a_damaged_pack_is_rejected(
    tmp_path: Path, change: Callable[[TableRows], TableRows], reason: str
) -> None:
    pack = bind(tmp_path, GROUPS[9])
    (bank,) = pack.banks
    (table,) = bank.members
    assert table.table_rows is not None
    wrong = replace(table, table_rows=change(table.table_rows))
    damaged = replace(pack, banks=(replace(bank, members=(wrong,)),))
    with pytest.raises(PackError, match=reason):
        read_pack(pack_bytes(damaged))


def test_predictions_of_other_rows_are_refused(tmp_path: Path) -> None:
    rules = "prefix p: <https://example.org/plant#>\noutput u is p:u\n"
    query = PREFIX + "SELECT ?a WHERE { ?m p:in ?a ; p:u ?v } GROUP BY ?a HAVING (SUM(?v) > 5)"
    pack, found = compiled(tmp_path, GRAPH, query, rules)
    errors = [(item.code, item.span.line) for item in found if item.severity == "error"]
    assert (pack, errors) == (None, [("FKG346", 2)])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            (
                "SELECT ?a WHERE { ?m p:in ?a ; p:u ?v ; p:feeds ?n . ?n p:u ?w } GROUP BY ?a"
                " HAVING (SUM(?v * ?w) > 5)"
            ),
            "one solution inside EXISTS or a group reads several rows",
        ),
        (
            (
                "SELECT ?m WHERE { ?m p:u ?v OPTIONAL { ?n p:feeds ?m ; p:u ?w FILTER(?w > 1) }"
                " FILTER(COALESCE(?w, 2) > ?v) }"
            ),
            "this OPTIONAL reads other rows",
        ),
        (
            (
                "SELECT ?m WHERE { ?n p:feeds ?m . ?m p:u ?v OPTIONAL { ?n p:u ?w }"
                " FILTER(COALESCE(?w, 2) > ?v) }"
            ),
            "this OPTIONAL reads other rows",
        ),
    ],
)
def test_a_solution_over_several_rows_is_refused(tmp_path: Path, body: str, reason: str) -> None:
    pack, found = compiled(tmp_path, GRAPH, PREFIX + body)
    errors = [item for item in found if item.severity == "error"]
    assert pack is None
    assert [(item.code, item.span.line) for item in errors] == [("FKG346", 2)]
    assert reason in errors[0].message


def test_eval_counts_the_verdicts_of_groups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict on an area is reported at every row of the table, that on a machine at its
    rows.
    """
    monkeypatch.chdir(tmp_path)
    Path("g.ttl").write_text(GRAPH, encoding="utf-8")
    Path("areas.rq").write_text(PREFIX + re.sub("<<|>>", "", GROUPS[0]), encoding="utf-8")
    Path("machines.rq").write_text(PREFIX + re.sub("<<|>>", "", GROUPS[9]), encoding="utf-8")
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in ROWS]
    Path("t.csv").write_text("\n".join(["k,u,w", *lines]), encoding="utf-8")
    done = call(capsys, "eval", "areas.rq", "machines.rq", "g.ttl", "t.csv", "--json")
    counts = {rule["rule"]: (rule["violated"], rule["satisfied"]) for rule in done.json["rules"]}
    # 3 areas in 7 rows, of which b exceeds 5; k2 has two values, k1, k3 and k4 one, in 6 rows
    assert counts == {"areas": (7, 14), "machines": (2, 4)}


def test_a_diff_sees_which_rows_a_group_reads(tmp_path: Path) -> None:
    old = bind(tmp_path, GROUPS[0])
    moved = GRAPH.replace("p:k1 a p:K ; p:in p:a", "p:k1 a p:K ; p:in p:b")
    moved = moved.replace("p:k2 a p:K ; p:in p:b", "p:k2 a p:K ; p:in p:a")
    for graph, change in ((GRAPH, "same"), (moved, "undecided")):
        (found,) = differences(old, bind(tmp_path, GROUPS[0], graph))
        assert found.change == change
