"""Partial evaluation equals running the original query on the data written as triples."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sparql_cases import HEAD, PREFIX, Cell, Table, check_equal, sensors

ENTITIES = ("a1", "a2", "b1", "b2")
COLUMNS = [
    ("a1", "t"),
    ("a2", "t"),
    ("b1", "t"),
    ("a1", "f"),
    ("b1", "f"),
    ("b2", "f"),
    ("a1", "g"),
    ("a2", "g"),
]
NUMBERS = (-2.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.0)
FIXED = ("-2.5", "-1", "0", "0.5", "1", "2", "2.5", "3")

numbers: st.SearchStrategy[Cell] = st.one_of(st.none(), st.sampled_from(NUMBERS))
texts: st.SearchStrategy[Cell] = st.one_of(st.none(), st.sampled_from(("A", "B", "C")))


@st.composite
def graphs(draw: st.DrawFn) -> str:
    said = [
        "p:a1 a p:A .",
        "p:a2 a p:A .",
        "p:b1 a p:B .",
        "p:b2 a p:B .",
        "p:A rdfs:subClassOf p:Any .",
        "p:B rdfs:subClassOf p:Any .",
    ]
    for entity in ENTITIES:
        for name in ("lim", "low"):
            values = draw(
                st.lists(st.sampled_from(FIXED), max_size=2 if name == "low" else 1, unique=True)
            )
            said += [f"p:{entity} p:{name} {value} ." for value in values]
        said += [
            f"p:{entity} p:feeds p:{other} ."
            for other in draw(st.lists(st.sampled_from(ENTITIES), max_size=2, unique=True))
        ]
        if draw(st.booleans()):
            said.append(f'p:{entity} p:kind "{draw(st.sampled_from(("A", "B", "x")))}" .')
    return HEAD + sensors(COLUMNS) + "\n".join(said)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    rows = 4
    return {
        column: draw(st.lists(texts if column[1] == "g" else numbers, min_size=rows, max_size=rows))
        for column in COLUMNS
    }


@cache
def expressions(names: tuple[str, ...], depth: int = 2) -> st.SearchStrategy[str]:
    leaf = st.one_of(st.sampled_from(names), st.sampled_from(FIXED))
    if not depth:
        return leaf
    inner = expressions(names, depth - 1)
    return st.one_of(
        leaf,
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
        st.builds("({} / 2)".format, inner),
        st.builds("{}({})".format, st.sampled_from(("ABS", "CEIL", "FLOOR", "ROUND")), inner),
        st.builds("(- {})".format, leaf.filter(lambda text: text.startswith("?"))),
        st.builds("IF({} > {}, {}, {})".format, leaf, leaf, inner, inner),
        st.builds("COALESCE({}, {})".format, inner, inner),
        st.builds("xsd:double({})".format, inner),
    )


@cache
def conditions(names: tuple[str, ...], depth: int = 2) -> st.SearchStrategy[str]:
    side = expressions(names, 1)
    leaf = st.one_of(
        st.builds(
            "{} {} {}".format, side, st.sampled_from(("<", "<=", ">", ">=", "=", "!=")), side
        ),
        st.builds("BOUND({})".format, st.sampled_from(names)),
        st.builds("{} {} ({}, {})".format, side, st.sampled_from(("IN", "NOT IN")), side, side),
        st.sampled_from(("true", "?m = p:a1", 'EXISTS { ?m p:kind "A" }', "?m IN (p:a1, p:b1)")),
    )
    if not depth:
        return leaf
    inner = conditions(names, depth - 1)
    return st.one_of(
        leaf,
        st.builds("({} && {})".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        st.builds("!({})".format, inner),
        st.builds("IF({}, {}, {})".format, leaf, leaf, leaf),
    )


STATIC = (
    "?m a p:Any .",
    "?m a p:A .",
    "?m p:lim ?x .",
    "?m p:low ?x .",
    "?m p:feeds ?n .",
    "?n p:feeds+ ?m .",
    "OPTIONAL { ?m p:lim ?x }",
    "",
)
READ = (
    "?m p:t ?v .",
    "?m p:t ?v . ?m p:f ?w .",
    "?m p:t ?v OPTIONAL { ?m p:f ?w }",
    "?m p:feeds/p:f ?w . ?m p:t ?v .",
    "{ ?m p:t ?v } UNION { ?m p:f ?v }",
)
NAMES = ("?v", "?w", "?x")


@st.composite
def queries(draw: st.DrawFn) -> str:
    parts = draw(st.permutations([draw(st.sampled_from(STATIC)), draw(st.sampled_from(READ))]))
    if draw(st.booleans()):
        parts.append(f"BIND({draw(expressions(NAMES))} AS ?y)")
    names = (*NAMES, "?y") if len(parts) > 2 else NAMES
    inner = conditions((*names, "?z"), 1)
    extra = st.one_of(
        st.builds("FILTER NOT EXISTS {{ ?m p:f ?z FILTER({}) }}".format, inner),
        st.builds("FILTER EXISTS {{ ?m p:feeds ?k . ?k p:t ?z FILTER({}) }}".format, inner),
        st.builds(
            "FILTER NOT EXISTS {{ ?k p:feeds ?m ; p:t ?z ; p:low ?u FILTER({}) }}".format, inner
        ),
        st.builds(
            "FILTER NOT EXISTS {{ {{ ?m p:f ?z FILTER({}) }} UNION {{ ?m p:low ?z FILTER({}) }}"
            " }}".format,
            inner,
            inner,
        ),
        st.builds(
            "FILTER EXISTS {{ ?m p:feeds ?k {{ ?k p:low ?z OPTIONAL {{ ?k p:f ?u FILTER({}) }} }}"
            " MINUS {{ ?k p:lim ?z FILTER({}) }} }}".format,
            inner,
            inner,
        ),
        st.builds("OPTIONAL {{ ?m p:low ?u . ?m p:f ?z FILTER({}) }}".format, inner),
        st.builds(
            "OPTIONAL {{ OPTIONAL {{ ?m p:f ?z FILTER({}) }} ?m p:t ?q }}".format,
            conditions(("?z",), 1),
        ),
        st.just("OPTIONAL { ?m p:t ?q OPTIONAL { ?m p:low ?u . ?m p:f ?z FILTER(?z > ?u) } }"),
        st.builds("MINUS {{ ?m p:f ?z FILTER(?z {} 1) }}".format, st.sampled_from("<>")),
        st.just('?m p:g ?g FILTER(?g = "A")'),
        st.just('OPTIONAL { ?m p:g ?g } FILTER(?g != "A" || ?v > 1)'),
        st.just('?m p:kind ?k . ?m p:g ?g FILTER(?g IN (?k, "B"))'),
        st.just("VALUES ?x { 1 2 UNDEF }"),
        st.just("FILTER(!EXISTS { ?m p:t 1 } || ?v > 0)"),
    )
    parts += draw(st.lists(extra, max_size=2))
    parts += [f"FILTER({draw(conditions(names))})" for _ in range(draw(st.integers(1, 2)))]
    return f"{PREFIX}SELECT ?m ?n WHERE {{ {' '.join(parts)} }}"


PATTERNS = (
    "?n p:feeds ?m ; p:f ?w .",
    "?n p:f ?w ; p:feeds ?m . FILTER(?w > 0)",
    "?n p:f ?w . ?n p:feeds ?m . ?m p:lim ?x .",
    "?m p:feeds/p:feeds ?n . ?n p:f ?w .",
    "{ ?n p:feeds ?m ; p:f ?w } UNION { ?m p:feeds ?n . ?n p:t ?w }",
    "{ ?n p:feeds ?m } UNION { ?m p:feeds ?n } ?n p:f ?w .",
    "{ ?n p:feeds ?m ; p:f ?w } UNION { ?n p:feeds ?m ; p:lim ?w }",
    "?n p:feeds ?m ; p:low ?x . OPTIONAL { ?n p:f ?w }",
)
"""Solutions to aggregate: ?m is the group, ?n a member, ?w its value; some members occur twice."""


@st.composite
def grouped(draw: st.DrawFn) -> str:
    op = draw(st.sampled_from(("SUM", "AVG", "MIN", "MAX", "COUNT")))
    arg = (
        draw(st.sampled_from(("?w", "?n", "DISTINCT ?n", "*")))
        if op == "COUNT"
        else draw(st.sampled_from(ARGUMENTS))
    )
    pattern = draw(st.sampled_from(PATTERNS))
    having = (
        f"{op}({arg}) {draw(st.sampled_from(('<', '>', '=', '>=')))} {draw(st.sampled_from(FIXED))}"
    )
    shape = draw(st.integers(0, 3))
    if shape == 0:
        return f"{PREFIX}SELECT ?m WHERE {{ {pattern} }} GROUP BY ?m HAVING({having})"
    if shape == 1:
        return (
            f"{PREFIX}ASK {{ {{ SELECT ({op}({arg}) AS ?s) WHERE {{ {pattern} }} }} FILTER(?s >"
            f" {draw(st.sampled_from(FIXED))}) }}"
        )
    inner = f"{{ SELECT ?m ({op}({arg}) AS ?s) WHERE {{ {pattern} }} GROUP BY ?m }}"
    if shape == 2:
        return f"{PREFIX}SELECT ?m WHERE {{ {inner} ?m p:t ?v FILTER(?s > ?v) }}"
    return f"{PREFIX}SELECT ?m WHERE {{ ?m p:lim ?l . {inner} FILTER(?s / 2 > ?l || ?s = 0) }}"


ARGUMENTS = ("?w", "?w * 2", "?w + ?x", "ABS(?w)", "DISTINCT ?x", "?x", "DISTINCT ?w")
"""COUNT over values that may be errors is excluded: the store counts errors as values."""


@pytest.mark.slow
@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.generate],
)
@given(graph=graphs(), table=tables(), asked=st.lists(queries(), min_size=12, max_size=12))
def test_random_queries(tmp_path: Path, graph: str, table: Table, asked: list[str]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        check_equal(tmp_path, graph, asked, table, monkeypatch)


@pytest.mark.slow
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.generate],
)
@given(graph=graphs(), table=tables(), asked=st.lists(grouped(), min_size=8, max_size=8))
def test_random_aggregates(tmp_path: Path, graph: str, table: Table, asked: list[str]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert check_equal(tmp_path, graph, asked, table, monkeypatch)


def test_a_condition_on_a_value_that_never_exists_excludes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IF passes on the error of `CEIL(?none)`, so the inner filter is never true."""
    query = (
        f"{PREFIX} SELECT ?m WHERE {{ ?m p:t ?v . ?m p:low ?x . "
        "BIND(IF(!(BOUND(?v)), IF(?none = ?no, ?y, ?none), CEIL(?none)) AS ?y) "
        "FILTER NOT EXISTS { ?m p:f ?z FILTER(?x * 3 <= ?v * ?y) } FILTER(?v > 0) }"
    )
    graph = HEAD + sensors([("a1", "t"), ("a1", "f")]) + "p:a1 p:low 1 ."
    table: Table = {("a1", "t"): [2.0, -1.0, None], ("a1", "f"): [1.0, 1.0, 1.0]}
    assert check_equal(tmp_path, graph, [query], table, monkeypatch)
