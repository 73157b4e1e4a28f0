"""Texts and entities in queries: as results of IF and COALESCE, counted, and compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import call
from sparql_cases import HEAD, PREFIX, Table, check_equal, compiled, sensors

COLUMNS = [
    *((entity, "t") for entity in ("a1", "a2", "b1")),
    *((entity, "f") for entity in ("a1", "b1")),
    *((entity, "g") for entity in ("a1", "a2", "b1")),
    *((entity, "h") for entity in ("a1", "a2")),
]
GRAPH = (
    HEAD
    + sensors(COLUMNS)
    + """
p:t fkg:datatype xsd:double . p:f fkg:datatype xsd:double . p:g fkg:category "A", "B", "over", "x" .
p:h fkg:category "A", "B", "C" .
p:a1 a p:A ; p:lim 1 ; p:kind "A" . p:a2 a p:A ; p:lim 2.5 ; p:kind "x" . p:b1 a p:B ; p:lim 0 .
p:good a p:Sort . p:bad a p:Sort .
"""
)
TABLE: Table = {
    ("a1", "t"): [0.5, 2.0, None, 1.0],
    ("a2", "t"): [3.0, None, 1.0, 2.5],
    ("b1", "t"): [-1.0, 1.0, 0.0, None],
    ("a1", "f"): [1.0, 2.0, 3.0, None],
    ("b1", "f"): [0.0, None, 5.0, 0.5],
    ("a1", "g"): ["A", "B", None, "over"],
    ("a2", "g"): ["B", None, "A", "B"],
    ("b1", "g"): [None, "A", "B", "x"],
    ("a1", "h"): ["A", "C", "B", None],
    ("a2", "h"): ["A", "A", "A", "B"],
}
LIMIT = "?m p:lim ?x ; p:t ?t ."
CHOICES = (
    f'{LIMIT} BIND(IF(?t > ?x, "over", "ok") AS ?w) FILTER(?w = "over")',
    f'{LIMIT} FILTER(IF(?t > ?x, "over", "ok") != "ok")',
    f'{LIMIT} FILTER(IF(?t > ?x, "over", "ok") IN ("over", "under"))',
    f'{LIMIT} FILTER(IF(?t > ?x, "over", "ok") NOT IN ("ok", "under"))',
    f"{LIMIT} FILTER(IF(?t > ?x, p:bad, p:good) = p:bad)",
    f"{LIMIT} FILTER(sameTerm(IF(?t > ?x, p:bad, p:good), p:bad))",
    f'{LIMIT} FILTER(STR(IF(?t > ?x, p:bad, p:good)) = "https://example.org/plant#bad")',
    f'{LIMIT} FILTER(LCASE(IF(?t > ?x, "OVER", "ok")) = "over")',
    f'{LIMIT} FILTER(CONTAINS(IF(?t > ?x, "over", "ok"), "v"))',
    f'{LIMIT} FILTER(STRLEN(IF(?t > ?x, "over", "ok")) > 3)',
    f'{LIMIT} BIND(IF(?t > ?x, "over", IF(?t > 0, "mid", "low")) AS ?w) FILTER(?w = "mid")',
    '?m p:t ?t . OPTIONAL { ?m p:g ?g } FILTER(COALESCE(?g, "none") = "none")',
    '?m p:t ?t . OPTIONAL { ?m p:g ?g } FILTER(COALESCE(?g, "none") != "A")',
    '?m p:t ?t . OPTIONAL { ?m p:kind ?k } FILTER(COALESCE(IF(?t > 1, ?k, "lo"), "none") = "none")',
    '?m p:kind ?k ; p:t ?t . BIND(IF(?t > 1, "A", "x") AS ?w) FILTER(?w = ?k)',
    '?m p:kind ?k ; p:t ?t . BIND(IF(?t > 1, ?k, "x") AS ?w) FILTER(?w = "A")',
    '?m p:g ?g ; p:t ?t . BIND(IF(?t > 1, ?g, "none") AS ?w) FILTER(?w = "A")',
    '?m p:g ?g ; p:t ?t . BIND(IF(?t > 1, "A", "B") AS ?w) FILTER(?w = ?g)',
    '?m p:g ?g ; p:t ?t . FILTER(IF(?t > 1, "A", "B") = IF(?g = "B", "B", "A"))',
    '?m p:t ?t . FILTER(IF(?t > 1, "A", ""))',
    '?m p:t ?t . FILTER(IF(?t > 1, "A", "B") < "B")',
    "?m p:t ?t . FILTER(IF(?t > 1, true, false) = true)",
    "?m p:t ?t ; p:f ?f . FILTER((?t > 1) = (?f > 1))",
    '?m p:t ?t . FILTER(ISIRI(IF(?t > 1, p:good, "B")))',
    '?m p:t ?t . FILTER(ISNUMERIC(IF(?t > 1, 5, "B")))',
    '?m p:t ?t . BIND(IF(?t > 1, "3", "1") AS ?s) FILTER(xsd:integer(?s) > 2)',
    '?m p:t ?t . BIND(IF(?t > 1, 3, "1") AS ?s) FILTER(?s != "1")',
    (
        '?m p:t ?t . BIND(IF(?t > 1, "hot"@en, "cold"@en) AS ?s) FILTER(LANG(?s) = "en" && STR(?s)'
        ' = "hot")'
    ),
    '?m p:t ?t OPTIONAL { ?m p:g ?g } FILTER(!BOUND(?g) || ?g = "A")',
)
COLUMNS_OF_TEXT = (
    "?m p:g ?g . FILTER(?g = ?g)",
    "?m p:g ?g . FILTER(?g != ?g)",
    "?m p:g ?g ; p:h ?h . FILTER(?g = ?h)",
    "?m p:g ?g ; p:h ?h . FILTER(?g != ?h)",
    "?m p:g ?g ; p:t ?t . FILTER(?g != ?t)",
    "?m p:lim ?x FILTER NOT EXISTS { ?m p:g ?g }",
    "?m ?p ?v . FILTER(?v > 1)",
    '?m ?p ?v . FILTER(?v = "A")',
)
FUNCTIONS_OF_A_COLUMN = (
    '?m p:g ?g . FILTER(LCASE(?g) = "a")',
    '?m p:g ?g . FILTER(LCASE(?g) != "a")',
    '?m p:g ?g . FILTER(STRSTARTS(?g, "o"))',
    '?m p:g ?g . FILTER(!STRSTARTS(STR(?g), "o"))',
    '?m p:g ?g . FILTER(REGEX(?g, "^[ax]$", "i"))',
    "?m p:g ?g . FILTER(STRLEN(?g) > 1)",
    '?m p:g ?g . FILTER(?g < "b")',
    "?m p:g ?g ; p:h ?h . FILTER(?g < ?h)",
    '?m p:g ?g ; p:h ?h . FILTER(CONCAT(?g, ?h) = "BC")',
    "?m p:g ?g ; p:kind ?k . FILTER(LCASE(?g) = LCASE(?k))",
    '?m p:t ?t OPTIONAL { ?m p:g ?g } FILTER(LCASE(COALESCE(?g, "NONE")) = "none")',
    '?m p:g ?g ; p:t ?t . BIND(UCASE(?g) AS ?u) FILTER(?u = "OVER" || ?t > 2)',
    '?m p:lim ?x FILTER NOT EXISTS { ?m p:g ?g FILTER(LCASE(?g) = "b") }',
    '?m p:t ?t . FILTER(?t > 1 || STR(?nothing) = "A")',
)
ONE_NAME_IN_SEVERAL_GROUPS = (
    'SELECT ?m WHERE { ?m p:t ?w } GROUP BY ?m HAVING(MIN(IF(?none = "A", ?w, 0)) < 1)',
    (
        "?m p:t ?v . OPTIONAL { ?m p:lim ?u . ?m p:f ?z FILTER(?z > ?u) } FILTER NOT EXISTS { ?m"
        " p:h ?z }"
    ),
    (
        "?m p:t ?v FILTER NOT EXISTS { ?m p:f ?z FILTER(?z > 1) } FILTER NOT EXISTS { ?m p:t ?z"
        " FILTER(?z > 1) }"
    ),
)
GROUPS = (
    "SELECT ?m WHERE { ?m p:g ?g } GROUP BY ?m HAVING(COUNT(?g) > 0)",
    "SELECT ?m WHERE { ?m p:t ?t } GROUP BY ?m HAVING(SUM(IF(?t > 1, 1, 0)) > 0)",
    'SELECT ?m WHERE { ?m p:t ?t ; p:g ?g } GROUP BY ?m HAVING(SUM(IF(?g = "A", ?t, 0)) > 0)',
    (
        "SELECT ?c WHERE { ?m a ?c . OPTIONAL { ?m p:t ?t } } GROUP BY ?c HAVING(SUM(IF(?t > 1, ?t,"
        " 0)) > 1)"
    ),
    (
        "SELECT ?c WHERE { ?m a ?c ; p:t ?t . OPTIONAL { ?m p:f ?f } } GROUP BY ?c HAVING(SUM(?t +"
        " ?f) > 1)"
    ),
    (
        "SELECT ?c WHERE { ?m a ?c . { ?m p:t ?t } UNION { ?m p:f ?t } OPTIONAL { ?m p:f ?f } }"
        " GROUP BY ?c HAVING(MIN(?t - ?f) > -1)"
    ),
    'SELECT ?c WHERE { ?m a ?c ; p:g ?g } GROUP BY ?c HAVING(COUNT(IF(?g = "A", 1, ?none)) > 1)',
    'SELECT ?c WHERE { ?m a ?c ; p:g ?g } GROUP BY ?c HAVING(SUM(IF(?g = "A", 1, ?none)) > 1)',
)


@pytest.mark.slow
def test_texts_mean_what_they_mean_to_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = [
        PREFIX + (body if body.startswith("SELECT") else f"SELECT ?m WHERE {{ {body} }}")
        for body in (
            *CHOICES,
            *COLUMNS_OF_TEXT,
            *FUNCTIONS_OF_A_COLUMN,
            *ONE_NAME_IN_SEVERAL_GROUPS,
            *GROUPS,
        )
    ]
    assert check_equal(tmp_path, GRAPH, queries, TABLE, monkeypatch) == len(queries)


@pytest.mark.parametrize(
    ("body", "part", "reason"),
    [
        ('?m p:t ?t . FILTER(?t + "1" > 2)', '"1"', "a number is expected here, not a text"),
        ("?m p:t ?t ; p:kind ?k . FILTER(?t + ?k > 2)", "?k", "is not a number"),
        ("?m p:t ?t . FILTER(ABS(p:good) > ?t)", "ABS(p:good)", "is an error"),
        ("?m p:g ?g . FILTER(?g > 2)", "?g", "a column of texts is read here"),
        ('?m p:t ?t . FILTER(?t + 1 = "A")', '"A"', "never equal"),
        ('?m p:g ?g . FILTER(?g = "A"@en)', '"A"@en', "a cell and a text with a language"),
    ],
)
def test_a_condition_on_values_of_the_wrong_kind_is_rejected(
    tmp_path: Path, body: str, part: str, reason: str
) -> None:
    query = f"{PREFIX}SELECT ?m WHERE {{ {body} }}"
    pack, diagnostics = compiled(tmp_path, GRAPH, query)
    assert pack is None
    (error,) = [item for item in diagnostics if item.severity == "error"]
    line = query.splitlines()[error.span.line - 1]
    assert line[error.span.column - 1 : error.span.end_column - 1] == part
    assert reason in error.message


def test_many_choices_in_one_comparison_are_rejected(tmp_path: Path) -> None:
    side = '"x"'
    for number in range(8):
        side = f'IF(?t > {number}, "{number}", {side})'
    query = f"{PREFIX}SELECT ?m WHERE {{ ?m p:t ?t . FILTER({side} = {side}) }}"
    pack, diagnostics = compiled(tmp_path, GRAPH, query)
    assert pack is None
    assert [item.code for item in diagnostics if item.severity == "error"] == ["FKG352"]


def test_a_text_with_a_language_equals_no_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = GRAPH + 'p:a1 p:word "A"@en . p:a2 p:word "A" .'
    queries = [
        f"{PREFIX}SELECT ?m WHERE {{ ?m p:g ?g ; {rest} }}"
        for rest in (
            'p:t ?t FILTER(?g IN ("A"@en, "B"))',
            'p:t ?t FILTER(?g != "A"@en)',
            "p:word ?k FILTER(?g = ?k)",
            "p:word ?k FILTER(?g != ?k)",
            "p:word ?k FILTER(?g = STR(?k))",
        )
    ]
    assert check_equal(tmp_path, graph, queries, TABLE, monkeypatch) == len(queries)


KEYED = """
@prefix p: <https://example.org/plant#> . @prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
p:torque a sosa:ObservableProperty ; fkg:column "torque" .
p:grade a sosa:ObservableProperty ; fkg:column "grade" .
p:Mill fkg:keyColumn "mill" . p:M1 a p:Mill . p:M2 a p:Mill .
"""
ROWS = "mill,torque,grade\nM1,50,A\nM2,100,B\nM1,70,\n"
OF_MILLS = {
    # the verdict on a group is reported in all rows of its mill
    "{ ?m a p:Mill ; p:grade ?g } GROUP BY ?m HAVING(COUNT(?g) > 0)": 3,
    "{ ?m a p:Mill FILTER NOT EXISTS { ?m p:grade ?g } }": 1,
    "{ ?m a p:Mill ; ?p ?v . FILTER(?v > 60) }": 2,
    "{ ?m a p:Mill ; p:torque ?t } GROUP BY ?m HAVING(SUM(IF(?t > 60, 1, 0)) > 0)": 3,
    "{ ?m a p:Mill ; p:grade ?g . FILTER(?g = ?g) }": 2,
}


@pytest.mark.parametrize(("body", "count"), OF_MILLS.items())
def test_eval_reads_texts_of_keyed_rows(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    body: str,
    count: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.ttl").write_text(KEYED + 'p:grade fkg:category "A", "B" .', encoding="utf-8")
    (tmp_path / "t.csv").write_text(ROWS, encoding="utf-8")
    (tmp_path / "q.rq").write_text(f"{PREFIX}SELECT ?m WHERE {body}", encoding="utf-8")
    done = call(capsys, "eval", "q.rq", "g.ttl", "t.csv", "--json")
    assert [rule["violated"] for rule in done.json["rules"]] == [count], done.err


def test_a_column_of_unknown_kind_is_named(tmp_path: Path) -> None:
    query = f"{PREFIX}SELECT ?m WHERE {{ ?m a p:Mill FILTER NOT EXISTS {{ ?m p:grade ?g }} }}"
    for said, codes in (
        ("", ["FKG359"]),
        ("p:grade fkg:datatype xsd:string .", []),
        ("p:grade fkg:datatype xsd:double .", []),
    ):
        graph = KEYED + "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n" + said
        pack, diagnostics = compiled(tmp_path, graph, query)
        assert pack is not None
        assert [item.code for item in diagnostics] == codes
        kinds = {column.source: column.type for column in pack.manifest.contract.columns}
        assert kinds["grade"] == ("category" if "string" in said else "real")


MATERIALS = (
    KEYED
    + '@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\np:material fkg:column "material" .'
    ' p:Steel rdfs:label "Stainless steel" . p:M1 p:required p:Steel . p:M2 p:required p:Pine .\n'
    'p:Pine fkg:keyColumn "material" ; fkg:keyValue "pine wood" .'
)


@pytest.mark.parametrize(
    ("condition", "count"),
    [("isIRI(?x)", 2), ("!isIRI(?x)", 0), ("isLiteral(?x)", 0), ("!isBlank(?x)", 2)],
)
@pytest.mark.parametrize("said", ["fkg:category p:Steel", "rdfs:range p:Metal"])
def test_a_column_of_entities_has_iris(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], said: str, condition: str, count: int
) -> None:
    graph = MATERIALS + f" p:Steel a p:Metal . p:material {said} ."
    query = f"{PREFIX}SELECT ?m {{ ?m a p:Mill ; p:material ?x FILTER({condition}) }}"
    (tmp_path / "g.ttl").write_text(graph, encoding="utf-8")
    (tmp_path / "t.csv").write_text("mill,material\nM1,Steel\nM2,\nM2,Steel\n", encoding="utf-8")
    (tmp_path / "q.rq").write_text(query, encoding="utf-8")
    done = call(capsys, "eval", *(str(tmp_path / x) for x in ("q.rq", "g.ttl", "t.csv")), "--json")
    assert sum(rule["violated"] for rule in done.json["rules"]) == count, done.err


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("?m p:material ?x ; p:required ?r FILTER(?x != ?r)", 1),
        ("?m a p:Mill ; p:material p:Pine", 1),
        ("?m p:material ?x FILTER(?x = p:Steel)", 2),
    ],
)
def test_an_entity_in_a_column_is_its_key_value_or_the_last_part_of_its_iri(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], condition: str, count: int
) -> None:
    (tmp_path / "g.ttl").write_text(MATERIALS, encoding="utf-8")
    (tmp_path / "t.csv").write_text(
        "mill,material\nM1,Steel\nM2,pine wood\nM2,Steel\n", encoding="utf-8"
    )
    (tmp_path / "q.rq").write_text(f"{PREFIX}SELECT ?m {{ {condition} }}", encoding="utf-8")
    done = call(capsys, "eval", *(str(tmp_path / x) for x in ("q.rq", "g.ttl", "t.csv")), "--json")
    assert [rule["violated"] for rule in done.json["rules"]] == [count], done.err
