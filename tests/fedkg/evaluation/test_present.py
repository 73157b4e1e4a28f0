"""Evaluations in words."""

from __future__ import annotations

import io

from evaluation_packs import limits, pack
from rich.console import Console

from fedkg.evaluation import Worst, evaluate
from fedkg.evaluation.present import outcome, rules_table, worst_text
from fedkg.tables import read_bytes


def test_a_table_and_sentences() -> None:
    table = read_bytes(b"Torque [Nm];x\n40;1\n60,5;2\nBad;3\n", "plant.csv")
    found = evaluate(pack(["torque_limit"], [limits(50, unit=1)], entities=("", "graz"), units=("", "N.m")), table)
    out = io.StringIO()
    Console(file=out, width=100, color_system=None).print(rules_table(found))
    text = out.getvalue()
    assert "torque_limit" in text
    assert "1 (50.00%)" in text
    assert "-10.5 N.m: graz, row 2" in text
    assert outcome(found)[0] == "plant.csv: 3 rows; semicolon-separated, decimal comma, utf-8"
    assert outcome(found)[-1] == "1 of 1 rules is broken somewhere; violation rate 50.00%."


def test_outcomes_without_violations() -> None:
    table = read_bytes(b"Torque [Nm],x\n40,1\n", "plant.csv")
    assert outcome(evaluate(pack(["r"], [limits(50)], entities=("", "a")), table))[-1] == "The one rule holds."
    assert "There are no rules." in outcome(evaluate(pack([], []), table))[-1]
    assert "No rule could be told" in " ".join(outcome(evaluate(pack(["r"], []), table)))


def test_worst_text() -> None:
    assert worst_text(None) == ""
    assert worst_text(Worst(robustness=0.25, unit="", entity=None, row=3, time="10:00")) == "+0.25: row 3, 10:00"
