"""Notes about tables without a time column, times or steps, and notes that many rules share."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evaluation_packs import limits, pack

from fedkg.errors import TableError
from fedkg.evaluation import Evaluation, evaluate
from fedkg.evaluation.result import outcome
from fedkg.pack import Pack
from fedkg.tables import read_bytes
from fedkg_compiler.pipeline import compile_rules

TIMELINE = 'timeline time column "Zeit" step 5 min\nsignal x in bar\n'
STAYS = "rule stays require always [0, 1] x <= 3 bar\n"
LEVEL = "rule level require x <= 3 bar\n"
RISES = "rule rises require x >= past x\n"


def pack_of(text: str) -> Pack:
    compilation = compile_rules(text=text, reason=False)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    return compilation.pack


def found_in(text: str, table: str) -> Evaluation:
    return evaluate(pack_of(text), read_bytes(table.encode(), "t.csv"))


@pytest.mark.parametrize("rule", [STAYS, RISES])
def test_rules_over_time_need_the_time_column(rule: str) -> None:
    name = rule.split()[1]
    rows = read_bytes(b"zeit,x\n2024-01-01 00:00,1\n2024-01-01 00:05,2\n", "t.csv")
    with pytest.raises(TableError, match=f"no column `Zeit`, which rule `{name}` needs") as error:
        evaluate(pack_of(TIMELINE + LEVEL + rule), rows)
    assert error.value.help == "did you mean `zeit`?"
    found = evaluate(pack_of(TIMELINE + LEVEL + rule), rows, missing="skip")
    assert (found.rules[1].satisfied, found.rules[1].unknown) == (1, 1)
    assert any(
        "without the time column `Zeit`, rules over time take the rows as steps" in note
        for note in found.notes
    )


def test_without_rules_over_time_a_missing_time_column_is_a_note() -> None:
    found = found_in(TIMELINE + LEVEL, "zeit,x\n2024-01-01 00:00,1\n")
    assert found.rules[0].satisfied == 1
    assert found.notes == ("time column `Zeit` is missing; did you mean `zeit`?",)


def test_missing_steps_are_reported() -> None:
    rows = [f"2024-01-01 00:{minute:02d},1" for minute in (0, 5, 20, 25)]
    found = found_in(TIMELINE + STAYS, "Zeit,x\n" + "\n".join(rows) + "\n")
    assert (found.rules[0].satisfied, found.rules[0].unknown) == (2, 2)
    after = "first after 2024-01-01 00:05 in row 2 (line 3): windows that need them are unknown"
    assert found.notes == (f"the table has no row for 2 steps, {after}",)
    found = found_in(TIMELINE + RISES, "Zeit,x\n" + "\n".join([*rows, "2024-01-01 00:35,1"]) + "\n")
    assert found.notes == (f"the table has no row for 3 steps in 2 places, {after}",)
    assert found_in(TIMELINE + LEVEL, "Zeit,x\n" + "\n".join(rows) + "\n").notes == ()


def test_a_step_between_traces_is_not_missing() -> None:
    text = TIMELINE.replace("step 5 min", 'step 5 min trace column "heat"') + STAYS
    assert (
        found_in(
            text, "Zeit,heat,x\n2024-01-01 00:00,a,1\n2024-01-01 00:05,a,1\n2024-01-01 09:00,b,1\n"
        ).notes
        == ()
    )


def test_an_empty_time_is_called_empty() -> None:
    found = found_in(TIMELINE + STAYS, "Zeit,x\n2024-01-01 00:00,1\n,2\n,3\n2024-01-01 00:05,1\n")
    (note,) = found.notes
    assert (
        note
        == "2 times in `Zeit` cannot be read (first: an empty cell, row 2 (line 3)): unknown for"
        " rules over time"
    )


def test_a_sentence_of_many_rules_is_reported_once() -> None:
    rows = read_bytes(b"Torque [Nm]\n40\n", "t.csv")
    one = evaluate(pack(["a"], [limits(50)], entities=("", "p")), rows)
    said = "no row of the table is about what it is bound to"
    for count in (5, 6):
        rules = tuple(replace(one.rules[0], rule=f"r{i}", notes=(said,)) for i in range(count))
        lines = [line for line in outcome(replace(one, rules=rules)) if said in line]
        assert lines == (
            [f"r{i}: {said}" for i in range(5)]
            if count == 5
            else [f"each of 6 rules (r0, r1, r2, ...): {said}"]
        )
