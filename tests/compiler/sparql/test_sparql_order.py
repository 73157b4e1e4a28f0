"""Parts of a query that depend on their order (OPTIONAL, MINUS, BIND, braces), against the store.

The queries also have entities that only a reading names.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from sparql_cases import (
    HEAD,
    PREFIX,
    Table,
    by_compiler,
    by_store,
    check_equal,
    compiled,
    same_violations,
    sensors,
)

COLUMNS = [
    ("p1", "v"),
    ("p2", "v"),
    ("p3", "v"),
    ("p4", "v"),
    ("p1", "t"),
    ("p2", "t"),
    ("p3", "t"),
]
GRAPH = (
    HEAD
    + sensors(COLUMNS)
    + """
p:p1 a p:Pump ; p:max 3 ; p:feeds p:p2 . p:p2 a p:Pump ; p:max 4 ; p:feeds p:p3 ; p:retired true .
p:p3 a p:Pump ; p:feeds p:p5 . p:p4 p:max 1 . p:p5 a p:Pump ; p:max 2 . p:l1 p:has p:p1, p:p2 .
p:l2 p:has p:p3, p:p4 .
"""
)
TABLE: Table = {column: [] for column in COLUMNS}
for _i, _values in enumerate(product((None, 1.0, 2.5, 5.0), repeat=2)):
    for _k, _column in enumerate(COLUMNS):
        TABLE[_column] = [*TABLE[_column], _values[_k % 2] if _i % 3 else _values[(_k + 1) % 2]]

READINGS_ALONE = (
    "?m p:v ?v . OPTIONAL { ?m p:max ?x } FILTER(?v > COALESCE(?x, 1.5))",
    "?m p:v ?v . OPTIONAL { ?m p:max ?x } FILTER(?v > 2)",
    (
        "?m p:v ?v . OPTIONAL { ?m p:max ?x FILTER(?x > 3) } FILTER(!BOUND(?x) || ?v > ?x)"
        " FILTER(?v > 0)"
    ),
    "?m p:v ?v . OPTIONAL { ?m p:max ?x . ?m p:retired ?r } FILTER(?v > IF(BOUND(?r), 1, 3))",
    "OPTIONAL { ?m p:max ?x } ?m p:v ?v . FILTER(?v > ?x)",
    "OPTIONAL { ?m p:max ?x } ?m p:v ?v . FILTER(?v > COALESCE(?x, 1.5))",
    "OPTIONAL { ?m p:nothing ?x } ?m p:v ?v . FILTER(?v > COALESCE(?x, 1.5))",
    (
        "OPTIONAL { ?m p:max ?x } ?m p:v ?v . OPTIONAL { ?m p:retired ?r } FILTER(?v >"
        " IF(BOUND(?r), 1, COALESCE(?x, 2)))"
    ),
    "?m p:v ?v . OPTIONAL { ?m p:max ?x } OPTIONAL { ?m p:t ?t } FILTER(COALESCE(?t, ?x, 0) < ?v)",
    (
        "?m p:v ?v . OPTIONAL { ?m p:max ?x . ?m p:t ?t FILTER(?t > 1) } FILTER(?v > COALESCE(?x,"
        " ?t, 2))"
    ),
    (
        "?m p:v ?v ; p:t ?t . OPTIONAL { ?m p:feeds ?n . ?n p:max ?x } FILTER(?v + ?t >"
        " COALESCE(?x, 4))"
    ),
    "?m p:v ?v . OPTIONAL { ?n p:feeds ?m } ?n p:t ?t . FILTER(?v > ?t)",
    "?m p:v ?v . OPTIONAL { ?m p:max ?x } ?m a p:Pump . FILTER(?v > COALESCE(?x, 1.5))",
    "?m p:v ?v . MINUS { ?m p:retired true } ?m a p:Pump . FILTER(?v > 2)",
    "OPTIONAL { ?m p:max ?x } ?m p:v ?v . MINUS { ?m p:retired true } FILTER(?v > 2)",
    "?m p:v ?v . BIND(STR(?m) AS ?s) ?m a p:Pump . FILTER(?v > IF(CONTAINS(?s, 'p1'), 2, 3))",
    "{ ?m p:v ?v FILTER(?m != p:p1) } FILTER(?v > 2)",
    "{ ?m p:v ?v FILTER NOT EXISTS { ?m p:retired true } } ?m a p:Pump . FILTER(?v > 2)",
    "{ ?m p:v ?v FILTER(?m != p:p1) } UNION { ?m p:t ?v FILTER(?m = p:p1) } FILTER(?v > 2)",
    "{ SELECT ?m ?v ?x { ?m p:v ?v . OPTIONAL { ?m p:max ?x } } } FILTER(?v > COALESCE(?x, 1.5))",
    (
        "?m a p:Pump . FILTER NOT EXISTS { ?n p:v ?v . OPTIONAL { ?n p:max ?x } FILTER(?n = ?m &&"
        " ?v > COALESCE(?x, 2)) }"
    ),
    "?m p:v ?v . OPTIONAL { ?m p:t ?t OPTIONAL { ?m p:max ?x } } FILTER(COALESCE(?x, ?t, 1) < ?v)",
    (
        "?m p:v ?v . FILTER NOT EXISTS { ?n p:feeds ?m ; p:v ?w . OPTIONAL { ?m p:max ?x }"
        " FILTER(?w < COALESCE(?x, ?v)) }"
    ),
    "?m ?p ?v . OPTIONAL { ?m p:max ?x } FILTER(?p = p:v && ?v > COALESCE(?x, 1.5))",
)
TAKEN_AWAY = (
    "?m p:v ?v . MINUS { ?m p:t ?v }",
    "?m p:v ?v ; p:t ?t . MINUS { ?m p:v ?t FILTER(?t > 1) } FILTER(?v > 0)",
    "?m p:v ?v OPTIONAL { ?m p:t ?t } MINUS { ?m p:v ?t FILTER(?t > 1) } FILTER(?v > 0)",
    "?m p:v ?v MINUS { ?m p:max ?x OPTIONAL { ?m p:t ?v } } FILTER(?v > 0)",
    "?m p:v ?v . ?n p:feeds ?m MINUS { ?n p:v ?v } FILTER(?v > 1)",
    "?m p:v ?v MINUS { { ?m p:t ?v } UNION { ?n p:retired true } } FILTER(?v > 0)",
    "?m p:v ?v OPTIONAL { ?m p:max ?x . ?m p:t ?t FILTER(?t > ?x) } MINUS { ?m p:v ?t }",
)
OPEN_INSIDE = (
    (
        "?m p:v ?v OPTIONAL { ?m p:max ?x }"
        " FILTER EXISTS { ?m p:feeds ?n . ?n p:t ?t FILTER(?t > ?x) }"
    ),
    (
        "?m p:v ?v OPTIONAL { ?m p:max ?x }"
        " FILTER NOT EXISTS { ?m p:feeds ?n . ?n p:t ?t FILTER(?t > COALESCE(?x, 2)) }"
    ),
    (
        "?m p:v ?v OPTIONAL { ?m p:max ?x }"
        " FILTER EXISTS { ?m p:feeds ?n . ?n p:t ?t FILTER(BOUND(?x) || ?t > 2) }"
    ),
    (
        "?m p:v ?v OPTIONAL { ?m p:max ?x }"
        " FILTER EXISTS { ?m p:feeds ?n . ?n p:max ?y ; p:t ?t FILTER(?x < ?y) FILTER(?t > 1) }"
    ),
    "?m p:v ?v BIND(3 AS ?y) FILTER EXISTS { ?m p:feeds ?n . ?n p:t ?t FILTER(?t < ?y) }",
)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", [*TAKEN_AWAY, *OPEN_INSIDE])
def test_variables_outside_mean_what_they_mean_to_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    """MINUS compares observed values, and EXISTS reads variables that may have no value."""
    query = f"{PREFIX}SELECT ?m WHERE {{ {pattern} }}"
    assert check_equal(tmp_path, GRAPH, [query], TABLE, monkeypatch) == 1


@pytest.mark.slow
@pytest.mark.parametrize("pattern", READINGS_ALONE)
def test_order_as_the_store_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    assert (
        check_equal(
            tmp_path, GRAPH, [f"{PREFIX}SELECT ?m WHERE {{ {pattern} }}"], TABLE, monkeypatch
        )
        == 1
    )


NESTED = (
    "OPTIONAL { ?m p:max ?x } ?m p:v ?v . OPTIONAL { ?m p:t ?t } FILTER(!BOUND(?t) || ?t > ?x)",
    "?m a p:Pump . OPTIONAL { { OPTIONAL { ?m p:max ?t } } ?m p:v ?v } FILTER(BOUND(?v))",
    "?m a p:Pump . OPTIONAL { ?m p:v ?v OPTIONAL { ?m p:t ?t FILTER(?t > ?v) } } FILTER(BOUND(?t))",
    "?m a p:Pump . { ?m p:v ?v OPTIONAL { ?m p:t ?t } } FILTER(!BOUND(?t))",
    (
        "?m a p:Pump . { { ?m p:t ?t OPTIONAL { ?m p:max ?x } } UNION { ?m p:v ?t BIND(3 AS ?x) } }"
        " FILTER(?t > ?x)"
    ),
    (
        "?m a p:Pump ; p:max ?x OPTIONAL { ?m p:max ?x ; p:t ?t OPTIONAL { ?m p:v ?v FILTER(?v >"
        " ?x) } } FILTER(BOUND(?v))"
    ),
    (
        "?m a p:Pump ; p:max ?x . ?k p:feeds ?m OPTIONAL { { SELECT ?m { ?m p:v ?x FILTER(?x > 1) }"
        " } ?m p:t ?t } FILTER(!BOUND(?t))"
    ),
    (
        "?m a p:Pump . FILTER NOT EXISTS { ?n p:feeds ?m OPTIONAL { OPTIONAL { ?m p:t ?t } ?n p:v"
        " ?w } FILTER(!BOUND(?w)) }"
    ),
    (
        "?m a p:Pump . FILTER EXISTS { ?n p:feeds ?m OPTIONAL { ?n p:v ?w OPTIONAL { ?m p:t ?t"
        " FILTER(?t > 2) } } FILTER(!BOUND(?t)) }"
    ),
)
APART: Table = {
    column: [(None, 1.0, 2.5, 5.0)[row // (k + 1) ** 2 % 4] for row in range(64)]
    for k, column in enumerate(COLUMNS)
}
"""A table in which a value may be missing independently of the other values of its entity."""


@pytest.mark.parametrize("pattern", NESTED)
def test_an_optional_inside_braces_is_that_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    assert (
        check_equal(
            tmp_path, GRAPH, [f"{PREFIX}SELECT ?m WHERE {{ {pattern} }}"], APART, monkeypatch
        )
        == 1
    )


UNSEEN = (
    (
        "?m a p:Pump . OPTIONAL { OPTIONAL { ?m p:max ?x } ?m p:v ?v } FILTER(BOUND(?v))",
        "OPTIONAL { ?m p:max ?x }",
        "m",
    ),
    (
        (
            "?m a p:Pump ; p:max ?x OPTIONAL { ?m p:t ?t OPTIONAL { ?m p:v ?v FILTER(?v > ?x) } }"
            " FILTER(BOUND(?v))"
        ),
        "OPTIONAL { ?m p:v ?v FILTER(?v > ?x) }",
        "x",
    ),
    (
        "?m a p:Pump ; p:max ?x OPTIONAL { ?m p:t ?t BIND(?x * 2 AS ?y) } FILTER(BOUND(?y))",
        "BIND(?x * 2 AS ?y)",
        "x",
    ),
    (
        "?m a p:Pump . OPTIONAL { OPTIONAL { ?m p:t ?t } ?m p:v ?v } FILTER(BOUND(?v))",
        "OPTIONAL { ?m p:t ?t }",
        "m",
    ),
    (
        "?m a p:Pump . { OPTIONAL { ?m p:t ?t } ?m p:v ?v } FILTER(!BOUND(?t))",
        "OPTIONAL { ?m p:t ?t }",
        "m",
    ),
    (
        "?m a p:Pump . { { OPTIONAL { ?m p:t ?t } } UNION { ?m p:v ?t } } FILTER(!BOUND(?t))",
        "OPTIONAL { ?m p:t ?t }",
        "m",
    ),
    (
        (
            "?m a p:Pump . ?k a p:Pump OPTIONAL { ?m p:t ?t OPTIONAL { ?k p:v ?v } }"
            " FILTER(!BOUND(?t))"
        ),
        "OPTIONAL { ?k p:v ?v }",
        "k",
    ),
    (
        "OPTIONAL { ?m p:t ?t } ?m a p:Pump . ?m p:v ?v . FILTER(!BOUND(?t))",
        "OPTIONAL { ?m p:t ?t }",
        "m",
    ),
    (
        "?m a p:Pump OPTIONAL { ?n p:feeds ?m . ?n p:t ?t } ?n p:max ?x FILTER(?x > 2)",
        "OPTIONAL { ?n p:feeds ?m . ?n p:t ?t }",
        "n",
    ),
    (
        "?m a p:Pump ; p:max ?x { ?m p:t ?t BIND(?x * 2 AS ?y) } FILTER(?t > ?y)",
        "BIND(?x * 2 AS ?y)",
        "x",
    ),
)


@pytest.mark.parametrize(("pattern", "part", "name"), UNSEEN)
def test_what_an_optional_cannot_see_is_rejected_with_its_place(
    tmp_path: Path, pattern: str, part: str, name: str
) -> None:
    query = f"{PREFIX}SELECT ?m WHERE {{ {pattern} }}"
    _, diagnostics = compiled(tmp_path, GRAPH, query)
    (said,) = [item for item in diagnostics if item.severity == "error"]
    line = query.splitlines()[said.span.line - 1]
    assert (said.code, line[said.span.column - 1 : said.span.end_column - 1]) == ("FKG358", part)
    assert f"?{name} has no value yet" in said.message


AGAIN = (
    "?m a p:Pump OPTIONAL { ?m p:max ?x } ?m p:v ?x FILTER(?x > 2)",
    "?m a p:Pump OPTIONAL { ?m p:max ?x } OPTIONAL { ?m p:v ?x } FILTER(?x > 2)",
)


@pytest.mark.parametrize("pattern", AGAIN)
def test_a_name_that_may_have_no_value_is_not_read_again(tmp_path: Path, pattern: str) -> None:
    """The value must be equal if there is one, and is taken if there is none.

    A row cannot have both.
    """
    _, diagnostics = compiled(tmp_path, GRAPH, f"{PREFIX}SELECT ?m WHERE {{ {pattern} }}")
    assert [(item.code, item.message) for item in diagnostics if item.severity == "error"] == [
        ("FKG343", "?x may have no value, and is bound here again")
    ]


GROUPS = (
    "SELECT ?l WHERE { ?l p:has ?m . OPTIONAL { ?m p:v ?v } } GROUP BY ?l HAVING(COUNT(?v) < 1)",
    (
        "SELECT ?l WHERE { ?l p:has ?m . OPTIONAL { ?m p:v ?v } } GROUP BY ?l HAVING(COUNT(?v) <"
        " COUNT(?m))"
    ),
    (
        "SELECT ?m WHERE { ?m p:v ?v . OPTIONAL { ?m p:max ?x } } GROUP BY ?m ?x HAVING(SUM(?v) >"
        " COALESCE(?x, 1.5))"
    ),
    "SELECT ?m WHERE { OPTIONAL { ?m p:max ?x } ?m p:v ?v } GROUP BY ?m ?x HAVING(SUM(?v) > ?x)",
)


@pytest.mark.parametrize("query", GROUPS)
def test_groups_as_the_store_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    assert check_equal(tmp_path, GRAPH, [PREFIX + query], TABLE, monkeypatch) == 1


def test_an_optional_that_starts_a_query_leaves_its_subject_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = (
        f"{PREFIX}SELECT ?m WHERE {{ OPTIONAL {{ ?m p:nothing ?x }} OPTIONAL {{ ?m p:v ?v }}"
        " FILTER(!BOUND(?v)) }"
    )
    (found,), diagnostics = by_compiler(tmp_path, GRAPH, [query], TABLE, 16, monkeypatch)
    assert found is None
    assert [(item.code, item.span.line) for item in diagnostics if item.severity == "error"] == [
        ("FKG343", 2)
    ]
    assert "?m may have no value outside" in next(
        item.message for item in diagnostics if item.code == "FKG343"
    )


ALIASES = (
    (
        (
            "SELECT ?l (MAX(?v) AS ?most) WHERE { ?l p:has ?m . ?m p:v ?v } GROUP BY ?l"
            " HAVING(?most > 2)"
        ),
        ("?most", "MAX(?v)"),
    ),
    (
        (
            "SELECT ?l (AVG(?v) * 2 AS ?b) WHERE { ?l p:has ?m . ?m p:v ?v } GROUP BY ?l HAVING(?b"
            " > 4)"
        ),
        ("?b", "(AVG(?v) * 2)"),
    ),
    (
        "SELECT ?l (COUNT(?m) AS ?n) WHERE { ?l p:has ?m } GROUP BY ?l HAVING(?n > 1)",
        ("?n", "COUNT(?m)"),
    ),
    (
        (
            "ASK { { SELECT ?l (SUM(?v) AS ?s) { ?l p:has ?m . ?m p:v ?v } GROUP BY ?l HAVING(?s >"
            " 3) } }"
        ),
        ("HAVING(?s", "HAVING(SUM(?v)"),
    ),
)


@pytest.mark.parametrize(("query", "mend"), ALIASES)
def test_having_over_a_name_of_select(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, mend: tuple[str, str]
) -> None:
    head, having, rest = query.rpartition("HAVING")
    mended = head + (having + rest).replace(*mend)
    (asked,), diagnostics = by_compiler(tmp_path, GRAPH, [PREFIX + query], TABLE, 16, monkeypatch)
    meant = by_store(GRAPH, [PREFIX + mended], TABLE, 16)[0]
    assert asked is not None
    assert any(meant)
    assert all(map(same_violations, asked, meant))
    assert not any(by_store(GRAPH, [PREFIX + query], TABLE, 16)[0]), (
        "the standard has it that nothing is found"
    )
    (said,) = [item for item in diagnostics if item.code == "FKG355"]
    assert (said.severity, said.span.line, said.span.column) == (
        "warning",
        2,
        query.index("HAVING(?") + len("HAVING(") + 1,
    )
    assert "in its place" in said.help


@pytest.mark.slow
def test_a_name_of_select_is_reported_in_each_query_of_a_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = (
        PREFIX + "SELECT ?l (MAX(?v) AS ?most) WHERE {{ ?l p:has ?m . ?m p:v ?v }} GROUP BY ?l"
        " HAVING(?most > {})"
    )
    _, diagnostics = by_compiler(
        tmp_path, GRAPH, [query.format(2), query.format(3)], TABLE, 16, monkeypatch
    )
    assert [Path(item.span.file).name for item in diagnostics if item.code == "FKG355"] == [
        "q0.rq",
        "q1.rq",
    ]
    (clean,), diagnostics = by_compiler(
        tmp_path,
        GRAPH,
        [PREFIX + "SELECT ?l WHERE { ?l p:has ?m . ?m p:v ?v } GROUP BY ?l HAVING(MAX(?v) > 2)"],
        TABLE,
        16,
        monkeypatch,
    )
    assert clean is not None
    assert not [item for item in diagnostics if item.code == "FKG355"]


NESTED_IN_EXISTS = (
    (
        "?m p:v ?v FILTER NOT EXISTS { { ?m p:max ?x FILTER(?v <= ?x) }"
        " UNION { ?n p:feeds ?m . ?n p:max ?x FILTER(?v <= ?x) } }"
    ),
    (
        "?m p:max ?x ; p:v ?v FILTER NOT EXISTS { { ?m p:t ?t FILTER(?t > ?x) }"
        " UNION { ?n p:feeds ?m ; p:t ?t FILTER(?t > ?x) } }"
    ),
    "?m p:v ?v FILTER EXISTS { { { FILTER(?v <= 1) } UNION { FILTER(?v >= 5) } } }",
    "?m p:v ?v FILTER EXISTS { ?m p:feeds ?n { ?n p:t ?t BIND(?v + 1 AS ?y) FILTER(?t > ?y) } }",
    (
        "?m p:max ?x ; p:v ?v FILTER EXISTS { ?m p:feeds ?n { ?n p:t ?t BIND(?x AS ?y)"
        " FILTER(?t > ?y) } }"
    ),
    (
        "?m p:v ?v FILTER EXISTS { { ?m p:max ?x OPTIONAL { ?m p:t ?t FILTER(?t > ?v) } }"
        " FILTER(!BOUND(?t)) }"
    ),
    (
        "?m p:v ?v FILTER EXISTS { { ?m p:feeds ?n OPTIONAL { { ?n p:max ?x FILTER(?x > ?v) } } }"
        " FILTER(!BOUND(?x)) }"
    ),
    "?m p:v ?v FILTER EXISTS { ?m p:feeds ?n MINUS { ?n p:t ?t FILTER(?t > ?v) } }",
    "?m p:v ?v FILTER EXISTS { ?m p:feeds ?n MINUS { ?n p:max ?x FILTER(?x > ?v) } }",
    "?m p:v ?v FILTER EXISTS { { ?m p:max ?x FILTER EXISTS { { ?m p:t ?t FILTER(?t > ?v) } } } }",
    "?m a p:Pump ; p:max ?x FILTER EXISTS { ?m p:v ?v { ?m p:feeds ?n FILTER(?x < 3) } }",
)


@pytest.mark.parametrize("pattern", NESTED_IN_EXISTS)
def test_braces_inside_exists_see_the_variables_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    query = f"{PREFIX}SELECT ?m WHERE {{ {pattern} }}"
    assert check_equal(tmp_path, GRAPH, [query], APART, monkeypatch) == 1


@pytest.mark.parametrize(
    "part",
    ["GRAPH p:g { ?m p:max ?x FILTER(?v <= ?x) }", "{ SELECT ?m { ?m p:t ?x FILTER(?v <= ?x) } }"],
)
def test_a_value_that_is_read_where_exists_cannot_give_it_is_rejected(
    tmp_path: Path, part: str
) -> None:
    query = f"{PREFIX}SELECT ?m WHERE {{ ?m p:v ?v FILTER EXISTS {{ ?m p:feeds ?n {part} }} }}"
    _, diagnostics = compiled(tmp_path, GRAPH, query)
    (said,) = [item for item in diagnostics if item.severity == "error"]
    line = query.splitlines()[said.span.line - 1]
    assert line[said.span.column - 1 : said.span.end_column - 1] in part
    assert (said.code, "?v has its value outside" in said.message) == ("FKG343", True)
