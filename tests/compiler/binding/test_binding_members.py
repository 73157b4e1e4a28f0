"""Sums, means and conditions over members of sets, with hand-computed numbers.

The flows of P1 and P2 go into V1, that of P3 into V2.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from plant_of_pipes import GRAPH, INTO, TABLE, VESSELS, codes, compile_rule, margins

from fedkg.pack import Reduce, everywhere, read_pack

NAN = math.nan


@pytest.mark.parametrize(
    ("formula", "v1", "v2", "v3"),
    [
        (f"sum of flow(?p) {INTO} <= ?max", [7, -95], [17, -30], [5, 5]),
        (f"mean of flow(?p) {INTO} <= ?max", [8.5, -42.5], [17, -30], [NAN, NAN]),
        (f"max of flow(?p) {INTO} <= ?max", [8, -90], [17, -30], [NAN, NAN]),
        (f"min of flow(?p) {INTO} <= ?max", [9, 5], [17, -30], [NAN, NAN]),
        (f"count of flow(?p) {INTO} <= cap / (1 kg/h)", [0, 58], [1, 59], [2, 60]),
        (f"count of ?p {INTO} <= cap / (1 kg/h)", [0, 58], [1, 59], [2, 60]),
        (f"max of heat(?p) {INTO} <= 25", [5, -5], [NAN, NAN], [NAN, NAN]),
        (
            f"sum of (flow(?p) - cap) {INTO} <= ?max",
            [10 - 3 + 4, 10 - 105 + 120],
            [20 - 3 + 2, 20 - 50 + 60],
            [5, 5],
        ),
        (f"sum of flow(?p) * ?max {INTO} <= 100 kg/h", [70, -950], [40, -900], [100, 100]),
        (
            (
                "sum of ?share * flow(?p) over ?p where { ?p plant:into ?v ; plant:share ?share }"
                " <= ?max"
            ),
            [9, -17.5],
            [17, -30],
            [5, 5],
        ),
        (
            "sum of ?share over ?p where { ?p plant:into ?v ; plant:share ?share } * cap <= ?max",
            [8.5, -35],
            [18, -40],
            [5, 5],
        ),
        (f"all of (flow(?p) <= ?max) {INTO}", [8, -90], [17, -30], [math.inf, math.inf]),
        (f"any of (flow(?p) <= ?max) {INTO}", [9, 5], [17, -30], [-math.inf, -math.inf]),
        (
            f"at least 2 of (flow(?p) <= ?max) {INTO}",
            [8, -90],
            [-math.inf, -math.inf],
            [-math.inf, -math.inf],
        ),
    ],
)
def test_members_of_vessels(
    formula: str, v1: list[float], v2: list[float], v3: list[float], tmp_path: Path
) -> None:
    if "heat" in formula:
        formula = formula.replace("into ?v", "into ?v . FILTER(?p != plant:P3)")
    found = margins(f"rule r {VESSELS}{formula}", tmp_path)
    assert [found[name] for name in ("V1", "V2", "V3")] == [
        pytest.approx(v, nan_ok=True) for v in (v1, v2, v3)
    ]


@pytest.mark.parametrize(
    ("where", "v1", "v2", "v3"),
    [
        (
            "?p a plant:Pipe . FILTER NOT EXISTS { ?p plant:into ?v }",
            [7, -40],
            [17, -85],
            [-1, -150],
        ),
        ("?p plant:share ?s . FILTER(?s * 15 > ?max)", [7, -40], [20, 20], [1, -50]),
        ("?p a plant:Pipe . OPTIONAL { ?p plant:into ?v }", [4, -145], [14, -135], [-1, -150]),
        (
            "{ SELECT ?p { ?p plant:into ?v } } MINUS { ?p plant:into ?v }",
            [7, -40],
            [17, -85],
            [-1, -150],
        ),
    ],
)
def test_a_pattern_reads_variables_of_the_rule_that_it_does_not_bind(
    where: str, v1: list[float], v2: list[float], v3: list[float], tmp_path: Path
) -> None:
    found = margins(
        f"rule r {VESSELS}sum of flow(?p) over ?p where {{ {where} }} <= ?max", tmp_path
    )
    assert [found[name] for name in ("V1", "V2", "V3")] == [pytest.approx(v) for v in (v1, v2, v3)]


def test_sums_of_sums(tmp_path: Path) -> None:
    inner = "sum of flow(?p) over ?p where { ?p plant:into ?w }"
    text = (
        f"rule r for ?a in class plant:Area require max of ({inner}) over ?w where {{ ?w plant:in"
        " ?a } <= 100 kg/h"
    )
    assert margins(text, tmp_path)["A"] == pytest.approx([97, -5])
    both = (
        f"rule r for ?a in class plant:Area require all of ({inner} <= cap) over ?w where {{ ?w"
        " plant:in ?a }"
    )
    assert margins(both, tmp_path)["A"] == pytest.approx([-1, -45])


def test_all_members_of_a_class_need_no_quantifier(tmp_path: Path) -> None:
    assert margins(
        "rule r require max of flow(?p) over ?p in class plant:Pipe <= 10 kg/h", tmp_path
    )[""] == pytest.approx([7, -90])


def test_a_limit_that_a_member_lacks_does_not_limit(tmp_path: Path) -> None:
    """P1 has both limits, P2 only `low`, P3 only `top`."""
    where = (
        "where { ?p a plant:Pipe . OPTIONAL { ?p plant:low ?low } OPTIONAL { ?p plant:top ?top } }"
    )
    text = f"rule r require all of (?low <= flow(?p) <= ?top) over ?p {where}"
    assert margins(text, tmp_path)[""] == pytest.approx([min(0, 0, 3), min(-1, 98, -44)])
    pack, problems = compile_rule(
        f"rule r require at least 1 of (?low <= flow(?p) <= ?top) over ?p {where}", tmp_path
    )
    assert pack is not None
    assert [problem.code for problem in problems if problem.code != "FKG510"] == ["FKG174"]


def test_a_sum_that_never_falls_reads_its_members_in_both_views(tmp_path: Path) -> None:
    text = f"rule r for ?v in class plant:Vessel require sum of flow(?p) {INTO} never falls"
    assert margins(text, tmp_path)["V1"] == pytest.approx([NAN, 102], nan_ok=True)


def test_columns_without_units_take_that_of_the_comparison(tmp_path: Path) -> None:
    bare = GRAPH.replace(" ; qudt:unit unit:KiloGM-PER-HR", "").replace(
        " ; qudt:unit unit:TONNE-PER-HR", ""
    )
    text = "signal level(?p) is plant:flow\n"
    pack, problems = compile_rule(
        f"{text}rule r {VESSELS}sum of level(?p) {INTO} <= 8 kg/h", tmp_path, graph=bare
    )
    assert pack is not None, problems
    assert {
        column.unit for column in pack.manifest.contract.columns if column.name.startswith("level")
    } == {"kg/h"}
    assert codes(
        f"{text}rule r {VESSELS}sum of level(?p) {INTO} <= 8 kg/h and level(?p) <= 1",
        tmp_path,
        graph=bare,
    ) == ["FKG201"]


@pytest.mark.parametrize(
    ("formula", "code"),
    [
        (f"sum of heat(?p) {INTO} <= 25", "FKG207"),
        ("sum of heat(?p) over ?p where { ?p plant:into plant:V1 } <= 25", "FKG215"),
        ("average of flow(?p) over ?p where { ?p plant:into ?v } <= ?max", "FKG202"),
        ("sum of flow(?v) over ?v where { ?v plant:into ?max } <= 3 kg/h", "FKG275"),
        ("sum of flow(?p) over ?p where { ?q plant:into ?v } <= ?max", "FKG151"),
        ("sum of flow(?p) over ?p where { ?p plant:into ?v ; plant:nope ?x } <= ?max", "FKG112"),
        ("sum of flow(?p) over ?p where { ?p plant:into ?v . FILTER(false) } <= ?max", "FKG276"),
        ("at least 3 of (flow(?p) <= ?max) over ?p where { ?p plant:into ?v }", "FKG276"),
        ("sum of flow(?p) over ?p where { ?p plant:top ?max } <= cap", "FKG276"),
        (
            (
                "sum of ?s * flow(?p) over ?p where { ?p plant:into ?v OPTIONAL { ?p plant:top ?s }"
                " } <= ?max"
            ),
            "FKG279",
        ),
        (
            (
                "sum of ?s * flow(?p) over ?p where { ?p plant:into ?v . { ?p plant:share ?s }"
                " UNION { ?p plant:low ?s } } <= ?max"
            ),
            "FKG277",
        ),
        ("sum of ?p over ?p where { ?p plant:into ?v } <= ?max", "FKG208"),
        ("sum of flwo(?p) over ?p where { ?p plant:into ?v } <= ?max", "FKG202"),
    ],
)
def test_what_is_wrong_with_members(formula: str, code: str, tmp_path: Path) -> None:
    assert code in codes(f"rule r {VESSELS}{formula}", tmp_path)


def test_members_that_share_a_column_are_not_in_one_row(tmp_path: Path) -> None:
    graph = GRAPH + 'plant:Pipe fkg:keyColumn "pipe" . plant:load fkg:column "Load" .'
    text = (
        "signal load(?p) is plant:load in kg/h\nrule r require sum of load(?p) over ?p in class"
        " plant:Pipe <= 3"
    )
    assert codes(text, tmp_path, graph=graph) == ["FKG278"]


def test_members_survive_the_pack_file_and_one_shape_is_one_bank(tmp_path: Path) -> None:
    pack, _ = compile_rule(f"rule r {VESSELS}sum of flow(?p) {INTO} <= ?max", tmp_path)
    assert pack is not None
    assert len(pack.banks) == 1
    assert pack.banks[0].members[0].offsets.tolist() == [0, 2, 3, 3]
    again = read_pack(pack.to_bytes())
    assert again.to_bytes() == pack.to_bytes()
    assert [
        part.op for _, part in everywhere(again.banks[0].skeleton) if isinstance(part, Reduce)
    ] == ["sum"]
    assert TABLE  # the table of the other tests has one row for all pipes


def test_many_rows_ask_the_graph_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedkg_compiler.graph.graph import Graph

    asked: list[str] = []
    select = Graph.select

    def counted(self: Graph, where: str, *args: object, **more: object) -> object:
        asked.append(where)
        return select(self, where, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Graph, "select", counted)
    vessels = "".join(
        f"plant:W{i} a plant:Vessel ; plant:max {i} . plant:P1 plant:into plant:W{i} .\n"
        for i in range(300)
    )
    pack, _ = compile_rule(
        f"rule r {VESSELS}sum of flow(?p) {INTO} <= ?max", tmp_path, graph=GRAPH + vessels
    )
    assert pack is not None
    assert pack.rows == 303
    assert len([where for where in asked if "into" in where]) == 1


TAGGED = f"""{GRAPH}
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
plant:V1 plant:tag "A\U0001f600" ; plant:since "2024-01-01"^^xsd:date ; plant:number 4 .
plant:V1 plant:say "x"@en .
plant:P1 plant:tag "A\U0001f600" ; plant:made "2023-01-01"^^xsd:date ; plant:say "x"@en .
plant:P2 plant:made "2025-01-01"^^xsd:date .
"""


@pytest.mark.parametrize(
    ("property_", "where", "expected"),
    [
        ("tag", "?p a plant:Pipe FILTER NOT EXISTS { ?p plant:tag ?n }", [5, -140]),
        ("number", "?p a plant:Pipe FILTER NOT EXISTS { ?p plant:top ?n }", [5, -140]),
        ("since", "?p plant:made ?m FILTER(?m < ?n)", [9, 5]),
    ],
)
def test_a_pattern_reads_values_of_the_rule_with_their_datatype(
    property_: str, where: str, expected: list[float], tmp_path: Path
) -> None:
    rule = (
        f"rule r for ?v, ?n where {{ ?v a plant:Vessel ; plant:{property_} ?n }} "
        f"require sum of flow(?p) over ?p where {{ {where} }} <= 10"
    )
    [found] = margins(rule, tmp_path, graph=TAGGED).values()
    assert found == pytest.approx(expected)


def test_a_pattern_reads_no_text_with_a_language_from_the_rule(tmp_path: Path) -> None:
    where = "?p a plant:Pipe FILTER NOT EXISTS { ?p plant:say ?n }"
    rule = (
        "rule r for ?v, ?n where { ?v plant:say ?n } "
        f"require sum of flow(?p) over ?p where {{ {where} }} <= 10"
    )
    assert "FKG275" in codes(rule, tmp_path, graph=TAGGED)
