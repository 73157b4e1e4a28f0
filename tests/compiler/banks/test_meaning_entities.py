"""Rules over entities that share columns: their table rows, and the row before each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lowering_rows import by_entity, compiled

from fedkg_compiler import compile_rules

PREFIXES = """@prefix plant: <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
plant:M1 a plant:Machine ; plant:max 50 . plant:M2 a plant:Machine ; plant:max 60 .
"""
KEYED = (
    PREFIXES
    + """plant:Machine fkg:keyColumn "machine" .
plant:torque fkg:column "Torque" . plant:wear fkg:column "Wear" .
plant:life fkg:column "Standzeit" .
"""
)
RULE_PREFIX = "prefix plant: <https://example.org/plant#>\n"
MACHINES = "for ?m in class plant:Machine"
LIMITS = "for ?m, ?h where { ?m a plant:Machine ; plant:max ?h }"
TABLE = """machine;Torque;Wear;Standzeit
M1;55;1;1
M2;55;10;1
M1;40;2;1
M2;61;9;1
M1;40;0;2
"""
nan = float("nan")


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return tmp_path / "plant_here.ttl"


@pytest.mark.parametrize("per", ["", " per machine", " per life"])
def test_the_row_before_is_the_machine_s_own(graph: Path, per: str) -> None:
    """Machines alternate in the table.

    The tool of M1 is changed before the last row; only `per life` detects this.
    """
    graph.write_text(KEYED, encoding="utf-8")
    text = (
        f"{RULE_PREFIX}signal wear(?m) is plant:wear in min\nsignal life is plant:life\nrule r"
        f" {MACHINES} require wear(?m) never falls{per}"
    )
    found = by_entity(compiled(text, [graph]), TABLE)
    np.testing.assert_array_equal(
        found["M1"], [nan, nan, 1, nan, nan if per == " per life" else -2]
    )
    np.testing.assert_array_equal(found["M2"], [nan, nan, nan, -1, nan])


def test_per_a_label_or_signal_with_a_header_of_its_own() -> None:
    text = (
        'label grade classes A, B column "G"\nsignal ash in % column "Asche"\nrule r require ash'
        " never falls per grade"
    )
    assert by_entity(compiled(text), "G;Asche\nA;13\nB;12\nA;11\n")[""] == pytest.approx(
        [nan, nan, -2], nan_ok=True
    )


def test_a_limit_of_each_machine_is_held_against_its_own_rows(graph: Path) -> None:
    graph.write_text(KEYED, encoding="utf-8")
    for signal, reading in (("torque(?m)", "torque(?m)"), ("torque", "torque")):
        text = (
            f"{RULE_PREFIX}signal {signal} is plant:torque in N.m\nrule r {LIMITS} require"
            f" {reading} <= ?h"
        )
        found = by_entity(compiled(text, [graph]), TABLE)
        np.testing.assert_array_equal(found["M1"], [-5, nan, 10, nan, 10])
        np.testing.assert_array_equal(found["M2"], [nan, 5, nan, -1, nan])


def test_sensors_that_share_a_column_need_a_key(graph: Path) -> None:
    sensors = "".join(
        f"plant:s{i} sosa:observes plant:torque ; sosa:isHostedBy plant:M{i} ; fkg:column"
        ' "Torque" .\n'
        for i in (1, 2)
    )
    text = (
        f"{RULE_PREFIX}signal torque(?m) is plant:torque in N.m\nrule r {LIMITS} require torque(?m)"
        " <= ?h"
    )
    graph.write_text(PREFIXES + sensors, encoding="utf-8")
    assert _codes(text, graph) == ["FKG207"]
    graph.write_text(
        PREFIXES + sensors + 'plant:Machine fkg:keyColumn "machine" .', encoding="utf-8"
    )
    np.testing.assert_array_equal(
        by_entity(compiled(text, [graph]), TABLE)["M1"], [-5, nan, 10, nan, 10]
    )


def test_two_entities_that_select_different_rows_are_reported(graph: Path) -> None:
    graph.write_text(
        KEYED
        + "plant:L1 a plant:Machine . plant:M1 plant:of plant:L1 . plant:M2 plant:of plant:L1 .",
        encoding="utf-8",
    )
    both = "for ?m, ?l, ?h where { ?m plant:of ?l ; plant:max ?h }"
    declared = (
        f"{RULE_PREFIX}signal torque is plant:torque in N.m\nsignal own(?m) is plant:torque in"
        " N.m\n"
    )
    assert _codes(f"{declared}rule r {both} require torque <= ?h", graph) == ["FKG231"]
    assert _codes(f"{declared}rule r {both} require own(?m) <= ?h", graph) == []


def test_a_header_that_a_signal_of_the_graph_is_read_from_has_its_unit(
    graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(graph.parent)
    graph.write_text(KEYED, encoding="utf-8")
    Path("limits.csv").write_text("tag;unit;high\nTorque;kN.m;0.05\n", encoding="utf-8")
    sheet = 'for ?tag, ?high in table "limits.csv" require value(?tag) <= ?high'
    for signal in ("torque", "torque(?m)"):
        declared = f"{RULE_PREFIX}signal {signal} is plant:torque in N.m\n"
        found = by_entity(compiled(f"{declared}rule r {sheet}", [graph]), TABLE)
        np.testing.assert_allclose(found["Torque"], [-5, -5, 10, -11, 10])
        found = by_entity(compiled(f"{declared}rule r require `Torque` <= 50 N.m", [graph]), TABLE)
        np.testing.assert_allclose(found[""], [-5, -5, 10, -11, 10])


def test_a_row_that_is_said_twice_counts_once(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(graph.parent)
    Path("limits.csv").write_text("tag,high\nA,5\nA,5.0\nB,7\n", encoding="utf-8")
    pack = compiled('rule r for ?tag, ?high in table "limits.csv" require value(?tag) <= ?high')
    assert pack.rows == 3  # `5` and `5.0` are two texts, which a category could tell apart
    Path("limits.csv").write_text("tag,high\nA,5\nA,5\nB,7\n", encoding="utf-8")
    pack = compiled('rule r for ?tag, ?high in table "limits.csv" require value(?tag) <= ?high')
    assert pack.banks[0].weight.tolist() == [0.5, 0.5]
    power = (
        "@prefix qudt: <http://qudt.org/schema/qudt/> . @prefix unit:"
        " <http://qudt.org/vocab/unit/> .\n"
    )
    limits = (
        "[ qudt:numericValue 3.5 ; qudt:unit unit:KiloW ] , [ qudt:numericValue 3500 ; qudt:unit"
        " unit:W ]"
    )
    graph.write_text(f"{power}{PREFIXES}plant:M1 plant:power {limits} .", encoding="utf-8")
    pack = compiled(
        f"{RULE_PREFIX}signal p in W\nrule r for ?m, ?h where {{ ?m plant:power ?h }} require p"
        " <= ?h",
        [graph],
    )
    assert pack.rows == 1


def _codes(text: str, graph: Path) -> list[str]:
    return [
        problem.code
        for problem in compile_rules(text=text, graphs=[graph]).diagnostics
        if problem.severity != "info"
    ]
