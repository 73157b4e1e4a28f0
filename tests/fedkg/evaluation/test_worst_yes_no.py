"""The worst case of rules that a category or the presence of a value decides.

It is a margin if a number decides, else there is none.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedkg.cli.main import make_app
from fedkg.evaluation import Evaluation, RuleResult, evaluate
from fedkg.evaluation.result import worst_text
from fedkg.pack import And, CategoryIs, Compare, Formula, Implies, Known, Param, Slot
from fedkg.tables import read_bytes
from fedkg_compiler.pipeline import compile_rules

HEAD = "signal p in bar\nsignal kind\nsignal valve in boolean\n"


def table_of(*rows: str) -> bytes:
    return ("p,kind,valve\n" + "".join(f"{row}\n" for row in rows)).encode()


def evaluate_rules(rules: str, *rows: str) -> Evaluation:
    compilation = compile_rules(text=HEAD + rules, reason=False)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    return evaluate(compilation.pack, read_bytes(table_of(*rows), "t.csv"))


def result(rule: str, *rows: str) -> RuleResult:
    (found,) = evaluate_rules(f"rule r require {rule}\n", *rows).rules
    return found


def test_a_rule_for_one_category_is_missed_by_its_margin() -> None:
    found = result("if kind is A then p <= 3 bar", "5,A,1", "90,B,1", "13,A,1", ",A,1")
    assert (found.satisfied, found.violated, found.unknown) == (1, 2, 1)
    assert worst_text(found.worst) == "-10 bar: row 3"
    assert found.to_json()["worst"]["robustness"] == -10


def test_a_rule_that_holds_is_told_by_how_much() -> None:
    found = result("if kind is A then p <= 3 bar", "90,B,1", "2,A,1", "1,A,1")
    assert worst_text(found.worst) == "+1 bar: row 2"


def test_a_rule_that_never_applies_has_no_margin() -> None:
    found = result("if kind is A then p <= 3 bar", "90,B,1", "2,B,1")
    assert worst_text(found.worst) == "yes/no"
    entry = found.to_json()["worst"]
    assert (entry["robustness"], entry["infinite"]) == (None, "+inf")


def test_a_violation_without_a_number_is_told_by_what_stands_there() -> None:
    found = result("kind is A or kind is B", "1,A,1", "1,C,1", "1,D,1")
    assert worst_text(found.worst) == "yes/no: row 2: kind another"
    assert '"robustness": null, ' in json.dumps(found.to_json(), allow_nan=False)


def test_a_violation_with_a_number_comes_before_one_without() -> None:
    found = result("kind is A and p <= 3 bar", "1,B,1", "4,A,1", "9,A,1", "9,B,1")
    assert (found.violated, worst_text(found.worst)) == (4, "-6 bar: row 3")


def test_whether_there_is_a_next_row_is_no_margin() -> None:
    found = result("if valve is on then weak next kind is A", "1,A,1", "1,B,1", "1,A,0")
    assert worst_text(found.worst) == "yes/no: row 1: valve true, kind A"
    found = result("weak next p <= 3 bar", "1,A,1", "9,A,1", "5,A,1")
    assert worst_text(found.worst) == "-6 bar: row 1"
    found = result("weak next (kind is A and p <= 3 bar)", "1,A,1", "9,B,1", "5,A,1")
    assert worst_text(found.worst) == "-2 bar: row 2"


def test_over_time_the_row_at_fault_is_the_one_with_the_margin() -> None:
    found = result(
        "always [0, 1] (if kind is A then p <= 3 bar)", "1,A,1", "9,B,1", "8,A,1", "1,A,1"
    )
    assert worst_text(found.worst) == "-5 bar: row 2, violated in row 3"


def test_a_truth_value_is_told_as_such() -> None:
    found = result("valve is on", "1,A,1", "1,A,0")
    assert worst_text(found.worst) == "yes/no: row 2: valve false"


def test_a_rule_for_an_open_valve_is_missed_by_what_its_then_is_missed_by() -> None:
    found = result(
        "if valve is on then p <= 3 bar", "90,A,0", "5,A,1", "13,A,1", "1,A,1", ",A,1", "50,A,"
    )
    assert (found.satisfied, found.violated, found.unknown) == (2, 2, 2)
    assert worst_text(found.worst) == "-10 bar: row 3"
    assert found.to_json()["worst"]["robustness"] == -10
    both = result("if valve is off and kind is A then p <= 3 bar", "9,A,0", "12,A,0", "99,B,0")
    assert worst_text(both.worst) == "-9 bar: row 2"
    assert (
        worst_text(result("if valve is off then p <= 3 bar", "3,A,0", "2,A,0", "99,B,1").worst)
        == "+0 bar: row 1"
    )
    over_time = result("always [0, 1] (if valve is on then p <= 3 bar)", "9,A,1", "1,A,1")
    assert worst_text(over_time.worst) == "-6 bar: row 1"


LIMIT = Compare(op="le", left=Slot(index=0), right=Param(index=0), scale=0)


@pytest.mark.parametrize(
    ("skeleton", "text"),
    [
        (Implies(antecedent=Known(slot=1), consequent=LIMIT), "-6: row 3"),
        (And(args=(Known(slot=1), LIMIT)), "-6: row 3"),
        (
            Implies(
                antecedent=And(args=(Known(slot=1), CategoryIs(slot=2, param=1))), consequent=LIMIT
            ),
            "-1: row 2",
        ),
        (Known(slot=1), "yes/no: row 4: wear unknown"),
    ],
)
def test_whether_a_value_is_there_is_no_number(skeleton: Formula, text: str) -> None:
    from evaluation_packs import TORQUE, VARIANT, WEAR, bank, pack

    table = read_bytes(b"Torque [Nm],Tool wear [min],Type\n1,1,L\n4,1,L\n9,1,M\n99,,L\n", "t.csv")
    made = pack(["r"], [bank(skeleton, [[TORQUE, WEAR, VARIANT]], [[3.0, 0.0]], rule=0)])
    assert worst_text(evaluate(made, table).rules[0].worst) == text


GRAPH = """@prefix p: <https://example.org/plant#> . @prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
p:t a sosa:ObservableProperty .
p:s1 sosa:observes p:t ; sosa:isHostedBy p:m1 ; fkg:column "m1" .
p:s2 sosa:observes p:t ; sosa:isHostedBy p:m2 ; fkg:column "m2" .
p:m1 p:in p:a . p:m2 p:in p:a .
"""
QUERY = """PREFIX p: <https://example.org/plant#>
SELECT ?a WHERE { ?m p:in ?a ; p:t ?v } GROUP BY ?a HAVING (SUM(?v) > 10)
"""


def test_a_sum_of_a_query_is_missed_by_its_margin(tmp_path: Path) -> None:
    for name, text in (("g.ttl", GRAPH), ("q.rq", QUERY), ("t.csv", "m1,m2\n5,6\n9,9\n,30\n1,2\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = CliRunner().invoke(
        make_app(),
        ["eval", "--json", *(str(tmp_path / name) for name in ("q.rq", "g.ttl", "t.csv"))],
    )
    assert found.exit_code == 0, found.output
    worst = json.loads(found.stdout)["rules"][0]["worst"]
    assert (worst["robustness"], worst["row"], worst["entity"]) == (-20, 3, "a")


def test_rows_that_lack_a_column_are_counted() -> None:
    from evaluation_packs import TORQUE, WEAR, bank, pack

    limit = Compare(op="le", left=Slot(index=0), right=Param(index=0), scale=0)
    made = pack(["r"], [bank(limit, [[TORQUE], [TORQUE], [WEAR]], [[3.0], [5.0], [9.0]], rule=0)])
    found = evaluate(made, read_bytes(b"Torque [Nm]\n4\n", "t.csv"), missing="skip").rules[0]
    assert (found.satisfied, found.violated) == (1, 1)
    assert found.notes == (
        "evaluated for only 2 of its 3 bound rows: the table has no column `Tool wear [min]`",
    )
    none = pack(["r"], [bank(limit, [[WEAR]], [[9.0]], rule=0)])
    assert evaluate(none, read_bytes(b"Torque [Nm]\n4\n", "t.csv"), missing="skip").rules[
        0
    ].notes == ("not evaluated: the table has no column `Tool wear [min]`",)
