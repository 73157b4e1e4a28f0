"""Rules with functions that the solver does not know exactly.

Diagnostics about them are correct, and undecided cases are reported.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedkg.evaluation.witness_verdict import replay
from fedkg.pack import Pack
from fedkg_compiler import compile_rules
from fedkg_compiler.analysis import Verdict, reason
from fedkg_compiler.analysis.branch_and_prune_search import WitnessSearch
from fedkg_compiler.analysis.budget import Budget
from fedkg_compiler.analysis.pack_difference import differences
from fedkg_compiler.analysis.single_column_bounds import RowTable, find_bounds
from fedkg_compiler.analysis.verdict import Condition

SIGNALS = "".join(f"signal {name} in dimensionless span 0 .. 10\n" for name in "abcd")


def compiled(rules: str) -> Pack:
    pack = compile_rules(text=SIGNALS + rules, reason=False).pack
    assert pack is not None
    return pack


def find_verdicts(rules: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.kind, one.rules) for one in reason(compiled(rules))]


def confirm(pack: Pack, verdict: Verdict) -> None:
    """Each row can be left out: its witness satisfies all the others."""
    for left_out, witness in zip(verdict.rows, verdict.keeps, strict=True):
        assert witness is not None
        values = witness.matrix(pack.manifest.contract)
        assert all(
            replay(pack, ref.bank, ref.row, values) == "satisfied"
            for ref in verdict.rows
            if ref != left_out
        )


TORN = {
    "an exponential": ("rule p require exp(a) <= 2\nrule q require a >= 1\n", "p q"),
    "a sine and a cosine": ("rule p require sin(a) >= 0.9\nrule q require cos(a) >= 0.9\n", "p q"),
    "a logarithm and a root": (
        "rule p require log(a) >= 1.5\nrule q require sqrt(a) <= 2\n",
        "p q",
    ),
    "a tangent": ("rule p require tanh(a) <= 0.5\nrule q require a^2 >= 0.5\n", "p q"),
    "three": (
        (
            "rule p require exp(a) + sin(b) <= 1.5\nrule q require a + b >= 9\nrule r require"
            " sin(b) >= 0.49\n"
        ),
        "p q r",
    ),
    "a fraction of a power": (
        "rule p require a^1.5 <= 8\nrule q require a * b >= 10\nrule r require b <= 2.4\n",
        "p q r",
    ),
}


@pytest.mark.parametrize("name", TORN)
def test_a_conflict_is_found_and_minimal(name: str) -> None:
    rules, torn = TORN[name]
    pack = compiled(rules + "rule other require c + d <= 19\n")
    [conflict] = [one for one in reason(pack) if one.kind == "conflict"]
    assert " ".join(conflict.rules) == torn
    confirm(pack, conflict)


def test_a_rule_that_no_value_keeps() -> None:
    assert find_verdicts("rule never require sin(a) + cos(a) >= 1.6\n") == [("outside", ("never",))]


def test_a_rule_that_always_holds() -> None:
    assert find_verdicts("rule always_so require sin(a) + cos(a) <= 1.6\n") == [
        ("never_fails", ("always_so",))
    ]


def test_the_very_end_of_a_span_is_no_mistake() -> None:
    assert find_verdicts(f"rule edge require exp(a) <= {math.exp(10)!r}\n") == []


def test_a_condition_that_never_holds() -> None:
    assert find_verdicts("rule when require if sin(a) + cos(a) > 1.6 then b <= 3\n") == [
        ("never_applies", ("when",))
    ]


def test_a_condition_that_hard_rules_forbid() -> None:
    assert find_verdicts(
        "rule when require if exp(a) >= 20 then b <= 3\nrule low hard require a <= 2.9\n"
    ) == [("never_applies", ("when", "low"))]


REPEATED = {
    "an exponential": "rule tight require a <= 1\nrule loose require exp(a) <= 2.8\n",
    "a sine": "rule tight require a <= 0.5\nrule loose require sin(a) <= 0.49\n",
}


@pytest.mark.parametrize("name", REPEATED)
def test_a_rule_that_another_implies(name: str) -> None:
    assert find_verdicts(REPEATED[name]) == [("redundant", ("loose", "tight"))]


TOGETHER = {
    "an exponential": "rule p require exp(a) <= 2.8\nrule q require a >= 1\n",
    "only just": "rule p require sin(a) + cos(a) >= 1.4142\n",
    "two variables": "rule p require sin(a) * cos(b) >= 0.99\nrule q require a + b >= 14\n",
}


@pytest.mark.parametrize("name", TOGETHER)
def test_nothing_is_said_of_rules_that_go_together(name: str) -> None:
    assert find_verdicts(TOGETHER[name]) == []


@pytest.mark.slow
def test_a_rule_too_hard_for_the_solver_is_undecided() -> None:
    assert find_verdicts("rule p require sin(a * b)^2 + cos(a * b)^2 <= 0.9999\n") == [
        ("undecided", ("p",))
    ]


def test_a_search_is_right_about_grids() -> None:
    """Random rules of two variables on a grid.

    No grid point satisfies rules reported as unsatisfiable, and each witness does satisfy its
    rules.
    """
    random, answers = np.random.default_rng(3), set()
    grid = np.stack(np.meshgrid(*[np.linspace(0, 10, 101)] * 2), axis=-1).reshape(-1, 2)
    for _ in range(25):
        x, y, z = (round(float(value), 2) for value in random.uniform([1, 0, 1], [2.3, 16, 12]))
        pack = compiled(
            f"rule p require sin(a) + cos(b) * tanh(a) >= {x}\n"
            f"rule q require sqrt(a) * log(b + 1) + b >= {y}\n"
            f"rule r require a + b / 2 <= {z}\n"
        )
        table = RowTable(pack)
        rows = range(table.count)
        conditions = [Condition(2, table.skeleton(2), False)]
        answer = WitnessSearch(table, find_bounds(table), Budget(), ()).ask(rows[:2], conditions)
        a, b = grid.T
        kept = (
            (np.sin(a) + np.cos(b) * np.tanh(a) >= x)
            & (np.sqrt(a) * np.log(b + 1) + b >= y)
            & (a + b / 2 > z)
        )
        answers.add(answer.answer)
        assert answer.answer != "no" or not kept.any()
        if answer.witness is not None:
            values = answer.witness.matrix(pack.manifest.contract)
            assert [replay(pack, *bank_and_row(table, row), values) for row in rows] == [
                "satisfied",
                "satisfied",
                "violated",
            ]
    assert answers == {"yes", "no"}


def bank_and_row(table: RowTable, row: int) -> tuple[int, int]:
    ref = table.ref(row)
    return ref.bank, ref.row


@pytest.mark.parametrize("rule", ["a * a != 2", "a * a != 4"])
def test_a_difference_is_shown_by_a_value_that_can_be_written_down(rule: str) -> None:
    before, after = compiled("rule r require a >= 0\n"), compiled(f"rule r require {rule}\n")
    [found] = differences(before, after)
    assert found.accepted_by == "old"
    if rule.endswith("2"):
        assert found.values is None  # only the root of 2 violates it
    else:
        assert found.values is not None
        values = found.values.matrix(before.manifest.contract)
        assert [replay(pack, 0, 0, values) for pack in (before, after)] == ["satisfied", "violated"]
