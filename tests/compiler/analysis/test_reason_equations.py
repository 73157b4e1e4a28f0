"""Equations without tolerance among curved terms.

Compatible ones have a value that the interpreter confirms; incompatible ones have none.
"""

from __future__ import annotations

import numpy as np
import pytest
from test_reason_bent import bank_and_row, compiled, confirm

from fedkg.evaluation.witness_verdict import replay
from fedkg_compiler.analysis import reason
from fedkg_compiler.analysis.branch_and_prune_search import WitnessSearch
from fedkg_compiler.analysis.budget import Budget
from fedkg_compiler.analysis.single_column_bounds import RowTable, find_bounds

SIGNALS = "".join(f"signal {name} in dimensionless span 0 .. 10\n" for name in "efgh")

TOGETHER = {
    "one": "exp(a) == b; a >= 1",
    "two in a row": "exp(a) == b; sin(b) == c",
    "a chain": "exp(a) == b; sqrt(b) == c; log(c + 1) == d; d + e == 5",
    "a circle": "sin(a) == b / 10; cos(b) == c / 10; a + b + c == 4",
    "two at once": "exp(a) + b == 5; a + exp(b) == 4",
    "conditions": (
        "if a >= 5 then exp(b) == c; if b >= 1 then sin(c) == d / 10; if d >= 3 then a == sqrt(b)"
    ),
    "many": "exp(a / 5) == b; b * c <= d; sqrt(d) + e >= f; f^2 == g + exp(h / 5); tanh(g) >= 0.5",
    "rows that feed each other": (
        "a == b * exp(-c); d == a / (1 + e); f == d^2 + sqrt(e); g == tanh(f); h == f + g"
    ),
    "steps": "floor(a) == b; round(a * 2) == c; b + c >= 7",
    "an end that is met": "exp(a) == b; a <= 1; a >= 1",
    "a product": "a * b == c * d; log(a + 1) + log(b + 1) >= 3",
}
TORN = {
    "one": ("exp(a) == b; a >= 2.4", "0 1"),
    "a chain": ("exp(a) == b; sqrt(b) == c; log(c + 1) == d; d >= 1.5", "1 2 3"),
    "two at once": ("exp(a) + b == 5; a + exp(b) == 4; a - b >= 0.5", "0 1 2"),
    "a rate": ("d == a * exp(-b / (c + 1)); d >= 5; b >= 8 * (c + 1)", "0 1 2"),
    "many exponentials": (
        "exp(a) + exp(b) + exp(c) + exp(d) + exp(e) + exp(f) <= 20; a + b + c + d + e + f >= 8",
        "0 1",
    ),
    "fractional powers": ("a^1.3 * b^0.7 * c^0.5 >= 200; a + b + c <= 12", "0 1"),
}


def rules(text: str) -> str:
    return SIGNALS + "".join(
        f"rule r{i} require {rule}\n" for i, rule in enumerate(text.split("; "))
    )


@pytest.mark.parametrize("name", TOGETHER)
def test_rules_that_go_together_are_told_to(name: str) -> None:
    assert [(one.kind, one.rules) for one in reason(compiled(rules(TOGETHER[name])))] == []


EXACT = [name for name in TOGETHER if name not in ("a circle", "two at once", "a product", "many")]
"""Equations that can be solved one after the other, so that the interpreter finds no rounding."""


@pytest.mark.parametrize("name", EXACT)
def test_a_value_that_meets_equations_is_confirmed_by_the_interpreter(name: str) -> None:
    pack = compiled(rules(TOGETHER[name]))
    table = RowTable(pack)
    found = WitnessSearch(table, find_bounds(table), Budget(), ()).ask(range(table.count))
    assert found.answer == "yes"
    assert found.witness is not None
    values = found.witness.matrix(pack.manifest.contract)
    assert {replay(pack, *bank_and_row(table, row), values) for row in range(table.count)} == {
        "satisfied"
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", TORN)
def test_a_conflict_is_found_and_each_rule_of_it_can_be_left_out(name: str) -> None:
    text, torn = TORN[name]
    pack = compiled(rules(text))
    [conflict] = reason(pack)
    assert (conflict.kind, " ".join(rule.removeprefix("r") for rule in conflict.rules)) == (
        "conflict",
        torn,
    )
    confirm(pack, conflict)


@pytest.mark.slow
def test_many_roots_are_decided_by_boxes() -> None:
    """The solver gives up on them; that must neither use up the budget nor lose the smallest
    conflict.
    """
    roots = (
        "sqrt(a) + sqrt(b) + sqrt(c) >= 5; sqrt(b) + sqrt(c) + sqrt(d) >= 5.5; sqrt(d) + sqrt(e) +"
        " sqrt(f) >= 6; "
    )
    pack = compiled(
        rules(roots + "sqrt(f) + sqrt(g) + sqrt(h) >= 6.5; a + b + c + d + e + f + g + h <= 20")
    )
    budget = Budget()
    [conflict] = [verdict for verdict in reason(pack, budget) if verdict.kind == "conflict"]
    assert set(conflict.rules) == {"r0", "r3", "r4"}
    confirm(pack, conflict)
    assert budget.taken < budget.total
    again = Budget()
    reason(pack, again)
    assert again.taken == budget.taken  # independent of earlier queries to the solver


def test_no_value_of_many_keeps_a_conflict() -> None:
    """Random values, with the equations' own variables computed from the others.

    None of them satisfies rules that are reported as a conflict.
    """
    random = np.random.default_rng(0)
    a, b, c = random.uniform(0, 10, (3, 200_000))
    d = a * np.exp(-b / (c + 1))
    assert not ((d >= 5) & (b >= 8 * (c + 1))).any()
    many = random.uniform(0, 4, (6, 200_000))
    assert not ((np.exp(many).sum(axis=0) <= 20) & (many.sum(axis=0) >= 8)).any()
    assert not ((a**1.3 * b**0.7 * c**0.5 >= 200) & (a + b + c <= 12)).any()
