"""Evaluations as text."""

from __future__ import annotations

import io

from evaluation_packs import limits, pack, strain_limits
from rich.console import Console

from fedkg.evaluation import Evaluation, Worst, evaluate
from fedkg.evaluation.result import outcome, rules_table, share_text, worst_text
from fedkg.tables import read_bytes


def printed(found: Evaluation) -> str:
    out = io.StringIO()
    Console(file=out, width=140, color_system=None).print(rules_table(found))
    return out.getvalue()


def test_a_table_and_sentences() -> None:
    table = read_bytes(b"Torque [Nm];x\n40;1\n60,5;2\nBad;3\n", "plant.csv")
    found = evaluate(
        pack(["torque_limit"], [limits(50, unit=1)], entities=("", "graz"), units=("", "N.m")),
        table,
    )
    out = io.StringIO()
    Console(file=out, width=100, color_system=None).print(rules_table(found))
    text = out.getvalue()
    assert "torque_limit" in text
    assert "1 (50.00%)" in text
    assert "-10.5 N.m: graz, row 2" in text
    assert outcome(found)[0] == "plant.csv: 3 rows; semicolon-separated, decimal comma, utf-8"
    assert outcome(found)[-1] == "1 of 1 rules is violated somewhere; violation rate 50.00%."


def test_outcomes_without_violations() -> None:
    table = read_bytes(b"Torque [Nm],x\n40,1\n", "plant.csv")
    assert (
        outcome(evaluate(pack(["r"], [limits(50)], entities=("", "a")), table))[-1]
        == "The one rule holds."
    )
    assert "The pack has no rules." in outcome(evaluate(pack([], []), table))[-1]
    assert "No rule could be evaluated" in " ".join(outcome(evaluate(pack(["r"], []), table)))


def test_worst_text() -> None:
    assert worst_text(None) == ""
    assert (
        worst_text(Worst(robustness=0.25, unit="", entity=None, row=3, time="10:00"))
        == "+0.25: row 3, 10:00"
    )


def test_texts_of_users_are_no_markup() -> None:
    table = read_bytes(b"Torque [Nm]\n60\n", "plant.csv")
    text = printed(
        evaluate(
            pack(["r"], [limits(50, 40)], entities=("", "Drehzahl [/min]", "[bar] :smile:")), table
        )
    )
    assert "  Drehzahl [/min]" in text
    assert "-20: [bar] :smile:, row 1" in text


def test_entities_below_the_rule_they_break() -> None:
    table = read_bytes(b"Torque [Nm]\n60\n30\n10\n", "plant.csv")
    bounds = [5 + 4 * i for i in range(13)]
    found = evaluate(
        pack(["r"], [limits(*bounds)], entities=("", *(f"pump_{i}" for i in range(13)))), table
    )
    lines = [
        line.split("│")[1:5]
        for line in printed(found).splitlines()
        if "pump_" in line or " more" in line
    ]
    assert [cell.strip() for cell in lines[1]] == ["pump_0", "", "0", "3 (100.00%)"]
    assert [line[0].strip() for line in lines[1:]] == [
        *(f"pump_{i}" for i in range(10)),
        "and 3 more",
    ]
    assert lines[-1][3].strip() == "3"
    assert "how many limits the rule became" in printed(found)


def test_an_if_then_is_told_by_what_stands_there() -> None:
    table = read_bytes(
        b"Torque [Nm],Tool wear [min],Type,Machine failure\n100,125,M,0\n", "plant.csv"
    )
    found = evaluate(pack(["strain"], [strain_limits()], entities=("", "L", "M", "H")), table)
    assert "M, row 1: torque 100 N.m, wear 125 min, failure 0" in printed(found)
    assert found.rules[0].to_json()["worst"] == {
        "robustness": -0.5,
        "unit": "",
        "entity": "M",
        "row": 1,
        "time": None,
    }


def test_little_is_not_nothing_and_nearly_all_is_not_all() -> None:
    assert [share_text(share) for share in (0, 1 / 30_000, 1 / 3, 29_999 / 30_000, 1)] == [
        "0.00%",
        "< 0.01%",
        "33.33%",
        "> 99.99%",
        "100.00%",
    ]
