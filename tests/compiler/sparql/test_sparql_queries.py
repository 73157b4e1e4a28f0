"""Violation queries: their results, their diagnostics, and that they share banks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sparql_cases import HEAD, PREFIX, compiled, matrix, sensors

from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.pack import Pack
from fedkg_compiler import compile_rules
from fedkg_compiler.diagnostics import CODES
from fedkg_compiler.frontends.sparql.query_files import rule_name

COLUMNS = [("m1", "t"), ("m2", "t"), ("m1", "f"), ("m2", "f"), ("m1", "g")]
GRAPH = (
    HEAD
    + sensors(COLUMNS)
    + """
p:m1 a p:Mill ; p:max 60 ; p:into p:v1 . p:m2 a p:Mill ; p:max 65.5 ; p:into p:v1 .
p:m3 a p:Mill ; p:max 1 ; p:into p:v2 .
p:v1 a p:Vessel ; p:cap 10 . p:v2 a p:Vessel ; p:cap 5 ."""
)


def compile_query(
    folder: Path, query: str, graph: str = GRAPH, rules: str = ""
) -> tuple[Pack | None, dict[str, str]]:
    pack, diagnostics = compiled(folder, graph, query, rules)
    return pack, {
        item.code: f"{item.span.line}:{item.span.column} {item.message}"
        for item in diagnostics
        if not item.code.startswith("FKG5")
    }


def test_a_limit_is_a_comparison_like_that_of_a_rule(tmp_path: Path) -> None:
    pack, _ = compile_query(
        tmp_path, PREFIX + "SELECT ?m WHERE { ?m a p:Mill ; p:max ?x ; p:t ?v . FILTER(?v > ?x) }"
    )
    assert pack is not None
    (bank,) = pack.banks
    assert (
        bank.skeleton.model_dump_json()
        == '{"kind":"compare","op":"le","left":{"kind":"slot","index":0,"role":"input"},'
        '"right":{"kind":"param","index":0},'
        '"tolerance":null,"scale":1}'
    )
    assert bank.params[:, 0].tolist() == [60.0, 65.5]
    assert [pack.manifest.entities[i] for i in bank.entity] == ["m1", "m2"]
    (rule,) = pack.manifest.rules
    assert (rule.name, rule.file, rule.line) == ("q", "q.rq", 1)
    assert [(item.part, item.where, item.rule) for item in pack.manifest.placements] == [
        ("q", "rows", "q")
    ]
    assert ("query", "q.rq") in {
        (source.kind, source.name) for source in pack.manifest.provenance.sources
    }


def test_a_missing_value_is_unknown_and_no_violation(tmp_path: Path) -> None:
    pack, _ = compile_query(
        tmp_path, PREFIX + "SELECT ?m WHERE { ?m p:max ?x ; p:t ?v . FILTER(?v > ?x) }"
    )
    assert pack is not None
    values = evaluate_bank(
        pack.banks[0],
        matrix(pack, {("m1", "t"): [61.0, None, 60.0], ("m2", "t"): [0.0, None, None]}, 3),
    )
    assert values.violated.tolist() == [[True, False], [False, False], [False, False]]
    assert values.unknown.tolist() == [[False, False], [True, True], [False, True]]


@pytest.mark.parametrize("op", ["=", "!="])
@pytest.mark.parametrize(
    ("typed", "plain"),
    [('"true"', "true"), ("'1'", "true"), ('"false"', "false"), ('"0"', "false")],
)
def test_a_truth_value_with_its_datatype_is_one(
    tmp_path: Path, typed: str, plain: str, op: str
) -> None:
    ask = (
        PREFIX
        + "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> SELECT ?m WHERE {{ ?m p:t ?v . FILTER(?v"
        " {} {}) }}"
    )
    packs = [
        compile_query(tmp_path, ask.format(op, constant))[0]
        for constant in (f"{typed}^^xsd:boolean", plain)
    ]
    (one,), (other,) = (pack.banks for pack in packs if pack is not None)
    assert one.skeleton == other.skeleton
    assert np.array_equal(one.params, other.params)


def test_queries_of_one_shape_are_one_bank(tmp_path: Path) -> None:
    (tmp_path / "legacy").mkdir()
    for i in range(30):
        body = f"SELECT ?x WHERE {{ p:m{i % 2 + 1} p:t ?x . FILTER(?x > {i}.5 || ?x < -{i}) }}"
        (tmp_path / "legacy" / f"limit {i:02d}.rq").write_text(PREFIX + body, encoding="utf-8")
    (tmp_path / "g.ttl").write_text(GRAPH, encoding="utf-8")
    (tmp_path / "r.fkg").write_text('queries "legacy/*.rq"\n', encoding="utf-8")
    pack = compile_rules([tmp_path / "r.fkg", tmp_path / "g.ttl"]).pack
    assert pack is not None
    (bank,) = pack.banks
    assert (bank.rows, len(pack.manifest.rules)) == (30, 30)
    assert pack.manifest.rules[7].name == "limit_07"
    assert sorted(bank.params[:, 2].tolist()) == sorted(
        [-float(i) for i in range(30)]
        if bank.params[:, 2].min() < 0
        else [i + 0.5 for i in range(30)]
    )
    assert set(np.unique(bank.slots).tolist()) == {0, 1}
    again = compile_rules(
        [*sorted((tmp_path / "legacy").glob("*.rq"), reverse=True), tmp_path / "g.ttl"]
    ).pack
    assert again is not None
    assert [bank.params.tolist() for bank in again.banks] == [bank.params.tolist()]


def test_leading_comments_are_options(tmp_path: Path) -> None:
    text = (
        "# written in 2009\n# title: Stay below.\n# kind: capacity\n# weight: 2\n# hard\n"
        + PREFIX
        + "ASK { p:m1 p:t ?v FILTER(?v > 3) }"
    )
    pack, found = compile_query(tmp_path, text)
    assert pack is not None
    (rule,) = pack.manifest.rules
    assert (rule.title, rule.kind, rule.weight, rule.hard, found) == (
        "Stay below.",
        "capacity",
        2.0,
        True,
        {},
    )
    _, found = compile_query(
        tmp_path, "# kind: heavy\n# weight: -1\n" + PREFIX + "ASK { p:m1 p:t ?v FILTER(?v > 3) }"
    )
    assert found["FKG349"].startswith("2:1") or found["FKG349"].startswith("1:1")


def test_the_first_comment_is_the_title(tmp_path: Path) -> None:
    pack, _ = compile_query(
        tmp_path, "# Not too hot.\n" + PREFIX + "ASK { p:m1 p:t ?v FILTER(?v > 3) }"
    )
    assert pack is not None
    assert pack.manifest.rules[0].title == "Not too hot."


def test_static_queries_are_answered_now(tmp_path: Path) -> None:
    pack, found = compile_query(
        tmp_path, PREFIX + "SELECT ?m WHERE { ?m a p:Mill ; p:max ?x FILTER(?x < 62) }"
    )
    assert found["FKG348"] == "2:1 the graph has 2 violations of `q`: m1; m3"
    assert pack is not None
    (placed,) = pack.manifest.placements
    assert (placed.where, placed.conforms, pack.rows) == ("graph", False, 0)
    pack, found = compile_query(
        tmp_path, PREFIX + "SELECT ?m WHERE { ?m a p:Mill FILTER NOT EXISTS { ?m p:max ?x } }"
    )
    assert found == {}
    assert pack is not None
    assert pack.manifest.placements[0].conforms is True


def test_units_of_quantities_are_those_of_the_column(tmp_path: Path) -> None:
    graph = (
        GRAPH.replace('fkg:column "m1.t"', 'fkg:column "m1.t" ; qudt:unit unit:DEG_C')
        + "p:m1 p:hot p:q1 . p:q1 qudt:numericValue 333.15 ; qudt:unit unit:K ."
    )
    pack, _ = compile_query(
        tmp_path, PREFIX + "SELECT ?m WHERE { ?m p:hot ?q ; p:t ?v FILTER(?v > ?q) }", graph
    )
    assert pack is not None
    assert pack.banks[0].params[0, 0] == pytest.approx(60.0)
    _, found = compile_query(
        tmp_path,
        PREFIX + "SELECT ?m WHERE { ?m p:hot ?q ; p:t ?v FILTER(?v > ?q) }",
        graph.replace("unit:K .", "unit:BAR ."),
    )
    assert found["FKG347"] == "2:52 `bar` cannot be compared with `degC`"


def test_declared_signals_are_spoken_of_in_their_unit(tmp_path: Path) -> None:
    graph = GRAPH.replace('fkg:column "m1.t"', 'fkg:column "m1.t" ; qudt:unit unit:DEG_F')
    rules = "prefix p: <https://example.org/plant#>\nsignal heat(?m) is p:t in degC\n"
    pack, _ = compile_query(tmp_path, PREFIX + "ASK { p:m1 p:t ?v FILTER(?v > 100) }", graph, rules)
    assert pack is not None
    violated = evaluate_bank(pack.banks[0], matrix(pack, {("m1", "t"): [211.0, 213.0]}, 2)).violated
    assert violated.tolist() == [[False], [True]]


def test_table_rows_are_members_of_a_class(tmp_path: Path) -> None:
    graph = (
        HEAD
        + 'p:Part a rdfs:Class . p:w a sosa:ObservableProperty ; fkg:column "w" . p:Part p:max 7 .'
    )
    rules = "prefix p: <https://example.org/plant#>\nrows are p:Part\n"
    pack, _ = compile_query(
        tmp_path,
        PREFIX + "SELECT ?x WHERE { ?x a p:Part ; p:w ?w . p:Part p:max ?max FILTER(?w > ?max) }",
        graph,
        rules,
    )
    assert pack is not None
    assert [column.source for column in pack.manifest.contract.columns] == ["w"]
    assert pack.banks[0].params[0, 0] == 7.0


def test_observations_of_sosa_are_read_as_what_they_say(tmp_path: Path) -> None:
    query = (
        PREFIX
        + "PREFIX sosa: <http://www.w3.org/ns/sosa/> SELECT ?m WHERE { ?o a sosa:Observation ;"
        " sosa:observedProperty p:t ; sosa:hasFeatureOfInterest ?m ; sosa:hasSimpleResult ?v . ?m"
        " p:max ?x FILTER(?v > ?x) }"
    )
    pack, _ = compile_query(tmp_path, query)
    assert pack is not None
    assert pack.banks[0].params[:, 0].tolist() == [60.0, 65.5]
    pack, _ = compile_query(
        tmp_path,
        query.replace("sosa:hasFeatureOfInterest ?m", "sosa:madeBySensor ?s").replace(
            "?m p:max ?x", "?s sosa:isHostedBy ?m . ?m p:max ?x"
        ),
    )
    assert pack is not None
    assert pack.rows == 2


REFUSED = [
    ("CONSTRUCT { ?m a p:X } WHERE { ?m p:t ?v }", "FKG342", "2:1"),
    ("SELECT ?m WHERE { ?m p:t ?v FILTER ?v > 3 }", "FKG341", "2:36"),
    ('SELECT ?m WHERE { ?m p:t ?v FILTER(regex(str(?v), "6")) }', "FKG343", "2:36"),
    ('SELECT ?m { ?m p:t ?v FILTER(?v < 0 || CONCAT(STR(?v), "a") = "6a") }', "FKG343", "2:40"),
    ("SELECT ?m WHERE { ?m (p:into|p:t)* ?v FILTER(?v > 3) }", "FKG344", "2:22"),
    ("SELECT ?v WHERE { ?m p:t ?v } GROUP BY ?v", "FKG351", "2:40"),
    ("SELECT (SUM(DISTINCT ?v) AS ?s) WHERE { ?m p:t ?v } HAVING (?s > 3)", "FKG351", "2:9"),
    ("SELECT ?m WHERE { ?m p:t ?v FILTER(?v > RAND()) }", "FKG353", "2:41"),
    ("SELECT ?m FROM <urn:g> WHERE { ?m p:t ?v }", "FKG354", "2:11"),
    ("SELECT ?m WHERE { ?m p:t ?v } OFFSET 3", "FKG353", "2:31"),
    ("SELECT ?m WHERE { ?m p:g ?v FILTER(?v = 'A' && ?v > 3) }", "FKG343", "2:48"),
    ("SELECT ?m WHERE { ?m q:t ?v FILTER(?v > 3) }", "FKG110", "2:22"),
]


@pytest.mark.parametrize(
    ("body", "code", "place"),
    REFUSED,
    ids=[f"{code}-{i}" for i, (_, code, _) in enumerate(REFUSED)],
)
def test_what_cannot_be_split_is_rejected_at_its_place(
    tmp_path: Path, body: str, code: str, place: str
) -> None:
    pack, found = compile_query(tmp_path, PREFIX + body)
    assert pack is None
    assert found[code].startswith(place), found


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    (tmp_path / "r.fkg").write_text('queries "legacy/*.rq"\nqueries "no.rq"\n', encoding="utf-8")
    found = [
        item for item in compile_rules([tmp_path / "r.fkg"]).diagnostics if item.code == "FKG340"
    ]
    assert [item.span.line for item in found] == [1, 2]


def test_a_query_that_fits_nothing_is_reported(tmp_path: Path) -> None:
    _, found = compile_query(
        tmp_path, PREFIX + "SELECT ?m WHERE { ?m a p:Vessel ; p:t ?v FILTER(?v > 3) }"
    )
    assert "applies to nothing" in found["FKG350"]
    _, found = compile_query(
        tmp_path, PREFIX + "SELECT ?m WHERE { ?m a p:Mill ; p:t ?v FILTER(?v > 3) }"
    )
    assert found["FKG345"].endswith(
        "m3 has no column for what is read here: the query is not evaluated for them"
    )


def test_names_are_those_of_rules() -> None:
    assert [rule_name(stem) for stem in ("a b", "12-x", "ok", "--")] == [
        "a_b",
        "q_12_x",
        "ok",
        "query",
    ]


def test_every_code_has_its_page() -> None:
    assert all(f"FKG{number}" in CODES for number in range(340, 355))


def noted(folder: Path, query: str, graph: str = "") -> list[tuple[str, str, str, str]]:
    """Code, severity, message and help of all diagnostics of a query, and the text at their
    position.
    """
    sensor = (
        "p:s{0} sosa:observes p:t ; sosa:isHostedBy p:m{0} ; fkg:column 'm{0}.t' ; qudt:unit"
        " unit:{1} ."
    )
    plant = (
        HEAD
        + "p:m1 p:in p:l . p:m2 p:in p:l . "
        + sensor.format(1, "N-M")
        + sensor.format(2, "KiloN-M")
    )
    _, diagnostics = compiled(folder, graph or plant, query)
    lines = query.split("\n")
    return [
        (
            d.code,
            d.severity,
            lines[d.span.line - 1][d.span.column - 1 : d.span.end_column - 1],
            d.help or d.message,
        )
        for d in diagnostics
    ]


@pytest.mark.parametrize(
    ("comment", "key", "advice"),
    [
        ("# knid: capacity", "knid", "did you mean `kind`?"),
        ("#Weigth : 3", "Weigth", "did you mean `weight`?"),
        ("# hrad", "hrad", "did you mean `hard`?"),
        ("# wight: 2", "wight", "did you mean `weight`?"),
    ],
)
def test_a_misspelt_option_is_reported_and_is_no_title(
    tmp_path: Path, comment: str, key: str, advice: str
) -> None:
    query = f"{comment}\n# It stays low.\n{PREFIX}SELECT ?m WHERE {{ ?m p:t ?t FILTER(?t < 0) }}"
    assert noted(tmp_path, query) == [("FKG349", "warning", key, advice)]
    pack, _ = compiled(tmp_path, (tmp_path / "g.ttl").read_text(), query)
    assert pack is not None
    assert pack.manifest.rules[0].title == "It stays low."


@pytest.mark.parametrize(
    "comment",
    [
        "# Note: a mill stays low.",
        "# Torque",
        "# kind words",
        "# see: https://example.org",
        "# Card",
        "# Shaft",
        "# height: metres",
    ],
)
def test_other_comments_are_titles(tmp_path: Path, comment: str) -> None:
    assert (
        noted(tmp_path, f"{comment}\n{PREFIX}SELECT ?m WHERE {{ ?m p:t ?t FILTER(?t < 0) }}") == []
    )


@pytest.mark.parametrize(
    ("end", "where", "message"),
    [
        (
            "ORDER BY ?m LIMIT 5",
            "LIMIT 5",
            (
                "ORDER BY and LIMIT 5 are left out: every solution is a violation, and all of them"
                " are reported"
            ),
        ),
        (
            "LIMIT 5",
            "LIMIT 5",
            "LIMIT 5 is left out: every solution is a violation, and all of them are reported",
        ),
        ("ORDER BY DESC(?t)", "?t", "ORDER BY is left out: violations have no order"),
    ],
)
def test_an_order_and_a_limit_are_told_to_be_left_out(
    tmp_path: Path, end: str, where: str, message: str
) -> None:
    query = f"{PREFIX}SELECT ?m WHERE {{ ?m p:t ?t FILTER(?t < 0) }} {end}"
    assert [item[:3] for item in noted(tmp_path, query)] == [("FKG357", "info", where)]
    pack, (said,) = compiled(tmp_path, (tmp_path / "g.ttl").read_text(), query)
    assert said.message == message
    assert pack is not None
    assert sum(bank.rows for bank in pack.banks) == 2


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("?m p:t ?t FILTER(?t > 60)", "60"),
        ("?m p:t ?t FILTER(?t + 5 < 0)", "5"),
        ("?m p:t ?t FILTER(?t > 0)", ""),
        ("?m p:t ?t FILTER(2 * ?t < ?t)", ""),
        (
            (
                "?m p:in ?l { SELECT ?l (SUM(?t) AS ?s) { ?n p:in ?l ; p:t ?t } GROUP BY ?l }"
                " FILTER(?s > 60)"
            ),
            "60",
        ),
        ("?m p:t ?t VALUES ?b { 60 } FILTER(?t > ?b)", "?b"),
        ("?m p:t ?t BIND(60 AS ?b) FILTER(?t > ?b)", "?b"),
        ("?m p:t ?t VALUES ?b { 0 } FILTER(?t > ?b)", ""),
        ("?m p:t ?t FILTER EXISTS { ?n p:in ?l ; p:t ?u FILTER(?u > 60 && ?t > 0) }", "60"),
    ],
)
def test_a_bare_number_beside_several_units_is_reported(
    tmp_path: Path, pattern: str, said: str
) -> None:
    found = [
        item
        for item in noted(tmp_path, f"{PREFIX}SELECT ?m WHERE {{ {pattern} }}")
        if item[0] == "FKG356"
    ]
    assert [item[2] for item in found] == [said] * bool(said)
    assert all("in N.m`" in item[3] for item in found)


BUDGETS = (
    HEAD
    + """p:m1 p:in p:l ; p:max 5 . p:m2 p:in p:l ; p:max 3 .
