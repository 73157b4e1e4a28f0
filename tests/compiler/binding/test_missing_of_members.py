"""Members that lack a value, by where the rule reads it.

The places are: required, under `not`, after `if`, and in conditions of knowledge. P1 has both
limits, P2 only `low`, P3 only `top`; rows have flows 1, 2, 3 and 5, 100, 50 kg/h.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from plant_of_pipes import compile_rule

from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.evaluation import evaluate, table_values
from fedkg.tables import read_bytes

TABLE = b"F1;F2;F3;H1;H2;cap\n1;0.002;3;20;293.15;2\n5;0.1;50;30;283.15;60\n"
WHERE = (
    "over ?p where { ?p a plant:Pipe . OPTIONAL { ?p plant:low ?low } OPTIONAL { ?p plant:top"
    " ?top } }"
)


@pytest.mark.parametrize(
    ("condition", "satisfied", "violated"),
    [
        (f"all of (flow(?p) <= ?top) {WHERE}", 1, 1),  # P1 and P3 satisfy it only in the first row
        (f"any of (flow(?p) <= ?top) {WHERE}", 2, 0),  # P2 may have any limit
        (f"at least 2 of (flow(?p) <= ?top) {WHERE}", 1, 1),  # one of P1 and P3 beside P2
        (f"at least 1 of (flow(?p) <= ?top) {WHERE}", 2, 0),
        (f"not any of (flow(?p) > ?top) {WHERE}", 1, 1),
        (f"not all of (flow(?p) > ?top) {WHERE}", 2, 0),  # P2 may lie below its limit
        (f"not at least 2 of (flow(?p) > ?top) {WHERE}", 1, 1),
        (f"if all of (flow(?p) > ?top) {WHERE} then cap <= 1 kg/h", 2, 0),
        (f"if any of (flow(?p) > ?top) {WHERE} then cap <= 1 kg/h", 1, 1),
        (f"all of (?low <= flow(?p) <= ?top) {WHERE}", 1, 1),
        (f"always any of (flow(?p) <= ?top) {WHERE}", 2, 0),
    ],
)
def test_a_limit_that_is_not_given_never_makes_a_violation(
    condition: str, satisfied: int, violated: int, tmp_path: Path
) -> None:
    pack, problems = compile_rule(f"rule r require {condition}\n", tmp_path)
    assert pack is not None, [problem.message for problem in problems]
    [found] = evaluate(pack, read_bytes(TABLE, "t.csv")).rules
    assert (found.satisfied, found.violated) == (satisfied, violated)


def test_a_condition_of_knowledge_that_lacks_a_value_does_not_hold(tmp_path: Path) -> None:
    quantified = "for ?p, ?top where { ?p a plant:Pipe OPTIONAL { ?p plant:top ?top } }"
    text = (
        f"label g classes A, B\nrange knowledge k of g {quantified} when flow(?p) > ?top and cap >"
        " 1 kg/h allow A otherwise allow any\n"
    )
    pack, problems = compile_rule(text, tmp_path)
    assert pack is not None, [problem.message for problem in problems]
    readings = table_values(pack.manifest.contract, read_bytes(TABLE, "t.csv"), missing="skip")
    clauses = [clause for model in pack.manifest.knowledge for clause in model.clauses]
    held = [
        evaluate_bank(pack.conditions[clause.bank], readings.values).satisfied for clause in clauses
    ]
    assert sum(part.shape[1] for part in held) == 2  # P2 has no limit, and no clause
    assert [part[0].any() for part in held] == [False] * len(held)


def test_solutions_without_a_member_are_none(tmp_path: Path) -> None:
    where = "over ?p where { ?v a plant:Vessel OPTIONAL { ?p plant:into ?v } }"
    pack, problems = compile_rule(f"rule r require all of (flow(?p) <= 4 kg/h) {where}\n", tmp_path)
    assert pack is not None, [problem.message for problem in problems]
    [found] = evaluate(pack, read_bytes(TABLE, "t.csv")).rules
    assert (found.satisfied, found.violated) == (1, 1)
