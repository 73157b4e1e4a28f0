"""A constraint of a shape with several bound rows for one focus node counts once.

It counts once for each focus node and table row.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

import fedkg
from fedkg.evaluation import Evaluation, evaluate
from fedkg.evaluation.result import rules_table
from fedkg.tables import read_bytes

GRAPH = """@prefix plant: <https://example.org/plant#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix unit: <http://qudt.org/vocab/unit/> .
plant:Pump fkg:keyColumn "pump" .
plant:P1 a plant:Pump .
plant:P2 a plant:Pump .
plant:pressure a sosa:ObservableProperty ; fkg:column "p [bar]" ; qudt:hasUnit unit:BAR .
plant:temp a sosa:ObservableProperty ; fkg:column "T in C" ; qudt:hasUnit unit:DEG_C .
plant:state fkg:column "state" ; fkg:category "on", "off", "stuck" .
"""

SHAPES = """@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix plant: <https://example.org/plant#> .
"""

TABLE = (
    b"pump,p [bar],T in"
    b" C,state\nP1,5,20,on\nP1,9.5,20,off\nP2,8,20,on\nP2,9.5,,\nP3,12,20,on\nP1,,20,stuck\n"
)


def evaluate_shape(tmp_path: Path, shape: str, *, rows: bool = False) -> Evaluation:
    (tmp_path / "plant.ttl").write_text(GRAPH)
    (tmp_path / "s.ttl").write_text(SHAPES + shape)
    own = "rows are plant:Pump\nprefix plant: <https://example.org/plant#>\n" if rows else ""
    (tmp_path / "r.fkg").write_text(f'{own}use plant\nshapes "s.ttl"\n')
    return evaluate(fedkg.compile(tmp_path / "r.fkg"), read_bytes(TABLE, "plant.csv"))


def counts(result: Evaluation) -> tuple[int, int, int, int]:
    one = result.rules[0]
    return one.bound_rows, one.satisfied, one.violated, one.unknown


def test_a_value_that_must_be_there_and_be_on_is_asked_once(tmp_path: Path) -> None:
    result = evaluate_shape(
        tmp_path,
        "plant:H a sh:NodeShape ; sh:targetNode plant:P1 ; sh:property [ sh:path plant:state ;"
        ' sh:hasValue "on" ] .',
    )
    assert counts(result) == (2, 1, 2, 0)
    assert result.violation_rate == pytest.approx(2 / 3)
    assert result.rules[0].by_entity[0].to_json() == {
        "entity": "P1",
        "satisfied": 1,
        "violated": 2,
        "unknown": 0,
    }
    assert result.rules[0].to_json()["bound_to"] == 1
    console = Console(width=140, record=True, file=None)
    console.print(rules_table(result))
    assert (
        "those of one focus node of a shape count as one evaluation"
        in console.export_text().replace("\n", " ")
    )


def test_two_focus_nodes_are_two_things(tmp_path: Path) -> None:
    shape = (
        "plant:H a sh:NodeShape ; sh:targetClass plant:Pump ; sh:property [ sh:path plant:state ;"
        ' sh:hasValue "on" ] .'
    )
    result = evaluate_shape(tmp_path, shape)
    assert counts(result) == (4, 2, 3, 0)  # the empty cell of P2 is not a value
    assert result.rules[0].bound_to == 2


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_table_row_that_is_its_entity_counts_once(tmp_path: Path) -> None:
    shape = (
        "plant:H a sh:NodeShape ; sh:targetClass plant:Pump ; sh:property [ sh:path plant:pressure"
        " ; sh:maxInclusive 9 ] ."
    )
    result = evaluate_shape(tmp_path, shape, rows=True)
    assert counts(result) == (3, 2, 3, 1)  # six table rows
    assert result.rules[0].bound_to == 1
    assert {one.entity: one.violated for one in result.rules[0].by_entity} == {"P1": 1, "P2": 1}
    assert result.notes == ()  # the row about P3, which no key selects, is checked too


def test_bound_rows_of_rule_files_are_counted_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "r.fkg").write_text(
        'signal p in bar column "p [bar]"\nrule low require p <= 9 bar\n'
    )
    one = evaluate(fedkg.compile(tmp_path / "r.fkg"), read_bytes(TABLE, "plant.csv")).rules[0]
    assert (
        one.bound_rows,
        one.to_json()["bound_to"],
        one.satisfied,
        one.violated,
        one.unknown,
    ) == (1, 1, 2, 3, 1)
