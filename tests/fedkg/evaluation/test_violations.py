"""The fast search by columns for violations finds those that the interpreter finds."""

from __future__ import annotations

import numpy as np
import pytest

import fedkg
from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.evaluation import evaluate, table_values
from fedkg.evaluation.evaluate import evaluate_with_rows, violations
from fedkg.tables import Table

RULES = """
signal a
signal b
signal machine
rule low require 0 <= a
rule high require a < 5
rule pair require a <= b
rule strict require b > a
rule either require a > 4 or b < 1
rule near require a == b +/- 0.5
rule sum require a + b <= 6
rule guarded require if a > 2 then b <= 4
rule steady require a never falls
"""


@pytest.mark.filterwarnings("ignore")
def test_they_are_the_interpreters() -> None:
    pack = fedkg.compile(text=RULES.replace("signal machine\n", ""))
    dice = np.random.default_rng(3)
    columns = {
        name: np.where(dice.random(400) < 0.1, np.nan, dice.integers(-2, 8, 400).astype(np.float64))
        for name in "ab"
    }
    columns["a"][3] = np.inf
    table = Table.of("t", columns)
    found = violations(pack, table)
    first, wanted = 0, set()
    values = table_values(pack.manifest.contract, table).values
    for bank in pack.banks:
        rows, bound = np.nonzero(evaluate_bank(bank, values).violated)
        wanted |= set(
            zip(bank.rule[bound].tolist(), (bound + first).tolist(), rows.tolist(), strict=True)
        )
        first += bank.rows
    assert (
        set(zip(found.rule.tolist(), found.bound.tolist(), found.row.tolist(), strict=True))
        == wanted
    )
    counts = np.bincount(found.rule, minlength=len(pack.manifest.rules)).tolist()
    assert counts == [rule.violated for rule in evaluate(pack, table).rules]
    assert all(counts)
    result, listed = evaluate_with_rows(pack, table)
    assert result == evaluate(pack, table)
    names = [pack.manifest.rules[rule].name for rule in found.rule.tolist()]
    pairs = sorted(zip(names, found.row.tolist(), strict=True))
    assert sorted((one.rule, one.row) for one in listed) == pairs


def test_a_table_that_breaks_nothing_has_none() -> None:
    pack = fedkg.compile(text="signal a\nrule low require 0 <= a\n")
    found = violations(pack, Table.of("t", {"a": np.array([1.0, np.nan])}))
    assert len(found) == 0
    assert found.to_json(pack, Table.of("t", {"a": np.array([1.0])})) == []