p:s1 sosa:observes p:t ; sosa:isHostedBy p:m1 ; fkg:column 'm1.t' ; qudt:unit unit:KiloW .
p:s2 sosa:observes p:t ; sosa:isHostedBy p:m2 ; fkg:column 'm2.t' ; qudt:unit unit:W ."""
)


@pytest.mark.parametrize(
    ("query", "where", "message"),
    [
        (
            "SELECT ?m WHERE { ?m p:t ?t ; p:max ?b FILTER(?t > ?b) }",
            "?b",
            "`?b` has no unit, and is read in W beside `t[m2]` and in kW beside `t[m1]`",
        ),
        (
            "SELECT ?m WHERE { ?m p:t ?t OPTIONAL { ?m p:max ?b } FILTER(?t > COALESCE(?b, 4)) }",
            "COALESCE(?b, 4)",
            (
                "`COALESCE(?b, 4)` has no unit, and is read in kW beside `t[m1]` and in W beside"
                " `t[m2]`"
            ),
        ),
        (
            (
                "SELECT ?l WHERE { ?m p:in ?l ; p:t ?t ; p:max ?b } GROUP BY ?l HAVING(SUM(?t) >"
                " SUM(?b))"
            ),
            "SUM(?b)",
            "`SUM(?b)` has no unit, and is read in W: there are members in kW too",
        ),
    ],
)
def test_a_bare_number_of_the_graph_beside_several_units_is_reported(
    tmp_path: Path, query: str, where: str, message: str
) -> None:
    (found,) = [item for item in noted(tmp_path, PREFIX + query, BUDGETS) if item[0] == "FKG356"]
    assert found[2] == where
    assert found[3].endswith("W`; or give the numbers of the graph a `qudt:unit`")
    _, diagnostics = compiled(tmp_path, BUDGETS, PREFIX + query)
    assert [item.message for item in diagnostics if item.code == "FKG356"] == [message]


def test_a_quantity_of_the_graph_beside_several_units_means_one_thing(tmp_path: Path) -> None:
    graph = BUDGETS.replace("p:max 5", "p:max [ qudt:numericValue 5 ; qudt:unit unit:KiloW ]")
    graph = graph.replace("p:max 3", "p:max [ qudt:numericValue 3 ; qudt:unit unit:KiloW ]")
    query = f"{PREFIX}SELECT ?m WHERE {{ ?m p:t ?t ; p:max ?b FILTER(?t > ?b) }}"
    assert "FKG356" not in {item[0] for item in noted(tmp_path, query, graph)}


@pytest.mark.parametrize(
    ("pattern", "where", "advice"),
    [
        ("?m p:t ?torque FILTER(?torqe > 3)", "?torqe", "did you mean `?torque`?"),
        ("?m p:t ?t FILTER(?t > 3 && ?other > 3)", "?other", "write a pattern that gives it one"),
    ],
)
def test_a_variable_without_a_value_is_named_where_nothing_fits(
    tmp_path: Path, pattern: str, where: str, advice: str
) -> None:
    assert noted(tmp_path, f"{PREFIX}SELECT ?m WHERE {{ {pattern} }}") == [
        ("FKG350", "warning", where, advice)
    ]


@pytest.mark.parametrize(
    ("expr", "name", "advice"),
    [
        (
            "SQRT(?t) > 3",
            "SQRT",
            "it has ABS, ROUND, CEIL and FLOOR of numbers; compute others in the data, as a column",
        ),
        ("ROUNDD(?t) > 3", "ROUNDD", "did you mean `ROUND`?"),
    ],
)
def test_a_function_that_there_is_not_is_named(
    tmp_path: Path, expr: str, name: str, advice: str
) -> None:
    query = f"{PREFIX}SELECT ?m WHERE {{ ?m p:t ?t FILTER({expr}) }}"
    assert noted(tmp_path, query) == [("FKG341", "error", name, advice)]
