"""Patterns: the right rows in a fixed order, and every mistake at its position."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pyoxigraph as ox
import pytest
from graph_cases import HERE, PLANT, PLANT_TTL, header
from hypothesis import given
from hypothesis import strategies as st
from shared import SHARED, needs_shared
from tries import tries

from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.graph import Catalog, Graph, Iri, Literal, Quantity, load_graph
from fedkg_compiler.graph.sparql_syntax.parser import find_problem
from fedkg_compiler.graph.sparql_syntax.tokens import tokens
from fedkg_compiler.graph.standard_vocabularies import XSD


def iri(name: str) -> Iri:
    return Iri(PLANT + name)


def at(problem: Diagnostic) -> tuple[int, int, int, int]:
    return problem.span.line, problem.span.column, problem.span.end_line, problem.span.end_column


def refused(graph: Graph, where: str, variables: tuple[str, ...] = ("x",)) -> Diagnostic:
    rows, problems = graph.select(where, variables, span=HERE)
    assert rows == []
    assert len(problems) == 1, problems
    return problems[0]


def test_rows_are_plain_values_in_order(plant: Graph) -> None:
    rows, problems = plant.select(
        "?m a fkg-isa95:Equipment ; plant:low ?low ; plant:high ?high",
        ["m", "low", "high"],
        span=HERE,
    )
    assert problems == ()
    assert rows == [
        (iri("M1"), Literal(3500, "3500", XSD + "integer"), Literal(9000.0, "9000", XSD + "double"))
    ]


def test_quantities_come_with_the_unit_as_rules_write_it(plant: Graph) -> None:
    rows, _ = plant.select("?m plant:limit ?l", ["l"], span=HERE)
    assert rows == [(Quantity(2.0, "N.m"),), (Quantity(5.5, "bar"),)]


def test_hierarchy_rolls_up_over_all_levels(plant: Graph) -> None:
    rows, _ = plant.select(
        "?m a isa95:Work_Unit ; isa95:isPartOf ?e . ?e a isa95:Enterprise", ["m"], span=HERE
    )
    assert rows == [(iri("M1"),), (iri("M2"),)]


def test_unbound_variables_are_none_and_sort_first(plant: Graph) -> None:
    rows, problems = plant.select(
        "?m a isa95:Work_Unit OPTIONAL { ?m plant:low ?low }", ["low", "m"], span=HERE
    )
    assert problems == ()
    assert rows == [(None, iri("M2")), (Literal(3500, "3500", XSD + "integer"), iri("M1"))]


def test_numbers_sort_by_value(catalog: Catalog) -> None:
    text = (
        header(catalog)
        + "plant:a plant:v 10, 9.5, 2e0, 'text', true, 'x'^^xsd:double, '2024-01-01'^^xsd:date ."
    )
    graph, problems, _ = load_graph(
        [], {"plant": (PLANT, HERE)}, [], catalog=catalog, text_graphs=[("v.ttl", text)]
    )
    assert problems == ()
    values = [row[0] for row in graph.select("plant:a plant:v ?v", ["v"], span=HERE)[0]]
    assert [value.value for value in values if isinstance(value, Literal)] == [
        2.0,
        9.5,
        10,
        "2024-01-01",
        "text",
        True,
        "x",
    ]


def test_the_order_of_files_changes_nothing(catalog: Catalog) -> None:
    cut = PLANT_TTL.index("plant:M1 a")
    parts = [
        ("a.ttl", header(catalog) + PLANT_TTL[:cut]),
        ("b.ttl", header(catalog) + PLANT_TTL[cut:]),
    ]
    seen = []
    for uses, files in itertools.product(
        (["isa95", "mason"], ["mason", "isa95"]), (parts, parts[::-1])
    ):
        graph, problems, sources = load_graph(
            [(name, HERE) for name in uses],
            {"plant": (PLANT, HERE)},
            [],
            catalog=catalog,
            text_graphs=files,
        )
        assert problems == ()
        seen.append(
            (graph.select("?a ?b ?c", ["a", "b", "c"], span=HERE)[0], graph.terms(), sources)
        )
    assert all(other == seen[0] for other in seen)


@pytest.mark.parametrize(
    ("where", "place", "words", "advice"),
    [
        (
            "?x a isa95:Site\n ?y a isa95:Area",
            (11, 2, 11, 4),
            "at `?y`",
            "write `.` before the next triple",
        ),
        ("?x a isa95:Site .\n FILTER ?x > 5", (11, 9, 11, 11), "`(` after FILTER", "FILTER(...)"),
        (
            "?x a isa95:Site . FILTER(?x > 5",
            (10, 50, 10, 51),
            "ends too early: `)`",
            "close the last open `(`",
        ),
        ("?x a isa95:Site . FILTER(?x > 5 and ?x < 7)", (10, 52, 10, 55), "at `and`", "write `&&`"),
        ("?x a isa95:Site . FILTER(?x > 5 & ?x < 7)", (10, 52, 10, 53), "at `&`", "write `&&`"),
        ("?x a isa95:Site . FILTER(1 < ?x < 7)", (10, 52, 10, 53), "at `<`", "do not chain"),
        ("?x a isa95:Site . ?x a", (10, 41, 10, 42), "ends too early: an object", "three parts"),
        ("?x a isa95:Site }", (10, 36, 10, 37), "at `}`", "too many"),
        ("?x a Site", (10, 25, 10, 29), "at `Site`", "did you mean `"),
        ("?x a machin", (10, 25, 10, 31), "at `machin`", "a variable its `?`"),
        ("?x a isa95:Site . FITLER(?x)", (10, 38, 10, 44), "at `FITLER`", "did you mean FILTER?"),
        (
            "?x a isa95:Site . FILTER(STRR(?x) = 'a')",
            (10, 45, 10, 49),
            "at `STRR`",
            "did you mean `STR`?",
        ),
        ("?x a isa95:Site ORDER BY ?x", (10, 36, 10, 41), "at `ORDER`", "no order"),
        ("OPTIONAL ?x a isa95:Site", (10, 29, 10, 31), "at `?x`", "in braces"),
        ("# Größe\n 'ü' ?x", (11, 2, 11, 5), "a subject", "can only be the value"),
        ("?x a 'ü', ;", (10, 30, 10, 31), "at `;`", ""),
        ("?x a isa95:Site . FILTER NOT (?x = 5)", (10, 49, 10, 50), "EXISTS after NOT", "!(...)"),
        ("{?x a isa95:Site} UNION ?x a isa95:Area", (10, 44, 10, 46), "at `?x`", "UNION"),
    ],
)
def test_a_slip_is_shown_where_it_was_made(
    plant: Graph, where: str, place: tuple[int, int, int, int], words: str, advice: str
) -> None:
    problem = refused(plant, where)
    assert problem.code == "FKG150"
    assert at(problem) == place
    assert words in problem.message
    assert advice in problem.help


def test_columns_count_characters_and_lines_end_as_they_do(plant: Graph) -> None:
    problem = refused(plant, "?x a isa95:Site ;\r\n   rdfs:label 'Größe 10 µm' ; ; rdfs:lable ?y")
    assert at(problem) == (11, 33, 11, 43)


def test_an_empty_pattern_is_said_to_be_empty(plant: Graph) -> None:
    assert refused(plant, "  # nothing\n").message == "the pattern is empty"


def test_variables_must_occur(plant: Graph) -> None:
    problem = refused(plant, " ?machine plant:low ?low ", ("machine", "lows"))
    assert (problem.code, problem.help) == ("FKG151", "did you mean `?low`?")
    assert at(problem) == (10, 21, 10, 44)


@pytest.mark.parametrize(
    ("where", "code", "message", "advice"),
    [
        (
            "?x a isa95:EquipmentClas",
            "FKG111",
            "isa95 has no term `EquipmentClas`",
            "did you mean `fkg-isa95:EquipmentClass`?",
        ),
        (
            "?x a isa95:equipment",
            "FKG111",
            "isa95 has no term `equipment`",
            "did you mean `fkg-isa95:Equipment`?",
        ),
        ("?x a isa95:Sites", "FKG111", "isa95 has no term `Sites`", "did you mean `isa95:Site`?"),
        (
            "?x a isa95:Workcell",
            "FKG111",
            "isa95 has no term `Workcell`",
            "did you mean `fkg-isa95:WorkCell`?",
        ),
        (
            "?x a mason:Zzzzzzz",
            "FKG111",
            "mason has no term `Zzzzzzz`",
            "`fedkg ontology show mason` lists what it has",
        ),
        (
            "?x ?y unit:Zzzzzzz",
            "FKG111",
            "qudt has no term `Zzzzzzz`",
            "`fedkg ontology add qudt FILE` loads all of it",
        ),
        ("?x rdfs:lable ?y", "FKG111", "rdfs has no term `lable`", "did you mean `rdfs:label`?"),
        (
            "?x a <http://www.owl-ontologies.com/mason.owl#Lathes>",
            "FKG111",
            "`Lathes`",
            "<http://www.owl-ontologies.com/mason.owl#Lathe>",
        ),
        ("?x a msaon:Tool", "FKG110", "the prefix `msaon:` is not known", "did you mean `mason:`?"),
        ("?x a elsewhere:Tool", "FKG110", "the prefix `elsewhere:` is not known", "declare it"),
        (
            "SERVICE <http://localhost:1/> { ?x ?y ?z }",
            "FKG152",
            "does not ask other servers",
            "graph file",
        ),
        (
            "?x plant:low ?y FILTER(?y > RAND())",
            "FKG153",
            "RAND() gives another value each time",
            "the same",
        ),
    ],
)
def test_names_are_checked_inside_patterns(
    plant: Graph, where: str, code: str, message: str, advice: str
) -> None:
    problem = refused(plant, where)
    assert problem.code == code
    assert message in problem.message
    assert advice in problem.help


def test_a_name_that_the_graph_lacks_is_a_warning_and_rows_come_all_the_same(plant: Graph) -> None:
    rows, problems = plant.select(
        "?x a isa95:Work_Unit OPTIONAL { ?x plant:Low ?y }", ["x"], span=HERE
    )
    assert [(p.code, p.severity, p.help) for p in problems] == [
        ("FKG112", "warning", "did you mean `plant:low`?")
    ]
    assert len(rows) == 2


def test_strings_and_comments_are_not_checked(plant: Graph) -> None:
    where = (
        "?x a isa95:Site # isa95:Nothing and <http://a b>\n FILTER(STR(?x) != 'isa95:Nope' && ?x"
        ' != """mason:No""")'
    )
    assert plant.select(where, ["x"], span=HERE) == ([(iri("graz"),)], ())


def test_several_mistakes_come_at_once_and_each_once(plant: Graph) -> None:
    _, problems = plant.select(
        "?x a isa95:Sit ; isa95:feed ?y . ?y a isa95:Sit ; foo:bar ?z", ["x", "zz"], span=HERE
    )
    assert [problem.code for problem in problems] == ["FKG111", "FKG111", "FKG110", "FKG151"]


@pytest.mark.parametrize(
    "where",
    [
        "{" * 5000 + "?x a ?y" + "}" * 5000,
        "?x a ?y FILTER(" + "(" * 50000 + "1" + ")" * 50000 + ")",
        "?x a ?y FILTER(" + "!" * 50000 + "?x)",
        "?x a ?y . " * 2000,
        "?x a " + "?y , " * 2000 + "?z",
    ],
)
def test_monstrous_patterns_are_rejected_and_not_read(plant: Graph, where: str) -> None:
    assert refused(plant, where).code == "FKG154"


def test_long_lists_are_not_monstrous(plant: Graph) -> None:
    where = (
        f"?x plant:low ?y FILTER(?y IN ({', '.join(str(number) for number in range(3000, 4000))}))"
    )
    assert plant.select(where, ["x"], span=HERE) == ([(iri("M1"),)], ())


GOOD = [
    "?x a isa95:Site ; rdfs:label ?l , 'a'@en , \"b\"^^xsd:string ; . ?y ?p -5.5e3",
    (
        "?x isa95:isPartOf+/^fkg-isa95:feeds|!a ?y . FILTER(?x IN (isa95:Site, 5) && !EXISTS {?x a "
        "?z}) BIND(IF(?x = 5, 1, -2) AS ?k)"
    ),
    (
        "{ ?x ?q true } UNION {?x ?w (1 2 ?x)} MINUS {[] a ?x ; ?p [ ?q ?x ]} OPTIONAL { [] ?p "
        "?x . FILTER NOT EXISTS { ?x a 5 } }"
    ),
    (
        "?x ?p ?o FILTER REGEX(STR(?x), 'a', 'i') FILTER(COALESCE(?x, 1) + 2 * -?o >= 3 || "
        "BOUND(?p)) FILTER(?x NOT IN (1))"
    ),
    "?x<http://a>?y FILTER(?x<?y&&?y>5)",
    "?x ?p ?o . { SELECT ?x (COUNT(?y) AS ?n) WHERE {?x a ?y} GROUP BY ?x }",
    "VALUES (?x ?y) { (1 2) (UNDEF 3) } ?x a ?y",
]


@pytest.mark.parametrize("where", GOOD)
def test_right_patterns_have_no_slip(plant: Graph, where: str) -> None:
    assert find_problem(tokens(where)) is None
    assert [
        problem.code
        for problem in plant.select(where, ["x"], span=HERE)[1]
        if problem.severity == "error"
    ] == []


@tries(150)
@given(st.data())
def test_a_slip_is_only_found_where_the_store_refuses(data: st.DataObject) -> None:
    """Words of valid patterns are dropped, doubled or swapped.

    The store's parser rejects whatever the walk reports as a mistake.
    """
    words = [
        token.text if token.kind != "variable" else "?" + token.text
        for token in tokens(data.draw(st.sampled_from(GOOD)))
    ]
    at_word = data.draw(st.integers(0, len(words) - 1))
    match data.draw(st.sampled_from(["drop", "double", "swap"])):
        case "drop":
            del words[at_word]
        case "double":
            words.insert(at_word, words[at_word])
        case _:
            other = data.draw(st.integers(0, len(words) - 1))
            words[at_word], words[other] = words[other], words[at_word]
    where = " ".join(words)
    slip = find_problem(tokens(where))
    if slip is not None and "a subject is expected" in slip.message:
        return  # the store takes literals as subjects, SPARQL 1.1 does not
    prefixes = {"isa95": "http://i/", "rdfs": "http://r/", "xsd": "http://x/"}
    try:
        ox.Store().query(f"SELECT * WHERE {{ {where}\n}}", prefixes=prefixes)
        right = True
    except SyntaxError:
        right = False
    assert not (right and slip is not None), (where, slip)


@needs_shared
def test_no_slip_in_the_patterns_of_the_sparql_test_suite() -> None:
    """Valid patterns of the W3C suite: the walk accepts whatever the store accepts."""
    checked = 0
    for path in sorted((SHARED / "ontologies/sparql11-test-suite").rglob("*.rq")):
        text = path.read_text(encoding="utf-8")
        body = text[text.find("{") + 1 : text.rfind("}")]
        if "CONSTRUCT" in text.upper() or re.search(r"\}[^{}]*VALUES", text):
            continue
        try:
            ox.Store().query(
                f"SELECT * WHERE {{ {body}\n}}",
                prefixes=dict(re.findall(r"(?i)prefix\s+(\w*):\s*<([^>]*)>", text)),
            )
        except SyntaxError:
            continue
        assert find_problem(tokens(body)) is None, (path.name, find_problem(tokens(body)))
        checked += 1
    assert checked > 100


def test_a_span_over_several_lines_keeps_its_place(plant: Graph, tmp_path: Path) -> None:
    span = Span(file=str(tmp_path / "r.fkg"), line=3, column=5, end_line=6, end_column=1)
    _, problems = plant.select("\n  ?x a isa95:Site .\n  ?x a isa95:Sit .\n", ["x"], span=span)
    assert [(p.span.file, p.span.line, p.span.column, p.span.end_column) for p in problems] == [
        (span.file, 5, 8, 17)
    ]
